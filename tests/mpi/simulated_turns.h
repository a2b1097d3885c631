/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the ranks of a simulated job as threads of one process, one at a time.
 *
 * A rank runs until it looks for something that has not come; then the next rank runs. When all
 * ranks look in vain the job is broken: the ranks' waits fail, as they do when the launcher or MPI
 * ends a job. Threads that a rank has started take no turns, and nothing that they do counts.
 */
#ifndef LMDBIO_TEST_SIMULATED_TURNS_H
#define LMDBIO_TEST_SIMULATED_TURNS_H

#include <stdbool.h>

/* Runs a function as each of `ranks` ranks, and returns when all have returned. Returns false if
 * the job broke. */
bool sim_run(int ranks, void (*run)(void *context, int rank), void *context);

/* Returns the rank that runs. */
int sim_self(void);

/* Surround each simulated call (mpi_sites.h): threads that ranks have started make calls as well,
 * at any time. */
void sim_enter(void);
void sim_leave(void);

/* For the simulated calls: reports that something has come. */
void sim_progress(void);
/* Reports that nothing has come, and lets the other ranks run. Returns false if nothing will come
 * any more. */
bool sim_look_in_vain(void);
/* The same for a look that a rank makes besides others: it is not counted. */
void sim_yield(void);
bool sim_is_broken(void);
/* Whether the job broke because all ranks waited, not by sim_break(). */
bool sim_has_hung(void);
/* Ends the job, as MPI_Abort does. */
void sim_break(void);

#endif
