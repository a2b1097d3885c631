/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a parser and a help text from a command's table of options. */
#include "tool_common.h"

#include "util/phrases.h"
#include "util/settings.h"

#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HELP_COLUMN = 28, HELP_WIDTH = 79 };

volatile sig_atomic_t tool_signal;

const struct tool_option tool_common_options[] = {
	{'h', "help", NULL, "print this help and exit"},
	{'V', "version", NULL, "print the version and exit"},
	{0},
};

static int option_arguments(const struct tool_option *option)
{
	if (!option->argument)
		return no_argument;
	return *option->argument == '[' ? optional_argument : required_argument;
}

/* The tables that getopt_long() takes. */
struct getopt_tables {
	char letters[3 * TOOL_OPTIONS_MAX + 4];
	struct option names[TOOL_OPTIONS_MAX + 3];
};

static void tables_fill(struct getopt_tables *tables, const struct tool *tool)
{
	struct option *name = tables->names;
	char *letter = tables->letters;

	if (tool->in_order)
		*letter++ = '+';
	for (const struct tool_option *option = tool->options; option->key; option++) {
		int arguments = option_arguments(option);

		if (option->name)
			*name++ = (struct option){option->name, arguments, NULL, option->key};
		if (option->key >= TOOL_HELP)
			continue;
		*letter++ = (char)option->key;
		for (int colon = 0; colon < arguments; colon++)
			*letter++ = ':';
	}
	for (const struct tool_option *option = tool_common_options; option->key; option++)
		*letter++ = (char)option->key;
	*name++ = (struct option){"help", no_argument, NULL, TOOL_HELP};
	*name++ = (struct option){"version", no_argument, NULL, TOOL_VERSION};
	*name = (struct option){0};
	*letter = 0;
}

/* Occupies the standard descriptors that the caller closed. Otherwise the next open() would get
 * one, and output would go into that file, perhaps a data set. Using such a descriptor fails, and a
 * program that the command starts has it closed. */
static void standard_files_hold(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			(void)!open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

int tool_option_next(const struct tool *tool, int argc, char **argv)
{
	static struct getopt_tables tables;
	static const struct tool *known;
	int key;

	if (known != tool) {
		standard_files_hold();
		tables_fill(&tables, tool);
		known = tool;
		/* getopt_long() names the command by argv[0]: drop the directories, as other
		 * messages do. */
		if (argc)
			argv[0] = basename(argv[0]);
		if (argc == 2 && !strcmp(argv[1], "--table-of-options")) {
			tool_table(tool);
			exit(tool_output_end(tool, TOOL_OK));
		}
	}
	key = getopt_long(argc, argv, tables.letters, tables.names, NULL);
	if (key == TOOL_HELP || key == 'h') {
		tool_help(tool);
		exit(tool_output_end(tool, TOOL_OK));
	}
	if (key == TOOL_VERSION || key == 'V') {
		tool_version(tool);
		exit(tool_output_end(tool, TOOL_OK));
	}
	return key;
}

/* Prints words from column `column` on, broken at spaces, until the end of the text. */
static void help_fill(const char *text, int column, int at)
{
	while (*text) {
		int length = (int)strcspn(text, " \n");

		if (at > column && at + 1 + length > HELP_WIDTH) {
			printf("\n%*s", column, "");
			at = column;
		} else if (at > column) {
			putchar(' ');
			at++;
		}
		at += printf("%.*s", length, text);
		text += length;
		if (*text == '\n') {
			printf("\n%*s", column, "");
			at = column;
		}
		if (*text)
			text++;
	}
	putchar('\n');
}

static void help_option(const struct tool_option *option)
{
	const char *argument = option->argument;
	bool lettered = option->key < TOOL_HELP;
	int at;

	if (!option->help)
		return;
	at = lettered ? printf("  -%c", option->key) : printf("    ");
	if (option->name) {
		at += printf("%s--%s", lettered ? ", " : "  ", option->name);
		if (argument && *argument == '[')
			at += printf("[=%s", argument + 1);
		else if (argument)
			at += printf("=%s", argument);
	} else if (argument) {
		at += *argument == '[' ? printf("%s", argument) : printf(" %s", argument);
	}
	if (at > HELP_COLUMN - 2) {
		putchar('\n');
		at = 0;
	}
	printf("%*s", HELP_COLUMN - at, "");
	help_fill(option->help, HELP_COLUMN, HELP_COLUMN);
}

void tool_help(const struct tool *tool)
{
	const char *line = tool->synopsis;
	const char *head = "Usage:";

	while (line) {
		const char *end = strchr(line, '\n');

		printf("%-6s %s %.*s\n", head, tool->name,
		       (int)(end ? (size_t)(end - line) : strlen(line)), line);
		head = "";
		line = end ? end + 1 : NULL;
	}
	help_fill(tool->purpose, 0, 0);
	putchar('\n');
	for (const struct tool_option *option = tool->options; option->key; option++)
		help_option(option);
	for (const struct tool_option *option = tool_common_options; option->key; option++)
		help_option(option);
	if (tool->closing) {
		putchar('\n');
		help_fill(tool->closing, 0, 0);
	}
}

void tool_version(const struct tool *tool)
{
	printf("%s (lmdbio) %s\n", tool->name, PACKAGE_VERSION);
}

static void complain(const struct tool *tool, const char *format, va_list arguments)
{
	char line[4 * PATH_MAX]; /* the fault follows the path, or two */

	vsnprintf(line, sizeof(line), format, arguments);
	fprintf(stderr, "%s: %s\n", tool->name, line);
}

void tool_complain(const struct tool *tool, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	complain(tool, format, arguments);
	va_end(arguments);
}

int tool_usage_hint(const struct tool *tool)
{
	fprintf(stderr, "Try '%s --help' for more information.\n", tool->name);
	return TOOL_FAILED;
}

int tool_usage_error(const struct tool *tool, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	complain(tool, format, arguments);
	va_end(arguments);
	return tool_usage_hint(tool);
}

bool tool_size_parse(const struct tool *tool, const char *option, const char *text, uint64_t *bytes)
{
	if (size_parse(text, bytes))
		return true;
	tool_usage_error(tool, "%s wants a size such as 4096, 64k, 16M or 2GiB, not '%s'", option,
			 text);
	return false;
}

bool tool_number_parse(const struct tool *tool, const char *option, const char *text,
		       uint64_t least, uint64_t most, uint64_t *number)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (*text >= '0' && *text <= '9' && !*end && !errno && value >= least && value <= most) {
		*number = value;
		return true;
	}
	tool_usage_error(tool, "%s wants a number from %llu to %llu, not '%s'", option,
			 (unsigned long long)least, (unsigned long long)most, text);
	return false;
}

bool tool_setting_take(const struct tool *tool, const char *option, const char *variable,
		       const char *value)
{
	const char *allowed = settings_refuses(variable, value);

	/* A variable without a value counts as unset, but an option is given for its value. */
	if (!*value) {
		tool_usage_error(tool, "%s wants a value", option);
		return false;
	}

	/* The directory of each node is unknown until the node's number is known. */
	if (allowed && strstr(value, "%n") && !strcmp(variable, "LMDBIO_STAGED"))
		allowed = NULL;
	if (allowed) {
		tool_usage_error(tool, "%s wants %s, not '%s'", option, allowed, value);
		return false;
	}
	if (!setenv(variable, value, 1))
		return true;
	tool_complain(tool, "%s", strerror(errno));
	return false;
}

const char *tool_size_text(uint64_t bytes, char text[TOOL_SIZE_TEXT])
{
	static const char units[] = "KMGTPE";
	double value = (double)bytes / 1024;
	unsigned unit = 0;

	if (bytes < 1024) {
		snprintf(text, TOOL_SIZE_TEXT, "%u bytes", (unsigned)bytes);
		return text;
	}
	while (value >= 1023.95 && units[unit + 1]) {
		value /= 1024;
		unit++;
	}
	snprintf(text, TOOL_SIZE_TEXT, "%.1f %ciB", value, units[unit]);
	return text;
}

const char *tool_escape(const void *bytes, size_t length, char *text, size_t size)
{
	static const char rest[] = "...";
	const unsigned char *at = bytes, *end = at + length;
	char *out = text, *stop = text + size - 4 - sizeof(rest);

	for (; at < end && out < stop; at++)
		out += sprintf(out, *at >= ' ' && *at <= '~' ? "%c" : "\\x%02x", *at);
	strcpy(out, at < end ? rest : "");
	return text;
}

unsigned tool_path_flags(const char *path)
{
	struct stat file;

	return !stat(path, &file) && !S_ISDIR(file.st_mode) ? MDB_NOSUBDIR : 0;
}

static void signal_note(int number)
{
	if (!tool_signal)
		tool_signal = number;
	if (number == SIGINT || number == SIGTERM || number == SIGQUIT)
		signal(number, SIG_DFL);
}

/* Ends by SIGQUIT, which asks for a core: the kernel writes one if the signal ends the process. */
static void signal_quit(void)
{
	if (tool_signal != SIGQUIT)
		return;
	signal(SIGQUIT, SIG_DFL);
	raise(SIGQUIT);
}

/* Does nothing: a write past the file length limit then fails with EFBIG. Unlike an ignored signal,
 * a caught one has its default again in a program that the command starts. */
static void signal_pass(int number)
{
	(void)number;
}

void tool_signals_catch(void)
{
	static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,    SIGPIPE, SIGQUIT, SIGUSR1,
				      SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU};
	struct sigaction action = {.sa_handler = signal_note}, pass = {.sa_handler = signal_pass},
			 before;
	static bool at_exit;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		/* Signals that the caller ignores (nohup) stay ignored. */
		if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	if (!sigaction(SIGXFSZ, NULL, &before) && before.sa_handler == SIG_DFL)
		sigaction(SIGXFSZ, &pass, NULL);
	if (!at_exit)
		at_exit = !atexit(signal_quit);
}

static void (*unreadable_told)(void);

static void unreadable_note(int number)
{
	signal(number, SIG_DFL);
	unreadable_told();
}

void tool_unreadable_catch(void (*told)(void))
{
	unreadable_told = told;
	signal(SIGBUS, unreadable_note);
}

int tool_signal_status(void)
{
	return 128 + (int)tool_signal;
}

int tool_output_end(const struct tool *tool, int status)
{
	bool failed = ferror(stdout);
	const char *remedy;

	errno = 0;
	failed = fflush(stdout) || failed;
	if (!failed)
		return status;
	if (tool_signal)
		return tool_signal_status();
	remedy = remedy_find(errno);
	tool_complain(tool, "standard output: %s%s%s", errno ? strerror(errno) : "write error",
		      remedy ? ": " : "", remedy ? remedy : "");
	return TOOL_FAILED;
}
