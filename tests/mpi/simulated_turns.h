/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the ranks of a simulated job as threads of one process, of which one goes on at a time.
 *
 * A rank goes on until it looks for something that is not there; then the next one does. When all look in
 * vain the job is broken: what ranks wait for fails, as it does when the launcher or MPI ends a job. Threads that a
 * rank has started have no turns, and nothing that they do counts. */
#ifndef LMDBIO_TEST_SIMULATED_TURNS_H
#define LMDBIO_TEST_SIMULATED_TURNS_H

#include <stdbool.h>

/* Runs a function as each rank of a job of so many, and returns when all have. Returns false if it broke. */
bool sim_run(int ranks, void (*run)(void *context, int rank), void *context);

/* The rank that goes on. */
int sim_self(void);

/* Around each simulated call (mpi_sites.h): threads that ranks have started make calls as well, at any time. */
void sim_enter(void);
void sim_leave(void);

/* For the simulated calls: something has come. */
void sim_progress(void);
/* Nothing has: lets the others go on. false: nothing comes any more. */
bool sim_look_in_vain(void);
/* The same of a look that a rank makes beside others: it does not count. */
void sim_yield(void);
bool sim_is_broken(void);
/* It broke because all waited, not by sim_break(). */
bool sim_has_hung(void);
/* Ends the job, as MPI_Abort does. */
void sim_break(void);

#endif
