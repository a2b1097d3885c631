/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that all pages of a snapshot are accounted for: each in one tree, in the free list, or
 * a meta page. */
#ifndef LMDBIO_TOOLS_CHECK_PAGES_H
#define LMDBIO_TOOLS_CHECK_PAGES_H

#include "check_report.h"
#include "tree_walk.h"

#include <stdbool.h>

struct check_pages {
	struct check_report *report;
	struct snapshot *snapshot;
	const struct tree_record *free_tree, *main_tree;
	uint64_t txnid;
	bool unordered;       /* do not judge the order of keys */
	struct io *container; /* container whose record index is compared with the trees, or NULL */
	/* Results, also if not everything could be read: */
	uint64_t used, free, leaked; /* pages; used: with the two meta pages */
	uint64_t disorders;          /* keys in the wrong place */
	uint64_t databases, entries; /* in the main and in the named databases */
	/* Called after the walk of a database; the main one has no name (NULL). May be NULL. */
	void (*database)(struct check_pages *pages, const struct walk_tree *tree,
			 const MDB_val *name);
	/* Called now and then with the pages reached so far; may be NULL. */
	void (*progress)(struct check_pages *pages, uint64_t reached);
};

/* Walks all trees. Returns 0, ENOMEM, EINTR (a signal has come) or the errno of a read. Memory: two
 * bits for each page of the file. */
int check_pages(struct check_pages *pages);

#endif
