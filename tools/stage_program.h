/* SPDX-License-Identifier: OLDAP-2.8 */
/* Starts a program after a staging that must begin before it.
 *
 * MPI wants to find its process as the launcher has made it, so the program is forked first and
 * waits until it is told to begin.
 */
#ifndef LMDBIO_TOOLS_STAGE_PROGRAM_H
#define LMDBIO_TOOLS_STAGE_PROGRAM_H

#include <sys/types.h>

struct stage_program {
	pid_t pid; /* 0: there is none */
	int pipe;
};

/* Forks; `arguments` is what will be run, NULL-terminated. Returns 0 or errno. */
int stage_program_fork(struct stage_program *program, char **arguments);

/* Lets it begin with a variable of its environment set ("" as value: not), and waits for its end;
 * signals are passed on. Returns its exit status, 128 + the signal that ended it, 126 or 127 when it
 * could not be started; where tool_signal is set already it does not begin, and that is the status. */
int stage_program_run(struct stage_program *program, const char *variable, const char *value);

/* Becomes the program. Returns only where that fails, after a line on standard error: 126 or 127.
 */
int stage_program_become(void *arguments);

/* It is not to begin at all. */
void stage_program_drop(struct stage_program *program);

#endif
