/* SPDX-License-Identifier: OLDAP-2.8 */
/* Connects a process that mpiexec or srun started to its launcher, and keeps a program from
 * inheriting that connection.
 *
 * Some launchers give a descriptor and speak PMI's version 1 (lines of "cmd=...", as in MPICH's
 * src/pmi). A process with that descriptor may speak while MPI does not: MPI speaks when it begins
 * and when it ends. */
#ifndef LMDBIO_TOOLS_LAUNCHER_H
#define LMDBIO_TOOLS_LAUNCHER_H

#include <stdbool.h>

/* Drops the connection to the launcher in a forked child that is to become a program: it is the
 * parent's. The program uses no MPI; a program with MPI would answer for the parent. */
void launcher_forget(void);

/* Returns the descriptor, or -1 without one. */
int launcher_descriptor(void);

/* Tells the launcher that this process belongs to the job, as MPI does when it begins. When such a
 * process dies, the launcher ends the job. A process that has not told this counts as a program
 * without MPI: the launcher lets it end, and the other ranks wait for ever. A second call does no
 * harm. */
void launcher_greet(void);

/* Enters the barrier of all ranks. Returns false if the launcher is gone. */
bool launcher_meet(void);

/* Returns whether all have entered. Call this when the descriptor is readable. */
bool launcher_has_met(void);

/* Tells the launcher, in place of an MPI process that is gone, that MPI has ended, so that the
 * launcher goes on with the others. Does nothing if the launcher was told before. */
void launcher_leave(void);

#endif
