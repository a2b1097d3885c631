/* SPDX-License-Identifier: OLDAP-2.8 */
/* Connects a process that mpiexec or srun has started to its launcher, and keeps a program from
 * inheriting that.
 *
 * Where the launcher has given a descriptor and speaks PMI's version 1 (lines of "cmd=...", as in
 * MPICH's src/pmi), a process that has the descriptor may speak while MPI does not: it does when it
 * begins and when it ends. */
#ifndef LMDBIO_TOOLS_LAUNCHER_H
#define LMDBIO_TOOLS_LAUNCHER_H

#include <stdbool.h>

/* In a forked child that is to become a program: the connection to the launcher is its parent's. The
 * program holds no MPI; one that did would answer for that process. */
void launcher_forget(void);

/* The descriptor, or -1: there is none. */
int launcher_descriptor(void);

/* Tells the launcher that this process belongs to the job, as MPI does when it begins. When a process that
 * has told this dies, the launcher ends the job. A process that has told nothing counts as a program without
 * MPI: the launcher lets it end, and the other ranks wait for ever. To tell it twice does no harm. */
void launcher_greet(void);

/* Comes to the barrier of all ranks. false: the launcher is gone. */
bool launcher_meet(void);

/* When the descriptor can be read: whether all have come. */
bool launcher_has_met(void);

/* Says for an MPI that is gone that it has ended, so that the launcher goes on with the others.
 * Where that has been said, nothing happens. */
void launcher_leave(void);

#endif
