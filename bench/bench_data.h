/* SPDX-License-Identifier: OLDAP-2.8 */
/* Names the data sets, and makes each of them once. */
#ifndef BENCH_DATA_H
#define BENCH_DATA_H

#include <limits.h>
#include <stdint.h>

struct data_set {
	const char *name;
	uint64_t records, value_size; /* at scale 1 */
	const char *suffix;	      /* of the keys */
	uint64_t gets;		      /* random reads, unless the user says how many */
};

/* A data set that exists. */
struct data {
	const struct data_set *set;
	uint64_t records;
	char name[64];        /* of the set's directory, below the directory of all sets */
	char path[PATH_MAX];  /* of the set's directory */
	uint64_t file_size;   /* bytes */
	uint64_t value_bytes; /* of all values */
};

/* Returns the set of this name, or NULL. */
const struct data_set *data_set_find(const char *name);

/* Makes the set below `directory` at a scale, unless it is already there and complete. Returns 0 or
 * an errno, after a line on standard error. */
int data_make(struct data *data, const struct data_set *set, double scale, const char *directory);

#endif
