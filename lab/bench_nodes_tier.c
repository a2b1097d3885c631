/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps the records of a policy's nodes, as a tier of the real loader. */
#include "bench_nodes.h"

#include "loader/loader_ready.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool tier_keeps(const struct nodes_tier *tier, uint64_t record)
{
	return ready_test(tier->area->kept[tier->node], record);
}

static bool nodes_has(void *state, uint64_t record)
{
	const struct nodes_tier *tier = state;
	bool has = !tier->filling && ready_test(tier->area->there, record) &&
		   (tier->job->policy->peers || tier->job->policy->memory_only ||
		    tier_keeps(tier, record));

	if (!has && tier->coming)
		(void)ready_set(tier->coming, record);
	return has;
}

static int nodes_fetch(void *state, uint64_t record, struct tier_record *to)
{
	struct nodes_tier *tier = state;
	const struct nodes_record *at = &tier->area->at[record];
	uint8_t *bytes = tier->area->bytes + at->offset;

	*to = (struct tier_record){.data = {at->data, bytes}, .key = {at->key, bytes + at->data}};
	atomic_fetch_add(tier_keeps(tier, record) ? &tier->area->own : &tier->area->peers,
			 at->data);
	/* The plan may give the node a copy of a record that it reads from its peers a second
	 * time. */
	if (tier->plan && !tier->job->policy->fills_itself &&
	    placement_tier(tier->plan, (uint16_t)tier->node, record) >= 0)
		ready_set(tier->area->kept[tier->node], record);
	return 0;
}

static bool take_room(_Atomic uint64_t *room, uint64_t bytes)
{
	uint64_t left = atomic_load(room);

	while (left >= bytes)
		if (atomic_compare_exchange_weak(room, &left, left - bytes))
			return true;
	return false;
}

/* Returns whether a node must keep a record that this node has read from storage. */
static bool is_wanted(struct nodes_tier *tier, uint64_t record, uint64_t bytes)
{
	const struct policy *policy = tier->job->policy;
	struct placement_holder home;

	if (policy->memory_only)
		return true;
	switch (policy->place) {
	case POLICY_SHARE:
	case POLICY_READ:
		for (unsigned i = 0; i < NODE_TIERS; i++)
			if (policy->tiers & (POLICY_MEMORY << i) &&
			    take_room(&tier->room[i], bytes)) {
				ready_set(tier->area->kept[tier->node], record);
				return true;
			}
		return false;
	case POLICY_FREQUENT:
	case POLICY_PLANNED:
		if (placement_tier(tier->plan, (uint16_t)tier->node, record) >= 0) {
			ready_set(tier->area->kept[tier->node], record);
			return true;
		}
		if (!placement_home(tier->plan, record, &home))
			return false;
		ready_set(tier->area->kept[home.node], record);
		return true;
	default:
		return false;
	}
}

uint64_t nodes_put(struct nodes_area *area, uint64_t record, const MDB_val *key,
		   const MDB_val *data)
{
	uint64_t bytes = key->mv_size + data->mv_size, offset;

	if (ready_set(area->claimed, record))
		return 0;
	offset = atomic_fetch_add(&area->used, (bytes + 63) / 64 * 64);
	if (offset + bytes > area->size)
		return 0;
	area->at[record] =
		(struct nodes_record){offset, (uint32_t)key->mv_size, (uint32_t)data->mv_size};
	memcpy(area->bytes + offset, data->mv_data, data->mv_size);
	memcpy(area->bytes + offset + data->mv_size, key->mv_data, key->mv_size);
	ready_set(area->there, record);
	return bytes;
}

static uint64_t nodes_offer(void *state, uint64_t record, const MDB_val *key, const MDB_val *data)
{
	struct nodes_tier *tier = state;

	if (tier_keeps(tier, record) || !is_wanted(tier, record, key->mv_size + data->mv_size))
		return 0;
	return nodes_put(tier->area, record, key, data);
}

static enum tier_state nodes_health(void *state)
{
	(void)state;
	return TIER_GOOD;
}

static void nodes_close(void *state)
{
	struct nodes_tier *tier = state;

	nodes_fill_end(tier);
	placement_free(tier->plan);
	tier->plan = NULL;
	free(tier->coming);
	tier->coming = NULL;
}

static const struct tier_ops nodes_ops = {
	.name = "nodes",
	.has = nodes_has,
	.fetch = nodes_fetch,
	.offer = nodes_offer,
	.health = nodes_health,
	.close = nodes_close,
};

int nodes_prepare(void *context, struct lmdbio_loader *loader, struct tiers *tiers,
		  struct order_spec *spec)
{
	struct nodes_tier *tier = context;
	const struct nodes_job *job = tier->job;
	enum policy_place place = job->policy->place;
	uint64_t room[NODES_MOST * NODE_TIERS];
	struct placement_spec plan = {
		.epochs = job->epochs,
		.ranks = job->nodes,
		.nodes = job->nodes,
		.tiers = NODE_TIERS,
		.room = room,
		.unit_records = 1,
		.readers_memory = 64 << 20,
		.kind = place == POLICY_PLANNED ? PLACEMENT_GLOBAL : PLACEMENT_PER_NODE,
	};
	int rc;

	(void)loader;
	if (job->policy->fills_itself) {
		tier->coming = calloc(ready_words(tier->area->records), sizeof(*tier->coming));
		if (!tier->coming)
			return ENOMEM;
	}
	if (!tier->filling && (place == POLICY_PLANNED || place == POLICY_FREQUENT)) {
		plan.unit_bytes = tier->area->unit;
		for (uint32_t i = 0; i < job->nodes * NODE_TIERS; i++)
			room[i] = job->room[i % NODE_TIERS];
		rc = order_init(&plan.order, spec);
		if (!rc)
			rc = placement_make(&tier->plan, &plan);
		if (rc)
			return rc;
	}
	return tier_add(tiers, &nodes_ops, tier, SOURCE_PEER);
}
