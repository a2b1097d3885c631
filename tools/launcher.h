/* What only this file knows: what a program must not inherit from a process that mpiexec or srun has
 * started. */
#ifndef LMDBIO_TOOLS_LAUNCHER_H
#define LMDBIO_TOOLS_LAUNCHER_H

/* In a forked child that is to become a program: the connection to the launcher is its parent's. The
 * program holds no MPI; one that did would answer for that process. */
void launcher_forget(void);

#endif
