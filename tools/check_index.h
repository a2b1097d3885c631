/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a container's record index leads to the leaf pages that are really there. */
#ifndef LMDBIO_TOOLS_CHECK_INDEX_H
#define LMDBIO_TOOLS_CHECK_INDEX_H

#include "check_report.h"

#include "container/container.h"

#include <lmdb.h>
#include <stdbool.h>

/* The record index of one database beside a walk over it. */
struct check_index {
	struct check_report *report;
	struct io *container;
	const char *label;
	uint32_t page_size;
	struct container_tree tree;
	bool known;      /* there is one, and it has been right so far */
	uint64_t leaves; /* that the walk has come to */
};

/* Looks for the database of that name (size 0: the main one). `container` NULL, or a container that
 * lacks it: then nothing is compared. */
void check_index_begin(struct check_index *index, struct check_report *report, struct io *container,
		       const MDB_val *name, const char *label);
/* The walk has come to the next leaf page, in the order of keys; its first record has that number.
 */
void check_index_leaf(struct check_index *index, uint64_t page, uint64_t first);
/* The walk is at its end and has seen so many records. */
void check_index_end(struct check_index *index, uint64_t records);

#endif
