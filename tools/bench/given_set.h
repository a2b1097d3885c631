/* SPDX-License-Identifier: OLDAP-2.8 */
/* The data set that a user wants measured: its files, its largest database, keys drawn from it. */
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
	bool later;        /* its pages are LMDB 1.0's, which the original does not read */
	bool in_memory;     /* the file lies in tmpfs, so no reading of it is cold */
	uint64_t file_size; /* bytes */
	char *database;     /* NULL: the main one */
	bool unsearched;    /* the main database has too many records to look for named ones */
	uint64_t records;   /* in the database */
	uint64_t tree_size; /* bytes of its pages */
	uint64_t snapshot;  /* the newest transaction */
};

/* Looks at a data set, and writes nothing to it: a lock file that is not there, or that this user
 * cannot write to, is left alone (MDB_NOLOCK). `database` NULL: the one with the most pages.
 * Returns 0, or an errno or MDB_* code and the user has been told. */
int given_open(const struct tool *tool, struct given_set *set, const char *path, unsigned flags,
	       const char *database);
void given_close(struct given_set *set);

/* What the newest transaction is now; set->snapshot if that cannot be told. */
uint64_t given_snapshot(const struct given_set *set);

/* Bytes of a record on average, its part of the tree included; at least 1. */
uint64_t given_record_size(const struct given_set *set);

/* Makes a list of up to `wanted` different keys in random order (bench_keys.h) behind a descriptor
 * that child processes inherit: all keys if there are not more, else keys drawn by position, each
 * by a random way from the root to a leaf. Stops after `seconds` with the keys drawn until then, at
 * least one. *n: how many. Returns 0, or an errno or MDB_* code and the user has been told. */
struct given_draw {
	uint64_t wanted, seed;
	double seconds;
};
int given_draw_keys(const struct tool *tool, const struct given_set *set,
		    const struct given_draw *draw, int *fd, uint64_t *n);

#endif
