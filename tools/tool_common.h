/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the parts that all lmdbio commands share: declaring and explaining options, exit
 * statuses, reading and printing sizes, and how a signal ends the work.
 *
 * A command declares one table of options. Parsing, --help and --version read it. The build makes
 * the manual's list of options and the completion in bash, zsh and fish from it
 * (tools/options.awk). Adding an option takes: a row in the command's table, a case in the
 * command's parser, and a line "@option NAME@" in its manual page.
 */
#ifndef LMDBIO_TOOLS_TOOL_COMMON_H
#define LMDBIO_TOOLS_TOOL_COMMON_H

#include <lmdb.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tool_exit {
	TOOL_OK = 0,
	TOOL_PROBLEM = 1,      /* the work was done, and found damage or a difference */
	TOOL_FAILED = 2,       /* wrong usage, or the work could not be done */
	TOOL_INTERRUPTED = 130 /* by SIGINT */
};

enum {
	TOOL_HELP = 0x100,
	TOOL_VERSION,
	TOOL_LONG_ONLY, /* the first key for options without a letter: TOOL_LONG_ONLY + n */
	TOOL_OPTIONS_MAX = 64,
};

struct tool_option {
	int key;              /* its letter, or TOOL_LONG_ONLY + n */
	const char *name;     /* the long name, or NULL */
	const char *argument; /* NULL: takes none; "[N]": may be left out; "FILE": must be there */
	const char *help;     /* one sentence without a full stop; NULL: not listed */
};

/* The kind of an argument, for completion. Words in lower case and numbers stand for themselves,
 * with '|' between them ("auto|pread|direct"). FILE, LIBRARY and PATH are a file, DIR is a
 * directory, DATABASE a named database; PRESET and POLICY,... are lmdbio-sim's. Any other word
 * stands for free text. */

struct tool {
	const char *name;     /* lmdbio-check */
	const char *synopsis; /* the text behind the name: "[OPTION]... PATH"; '\n' between
				 several */
	const char *purpose;  /* one paragraph */
	const struct tool_option *options; /* ends with an empty row */
	const char *closing;               /* the last paragraphs of --help, or NULL */
	bool in_order; /* options end at the first operand, for commands that start a program */
};

/* The rows that every command has, -h and -V, then an empty row. */
extern const struct tool_option tool_common_options[];

/* Returns the next option of the command line by getopt_long()'s rules (optarg, optind are set):
 * its key, -1 after the last one, or '?', after a message, for an option that is unknown or lacks
 * its argument. --help, -h, --version and -V need no row in the table, and end the process with
 * status 0. So does "--table-of-options" as the only word, for the build. */
int tool_option_next(const struct tool *tool, int argc, char **argv);

/* Prints the text of --table-of-options on standard output. */
void tool_table(const struct tool *tool);

/* Prints the text of --help on standard output. */
void tool_help(const struct tool *tool);

/* Prints "NAME (lmdbio) VERSION" on standard output. */
void tool_version(const struct tool *tool);

/* Prints "NAME: ..." and a newline on standard error. */
void tool_complain(const struct tool *tool, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Prints the advice to try --help, after a message about the fault. Returns TOOL_FAILED. */
int tool_usage_hint(const struct tool *tool);

/* Calls tool_complain() and prints that advice. Returns TOOL_FAILED. */
int tool_usage_error(const struct tool *tool, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Parses a size in bytes: "123", "64k", "64M", "64MiB", "2G", "1T", in steps of 1024; "64MB", in
 * steps of 1000. Returns false, after a message, for any other text. `option` is the option that
 * has the size. */
bool tool_size_parse(const struct tool *tool, const char *option, const char *text,
		     uint64_t *bytes);

/* Parses a whole number from least to most, in the same way. */
bool tool_number_parse(const struct tool *tool, const char *option, const char *text,
		       uint64_t least, uint64_t most, uint64_t *number);

/* Sets the variable of lmdbio(7) that an option stands for, in this process and its children.
 * `option` is the option as the user wrote it. Returns false, after a message, if the variable does
 * not take the value. */
bool tool_setting_take(const struct tool *tool, const char *option, const char *variable,
		       const char *value);

/* Prints a size as "17 bytes" or "1.5 GiB". Returns `text`. */
enum { TOOL_SIZE_TEXT = 32 };
const char *tool_size_text(uint64_t bytes, char text[TOOL_SIZE_TEXT]);

/* Writes any bytes as printable ASCII into `size` bytes with the final 0: other bytes become \xHH,
 * and "..." ends a text that does not fit. Returns `text`. */
enum { TOOL_ESCAPED_TEXT = 160 };
const char *tool_escape(const void *bytes, size_t length, char *text, size_t size);

/* Returns MDB_NOSUBDIR if `path` exists and is no directory, else 0: the user need not give -n. */
unsigned tool_path_flags(const char *path);

/* Makes SIGXFSZ do nothing, and other signals that end a process, but not those of its own faults,
 * only set tool_signal. A second SIGINT, SIGTERM or SIGQUIT ends the process at once. After SIGQUIT
 * exit() ends it by that signal. */
void tool_signals_catch(void);
extern volatile sig_atomic_t tool_signal; /* 0: no signal has come */

/* Returns the exit status for that signal: 128 plus its number (TOOL_INTERRUPTED for SIGINT). */
int tool_signal_status(void);

/* Calls `told`, instead of death by SIGBUS, if a part of a mapped file is not readable: the disk
 * does not deliver it, or another process has truncated the file. `told` must end the process. It
 * may do anything, as the fault is an access to a page, unless that access was inside a library. */
void tool_unreadable_catch(void (*told)(void));

/* Flushes standard output. Returns `status`, or TOOL_FAILED, after a message, if a write failed. */
int tool_output_end(const struct tool *tool, int status);

#endif
