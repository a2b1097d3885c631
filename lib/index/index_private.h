/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the types and functions that the files of the record index share. */
#ifndef LMDBIO_INDEX_PRIVATE_H
#define LMDBIO_INDEX_PRIVATE_H

#include "format/page.h"
#include "index/record_index.h"

struct record_index {
	uint64_t records;
	size_t count, owner_count;
	struct index_leaf *leaves;
	struct index_owner *owners;
};

/* index_find.c */
/* Makes an index of so many leaves and owners, all zero. Returns NULL if there is no memory. */
struct record_index *index_new(size_t leaves, size_t owners, uint64_t records);

/* index_count.c */
/* One thread's work: its own view of the snapshot, and the part that it has counted. */
struct counter {
	struct snapshot snapshot;
	const struct tree *tree;
	struct page_shelf *shelf; /* for the pages that are counted; NULL: none, and no weights */
	struct index_part part;
	uint64_t pages; /* of trees of duplicates, seen so far */
};

/* Brings pages in the order of the file, neighbours in one request. Returns 0 or an errno. */
int counter_bring(struct counter *counter, const uint64_t *numbers, size_t n);
/* Counts the records of leaf page `number`. Returns as index_count(). */
int counter_leaf(struct counter *counter, uint64_t number);
/* Appends the children of branch page `number` to the part: their numbers are in leaves[].page. */
int counter_branch(struct counter *counter, uint64_t number);

/* Counts the records under an entry: 1, or its duplicates. *nested is the record of their tree if
 * they have one (*is_tree). Returns 0 or MDB_CORRUPTED. */
int entry_records(const struct page_layout *layout, const struct tree *tree,
		  const struct entry *entry, uint64_t *records, struct tree_record *nested,
		  bool *is_tree);

#endif
