/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what a plan remembers of its making. */
#ifndef LMDBIO_LOADER_PLAN_PRIVATE_H
#define LMDBIO_LOADER_PLAN_PRIVATE_H

#include "loader/loader_plan.h"

enum { PLAN_LEVELS = 255 }; /* a count of reads above this is taken for this */

struct plan {
	struct plan_spec spec;
	struct order_epoch *epochs; /* [spec.epochs] */
	uint64_t *room;             /* left: [node * tiers + tier] */
	uint32_t *node_of_rank;
	uint64_t units, positions; /* positions: of an epoch's batches */
	uint32_t reads;            /* epochs * unit_records */
	uint16_t *readers;         /* [units * reads], or NULL */
	uint16_t *homes;           /* node * tiers + tier, or PLAN_NOBODY */
	uint16_t *held;            /* while it is made: the spec's, less those that have no room
				      there; or NULL */
	uint8_t *levels;           /* while it is made: reads by the node that reads a unit most */
	uint16_t least;            /* reads from which on a further copy is worth its room */
	uint32_t buckets;          /* of equally frequent units, by hash */
	/* Further copies: node n keeps in tier t the units whose rank there, plan_rank(), is below
	 * cuts[n * tiers + t] and not below the tier's before it. */
	uint32_t *cuts;
};

/* What one node has to do with a unit. */
struct plan_tally {
	uint16_t node;
	uint16_t count; /* of reads */
	uint16_t first; /* index of the first of them */
};

/* The readers of a unit, most frequent first, among equals the earlier one. Returns how many
 * nodes. `tallies` is PLAN_READS_MOST long. */
unsigned plan_tally(const struct plan *plan, const uint16_t *readers, struct plan_tally *tallies);

/* Calls `work` for parts of all units, in the spec's threads. */
void plan_share_out(struct plan *plan,
		    void (*work)(struct plan *plan, uint64_t first, uint64_t n, void *argument),
		    void *argument);

/* Gives further copies the room that is left. Returns 0; ENOMEM. */
int plan_copy(struct plan *plan);

static inline uint64_t plan_bytes(const struct plan *plan, uint64_t unit)
{
	return plan->spec.bytes_of ? plan->spec.bytes_of(plan->spec.context, unit)
				   : plan->spec.unit_bytes;
}

static inline unsigned plan_level(unsigned count)
{
	return count < PLAN_LEVELS ? count : PLAN_LEVELS;
}

#endif
