/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the live writer of LMDB 1.0's format and its free list share. */
#ifndef TESTS_LATER_WRITER_PRIVATE_H
#define TESTS_LATER_WRITER_PRIVATE_H

#include "later_pages.h"
#include "later_writer.h"

#include "format/layout.h"

#include <lmdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IN_USE = 0 /* of freed_by[] */ };

struct grown {
	uint64_t reference[3];
};

struct later_writer {
	struct later_sink sink; /* first: it is the writer's */
	struct later_lock *lock;
	int fd;
	unsigned flags;
	size_t map_size;
	uint8_t *map; /* with MDB_WRITEMAP */
	uint64_t txnid, oldest;
	uint64_t next;      /* the first page that was never used */
	uint64_t *freed_by; /* of each page: the transaction, or IN_USE */
	uint64_t *taken;    /* pages of the newest snapshot that the next one replaces */
	size_t taken_count, before; /* of which so many are the snapshot's before */
	struct grown *grown;
	size_t grown_count;
	struct later_tree free_tree, main_tree;
	uint64_t reserve[1024]; /* pages for the free list's tree */
	unsigned reserved, reserve_used;
	bool from_reserve;
	struct run {
		uint64_t txnid, reference[3];
	} runs[1024]; /* for the records of the free list that a page does not hold */
	unsigned run_count;
};

/* later_writer.c: pages that are free, or never were used. Returns the first of `count`, or 0: there is no
 * room. */
uint64_t later_take(struct later_sink *sink, unsigned count);

/* later_free_list.c: writes the free list of the transaction that is under way. Returns 0, MDB_MAP_FULL or
 * an errno. */
int later_free_build(struct later_writer *writer);

#endif
