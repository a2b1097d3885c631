/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the numbers that lmdbio-stat, unlike mdb_stat, measures by a walk through a database. */
#ifndef LMDBIO_TOOLS_STAT_MEASURE_H
#define LMDBIO_TOOLS_STAT_MEASURE_H

#include "page_map.h"

#include "env/env.h"

#include <stdbool.h>
#include <stdint.h>

enum { MEASURE_SIZES = 34 /* a value has less than 4 GiB */ };

struct measure {
	uint64_t keys, entries;        /* entries: each duplicate by itself */
	uint64_t key_bytes;            /* of keys, each counted once */
	uint64_t value_bytes;          /* without the records of named databases */
	uint64_t values;               /* the values with these bytes */
	uint64_t smallest, largest;    /* value, bytes */
	uint64_t sizes[MEASURE_SIZES]; /* [0]: empty values; [i]: of 2^(i-1) to 2^i - 1 bytes */
	uint64_t overflow_values;      /* values in overflow pages */
	uint64_t overflow_bytes;
	uint64_t overflow_pages;
	uint64_t pages; /* all: branch, leaf, overflow, with those of duplicates */
	/* A scan in the order of keys visits the leaf pages one after the other. Behind each leaf
	 * it visits the overflow pages of its values and the leaf pages of its duplicates, in the
	 * order of keys. Branch pages do not count: a reader keeps them. The way from one of these
	 * pages to the next is a step. A step is sequential if the next page's number is higher by
	 * one. */
	uint64_t steps, sequential;
	/* Of a container (else 0): pages of a chunk, and values in overflow pages that lie in two
	 * chunks though one has room for them. Reading such a value costs both chunks. */
	uint32_t chunk_pages;
	uint64_t across;
};

/* Measures one database of a transaction. `seen` has a bit for each page of the file, and all
 * databases of a file share it. Returns 0, MDB_CORRUPTED, EINTR (a signal has come), or the errno
 * of a read. */
int measure_take(struct measure *measure, MDB_txn *txn, MDB_dbi dbi, struct page_map *seen);

/* Return a share in percent; 100 if the whole is 0. */
double measure_quality(const struct measure *measure);
double measure_share(uint64_t part, uint64_t whole);

#endif
