/* SPDX-License-Identifier: OLDAP-2.8 */
/* Starts a program after a staging that must begin before the program.
 *
 * MPI wants its process as the launcher made it. So the program is forked first, and waits until it
 * is told to begin.
 */
#ifndef LMDBIO_TOOLS_STAGE_PROGRAM_H
#define LMDBIO_TOOLS_STAGE_PROGRAM_H

#include <sys/types.h>

struct stage_program {
	pid_t pid; /* 0: no program */
	int pipe;
};

/* Forks. `arguments` is the command to run, NULL-terminated. Returns 0 or errno. */
int stage_program_fork(struct stage_program *program, char **arguments);

/* Lets the program begin with a variable of its environment set (value "": not set), passes signals
 * on and waits for its end. Returns its exit status, 128 plus the signal that ended it, or 126 or
 * 127 if it could not start. If tool_signal is set already, returns its status, and the program
 * does not begin. */
int stage_program_run(struct stage_program *program, const char *variable, const char *value);

/* Becomes the program. Returns 126 or 127 only if that fails, after a message on standard error. */
int stage_program_become(void *arguments);

/* Ends the waiting child without the program. */
void stage_program_drop(struct stage_program *program);

#endif
