/* SPDX-License-Identifier: OLDAP-2.8 */
/* Simulates the calls that the ranks of a job make together.
 *
 * A call that ranks make together meets the others' calls in the order of each rank. Where these are of different kinds
 * or sizes, each of them fails; MPI promises nothing then. What comes of it is written to a rank's memory
 * when that rank looks, or by sim_end() where the rank has given it up. */
#ifndef LMDBIO_TEST_SIMULATED_JOB_H
#define LMDBIO_TEST_SIMULATED_JOB_H

#include <mpi.h>
#include <stdbool.h>

/* What communicators, groups, hints, sessions and files there are beyond sim_comm()'s. */
unsigned sim_handles(void);
unsigned sim_sessions(void); /* of them */

/* Whether the program has begun MPI, and the threads that MPI has. After sim_begin(): it has, and
 * MPI_THREAD_MULTIPLE. */
void sim_library(bool begun, int level);
/* The program's MPI_Finalize. */
void sim_program_ends(void);

/* For mpi_simulated.c. */
struct collective;
bool sim_collected(struct collective *collective, int rank, int *rc);
void sim_uncollected(struct collective *collective, int rank); /* a rank's memory is its own again */
struct collective *sim_barrier(MPI_Comm comm);
void sim_job_begin(int ranks);
void sim_job_end(void);
int sim_await(MPI_Request request); /* as a blocking call does */

/* simulated_library.c */
void sim_library_begin(void);
void sim_library_end(void);
unsigned sim_library_handles(void);

/* The number of a communicator, and this rank's in it. */
int sim_context(MPI_Comm comm);
int sim_rank(MPI_Comm comm);

#endif
