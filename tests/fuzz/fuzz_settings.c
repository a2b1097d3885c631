/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that no environment makes the settings crash, or print two messages about one variable.
 * The input is an environment: entries, each ended by a zero byte. */
#include "fuzz_driver.h"

/* A process reads its settings once, so the fuzzer calls the parser inside. */
#include "util/settings.c"

#include <stdarg.h>
#include <stdio.h>

enum { ENTRIES_MAX = 64 };

const struct fuzz_weight fuzz_weight = {.stride = 16, .front = 16};

static unsigned lines;

/* Replaces the function that writes to standard error. */
void log_line(const char *format, ...)
{
	char line[1024];
	va_list arguments;

	va_start(arguments, format);
	if (vsnprintf(line, sizeof(line), format, arguments) <= 0)
		abort();
	va_end(arguments);
	lines++;
}

static void check_settings(unsigned entries)
{
	if (lines > entries)
		abort();
	if (settings.mpi_pid > 1 << 22 || settings.memory.percent > 100)
		abort();
	if (settings.memory.bytes && settings.memory.bytes < SETTINGS_MEMORY_LEAST)
		abort();
	if (!settings.io || !settings.store || (settings.node && !*settings.node))
		abort();
	if ((settings.stats.how == SETTINGS_STATS_FILE) != !!settings.stats.file)
		abort();
}

/* A second entry of one name would make a second copy of its value, and leak the first. */
static bool is_repeated(char *const *environment, unsigned n, const char *entry)
{
	size_t length = strcspn(entry, "=");

	for (unsigned i = 0; i < n; i++)
		if (strcspn(environment[i], "=") == length &&
		    !memcmp(environment[i], entry, length))
			return true;
	return false;
}

static void check_size(const char *text)
{
	uint64_t bytes = 77;

	if (!size_parse(text, &bytes) && bytes != 77)
		abort();
}

/* A process reads its settings once, and keeps the copies of values. */
static void settings_free(void)
{
	const char *const copies[] = {settings.node, settings.stats.file, settings.stats_at,
				      settings.staged, settings.later};

	for (unsigned i = 0; i < sizeof(copies) / sizeof(copies[0]); i++)
		free((void *)(uintptr_t)copies[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct settings initial;
	static bool known;
	char *environment[ENTRIES_MAX + 1], *text = malloc(size + 1), **saved = environ;
	unsigned n = 0;

	if (!text)
		return 0;
	if (!known)
		initial = settings;
	known = true;
	if (size)
		memcpy(text, data, size);
	text[size] = '\0';
	for (size_t at = 0; at < size && n < ENTRIES_MAX; at += strlen(text + at) + 1) {
		check_size(text + at);
		if (!is_repeated(environment, n, text + at))
			environment[n++] = text + at;
	}
	environment[n] = NULL;
	environ = environment;
	lines = 0;
	settings = initial;
	settings_read();
	environ = saved;
	check_settings(n);
	settings_free();
	settings = initial;
	free(text);
	return 0;
}

uint8_t *fuzz_example(unsigned number, size_t *size)
{
	static const char *const examples[] = {
		"PATH=/bin\nLMDBIO_DISABLE=1\nLMDBIO_VERBOSE=1\n",
		"LMDBIO_DISABLE=off\nLMDBIO_VERBOSE=0\nLMDBIO_NOTHING=1\n",
		"LMDBIO_IO=pread\nLMDBIO_STORE=arena\nLMDBIO_MEMORY=64MiB\n",
		"LMDBIO_IO=direct\nLMDBIO_STORE=cache\nLMDBIO_MEMORY=25%\nLMDBIO_SHARE=0\n",
		"LMDBIO_NODE=rank 7 of a node\nLMDBIO_PREFETCH=no\nLMDBIO_STATS=json\n",
		"LMDBIO_STATS=/tmp/%h.%p.%%\nLMDBIO_MEMORY=auto\n",
		"LMDBIO_STATS=relative.%p\nLMDBIO_MEMORY=1T\nLMDBIO_NODE=\n",
		"64k\n12G\n99999999999999999999T\n=\n\nLMDBIO_=\n",
	};
	uint8_t *bytes;

	if (number >= sizeof(examples) / sizeof(examples[0]))
		return NULL;
	*size = strlen(examples[number]);
	bytes = (uint8_t *)strdup(examples[number]);
	if (!bytes)
		abort();
	for (size_t i = 0; i < *size; i++)
		if (bytes[i] == '\n')
			bytes[i] = '\0';
	return bytes;
}
