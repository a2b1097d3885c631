/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the records that ranks of a simulated job read together, and their checks. */
#ifndef LMDBIO_TESTS_JOB_RECORDS_H
#define LMDBIO_TESTS_JOB_RECORDS_H

#include "loader/batch_loader.h"

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

enum { JOB_RANKS = 2, JOB_VALUE = 3000 /* bytes */, JOB_BATCH = 20 };

/* What a rank has received. */
struct outcome {
	int opened, read; /* return codes */
	bool wrong;
	unsigned records;
};

/* The value maker for place_put_records(). */
size_t job_value_make(void *bytes, uint64_t i);

/* Reads an epoch, counts its samples and checks each that has come. Returns 0 or the code that
 * ended the epoch early. *failed: the first error of a sample; unchanged if there is none. */
int job_read_epoch(struct lmdbio_loader *loader, uint64_t epoch, struct outcome *outcome,
		   int *failed);

/* Opens an index of all ranks over `directory`, counts its records as if they were of two epochs,
 * and finds the last record. */
void job_read_index(MPI_Comm comm, const char *directory, struct outcome *outcome);

/* Returns the number of this process's threads. */
unsigned job_threads(void);

#endif
