/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the ranks of a job as threads of one process, of which one goes on at a time, and simulates the calls
 * that ranks make together.
 *
 * A rank goes on until it looks for something that is not there; then the next one does. When all look in vain the
 * job is broken: what ranks wait for fails, as it does when the launcher or MPI ends a job. A call that
 * ranks make together meets the others' calls in the order of each rank. Where these are of different kinds
 * or sizes, each of them fails; MPI promises nothing then. What comes of it is written to a rank's memory
 * when that rank looks, and never behind its back. */
#ifndef LMDBIO_TEST_SIMULATED_JOB_H
#define LMDBIO_TEST_SIMULATED_JOB_H

#include <mpi.h>
#include <stdbool.h>

/* What communicators, groups, hints and files there are beyond sim_comm()'s. */
unsigned sim_handles(void);

/* Runs a function as each rank of a job of so many, and returns when all have. Returns false if it broke. */
bool sim_run(int ranks, void (*run)(void *context, int rank), void *context);

/* The rank that goes on. */
int sim_self(void);

/* For mpi_simulated.c. */
void sim_progress(void);   /* something has come */
bool sim_look_in_vain(void); /* lets the others go on. false: nothing comes any more */
struct collective;
bool sim_collected(struct collective *collective, int rank, int *rc);
struct collective *sim_barrier(MPI_Comm comm);
void sim_job_begin(int ranks);
void sim_job_end(void);

/* The number of a communicator, and this rank's in it. */
int sim_context(MPI_Comm comm);
int sim_rank(MPI_Comm comm);

#endif
