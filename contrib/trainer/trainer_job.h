/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the example trainer needs of a job: its rank, and sums. */
#ifndef TRAINER_JOB_H
#define TRAINER_JOB_H

#include <lmdbio.h>
#include <stddef.h>
#include <stdint.h>

struct trainer_job {
	uint32_t ranks, rank;
};

/* Call job_begin() first and job_end() last. Collective: yes. */
void job_begin(struct trainer_job *job, int *argc, char ***argv);
void job_end(void);

/* Opens a loader of the rank's share. Returns as lmdbio_loader_open(). Collective: yes. */
int job_loader_open(const struct trainer_job *job, struct lmdbio_loader **loader, const char *path,
		    const struct lmdbio_loader_options *options);

/* Adds up the numbers of all ranks, in place. A sum of whole numbers is the same in any order, and
 * on any number of ranks. Collective: yes. */
void job_sum(int64_t *numbers, size_t n);

/* Ends the whole job because this rank cannot go on. */
void job_abort(void) __attribute__((noreturn));

#endif
