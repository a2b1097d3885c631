/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what a plan remembers of its making. */
#ifndef LMDBIO_LOADER_PLACEMENT_PRIVATE_H
#define LMDBIO_LOADER_PLACEMENT_PRIVATE_H

#include "loader/placement.h"

enum { PLACEMENT_LEVELS = 255 }; /* higher counts of reads are taken for this */

struct placement {
	struct placement_spec spec;
	struct order_epoch *epochs; /* [spec.epochs] */
	uint64_t *room;             /* bytes left: [node * tiers + tier] */
	uint32_t *node_of_rank;
	uint64_t units, positions; /* positions: in an epoch's batches */
	uint32_t reads;            /* epochs * unit_records */
	uint16_t *readers;         /* [units * reads], or NULL */
	uint16_t *homes;           /* node * tiers + tier, or PLACEMENT_NOBODY */
	uint16_t *held;            /* while it is made: the spec's, without units that have no room
				      there; or NULL */
	uint8_t *levels;           /* while it is made: reads by the node that reads a unit most */
	uint16_t least;            /* reads from which on a further copy is worth its room */
	uint32_t buckets;          /* of equally frequent units, by hash */
	/* Further copies: node n keeps in tier t the units whose rank there, placement_rank(), is
	 * below cuts[n * tiers + t] and not below the cut of the tier before. */
	uint32_t *cuts;
};

/* How often one node reads a unit. */
struct placement_tally {
	uint16_t node;
	uint16_t count; /* of reads */
	uint16_t first; /* index of the first read */
};

/* Sorts the readers of a unit: the most frequent first, of equals the earlier. Returns how many
 * nodes there are. `tallies` is PLACEMENT_READS_MOST long. */
unsigned placement_tally(const struct placement *plan, const uint16_t *readers,
			 struct placement_tally *tallies);

/* Calls `work` for parts of all units, in the spec's threads. */
void placement_share_out(struct placement *plan,
			 void (*work)(struct placement *plan, uint64_t first, uint64_t n,
				      void *argument),
			 void *argument);

/* Gives further copies the room that is left. Returns 0 or ENOMEM. */
int placement_copy(struct placement *plan);

static inline uint64_t placement_bytes(const struct placement *plan, uint64_t unit)
{
	return plan->spec.bytes_of ? plan->spec.bytes_of(plan->spec.context, unit)
				   : plan->spec.unit_bytes;
}

static inline unsigned placement_level(unsigned count)
{
	return count < PLACEMENT_LEVELS ? count : PLACEMENT_LEVELS;
}

#endif
