/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the records that ranks of a simulated job read together, and how they are judged. */
#ifndef LMDBIO_TESTS_JOB_RECORDS_H
#define LMDBIO_TESTS_JOB_RECORDS_H

#include "loader/batch_loader.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

enum { JOB_RANKS = 2, JOB_VALUE = 3000 /* bytes */, JOB_BATCH = 20 };

/* What a rank has got. */
struct outcome {
	int opened, read; /* codes */
	bool wrong;
	unsigned records;
};

/* For place_put_records(). */
size_t job_value_make(void *bytes, uint64_t i);

/* Reads an epoch, counts its samples and judges each that has come. Returns 0 or the code that ended the
 * epoch early. *failed: the first error of a sample; else it stays. */
int job_read_epoch(struct lmdbio_loader *loader, uint64_t epoch, struct outcome *outcome,
		   int *failed);

/* Opens an index of all ranks over `directory`, whose records are counted as of two epochs, and finds its
 * last record. */
void job_read_index(MPI_Comm comm, const char *directory, struct outcome *outcome);

/* Threads of this process. */
unsigned job_threads(void);

#endif
