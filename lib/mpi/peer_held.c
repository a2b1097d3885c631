/* SPDX-License-Identifier: OLDAP-2.8 */
/* Sums up a job's units, and finds which rank has a unit already because it has numbered its
 * records, and which rank of a node a unit's home is.
 *
 * The numbering of records reads the values inside leaf pages. So the rank that has counted a
 * unit's leaves, and kept them, is the unit's home, if there is room. */
#include "config.h"
#include "mpi/peer_private.h"

#include "mpi/mpi_error.h"
#include "mpi/mpi_wait.h"

#include <errno.h>
#include <stdlib.h>

enum { SUMS_AT_ONCE = 1 << 20 };

/* Spreads the bytes of a leaf's records evenly over the units that they are in. */
static void leaf_add(const struct placement_spec *spec, uint64_t first, uint64_t end,
		     const struct index_weight *weight, uint64_t *sums)
{
	uint64_t n = end - first;

	for (uint64_t next; first < end; first = next) {
		uint64_t unit = first / spec->unit_records;

		next = (unit + 1) * spec->unit_records;
		next = next < end ? next : end;
		sums[2 * unit] += weight->all * (next - first) / n;
		sums[2 * unit + 1] += weight->kept * (next - first) / n;
	}
}

/* Sums up two numbers a unit: bytes, and bytes on a shelf. Begins with what this rank has
 * counted. */
static int sums_make(const struct mpi_job *place, const struct index_kept *kept,
		     const struct placement_spec *spec, uint64_t units, uint64_t *sums)
{
	const struct index_part *part = &kept->part;
	uint64_t before = kept->firsts[place->place.rank];
	int rc = 0;

	for (size_t i = 0; i < part->count; i++) {
		uint64_t end = i + 1 < part->count ? part->leaves[i + 1].first : part->records;

		leaf_add(spec, before + part->leaves[i].first, before + end, &part->weights[i],
			 sums);
	}
	for (uint64_t at = 0; at < 2 * units && !rc; at += SUMS_AT_ONCE) {
		uint64_t n = 2 * units - at < SUMS_AT_ONCE ? 2 * units - at : SUMS_AT_ONCE;

		rc = mpi_error_code(mpi_allreduce(MPI_IN_PLACE, sums + at, (int)n, MPI_UINT64_T,
						  MPI_SUM, place->all));
	}
	return rc;
}

static uint64_t unit_records(const struct placement_spec *spec, uint64_t unit)
{
	uint64_t left = spec->order.spec.records - unit * spec->unit_records;

	return left < spec->unit_records ? left : spec->unit_records;
}

int peer_held_find(struct peer_held *held, const struct mpi_job *place,
		   const struct index_kept *kept, const struct placement_spec *spec)
{
	uint64_t units = placement_spec_units(spec), *sums;
	uint32_t rank = 0;
	int rc;

	if (!kept->firsts)
		return 0;
	sums = calloc(2 * units + 1, sizeof(*sums));
	held->bytes = malloc(units * sizeof(*held->bytes) + 1);
	held->ranks = malloc(units * sizeof(*held->ranks) + 1);
	held->nodes = malloc(units * sizeof(*held->nodes) + 1);
	rc = mpi_agree(place->all, sums && held->bytes && held->ranks && held->nodes ? 0 : ENOMEM,
		       NULL);
	if (!rc)
		rc = mpi_agree(place->all, sums_make(place, kept, spec, units, sums), NULL);
	for (uint64_t unit = 0; unit < units && !rc; unit++) {
		uint64_t n = unit_records(spec, unit), middle = unit * spec->unit_records + n / 2;

		while (kept->firsts[rank + 1] <= middle)
			rank++;
		held->bytes[unit] = sums[2 * unit] + n * PEER_RECORD_SPENT;
		held->ranks[unit] = sums[2 * unit + 1] ? rank : PEER_NOBODY;
		held->nodes[unit] =
			sums[2 * unit + 1] ? (uint16_t)spec->node_of_rank[rank] : PLACEMENT_NOBODY;
	}
	free(sums);
	return rc;
}

void peer_held_free(struct peer_held *held)
{
	free(held->bytes);
	free(held->ranks);
	free(held->nodes);
	*held = (struct peer_held){0};
}

uint64_t peer_held_bytes(const void *bytes, uint64_t unit)
{
	return ((const uint64_t *)bytes)[unit];
}

/* The state while homes are given, with the room that the ranks have left for homes. */
struct giving {
	struct peer_job *job;
	const struct placement_spec *spec;
	const struct stage_peers *peers;
	uint64_t *left; /* [rank * PLACES + place]; for memory, as much as a rank's store takes */
};

static int ranks_on(const struct giving *giving, uint32_t node)
{
	return giving->peers->first[node + 1] - giving->peers->first[node];
}

static uint64_t share(const struct giving *giving, uint32_t node, enum peer_place place)
{
	return giving->spec->room[(size_t)node * PLACES + place] / (uint64_t)ranks_on(giving, node);
}

static uint64_t *left_to(const struct giving *giving, uint32_t rank, enum peer_place place)
{
	return giving->left + (size_t)rank * PLACES + place;
}

/* Returns the rank of a node that has the most room left in a place. */
static uint32_t roomiest(const struct giving *giving, uint32_t node, uint64_t unit,
			 enum peer_place place)
{
	uint64_t count = (uint64_t)ranks_on(giving, node);
	int first = giving->peers->first[node];
	uint32_t best = PEER_NOBODY;

	for (uint64_t i = 0; i < count; i++) {
		uint32_t rank = (uint32_t)giving->peers->ranks[first + (int)((unit + i) % count)];

		if (best == PEER_NOBODY ||
		    *left_to(giving, rank, place) > *left_to(giving, best, place))
			best = rank;
	}
	return best;
}

/* The plan knows the node's room, of which each rank has its own part. Some ranks hold more records
 * already than their part of the node's memory: the rest goes to disk. Units that the plan has on
 * disk go into memory that is left in this way. */
static uint16_t home_give(const struct giving *giving, uint64_t unit,
			  const struct placement_holder *home, uint32_t holder)
{
	const struct placement_spec *spec = giving->spec;
	uint64_t bytes = spec->bytes_of ? spec->bytes_of(spec->context, unit) : spec->unit_bytes;
	uint64_t spare = home->tier == PLACE_MEMORY
				 ? 0
				 : peer_slack(share(giving, home->node, PLACE_MEMORY), spec);
	enum peer_place place = PLACE_MEMORY;
	uint32_t rank = holder;
	uint64_t *left;

	if (rank == PEER_NOBODY)
		rank = roomiest(giving, home->node, unit, place);
	if (*left_to(giving, rank, place) < bytes + spare) {
		if (share(giving, home->node, PLACE_DISK))
			place = PLACE_DISK;
		if (place == PLACE_MEMORY || holder == PEER_NOBODY)
			rank = roomiest(giving, home->node, unit, place);
	}
	giving->job->plan.homes[unit] = rank;
	left = left_to(giving, rank, place);
	*left -= *left < bytes ? *left : bytes;
	if (place == PLACE_DISK && rank == (uint32_t)giving->job->rank)
		peer_store_place_on_disk(&giving->job->store, unit);
	return (uint16_t)(home->node * PLACES + place);
}

/* Gives the homes that the plan has in a place. `holds`: of units that the node holds already, or
 * of the other units. */
static void homes_give(const struct giving *giving, const struct placement *plan,
		       const struct peer_held *held, enum peer_place place, bool holds,
		       uint16_t *homes)
{
	struct placement_holder home;

	for (uint64_t unit = 0; unit < giving->job->store.units; unit++) {
		bool is_held;

		if (!placement_home(plan, unit, &home) || home.tier != place)
			continue;
		is_held = held->nodes && held->nodes[unit] == home.node;
		if (is_held == holds)
			homes[unit] = home_give(giving, unit, &home,
						is_held ? held->ranks[unit] : PEER_NOBODY);
	}
}

int peer_homes_take(struct peer_job *job, const struct placement *plan,
		    const struct placement_spec *spec, const struct stage_peers *peers,
		    const struct peer_held *held, uint16_t *homes)
{
	struct giving giving = {.job = job, .spec = spec, .peers = peers};

	giving.left = malloc((size_t)job->ranks * PLACES * sizeof(*giving.left));
	if (!giving.left)
		return ENOMEM;
	for (uint32_t rank = 0; rank < (uint32_t)job->ranks; rank++) {
		uint32_t node = spec->node_of_rank[rank];
		uint64_t memory = share(&giving, node, PLACE_MEMORY);

		*left_to(&giving, rank, PLACE_MEMORY) = memory + peer_slack(memory, spec);
		*left_to(&giving, rank, PLACE_DISK) = share(&giving, node, PLACE_DISK);
	}
	for (uint64_t unit = 0; unit < job->store.units; unit++) {
		job->plan.homes[unit] = PEER_NOBODY;
		homes[unit] = PLACEMENT_NOBODY;
	}
	for (int place = PLACE_MEMORY; place < PLACES; place++)
		for (int holds = 1; holds >= 0; holds--)
			homes_give(&giving, plan, held, (enum peer_place)place, holds, homes);
	free(giving.left);
	return 0;
}
