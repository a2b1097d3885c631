/* SPDX-License-Identifier: OLDAP-2.8 */
/* Command lines as lives: each is run in a directory of the test's own, and judged by what it has made before without
 * a failure. */
#ifndef LMDBIO_TEST_COMMAND_LIVES_H
#define LMDBIO_TEST_COMMAND_LIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A command line below the test's directory, and the file that it makes. */
struct command {
	const char *name, *before, *words, *target, *after;
	unsigned lacks; /* see calls_lack() */
	bool refused;   /* it fails, and leaves nothing */
	bool prints;    /* standard output is what it makes */
};

/* --- what a program with such lives has --- */

extern const struct command commands[];
extern const unsigned commands_count;
/* Runs the command of these words. */
int command_main(int argc, char **argv);
/* Makes what the commands read, in the current directory, and removes what is elsewhere. */
void command_files_make(void);
void command_files_remove(void);
/* What removes all that a failed attempt may have left, for the shell. */
extern const char command_leftovers_remove[];

/* --- for it --- */

/* Ends the test where it fails; NULL: nothing is to be done. */
void command_shell(const char *command);
/* Runs a command in a child, and returns its status. */
int command_run(const struct command *command);
/* A value of 2,500 bytes and less, of which two thirds can be compressed; one of 50,000 and less, on several pages. */
enum { COMMAND_VALUE = 2500, COMMAND_LARGE_VALUE = 50000 };
size_t command_value_make(void *bytes, uint64_t i);
size_t command_large_make(void *bytes, uint64_t i);

#endif
