/* SPDX-License-Identifier: OLDAP-2.8 */
/* Describes this process's place in an MPI job whose processes do one conversion together.
 *
 * Without a job a process is the only rank, and these functions cost nothing. In a job, every rank
 * calls each function below at the same place. Rank 0 leads: only that rank makes the target.
 */
#ifndef LMDBIO_TOOLS_CONVERT_JOB_H
#define LMDBIO_TOOLS_CONVERT_JOB_H

#include "convert.h"
#include "convert_source.h"

#include "mpi/mpi_module.h"

/* Joins the job in which a launcher started this process, if the job has more than one process.
 * Divides the cores of a node among its ranks unless -T was given. */
int job_begin(struct convert *convert, bool threads_given);

/* Ends MPI, after all ranks have called this. Returns `status`, or TOOL_FAILED if MPI failed. */
int job_end(const struct convert *convert, int status);

/* With `apart`, makes a rank work as if it were alone until a call without. Not collective. Returns
 * the previous state. */
bool job_apart(const struct convert *convert, bool apart);

bool job_leads(const struct convert *convert);
struct mpi_place job_place(const struct convert *convert);

/* Returns the calls for exchange with the other ranks; NULL: no others. */
const struct mpi_sharing *job_sharing(const struct convert *convert);

/* Returns the exit status of the lowest rank whose status is not 0. */
int job_agree(const struct convert *convert, int status);

/* Copies rank 0's bytes to all ranks. Returns an exit status. */
int job_tell(const struct convert *convert, void *bytes, size_t length);

/* Computes the sum over all ranks. Returns an exit status. */
int job_sum(const struct convert *convert, uint64_t *value);

/* Finds out whether all ranks have opened the source at the same snapshot. If not, *same is false
 * on all, and no rank goes on with the source. Returns an exit status. */
int job_same_source(const struct convert *convert, const struct source *source, bool *same);

/* Waits without work until rank 0 has called this too, which may take long. */
int job_gather(const struct convert *convert);

#endif
