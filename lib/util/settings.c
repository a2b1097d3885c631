/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads the LMDBIO_* variables and knows their values and defaults. */
#include "util/settings.h"

#include "util/checked.h"
#include "util/log.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static struct settings settings = {
	.io = "auto",
	.store = "auto",
	.share = true,
	.patience = 1,
	.prefetch = true,
	.around = "auto",
};
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;

static bool parse_boolean(const char *text, void *field)
{
	static const char *const yes[] = {"1", "yes", "true", "on"};
	static const char *const no[] = {"0", "no", "false", "off"};

	if (!*text)
		return true; /* as if it were not set */
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		if (!strcasecmp(text, yes[i])) {
			*(bool *)field = true;
			return true;
		}
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		if (!strcasecmp(text, no[i])) {
			*(bool *)field = false;
			return true;
		}
	return false;
}

static bool parse_number(const char *text, unsigned least, unsigned most, void *field)
{
	char *end;
	unsigned long value;

	if (!*text)
		return true; /* as if it were not set */
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (*end || errno || value < least || value > most)
		return false;
	*(unsigned *)field = (unsigned)value;
	return true;
}

enum { PROCESS_MOST = 1 << 22 }; /* processes that Linux can number */

static bool parse_process(const char *text, void *field)
{
	return parse_number(text, 0, PROCESS_MOST, field);
}

static bool parse_patience(const char *text, void *field)
{
	return parse_number(text, 1, SETTINGS_PATIENCE_MOST, field);
}

bool size_parse(const char *text, uint64_t *bytes)
{
	static const char units[] = "kmgt";
	unsigned long long value;
	const char *unit;
	bool decimal;
	uint64_t size;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return false;
	size = value;
	if (*end) {
		unit = strchr(units, tolower((unsigned char)*end));
		decimal = !strcasecmp(end + 1, "B");
		if (!unit || (end[1] && !decimal && strcasecmp(end + 1, "iB")))
			return false;
		for (size_t steps = (size_t)(unit - units) + 1; steps; steps--)
			if (!checked_multiply(size, decimal ? 1000 : 1024, &size))
				return false;
	}
	*bytes = size;
	return true;
}

static bool parse_percent(const char *text, unsigned *percent)
{
	char *end;
	unsigned long value;

	if (*text < '0' || *text > '9')
		return false;
	value = strtoul(text, &end, 10);
	if (strcmp(end, "%") || value < 1 || value > 100)
		return false;
	*percent = (unsigned)value;
	return true;
}

static bool parse_memory(const char *text, void *field)
{
	struct settings_memory memory = {0};

	if (*text && strcasecmp(text, "auto") && !parse_percent(text, &memory.percent) &&
	    (!size_parse(text, &memory.bytes) || memory.bytes < SETTINGS_MEMORY_LEAST))
		return false;
	*(struct settings_memory *)field = memory;
	return true;
}

/* Parses one word of a list that ends with NULL; an empty value means the first word. */
static bool parse_word(const char *text, void *field, const char *const *words)
{
	if (!*text) {
		*(const char **)field = words[0];
		return true;
	}
	for (; *words; words++)
		if (!strcasecmp(text, *words)) {
			*(const char **)field = *words;
			return true;
		}
	return false;
}

static bool parse_io(const char *text, void *field)
{
	static const char *const words[] = {"auto", "pread", "direct", NULL};

	return parse_word(text, field, words);
}

static bool parse_store(const char *text, void *field)
{
	static const char *const words[] = {"auto", "cache", "arena", NULL};

	return parse_word(text, field, words);
}

static bool parse_around(const char *text, void *field)
{
	static const char *const words[] = {"auto", NULL};
	bool on;

	if (parse_word(text, field, words))
		return true;
	if (!parse_boolean(text, &on))
		return false;
	*(const char **)field = on ? "1" : "0";
	return true;
}

static bool parse_node(const char *text, void *field)
{
	char *copy = NULL;

	if (strlen(text) > SETTINGS_NODE_LONGEST)
		return false;
	for (const char *c = text; *c; c++)
		if (iscntrl((unsigned char)*c))
			return false;
	/* A copy: the program may change its environment at any time. */
	if (*text && !(copy = strdup(text)))
		return false;
	*(const char **)field = copy;
	return true;
}

/* Parses the name of an existing file of that kind, and keeps its real path. */
static bool parse_real(const char *text, mode_t kind, void *field)
{
	char *real = *text ? realpath(text, NULL) : NULL;
	struct stat st;

	if (*text && (!real || stat(real, &st) || (st.st_mode & S_IFMT) != kind)) {
		free(real);
		return false;
	}
	*(const char **)field = real;
	return true;
}

static bool parse_directory(const char *text, void *field)
{
	return parse_real(text, S_IFDIR, field);
}

/* "none" means no library, even if there is one. */
static bool parse_library(const char *text, void *field)
{
	if (strcasecmp(text, "none"))
		return parse_real(text, S_IFREG, field);
	*(const char **)field = strdup("");
	return true;
}

static bool parse_checksum(const char *text, void *field)
{
	const struct checksum *checksum = *text ? checksum_find(text) : NULL;

	*(const struct checksum **)field = checksum;
	return checksum || !*text;
}

static bool pattern_is_known(const char *pattern)
{
	for (const char *c = pattern; (c = strchr(c, '%')); c += 2)
		if (!c[1] || !strchr("hpr%", c[1]))
			return false;
	return true;
}

/* Makes a name absolute, because the program may be in another directory when it ends. Doubles the
 * directory's own percent signs, so that they stay what they are. */
static char *absolute(const char *file)
{
	char directory[PATH_MAX];
	char *path, *out;

	if (*file == '/' || !getcwd(directory, sizeof(directory)))
		return strdup(file);
	path = malloc(2 * strlen(directory) + 1 + strlen(file) + 1);
	if (!path)
		return NULL;
	out = path;
	for (const char *c = directory; *c; c++) {
		if (*c == '%')
			*out++ = '%';
		*out++ = *c;
	}
	*out++ = '/';
	strcpy(out, file);
	return path;
}

static bool parse_stats(const char *text, void *field)
{
	struct settings_output output = {SETTINGS_STATS_OFF, NULL};
	bool on = false;

	if (!strcasecmp(text, "json"))
		output.how = SETTINGS_STATS_JSON;
	else if (parse_boolean(text, &on))
		output.how = on ? SETTINGS_STATS_TEXT : SETTINGS_STATS_OFF;
	else if (!text[strspn(text, "0123456789")] || !pattern_is_known(text))
		return false; /* a number is a mistake rather than the name of a file */
	else if (!(output.file = absolute(text)))
		return false;
	else
		output.how = SETTINGS_STATS_FILE;
	*(struct settings_output *)field = output;
	return true;
}

bool settings_output_parse(const char *value, struct settings_output *output)
{
	return parse_stats(value, output);
}

/* Parses the numbers of a process, a descriptor and an inode, with slashes between them. */
static bool parse_place(const char *text, void *field)
{
	const char *at = text;
	char *copy = NULL;

	for (int i = 0; *text && i < 3; i++) {
		size_t digits = strspn(at, "0123456789");

		if (!digits || at[digits] != (i < 2 ? '/' : 0))
			return false;
		at += digits + (i < 2);
	}
	if (*text && !(copy = strdup(text)))
		return false;
	*(const char **)field = copy;
	return true;
}

/* Adding a variable takes: a row here, a field in settings.h, a row in doc/lmdbio.7. */
static const struct variable {
	const char *name;
	bool (*parse)(const char *text, void *field);
	size_t field;
	const char *allowed; /* for the message about a refused value */
} variables[] = {
	{"LMDBIO_DISABLE", parse_boolean, offsetof(struct settings, disable), "0 or 1"},
	{"LMDBIO_VERBOSE", parse_boolean, offsetof(struct settings, verbose), "0 or 1"},
	{"LMDBIO_IO", parse_io, offsetof(struct settings, io), "auto, pread or direct"},
	{"LMDBIO_STORE", parse_store, offsetof(struct settings, store), "auto, cache or arena"},
	{"LMDBIO_MEMORY", parse_memory, offsetof(struct settings, memory),
	 "auto, a size of 1M or more (k, M, G, T), or 1% to 100%"},
	{"LMDBIO_NODE", parse_node, offsetof(struct settings, node),
	 "at most 255 characters, none of them a control character"},
	{"LMDBIO_STAGED", parse_directory, offsetof(struct settings, staged),
	 "a directory that is there"},
	{"LMDBIO_LMDB1", parse_library, offsetof(struct settings, later),
	 "none, or the file of a library that is there"},
	{"LMDBIO_SHARE", parse_boolean, offsetof(struct settings, share), "0 or 1"},
	{"LMDBIO_MPI", parse_boolean, offsetof(struct settings, mpi), "0 or 1"},
	{"LMDBIO_MPI_PID", parse_process, offsetof(struct settings, mpi_pid), "a number"},
	{"LMDBIO_PATIENCE", parse_patience, offsetof(struct settings, patience), "a number from 1 to 1000"},
	{"LMDBIO_PREFETCH", parse_boolean, offsetof(struct settings, prefetch), "0 or 1"},
	{"LMDBIO_AROUND", parse_around, offsetof(struct settings, around), "auto, 0 or 1"},
	{"LMDBIO_CHECKSUM", parse_checksum, offsetof(struct settings, checksum),
	 "crc32c, fnv1a, sha256, xxh3 or xxh64"},
	{"LMDBIO_STATS", parse_stats, offsetof(struct settings, stats),
	 "0, 1, json, or a file name with at most %h, %p, %r and %%"},
	{"LMDBIO_STATS_AT", parse_place, offsetof(struct settings, stats_at), "PID/FD/INODE"},
};

static const struct variable *variable_find(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		if (strlen(variables[i].name) == length && !memcmp(variables[i].name, name, length))
			return &variables[i];
	return NULL;
}

static void settings_read(void)
{
	if (getauxval(AT_SECURE)) {
		settings.secure = true;
		settings.disable = true;
		return;
	}
	for (char **entry = environ; entry && *entry; entry++) {
		const char *equals;
		const struct variable *variable;

		if (strncmp(*entry, "LMDBIO_", 7) || !(equals = strchr(*entry, '=')))
			continue;
		variable = variable_find(*entry, (size_t)(equals - *entry));
		if (!variable)
			log_line("%.*s: no such variable, ignored", (int)(equals - *entry), *entry);
		else if (!variable->parse(equals + 1, (char *)&settings + variable->field))
			log_line("%s=%s: wants %s, the default is used", variable->name, equals + 1,
				 variable->allowed);
	}
}

const char *settings_refuses(const char *name, const char *value)
{
	const struct variable *variable = variable_find(name, strlen(name));
	struct settings scratch = {.io = NULL};
	bool taken = variable && variable->parse(value, (char *)&scratch + variable->field);
	/* The fields that may own a copy of the value; all but one are NULL. */
	const char *copies[] = {scratch.node, scratch.staged, scratch.later, scratch.stats.file,
				scratch.stats_at};

	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++)
		free((void *)(uintptr_t)copies[i]);
	if (taken)
		return NULL;
	return variable ? variable->allowed : "nothing, as there is no such variable";
}

const struct settings *settings_get(void)
{
	pthread_once(&settings_once, settings_read);
	return &settings;
}
