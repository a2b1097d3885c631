/* SPDX-License-Identifier: OLDAP-2.8 */
/* Joins wanted bytes that lie close together in the file into one read. */
#ifndef LMDBIO_AHEAD_EXTENT_H
#define LMDBIO_AHEAD_EXTENT_H

#include "ahead/depth.h"

#include <stdbool.h>
#include <stdint.h>

/* Bytes of the file, from one offset to another. */
struct extent {
	uint64_t from, end;
};

/* What wants the bytes, and so what the bytes between two of its extents are worth. */
enum gap_of {
	GAP_RUN,    /* a run of records, which a job reads once as a whole */
	GAP_KEYS,   /* announced keys, in no order */
	GAP_STREAM, /* a walk over a tree, of which most of what lies between is a part */
	GAP_ROUND,  /* a round of the batch loader */
	GAP_SWEEP,  /* a sweep of the batch loader, which wants the bytes between soon */
	GAPS
};

/* Bytes between two extents that cost less to read than a further request does. */
uint64_t gap_bytes(enum gap_of want, const struct depth *depth);

/* Joins [from, end) to an extent before it or behind it if no more than `gap` bytes lie between and
 * both together are at most `most` bytes. Returns false if not; then the extent is as it was. */
static inline bool extent_join(struct extent *extent, uint64_t from, uint64_t end, uint64_t gap,
			       uint64_t most)
{
	struct extent both = {from < extent->from ? from : extent->from,
			      end > extent->end ? end : extent->end};

	if ((from > extent->end && from - extent->end > gap) ||
	    (extent->from > end && extent->from - end > gap) || both.end - both.from > most)
		return false;
	*extent = both;
	return true;
}

#endif
