/* SPDX-License-Identifier: OLDAP-2.8 */
/* Simulates the collective calls of a job's ranks.
 *
 * A rank's collective calls are matched with those of the other ranks in each rank's order. If they
 * are of different kinds or sizes, each of them fails; MPI promises nothing in that case. A rank's
 * result is written to its memory when that rank looks, or by sim_end() if the rank has given up
 * the call.
 */
#ifndef LMDBIO_TEST_SIMULATED_JOB_H
#define LMDBIO_TEST_SIMULATED_JOB_H

#include <mpi.h>
#include <stdbool.h>

/* Return how many communicators, groups, hints, sessions and files exist beyond sim_comm()'s, and
 * how many of them are sessions. */
unsigned sim_handles(void);
unsigned sim_sessions(void); /* the sessions among them */

/* Sets whether the program has begun MPI, and MPI's thread level. After sim_begin() it has, with
 * MPI_THREAD_MULTIPLE. */
void sim_library(bool begun, int level);
/* Simulates the program's MPI_Finalize. */
void sim_program_ends(void);

/* For mpi_simulated.c alone. */
struct collective;
bool sim_collected(struct collective *collective, int rank, int *rc);
void sim_uncollected(struct collective *collective, int rank); /* the rank has its memory back */
struct collective *sim_barrier(MPI_Comm comm);
void sim_job_begin(int ranks);
void sim_job_end(void);
int sim_await(MPI_Request request); /* waits as a blocking call does */

/* simulated_library.c */
void sim_library_begin(void);
void sim_library_end(void);
unsigned sim_library_handles(void);

/* Return a communicator's number, and this rank in it. */
int sim_context(MPI_Comm comm);
int sim_rank(MPI_Comm comm);

#endif
