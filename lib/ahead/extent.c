/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells how many bytes between two extents are worth reading to save a request. */
#include "ahead/extent.h"

#include "util/clock.h"

/* A request more costs its share of the latency, with the others in flight; bytes more cost their
 * time. What storage was seen to do decides between `least` and `most`. */
static const struct gap_rule {
	uint64_t least, most; /* bytes */
	uint64_t unmeasured;  /* as long as nothing is known of storage */
} rules[GAPS] = {
	/* What lies between belongs to another run, and pages of the tree were read before. */
	[GAP_RUN] = {0, 0, 0},
	/* A page at most: nothing between is likely to be wanted. */
	[GAP_KEYS] = {4 << 10, 4 << 10, 4 << 10},
	/* The same in each run of a program, so that requests can be counted. */
	[GAP_STREAM] = {32 << 10, 32 << 10, 32 << 10},
	[GAP_ROUND] = {8 << 10, 128 << 10, 64 << 10},
	/* All gaps of a way around the file are together less than the file. */
	[GAP_SWEEP] = {32 << 10, 128 << 10, 64 << 10},
};

uint64_t gap_bytes(enum gap_of want, const struct depth *depth)
{
	const struct gap_rule *rule = &rules[want];
	uint64_t gap;

	if (!depth || !depth->latency || !depth->rate)
		return rule->unmeasured;
	gap = (uint64_t)((unsigned __int128)depth->latency * depth->rate / CLOCK_SECOND) /
	      depth->now;
	return gap < rule->least ? rule->least : gap > rule->most ? rule->most : gap;
}
