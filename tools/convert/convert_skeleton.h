/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the record index of a data file in one pass over its pages, in any order of its tree's
 * pages. */
#ifndef LMDBIO_TOOLS_CONVERT_SKELETON_H
#define LMDBIO_TOOLS_CONVERT_SKELETON_H

#include "format/layout.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct skeleton;

/* `leaves` and `pages` are two empty files, which the skeleton owns in any case. Memory: two
 * spills' buffers and two pages. The files hold 16 bytes a leaf page and all branch pages. Returns
 * 0 or ENOMEM. */
int skeleton_open(struct skeleton **skeleton, enum format format, uint32_t page_size, int leaves,
		  int pages);

/* Takes the next bytes of the data, from its beginning on. Returns 0 or an errno. */
int skeleton_feed(struct skeleton *skeleton, const void *bytes, size_t length);

/* Takes pieces of the data that other ranks have looked through, in order: leaf pages with their
 * records from skeleton_leaves(), and of the other pages those that an index copies
 * (container_select()). Returns 0 or an errno. */
struct skeleton_leaf {
	uint64_t page, records;
};
int skeleton_add_leaves(struct skeleton *skeleton, const struct skeleton_leaf *leaves,
			size_t length /* bytes */);
int skeleton_add_page(struct skeleton *skeleton, uint64_t number, const void *page);
/* Ends the pieces; the data has `pages` pages. */
void skeleton_end(struct skeleton *skeleton, uint64_t pages);

/* Finds the leaf pages in a piece of data, whole pages from `offset` on; room for length /
 * page_size. Returns their number. Any thread. */
size_t skeleton_leaves(enum format format, uint32_t page_size, const void *data, size_t length,
		       uint64_t offset, struct skeleton_leaf *leaves);

/* The receiver of the trees, and of their leaves in key order. Each function returns 0 or a code
 * that ends the walk. */
struct skeleton_listener {
	int (*tree)(void *to, const void *name, size_t name_size, uint16_t flags);
	int (*leaf)(void *to, uint64_t page, uint64_t records);
	void *to;
};

/* Walks all trees: the main one, then the named ones in key order. If they are not as in a sound
 * file, sets *damaged and returns 0; the listener then gets nothing. */
int skeleton_walk(struct skeleton *skeleton, const struct skeleton_listener *listener,
		  bool *damaged);

void skeleton_close(struct skeleton *skeleton); /* NULL does nothing */

#endif
