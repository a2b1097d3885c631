/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides how many reads are in flight at once, from their memory and the measured rate, and joins
 * wanted bytes that lie close together in the file into one read. */
#ifndef LMDBIO_AHEAD_READS_H
#define LMDBIO_AHEAD_READS_H

#include <stdbool.h>
#include <stdint.h>

/* Under its owner's lock. Begins as {.now = reads at once}. */
struct depth {
	unsigned now;     /* reads at once */
	uint64_t latency; /* nanoseconds of small reads, moving average; 0: not known */
	uint64_t rate;    /* bytes a second of all reads together, moving average; 0: not known */
	struct depth_trial {
		uint64_t bytes, since, last; /* `last`: the rate at the last change */
		unsigned reads;
		bool fewer; /* the last change was to fewer reads */
	} trial;
};

/* How many reads of `each` bytes fit into so much memory at once: from `least` to `most`. */
unsigned depth_fit(uint64_t memory, uint64_t each, unsigned least, unsigned most);

/* A read of so many bytes has taken so many nanoseconds until `now` (clock_now()). After some reads
 * at one depth, their rate decides the next depth; at most `most`. */
void depth_note(struct depth *depth, uint64_t bytes, uint64_t ns, uint64_t now, unsigned most);

/* No read is wanted now: the time until the next one tells nothing of storage. */
void depth_pause(struct depth *depth);

/* Bytes of the file, from one offset to another. */
struct extent {
	uint64_t from, end;
};

/* What wants the bytes, and so what the bytes between two of its extents are worth. */
enum gap_of {
	GAP_RUN,    /* a run of records, which a job reads once as a whole */
	GAP_KEYS,   /* announced keys, in no order */
	GAP_STREAM, /* a walk over a tree, to which most of the bytes between belong */
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
