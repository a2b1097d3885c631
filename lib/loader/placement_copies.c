/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds a unit's further copies without a list of them.
 *
 * A node ranks the units that it may want a copy of by how often it reads them and, among equals,
 * by a hash of unit and node. It keeps a range of ranks in a tier, which two numbers describe, on
 * every other node too. Adding up bytes by rank gives the bounds. A rank holds the units of one
 * level that share a bucket of the hash, so up to one bucket's bytes stay unused at the end of a
 * tier. `buckets` is as large as PLACEMENT_COUNTS_MEMORY allows. */
#include "loader/placement_private.h"

#include <errno.h>
#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { BUCKETS_MOST = 4096 };

struct counting {
	uint64_t *bytes;   /* [node][rank - first] */
	uint32_t first, n; /* ranks */
};

/* Returns the rank of a unit among the units that a node may want a copy of; the least comes
 * first. */
static uint32_t placement_rank(const struct placement *plan, uint64_t unit, uint16_t node,
			       unsigned count)
{
	uint64_t key[2] = {unit, node};
	uint64_t hash = XXH3_64bits_withSeed(key, sizeof(key), plan->spec.order.spec.seed);

	return (PLACEMENT_LEVELS - placement_level(count)) * plan->buckets +
	       (uint32_t)((hash >> 32) * plan->buckets >> 32);
}

/* Returns the node of a unit's home, or PLACEMENT_NOBODY. */
static uint16_t home_node(const struct placement *plan, uint64_t unit)
{
	uint16_t home = plan->homes[unit];

	return home == PLACEMENT_NOBODY ? home : (uint16_t)(home / plan->spec.tiers);
}

static void count_bytes(struct placement *plan, uint64_t first, uint64_t n, void *argument)
{
	uint16_t room[PLACEMENT_READS_MOST];
	struct placement_tally tallies[PLACEMENT_READS_MOST];
	struct counting *counting = argument;

	for (uint64_t unit = first; unit < first + n; unit++) {
		uint64_t bytes = placement_bytes(plan, unit);
		unsigned nodes;

		if (plan->levels[unit] < plan->least)
			continue;
		nodes = placement_tally(plan, placement_readers(plan, unit, room), tallies);
		for (unsigned i = 0; i < nodes && tallies[i].count >= plan->least; i++) {
			uint32_t rank =
				placement_rank(plan, unit, tallies[i].node, tallies[i].count);
			size_t at = (size_t)tallies[i].node * counting->n + rank - counting->first;

			if (tallies[i].node != home_node(plan, unit))
				__atomic_fetch_add(&counting->bytes[at], bytes, __ATOMIC_RELAXED);
		}
	}
}

/* The first rank that does not fit into a tier closes it, as in NoPFS. */
static void cut(struct placement *plan, const struct counting *counting, uint32_t node)
{
	const uint64_t *bytes = counting->bytes + (size_t)node * counting->n;
	size_t base = (size_t)node * plan->spec.tiers;
	unsigned tier = 0;

	for (uint32_t i = 0; i < counting->n && tier < plan->spec.tiers; i++) {
		while (tier < plan->spec.tiers && bytes[i] > plan->room[base + tier])
			plan->cuts[base + tier++] = counting->first + i;
		if (tier < plan->spec.tiers)
			plan->room[base + tier] -= bytes[i];
	}
	for (; tier < plan->spec.tiers; tier++)
		plan->cuts[base + tier] = counting->first + counting->n;
}

int placement_copy(struct placement *plan)
{
	struct counting counting = {0};
	unsigned most = 0, levels;

	for (uint64_t unit = 0; unit < plan->units; unit++)
		if (plan->levels[unit] > most)
			most = plan->levels[unit];
	if (most < plan->least)
		return 0;
	levels = most - plan->least + 1u;
	plan->buckets = (uint32_t)(PLACEMENT_COUNTS_MEMORY /
				   ((uint64_t)plan->spec.nodes * levels * sizeof(*counting.bytes)));
	if (!plan->buckets)
		plan->buckets = 1;
	if (plan->buckets > BUCKETS_MOST)
		plan->buckets = BUCKETS_MOST;
	counting.first = (PLACEMENT_LEVELS - most) * plan->buckets;
	counting.n = levels * plan->buckets;
	counting.bytes = calloc((size_t)plan->spec.nodes * counting.n, sizeof(*counting.bytes));
	if (!counting.bytes)
		return ENOMEM;
	placement_share_out(plan, count_bytes, &counting);
	for (uint32_t node = 0; node < plan->spec.nodes; node++)
		cut(plan, &counting, node);
	free(counting.bytes);
	return 0;
}

/* Returns the tier of a further copy at a node that reads the unit `count` times, or -1. */
static int copy_tier(const struct placement *plan, uint64_t unit, uint16_t node, unsigned count)
{
	const uint32_t *cuts = plan->cuts + (size_t)node * plan->spec.tiers;
	uint32_t rank;

	if (count < plan->least)
		return -1;
	rank = placement_rank(plan, unit, node, count);
	for (unsigned tier = 0; tier < plan->spec.tiers; tier++)
		if (rank < cuts[tier])
			return (int)tier;
	return -1;
}

bool placement_home(const struct placement *plan, uint64_t unit, struct placement_holder *home)
{
	uint16_t place = plan->homes[unit];

	if (place == PLACEMENT_NOBODY)
		return false;
	home->node = (uint16_t)(place / plan->spec.tiers);
	home->tier = (uint8_t)(place % plan->spec.tiers);
	return true;
}

unsigned placement_holders(const struct placement *plan, uint64_t unit,
			   struct placement_holder *holders, unsigned most)
{
	uint16_t room[PLACEMENT_READS_MOST];
	struct placement_tally tallies[PLACEMENT_READS_MOST];
	unsigned nodes = placement_tally(plan, placement_readers(plan, unit, room), tallies), n = 0;
	struct placement_holder home = {.node = PLACEMENT_NOBODY};

	if (placement_home(plan, unit, &home)) {
		if (n < most)
			holders[n] = home;
		n++;
	}
	for (unsigned i = 0; i < nodes; i++) {
		int tier = -1;

		if (tallies[i].node != home.node)
			tier = copy_tier(plan, unit, tallies[i].node, tallies[i].count);
		if (tier < 0)
			continue;
		if (n < most)
			holders[n] = (struct placement_holder){tallies[i].node, (uint8_t)tier};
		n++;
	}
	return n;
}

int placement_tier(const struct placement *plan, uint16_t node, uint64_t unit)
{
	uint16_t room[PLACEMENT_READS_MOST];
	const uint16_t *readers;
	unsigned count = 0;

	if (home_node(plan, unit) == node)
		return (int)(plan->homes[unit] % plan->spec.tiers);
	readers = placement_readers(plan, unit, room);
	for (uint32_t i = 0; i < plan->reads; i++)
		count += readers[i] == node;
	return copy_tier(plan, unit, node, count);
}
