/* SPDX-License-Identifier: OLDAP-2.8 */
/* Chooses the homes of units, in an order that is fair to all ranks.
 *
 * Nothing is sorted. A byte a unit says how often its best node reads it, and the search goes
 * through the units of one level after another. The readers of a unit follow from the inverse of
 * the order. So each unit is judged by itself, no list of an epoch is ever made, and threads may
 * share the units. */
#include "loader/placement_private.h"

#include "util/checked.h"
#include "util/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct placement_share {
	struct placement *plan;
	void (*work)(struct placement *plan, uint64_t first, uint64_t n, void *argument);
	void *argument;
	uint64_t first, n;
};

/* What the search for room on any node has learnt. Room only ever shrinks. */
struct spare_room {
	uint64_t too_much; /* bytes that no node has room for */
	uint32_t next;     /* the node to begin with */
};

static void share_run(void *shares, unsigned i)
{
	struct placement_share *share = (struct placement_share *)shares + i;

	share->work(share->plan, share->first, share->n, share->argument);
}

void placement_share_out(struct placement *plan,
			 void (*work)(struct placement *plan, uint64_t first, uint64_t n,
				      void *argument),
			 void *argument)
{
	enum { MOST = 64 };
	struct placement_share shares[MOST];
	unsigned n = plan->spec.threads < MOST ? plan->spec.threads : MOST;
	uint64_t first = 0;

	if (!n || plan->units < n)
		n = 1;
	for (unsigned i = 0; i < n; i++) {
		uint64_t end = plan->units / n * (i + 1) + (i + 1 == n ? plan->units % n : 0);

		shares[i] = (struct placement_share){
			.plan = plan,
			.work = work,
			.argument = argument,
			.first = first,
			.n = end - first,
		};
		first = end;
	}
	thread_share(n, "lmdbio-plan", share_run, shares);
}

uint64_t placement_spec_units(const struct placement_spec *spec)
{
	uint64_t records = spec->order.spec.records;

	return records / spec->unit_records + !!(records % spec->unit_records);
}

uint16_t placement_node(const struct placement *plan, uint64_t position)
{
	uint32_t rank = order_owner(&plan->spec.order, plan->spec.ranks, position);

	return plan->node_of_rank
		       ? (uint16_t)plan->node_of_rank[rank]
		       : (uint16_t)((uint64_t)rank * plan->spec.nodes / plan->spec.ranks);
}

static void find_readers(const struct placement *plan, uint64_t unit, uint16_t *readers)
{
	uint64_t first = unit * plan->spec.unit_records, position;

	for (uint32_t e = 0; e < plan->spec.epochs; e++)
		for (uint32_t i = 0; i < plan->spec.unit_records; i++) {
			position = first + i < plan->spec.order.spec.records
					   ? order_position(&plan->epochs[e], first + i)
					   : PLACEMENT_NEVER;
			*readers++ = position < plan->positions ? placement_node(plan, position)
								: PLACEMENT_NOBODY;
		}
}

const uint16_t *placement_readers(const struct placement *plan, uint64_t unit, uint16_t *room)
{
	if (plan->readers)
		return plan->readers + unit * plan->reads;
	find_readers(plan, unit, room);
	return room;
}

static int compare_words(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return left < right ? -1 : left > right;
}

/* Most lists are short: qsort() sorts the long lists. */
static void sort_words(uint32_t *words, unsigned n)
{
	enum { FEW = 32 };

	if (n > FEW) {
		qsort(words, n, sizeof(*words), compare_words);
		return;
	}
	for (unsigned i = 1; i < n; i++) {
		uint32_t word = words[i];
		unsigned j = i;

		for (; j && words[j - 1] > word; j--)
			words[j] = words[j - 1];
		words[j] = word;
	}
}

/* Finds a node's entry, its tally's index + 1, by open addressing in a table that is at most half
 * full. */
static uint16_t *find_tally(uint16_t *table, unsigned mask, const struct placement_tally *tallies,
			    uint16_t node)
{
	unsigned at = (node * 40503u >> 4) & mask;

	while (table[at] && tallies[table[at] - 1].node != node)
		at = (at + 1) & mask;
	return &table[at];
}

unsigned placement_tally(const struct placement *plan, const uint16_t *readers,
			 struct placement_tally *tallies)
{
	uint16_t table[2 * PLACEMENT_READS_MOST];
	uint32_t words[PLACEMENT_READS_MOST];
	struct placement_tally found[PLACEMENT_READS_MOST];
	unsigned mask = 15, n = 0;

	while (mask + 1 < 2 * plan->reads)
		mask = 2 * mask + 1;
	memset(table, 0, (mask + 1) * sizeof(*table));
	for (unsigned i = 0; i < plan->reads; i++) {
		uint16_t *at;

		if (readers[i] == PLACEMENT_NOBODY)
			continue;
		at = find_tally(table, mask, found, readers[i]);
		if (!*at) {
			found[n++] = (struct placement_tally){readers[i], 0, (uint16_t)i};
			*at = (uint16_t)n;
		}
		found[*at - 1].count++;
	}
	/* The tallies are in the order of their first reads. */
	for (unsigned i = 0; i < n; i++)
		words[i] = (uint32_t)(PLACEMENT_READS_MOST - found[i].count) << 16 | i;
	sort_words(words, n);
	for (unsigned i = 0; i < n; i++)
		tallies[i] = found[words[i] & 0xffff];
	return n;
}

static bool is_held(const struct placement *plan, uint64_t unit)
{
	return plan->held && plan->held[unit] < plan->spec.nodes;
}

/* Makes the first choice for each unit, as if all nodes had room. */
static void scan(struct placement *plan, uint64_t first, uint64_t n, void *unused)
{
	uint16_t room[PLACEMENT_READS_MOST];
	struct placement_tally tallies[PLACEMENT_READS_MOST];

	(void)unused;
	for (uint64_t unit = first; unit < first + n; unit++) {
		unsigned nodes;

		if (plan->readers)
			find_readers(plan, unit, plan->readers + unit * plan->reads);
		nodes = placement_tally(plan, placement_readers(plan, unit, room), tallies);
		plan->homes[unit] = is_held(plan, unit) ? plan->held[unit]
				    : nodes             ? tallies[0].node
							: PLACEMENT_NOBODY;
		plan->levels[unit] = nodes ? (uint8_t)placement_level(tallies[0].count) : 0;
	}
}

static bool take_room(struct placement *plan, uint64_t unit, uint32_t node, uint64_t bytes)
{
	uint64_t *room = plan->room + (size_t)node * plan->spec.tiers;

	for (unsigned tier = 0; tier < plan->spec.tiers; tier++)
		if (room[tier] >= bytes) {
			room[tier] -= bytes;
			plan->homes[unit] = (uint16_t)(node * plan->spec.tiers + tier);
			return true;
		}
	return false;
}

static bool take_any_room(struct placement *plan, uint64_t unit, uint64_t bytes,
			  struct spare_room *spare)
{
	if (bytes >= spare->too_much)
		return false;
	for (uint32_t i = 0; i < plan->spec.nodes; i++) {
		uint32_t node = spare->next++;

		if (spare->next == plan->spec.nodes)
			spare->next = 0;
		if (take_room(plan, unit, node, bytes))
			return true;
	}
	spare->too_much = bytes;
	return false;
}

static void settle_unit(struct placement *plan, uint64_t unit, struct spare_room *spare)
{
	uint16_t room[PLACEMENT_READS_MOST], best = plan->homes[unit];
	struct placement_tally tallies[PLACEMENT_READS_MOST];
	uint64_t bytes = placement_bytes(plan, unit);
	unsigned nodes = 0;

	if (best != PLACEMENT_NOBODY) {
		if (take_room(plan, unit, best, bytes))
			return;
		/* The unit must leave room for units that stay where they are. */
		if (is_held(plan, unit)) {
			plan->held[unit] = PLACEMENT_NOBODY;
			return;
		}
		/* If no node has room, the unit's other readers do not matter. */
		if (bytes < spare->too_much)
			nodes = placement_tally(plan, placement_readers(plan, unit, room), tallies);
	}
	for (unsigned i = 0; i < nodes; i++)
		if (tallies[i].node != best && take_room(plan, unit, tallies[i].node, bytes))
			return;
	if (!take_any_room(plan, unit, bytes, spare))
		plan->homes[unit] = PLACEMENT_NOBODY;
}

/* A home of an earlier plan stays: a home that moves is a record sent for nothing. */
static void settle_given(struct placement *plan)
{
	for (uint64_t unit = 0; unit < plan->units; unit++) {
		uint16_t place = plan->spec.homes[unit];
		uint64_t bytes = placement_bytes(plan, unit), *room;

		plan->homes[unit] = PLACEMENT_NOBODY;
		if (place >= plan->spec.nodes * plan->spec.tiers)
			continue;
		plan->homes[unit] = place;
		room = plan->room + place;
		*room -= *room < bytes ? *room : bytes;
	}
}

/* Whether an opportunistic order has the unit in memory for good. The order is made for such
 * units. */
static bool is_resident(const struct placement *plan, uint64_t unit)
{
	return plan->spec.order.spec.policy == ORDER_OPPORTUNISTIC &&
	       order_is_resident(&plan->epochs[0], unit * plan->spec.unit_records);
}

/* Settles the units of one kind, those with the most to gain first. */
static void settle_all(struct placement *plan, struct spare_room *spare, bool residents, bool held)
{
	uint64_t counts[PLACEMENT_LEVELS + 1] = {0};

	for (uint64_t unit = 0; unit < plan->units; unit++)
		counts[plan->levels[unit]] +=
			is_resident(plan, unit) == residents && is_held(plan, unit) == held;
	for (unsigned level = PLACEMENT_LEVELS + 1; level--;)
		for (uint64_t unit = 0; counts[level]; unit++)
			if (plan->levels[unit] == level && is_resident(plan, unit) == residents &&
			    is_held(plan, unit) == held) {
				counts[level]--;
				settle_unit(plan, unit, spare);
			}
}

static void settle(struct placement *plan)
{
	struct spare_room spare = {.too_much = UINT64_MAX};

	if (plan->spec.kind == PLACEMENT_PER_NODE) {
		memset(plan->homes, 0xff, plan->units * sizeof(*plan->homes));
		return;
	}
	if (plan->spec.homes) {
		settle_given(plan);
		return;
	}
	for (int residents = 1; residents >= 0; residents--)
		for (int held = plan->held != NULL; held >= 0; held--)
			settle_all(plan, &spare, residents, held);
}

static bool spec_makes_sense(const struct placement_spec *spec)
{
	uint64_t reads = (uint64_t)spec->epochs * spec->unit_records;

	if (!reads || reads > PLACEMENT_READS_MOST || !spec->ranks || !spec->nodes)
		return false;
	if (!spec->tiers || spec->tiers > PLACEMENT_TIERS_MOST ||
	    (uint64_t)spec->nodes * spec->tiers >= PLACEMENT_NOBODY)
		return false;
	for (uint32_t i = 0; spec->node_of_rank && i < spec->ranks; i++)
		if (spec->node_of_rank[i] >= spec->nodes)
			return false;
	return true;
}

/* Copies what the caller's spec points to, and makes the tables. */
static int placement_memory(struct placement *plan)
{
	const struct placement_spec *spec = &plan->spec;
	size_t places = (size_t)spec->nodes * spec->tiers, readers;
	uint64_t entries;

	plan->epochs = calloc(spec->epochs, sizeof(*plan->epochs));
	plan->room = malloc(places * sizeof(*plan->room));
	plan->cuts = calloc(places, sizeof(*plan->cuts));
	plan->homes = malloc(plan->units * sizeof(*plan->homes) + 1);
	plan->levels = malloc(plan->units + 1);
	if (spec->node_of_rank)
		plan->node_of_rank = malloc(spec->ranks * sizeof(*plan->node_of_rank));
	if (spec->held)
		plan->held = malloc(plan->units * sizeof(*plan->held) + 1);
	if (!plan->epochs || !plan->room || !plan->cuts || !plan->homes || !plan->levels ||
	    (spec->node_of_rank && !plan->node_of_rank) || (spec->held && !plan->held))
		return ENOMEM;
	if (spec->held)
		memcpy(plan->held, spec->held, plan->units * sizeof(*plan->held));
	memcpy(plan->room, spec->room, places * sizeof(*plan->room));
	if (spec->node_of_rank)
		memcpy(plan->node_of_rank, spec->node_of_rank,
		       spec->ranks * sizeof(*plan->node_of_rank));
	if (checked_multiply(plan->units, plan->reads, &entries) &&
	    entries <= spec->readers_memory / sizeof(*plan->readers)) {
		readers = (size_t)entries * sizeof(*plan->readers);
		plan->readers = malloc(readers + 1);
		if (!plan->readers)
			return ENOMEM;
	}
	return 0;
}

int placement_make(struct placement **made, const struct placement_spec *spec)
{
	const struct order_spec *order = &spec->order.spec;
	struct placement *plan;
	int rc;

	if (!spec_makes_sense(spec))
		return EINVAL;
	plan = calloc(1, sizeof(*plan));
	if (!plan)
		return ENOMEM;
	plan->spec = *spec;
	plan->reads = spec->epochs * spec->unit_records;
	plan->units = placement_spec_units(spec);
	plan->positions = order_batches(&spec->order) * order->batch;
	/* A copy for a single read would be fetched once and used once, which is no gain. NoPFS
	 * makes such copies, each read from storage. */
	plan->least = spec->kind == PLACEMENT_GLOBAL ? 2 : 1;
	rc = placement_memory(plan);
	if (rc)
		goto fail;
	for (uint32_t e = 0; e < spec->epochs; e++)
		order_begin(&plan->epochs[e], &plan->spec.order, spec->first_epoch + e);
	placement_share_out(plan, scan, NULL);
	settle(plan);
	rc = placement_copy(plan);
	if (rc)
		goto fail;
	free(plan->levels);
	free(plan->held);
	plan->levels = NULL;
	plan->held = NULL;
	plan->spec.homes = plan->spec.held = NULL;
	*made = plan;
	return 0;
fail:
	placement_free(plan);
	return rc;
}

void placement_free(struct placement *plan)
{
	if (!plan)
		return;
	free(plan->epochs);
	free(plan->room);
	free(plan->node_of_rank);
	free(plan->readers);
	free(plan->homes);
	free(plan->held);
	free(plan->levels);
	free(plan->cuts);
	free(plan);
}

/* --- when a unit is wanted again ---------------------------------------------------------------- */

/* The inverse of the order answers for one record and one epoch in constant time, so no list of the
 * future is kept. */
uint64_t placement_time(const struct placement *plan, uint64_t epoch, uint64_t position)
{
	return (epoch - plan->spec.first_epoch) * plan->positions + position;
}

/* Returns when `node`, or any node, next reads a record, not before `from`. */
static uint64_t record_next(const struct placement *plan, uint64_t record, uint16_t node,
			    uint64_t from)
{
	for (uint64_t e = from / plan->positions; e < plan->spec.epochs; e++) {
		uint64_t position = order_position(&plan->epochs[e], record);
		uint64_t time = e * plan->positions + position;

		if (position < plan->positions && time >= from &&
		    (node == PLACEMENT_NOBODY || placement_node(plan, position) == node))
			return time;
	}
	return PLACEMENT_NEVER;
}

uint64_t placement_next(const struct placement *plan, uint64_t unit, uint16_t node, uint64_t from)
{
	uint64_t record = unit * plan->spec.unit_records, next = PLACEMENT_NEVER;
	uint64_t records = plan->spec.order.spec.records;

	if (!plan->positions)
		return PLACEMENT_NEVER;
	for (uint32_t i = 0; i < plan->spec.unit_records && record + i < records; i++) {
		uint64_t time = record_next(plan, record + i, node, from);

		if (time < next)
			next = time;
	}
	return next;
}
