/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what lmdbio-stat measures by walking through a database, which mdb_stat does not
 * know. */
#ifndef LMDBIO_TOOLS_STAT_MEASURE_H
#define LMDBIO_TOOLS_STAT_MEASURE_H

#include "page_map.h"

#include "env/env.h"

#include <stdbool.h>
#include <stdint.h>

enum { MEASURE_SIZES = 34 /* a value has less than 4 GiB */ };

struct measure {
	uint64_t keys, entries;        /* entries: each duplicate by itself */
	uint64_t key_bytes;            /* of keys, each once */
	uint64_t value_bytes;          /* databases that are named in this one do not count */
	uint64_t values;               /* that these are in */
	uint64_t smallest, largest;    /* value, bytes */
	uint64_t sizes[MEASURE_SIZES]; /* [0]: empty values; [i]: of 2^(i-1) to 2^i - 1 bytes */
	uint64_t overflow_values;      /* that stand in overflow pages */
	uint64_t overflow_bytes;
	uint64_t overflow_pages;
	uint64_t pages; /* all: branch, leaf, overflow, with those of duplicates */
	/* A scan in the order of keys comes to the leaf pages one after the other, and behind each
	 * of them to its values' overflow pages and its duplicates' leaf pages, in the order of
	 * keys. Branch pages are left out: a reader keeps them. From each of these pages to the
	 * next is a step; it is sequential when the next one's number is higher by one. */
	uint64_t steps, sequential;
	/* Of a container (else 0): its chunks, in pages, and how many of the values in overflow
	 * pages stand in two chunks though one has room for them. To get one costs both. */
	uint32_t chunk_pages;
	uint64_t across;
};

/* Measures one database of a transaction. `seen` has a bit for each page of the file, and is shared
 * by databases of one file. Returns 0, MDB_CORRUPTED, EINTR (a signal has come), or the errno of a
 * read. */
int measure_take(struct measure *measure, MDB_txn *txn, MDB_dbi dbi, struct page_map *seen);

/* Shares in percent; 100 (of nothing) when there is nothing to share. */
double measure_quality(const struct measure *measure);
double measure_share(uint64_t part, uint64_t whole);

#endif
