/* SPDX-License-Identifier: OLDAP-2.8 */
/* Describes this process's place among the processes of an MPI job that do one conversion together.
 *
 * Without a job a process is the only rank, and all of this costs nothing. In one, each function
 * below is called by every rank at the same place; rank 0 leads: it alone makes the target.
 */
#ifndef LMDBIO_TOOLS_CONVERT_JOB_H
#define LMDBIO_TOOLS_CONVERT_JOB_H

#include "convert.h"
#include "convert_source.h"

#include "mpi/mpi_module.h"

/* Joins the job that a launcher has started this process for, if there is one of more than one
 * process; divides the cores of a node among its ranks unless -T has. */
int job_begin(struct convert *convert, bool threads_given);

/* Ends MPI, when all ranks have come here. Returns `status`, or TOOL_FAILED when MPI has failed. */
int job_end(const struct convert *convert, int status);

/* With `apart`, from here on a rank works as if it were alone, until it is called without. Not
 * collective. Returns what it was. */
bool job_apart(const struct convert *convert, bool apart);

bool job_leads(const struct convert *convert);
struct mpi_place job_place(const struct convert *convert);

/* What to ask of the others; NULL: there are none. */
const struct mpi_sharing *job_sharing(const struct convert *convert);

/* The exit status of the lowest rank that has one that is not 0. */
int job_agree(const struct convert *convert, int status);

/* What rank 0 has becomes all ranks'. An exit status. */
int job_tell(const struct convert *convert, void *bytes, size_t length);

/* The sum over all ranks. An exit status. */
int job_sum(const struct convert *convert, uint64_t *value);

/* Whether all ranks have opened the source at the same snapshot; if not, no rank goes on with it:
 * *same is then false on all. An exit status. */
int job_same_source(const struct convert *convert, const struct source *source, bool *same);

/* Ranks come here that have nothing to do until rank 0 comes too, which may take long. */
int job_gather(const struct convert *convert);

#endif
