/* SPDX-License-Identifier: OLDAP-2.8 */
/* Orders the nodes in a run of units. */
#include "config.h"
#include "mpi/chunk_spread.h"

#include "arena/arena.h"
#include "util/checked.h"

uint64_t chunk_spread_place(uint64_t inode, int64_t mtime_ns)
{
	return mix64(mix64(inode) ^ (uint64_t)mtime_ns);
}

uint64_t chunk_spread_unit(uint64_t piece)
{
	return piece > ARENA_CHUNK ? piece : ARENA_CHUNK;
}

/* By how many places the order of the nodes is turned in a run. */
static uint64_t turn_of(const struct chunk_spread *spread, uint64_t run)
{
	return mix64(spread->place ^ run) % (uint64_t)spread->nodes;
}

int chunk_spread_owner(const struct chunk_spread *spread, uint64_t offset)
{
	uint64_t nodes = (uint64_t)spread->nodes, unit = offset / spread->unit;

	return (int)((unit % nodes + turn_of(spread, unit / nodes)) % nodes);
}

/* The stand-ins follow the owner, and begin with another node in each run. */
struct chunk_order chunk_spread_order(const struct chunk_spread *spread, uint64_t offset)
{
	uint64_t nodes = (uint64_t)spread->nodes, run = offset / spread->unit / nodes;

	return (struct chunk_order){.owner = chunk_spread_owner(spread, offset),
				    .first = nodes > 1 ? (unsigned)(run % (nodes - 1)) : 0};
}

/* Divides nothing, because the server calls this for each waiting chunk, again and again. */
int chunk_spread_turn(const struct chunk_spread *spread, struct chunk_order order, unsigned turn)
{
	unsigned nodes = (unsigned)spread->nodes, others = nodes - 1, behind, node;

	if (!turn)
		return order.owner;
	behind = order.first + turn - 1;
	behind -= behind < others ? 0 : others;
	node = (unsigned)order.owner + 1 + behind;
	return (int)(node < nodes ? node : node - nodes);
}

/* The offset of a node's unit in a run. It may lie behind the data's end. */
static uint64_t place_in_run(const struct chunk_spread *spread, int node, uint64_t run)
{
	uint64_t nodes = (uint64_t)spread->nodes;

	return (run * nodes + ((uint64_t)node + nodes - turn_of(spread, run)) % nodes) * spread->unit;
}

uint64_t chunk_spread_bytes(const struct chunk_spread *spread, int node)
{
	uint64_t row = spread->unit * (uint64_t)spread->nodes, whole = spread->size / row;
	uint64_t last = place_in_run(spread, node, whole), bytes = whole * spread->unit;

	if (last >= spread->size)
		return bytes;
	return bytes + (spread->size - last < spread->unit ? spread->size - last : spread->unit);
}

uint64_t chunk_spread_offset(const struct chunk_spread *spread, int node, uint64_t at)
{
	return place_in_run(spread, node, at / spread->unit) + at % spread->unit;
}
