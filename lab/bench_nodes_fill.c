/* SPDX-License-Identifier: OLDAP-2.8 */
/* Fills a node's memory beside the training, for a policy that plans for itself. As in NoPFS, each
 * copy is read from storage, in the order of first use. */
#include "bench_nodes.h"

#include "loader/loader_ready.h"

#include <errno.h>
#include <stdlib.h>

struct filling {
	struct nodes_tier *tier;
	unsigned number; /* of the node's tier */
};

struct use {
	uint64_t time, record;
};

static int by_time(const void *a, const void *b)
{
	const struct use *x = a, *y = b;

	return (x->time > y->time) - (x->time < y->time);
}

static void take(void *context, uint64_t record, int error, const MDB_val *key, const MDB_val *data)
{
	struct nodes_tier *tier = context;

	if (error)
		return;
	(void)nodes_put(tier->area, record, key, data);
	ready_set(tier->area->kept[tier->node], record);
}

/* Finds the plan's records for a tier of this node, by first use. Returns how many. */
static uint64_t uses_find(const struct nodes_tier *tier, unsigned number, struct use *uses)
{
	uint64_t n = 0;

	for (uint64_t record = 0; record < tier->area->records; record++)
		if (placement_tier(tier->plan, (uint16_t)tier->node, record) == (int)number)
			uses[n++] = (struct use){
				placement_next(tier->plan, record, (uint16_t)tier->node, 0),
				record};
	qsort(uses, n, sizeof(*uses), by_time);
	return n;
}

static void *filler_run(void *argument)
{
	static const _Atomic int haste = RUN_LATER;
	struct filling filling = *(struct filling *)argument;
	struct nodes_tier *tier = filling.tier;
	struct use *uses = calloc(tier->area->records + 1, sizeof(*uses));
	uint64_t n = uses ? uses_find(tier, filling.number, uses) : 0;

	free(argument);
	for (uint64_t i = 0; i < n; i++) {
		/* The training brings these records itself, and the node keeps them. */
		if (ready_test(tier->area->kept[tier->node], uses[i].record) ||
		    ready_test(tier->coming, uses[i].record))
			continue;
		if (loader_run(tier->loader, uses[i].record, 1, &haste, take, tier))
			break;
	}
	free(uses);
	return NULL;
}

int nodes_fill_begin(struct nodes_tier *tier, struct lmdbio_loader *loader)
{
	int rc = 0;

	tier->loader = loader;
	for (unsigned i = 0; i < NODE_TIERS && !rc; i++) {
		struct filling *filling;

		if (!(tier->job->policy->tiers & (POLICY_MEMORY << i)) || !tier->job->room[i])
			continue;
		filling = malloc(sizeof(*filling));
		if (!filling)
			return ENOMEM;
		*filling = (struct filling){tier, i};
		rc = pthread_create(&tier->filler[tier->fillers], NULL, filler_run, filling);
		if (rc)
			free(filling);
		else
			tier->fillers++;
	}
	return rc;
}

void nodes_fill_end(struct nodes_tier *tier)
{
	for (unsigned i = 0; i < tier->fillers; i++)
		pthread_join(tier->filler[i], NULL);
	tier->fillers = 0;
}
