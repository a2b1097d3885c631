/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds a record by its number.
 *
 * A record is what one step of MDB_NEXT returns: a key with its value, or a key with one of its
 * duplicates. Records are numbered from 0 in the order of the cursor. Only tree pages are read to
 * number them: the branch pages once, then the leaf pages, dealt out to threads. The counts of the
 * parts are added up at the end. So ranks, too, can count a part each: index_leaves() everywhere,
 * index_count() of a share, index_join() of all parts in order.
 */
#ifndef LMDBIO_INDEX_RECORD_INDEX_H
#define LMDBIO_INDEX_RECORD_INDEX_H

#include "cursor/cursor.h"
#include "index/page_shelf.h"
#include "io/io.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Records that follow each other in one leaf page. */
struct index_leaf {
	uint64_t page : 48;
	uint64_t place : 15; /* the first record's entry */
	uint64_t nested : 1; /* the page is of a tree of duplicates */
	uint64_t first;      /* number of the first one */
};

/* The size of such a leaf's records, in bytes. */
struct index_weight {
	uint64_t all;  /* keys and values */
	uint64_t kept; /* on the shelf: the page; of duplicates: as `all` */
};

/* The place of a key that has a tree of duplicates. */
struct index_owner {
	uint64_t leaf; /* the tree's first leaf, as its place in the index */
	uint64_t page, place;
};

/* A run of leaf pages, counted. Plain arrays: they can be sent to another process. Numbers begin at
 * 0 in each part. */
struct index_part {
	struct index_leaf *leaves;
	struct index_weight *weights; /* of the leaves; NULL: not asked for */
	size_t count, room;
	struct index_owner *owners;
	size_t owner_count, owner_room;
	uint64_t records;
};

struct record_index;

/* The place of a record. */
struct index_place {
	uint64_t page;
	uint32_t entry;
	uint64_t skip; /* records from that entry on, in a database with duplicates */
	bool nested;
	uint64_t owner_page; /* nested: where the key stands */
	uint32_t owner_entry;
};

/* Lists the numbers of all leaf pages of a tree, in key order; *pages is malloc'ed, or NULL if
 * there are none. At most `threads` threads read, 0: as many as suit. Returns 0, ENOMEM, or as
 * cursor_get(). */
int index_leaves(const struct snapshot *snapshot, const struct tree *tree, unsigned threads,
		 uint64_t **pages, size_t *n);

/* Counts n leaf pages into an empty part. With a shelf the part has weights, and the shelf keeps
 * pages as far as there is room. It keeps no page that leads to so many bytes that reading the page
 * again costs nothing. Returns as index_leaves(); call index_part_free() in any case. */
int index_count(const struct snapshot *snapshot, const struct tree *tree, unsigned threads,
		const uint64_t *pages, size_t n, struct page_shelf *shelf, struct index_part *part);
void index_part_free(struct index_part *part);

/* Makes an index of all parts, in order, which stay the caller's. Returns 0, ENOMEM, or
 * MDB_CORRUPTED if the sum is not what the tree says. */
int index_join(struct record_index **index, const struct tree *tree, const struct index_part *parts,
	       size_t n);

/* Makes the whole index in this process. The tree's record must have been read. Returns as
 * index_leaves() or index_join(). */
int index_build(struct record_index **index, const struct snapshot *snapshot,
		const struct tree *tree, unsigned threads);

/* Makes an index out of a container's record index, without reading the data. Returns as
 * index_join(), or ENOENT if the container has none of this database, or the database has
 * duplicates. */
int index_read(struct record_index **index, struct io *container, const struct tree *tree,
	       const MDB_val *name);

void index_free(struct record_index *index);

uint64_t index_records(const struct record_index *index);
/* Return how many leaves the index has, and one of them. A page with trees of duplicates in it
 * comes several times. */
size_t index_size(const struct record_index *index);
const struct index_leaf *index_leaf(const struct record_index *index, size_t number);

/* Finds the place of record `number`, in O(log(leaves)), without reading anything. Returns 0 or
 * MDB_NOTFOUND. Any thread. */
int index_find(const struct record_index *index, uint64_t number, struct index_place *place);

/* Returns the first leaf of the index that begins at or after a record, or index_size() if none
 * does. */
size_t index_leaf_from(const struct record_index *index, uint64_t number);

/* Gets the record at a place, with pointers as a cursor's. `key` or `data` may be NULL. Returns as
 * cursor_get(). */
int index_get(struct snapshot *snapshot, const struct tree *tree, const struct index_place *place,
	      MDB_val *key, MDB_val *data);

/* Works as index_get(), but with two views of the snapshot: one for the leaf, one for pages outside
 * of it. */
int index_get_apart(struct snapshot *leaves, struct snapshot *values, const struct tree *tree,
		    const struct index_place *place, MDB_val *key, MDB_val *data);

/* Finds where a record's value stands: *pages pages from page *number on; 0 pages: in its leaf.
 * EAGAIN: the leaf is not there, and the snapshot does not wait. Returns as cursor_get(). */
int index_run(struct snapshot *snapshot, const struct tree *tree, const struct index_place *place,
	      uint64_t *number, uint64_t *pages);

#endif
