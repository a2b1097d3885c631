/* SPDX-License-Identifier: OLDAP-2.8 */
/* Plans where a job keeps its records.
 *
 * A plan says for every unit of the data set which node keeps it, and in which tier, over the
 * coming epochs. A unit is `unit_records` records in their own order: 1, or as many as make a page
 * run where records are small. A plan is a pure function of the spec: every rank that makes it has
 * the same plan, and nothing is sent. Two rules:
 *
 *   PLACEMENT_GLOBAL    First, each unit gets a home: the node that reads it most and has room, or
 *                       else any node with room. Residents of an opportunistic order go first, then
 *                       units that a node has already, which stay there, then units with the most
 *                       to gain. Of equal nodes, the first reader gets the unit. Then nodes that
 *                       read a unit twice or more get further copies in the room that is left, the
 *                       most frequent first. So every unit has a home if the nodes have room for
 *                       the data set and, unless units fill a node exactly, one unit a node more.
 *   PLACEMENT_PER_NODE  Each node keeps what it reads most, whatever other nodes keep: the plan of
 *                       NoPFS (Dryden et al., SC'21), to compare with. With the same room it leaves
 *                       a sixth to a third of the units without any copy.
 *
 * Each record is read once an epoch, so each kept record saves one read of storage an epoch. No
 * choice of records is better than another for storage, and a plan need not move. A choice only
 * decides how often the copy is on the reader's own node.
 *
 * The costs for F records in U units over E epochs:
 *
 *   time      placement_make() inverts the order F * E times, shared among `threads`: once if
 *             `readers_memory` holds F * E * 2 bytes, else twice. An inversion of a shuffle was
 *             measured at 160 ns: 1e8 records over 8 epochs take one core two minutes, or four.
 *   memory    2 U bytes (1e8 units: 200 MB; 1e8 records in units of 64: 3 MB), `readers_memory`,
 *             and while the plan is made another U bytes and PLACEMENT_COUNTS_MEMORY.
 *   question  E inversions for each record of the unit, or none with the readers in memory. */
#ifndef LMDBIO_LOADER_PLACEMENT_H
#define LMDBIO_LOADER_PLACEMENT_H

#include "loader/loader_order.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum placement_kind { PLACEMENT_GLOBAL, PLACEMENT_PER_NODE };

enum {
	PLACEMENT_TIERS_MOST = 4,
	PLACEMENT_READS_MOST = 4096, /* epochs * unit_records at most */
	PLACEMENT_COUNTS_MEMORY = 64 << 20,
};

#define PLACEMENT_NOBODY UINT16_MAX /* no node */
#define PLACEMENT_NEVER  UINT64_MAX /* no time */

struct placement_spec {
	struct order order;   /* ranks divide its batches among themselves as order_owner() says */
	uint64_t first_epoch; /* the first epoch that is planned for */
	uint32_t epochs;      /* how many epochs, 1 or more */
	uint32_t ranks, nodes;        /* 1 or more each */
	const uint32_t *node_of_rank; /* NULL: neighbours, as evenly as can be */
	const uint16_t *homes; /* [unit]: given places, node * tiers + tier, or PLACEMENT_NOBODY;
				  NULL: the plan chooses them. For epochs after those of another
				  plan. */
	const uint16_t *held;  /* [unit]: the node that has the unit already, and is its home if the
				  node has room; or PLACEMENT_NOBODY. NULL: no node has any. */
	unsigned tiers;        /* kinds of room on a node, the fastest first */
	const uint64_t *room;  /* bytes: [node * tiers + tier] */
	uint32_t unit_records; /* records in a unit, the last may have fewer */
	uint64_t unit_bytes;   /* of each unit, if bytes_of is NULL */
	/* The bytes of one unit. Called from `threads` threads. */
	uint64_t (*bytes_of)(const void *context, uint64_t unit);
	const void *context;
	size_t readers_memory; /* bytes that may be spent to remember the readers */
	unsigned threads;      /* threads that share the work; 0 is 1 */
	enum placement_kind kind;
};

struct placement;

struct placement_holder {
	uint16_t node;
	uint8_t tier;
};

/* Makes a plan. room, node_of_rank, homes and held are not needed afterwards, context is. Returns
 * 0; EINVAL (a number is 0 that must not be; too many epochs, tiers or nodes: nodes * tiers below
 * 65535); ENOMEM. */
int placement_make(struct placement **plan, const struct placement_spec *spec);
void placement_free(struct placement *plan);

/* All the following: any thread, constant plan. */

uint64_t placement_spec_units(const struct placement_spec *spec);
/* Returns the node that reads a position of any epoch. */
uint16_t placement_node(const struct placement *plan, uint64_t position);
/* Returns the readers of a unit: the node for each of the epochs * unit_records reads, epoch after
 * epoch, PLACEMENT_NOBODY where an epoch leaves a record out. `room` is PLACEMENT_READS_MOST long.
 * The list is valid as long as the plan and `room`. */
const uint16_t *placement_readers(const struct placement *plan, uint64_t unit, uint16_t *room);

/* Finds the unit's home. Returns false if it has none. Costs nothing. */
bool placement_home(const struct placement *plan, uint64_t unit, struct placement_holder *home);
/* Finds the unit's holders, the home first. Returns how many there are; writes at most `most`. */
unsigned placement_holders(const struct placement *plan, uint64_t unit,
			   struct placement_holder *holders, unsigned most);
/* Returns the tier in which a node keeps a unit, or -1. */
int placement_tier(const struct placement *plan, uint16_t node, uint64_t unit);

/* --- what comes next ------------------------------------------------------------------------- */

/* A time is a position counted through the planned epochs: placement_time() of the first is 0. */
uint64_t placement_time(const struct placement *plan, uint64_t epoch, uint64_t position);
/* Returns when a node (PLACEMENT_NOBODY: any node) next reads a unit, at `from` or later.
 * PLACEMENT_NEVER: not any more in the planned epochs. */
uint64_t placement_next(const struct placement *plan, uint64_t unit, uint16_t node, uint64_t from);

#endif
