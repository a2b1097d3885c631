/* SPDX-License-Identifier: OLDAP-2.8 */
/* What all lmdbio commands have in common: how options are declared and explained, what exit
 * statuses mean, how sizes are read and shown, how a signal ends the work.
 *
 * A command declares one table of options. Parsing, --help and --version read it; the manual's list
 * of options and the completion in bash, zsh and fish are made of it when lmdbio is built
 * (tools/options.awk). Adding an option takes: a row in the command's table, a case where the
 * command takes it, and a line "@option NAME@" in its manual page.
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
	TOOL_PROBLEM = 1,      /* the work was done and something is wrong: damage, a difference */
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

/* What an argument is, for completion: words in lower case and numbers stand for themselves, with
 * '|' between them ("auto|pread|direct"); FILE, LIBRARY and PATH are a file, DIR is a directory,
 * DATABASE a named database, PRESET and POLICY,... are lmdbio-sim's; any other word stands for free
 * text. */

struct tool {
	const char *name;     /* lmdbio-check */
	const char *synopsis; /* what follows the name: "[OPTION]... PATH"; several, each by '\n' */
	const char *purpose;  /* one paragraph */
	const struct tool_option *options; /* ended by an empty one */
	const char *closing;               /* the last paragraphs of --help, or NULL */
	bool in_order; /* options end at the first operand, as before a program's own */
};

/* The rows that every command has, -h and -V, ended by an empty one. */
extern const struct tool_option tool_common_options[];

/* The next option of the command line, by getopt_long()'s rules (optarg, optind are set): its key,
 * -1 after the last one, '?' for one that is unknown or lacks its argument, of which the person has
 * been told. --help, -h, --version and -V need no row in the table, and end the process
 * with status 0; so does "--table-of-options" as the only word, for the build. */
int tool_option_next(const struct tool *tool, int argc, char **argv);

/* What --table-of-options prints, onto standard output. */
void tool_table(const struct tool *tool);

/* What --help prints, onto standard output. */
void tool_help(const struct tool *tool);

/* "NAME (lmdbio) VERSION", onto standard output. */
void tool_version(const struct tool *tool);

/* "NAME: ..." and a line's end, onto standard error. */
void tool_complain(const struct tool *tool, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The advice to try --help, after a message that says what is wrong. Returns TOOL_FAILED. */
int tool_usage_hint(const struct tool *tool);

/* tool_complain() and that advice. Returns TOOL_FAILED. */
int tool_usage_error(const struct tool *tool, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* A size in bytes: "123", "64k", "64M", "64MiB", "2G", "1T", in steps of 1024; "64MB", in steps of
 * 1000. false, and the person has been told, for anything else. `option` is what the person wrote
 * it after. */
bool tool_size_parse(const struct tool *tool, const char *option, const char *text,
		     uint64_t *bytes);

/* A whole number from least to most, in the same way. */
bool tool_number_parse(const struct tool *tool, const char *option, const char *text,
		       uint64_t least, uint64_t most, uint64_t *number);

/* Sets the variable of lmdbio(7) that an option stands for, for this process and its children.
 * `option` is what the person wrote the value after. false, and the person has been told: the
 * variable does not take such a value. */
bool tool_setting_take(const struct tool *tool, const char *option, const char *variable,
		       const char *value);

/* "17 bytes", "1.5 GiB". Returns `text`. */
enum { TOOL_SIZE_TEXT = 32 };
const char *tool_size_text(uint64_t bytes, char text[TOOL_SIZE_TEXT]);

/* Any bytes as printable ASCII, in `size` bytes with the final 0: others become \xHH, and "..."
 * ends what does not fit. Returns `text`. */
enum { TOOL_ESCAPED_TEXT = 160 };
const char *tool_escape(const void *bytes, size_t length, char *text, size_t size);

/* MDB_NOSUBDIR when `path` exists and is no directory, else 0: -n is not needed. */
unsigned tool_path_flags(const char *path);

/* From now on SIGXFSZ does nothing, and other signals that end a process and are not of its own faults only set
 * tool_signal. A second SIGINT, SIGTERM or SIGQUIT ends the process at once. After SIGQUIT exit() ends it by that signal. */
void tool_signals_catch(void);
extern volatile sig_atomic_t tool_signal; /* 0: none has come */

/* The exit status that says so: 128 + the signal (TOOL_INTERRUPTED for SIGINT). */
int tool_signal_status(void);

/* From now on `told` is called, instead of death by SIGBUS, when a part of a mapped file cannot
 * be had: the disk does not deliver it, or another process has cut it off the file. It must end
 * the process. The fault is a look at a page, so it may do anything, unless that look was inside
 * of a library. */
void tool_unreadable_catch(void (*told)(void));

/* Writes out what standard output still holds. Returns `status`, or TOOL_FAILED, and the person has
 * been told, when some of it could not be written. */
int tool_output_end(const struct tool *tool, int status);

#endif
