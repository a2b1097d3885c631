/* What only this file knows: how a program becomes one rank of a job whose MPI it never sees.
 *
 * The program is forked first and waits; then this process starts MPI, learns which node it is on,
 * and lets the program begin. From then on it serves the node (one process a node does), passes
 * signals on and waits. Only when every program of the job is over does it end MPI: so a program
 * that crashes takes no other with it.
 */
#ifndef LMDBIO_TOOLS_RUN_JOB_H
#define LMDBIO_TOOLS_RUN_JOB_H

/* Runs the program as a rank of the job that this process was started in by mpiexec or srun; without
 * one it is a job of one. `start` becomes the program, in a child with its signals and streams as
 * they were and LMDBIO_NODE set if it has to be; it returns only where that fails, with an exit status. Returns the
 * program's exit status, 128 and the signal's number where a signal has ended it, or EXIT_OURS (2)
 * after a line on standard error: the program has not run. */
int run_job(int (*start)(void *context), void *context);

#endif
