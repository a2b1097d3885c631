/* SPDX-License-Identifier: OLDAP-2.8 */
/* Describes the data set to measure: its files, its largest database, keys drawn from it. */
#ifndef LMDBIO_TOOLS_GIVEN_SET_H
#define LMDBIO_TOOLS_GIVEN_SET_H

#include "tool_env.h"

#include <stdbool.h>
#include <stdint.h>

struct given_set {
	const char *named; /* the path as the user wrote it */
	char *path;        /* for mdb_env_open() ... */
	unsigned flags;    /* ... with MDB_NOSUBDIR, MDB_NOLOCK */
	char *file;        /* the data file or container */
	bool container;
	bool later;         /* its pages are LMDB 1.0's; the original does not read them */
	bool in_memory;     /* the file lies in tmpfs, so no read of it is cold */
	uint64_t file_size; /* bytes */
	char *database;     /* NULL: the main one */
	bool unsearched;    /* the main database has too many records to look for named ones */
	uint64_t records;   /* in the database */
	uint64_t tree_size; /* bytes of its pages */
	uint64_t snapshot;  /* the newest transaction */
};

/* Examines a data set without writing: leaves alone a lock file that does not exist or that this
 * user cannot write (MDB_NOLOCK). `database` NULL: the one with the most pages. Returns 0, or an
 * errno or MDB_* code after a message. */
int given_open(const struct tool *tool, struct given_set *set, const char *path, unsigned flags,
	       const char *database);
void given_close(struct given_set *set);

/* Returns the newest transaction at present, or set->snapshot if that is unknown. */
uint64_t given_snapshot(const struct given_set *set);

/* Returns the average bytes of a record, with its part of the tree; at least 1. */
uint64_t given_record_size(const struct given_set *set);

/* Makes a list of up to `wanted` different keys in random order (bench_keys.h) behind a descriptor
 * that child processes inherit. Takes all keys if there are not more, else draws keys by position,
 * each by a random way from the root to a leaf. Stops after `seconds` with the keys so far, at
 * least one. *n: the number of keys. Returns 0, or an errno or MDB_* code after a message. */
struct given_draw {
	uint64_t wanted, seed;
	double seconds;
};
int given_draw_keys(const struct tool *tool, const struct given_set *set,
		    const struct given_draw *draw, int *fd, uint64_t *n);

#endif
