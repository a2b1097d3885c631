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
	bool known;      /* the database has an index, which has been right so far */
	uint64_t leaves; /* that the walk has reached */
};

/* Looks for the index of the database `name` (size 0: the main one). If `container` is NULL or has
 * no such index, nothing is compared. */
void check_index_begin(struct check_index *index, struct check_report *report, struct io *container,
		       const MDB_val *name, const char *label);
/* Takes the walk's next leaf page, in the order of keys, and the number of its first record. */
void check_index_leaf(struct check_index *index, uint64_t page, uint64_t first);
/* Ends the comparison: the walk has seen `records` records. */
void check_index_end(struct check_index *index, uint64_t records);

#endif
