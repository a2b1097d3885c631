/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which rank keeps what where not all ranks can. */
#include "placement_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void home_when_all_have_room_then_who_reads_it_most(void **state)
{
	enum { RECORDS = 500, NODES = 7 };
	struct made made = {.spec = {.epochs = 20}};
	unsigned *reads;

	(void)state;
	made_shuffled(&made, RECORDS, NODES, 1000 * RECORDS);
	reads = made_reads(&made);
	for (uint64_t unit = 0; unit < RECORDS; unit++) {
		struct placement_holder home;

		assert_true(placement_holders(made.plan, unit, &home, 1) >= 1);
		for (unsigned node = 0; node < NODES; node++) {
			unsigned count = reads[unit * NODES + node];

			assert_true(count <= reads[unit * NODES + home.node]);
			/* With room for all, who reads it twice has a copy; who reads it once none.
			 */
			if (node != home.node)
				assert_int_equal(placement_tier(made.plan, (uint16_t)node, unit) >=
							 0,
						 count >= 2);
		}
	}
	free(reads);
	placement_free(made.plan);
}

/* An opportunistic order counts on its residents being in memory. */
static void residents_when_room_is_for_them_alone_then_they_have_it(void **state)
{
	enum { RECORDS = 2000, NODES = 4, BLOCK = 20 };
	struct order_spec order = {
		.seed = 3,
		.records = RECORDS,
		.resident = RECORDS / 4,
		.batch = NODES * 5,
		.block = BLOCK,
		.buffer = 4,
		.policy = ORDER_OPPORTUNISTIC,
	};

	(void)state;
	for (uint32_t together = 1; together <= BLOCK; together *= 5) {
		struct made made = {.spec = {.epochs = 4,
					     .unit_records = together,
					     .unit_bytes = 1000 * together}};
		struct order_epoch at;
		uint64_t residents = 0;

		/* And a unit's room on each node, which units need not fill. */
		for (uint32_t i = 0; i < NODES; i++)
			made.room[i] = 1000 * (RECORDS / 4 / NODES + 2 * BLOCK);
		made_by(&made, &order, NODES);
		order_begin(&at, &made.spec.order, 0);
		for (uint64_t unit = 0; unit < placement_spec_units(&made.spec); unit++) {
			struct placement_holder home;

			if (!order_is_resident(&at, unit * together))
				continue;
			assert_true(placement_home(made.plan, unit, &home));
			residents += together;
		}
		assert_true(residents >= RECORDS / 5);
		placement_free(made.plan);
	}
}

/* The epochs after a plan's: homes stay, copies follow who reads now. */
static void homes_when_given_then_they_stay_and_copies_do_not(void **state)
{
	enum { RECORDS = 500, NODES = 5 };
	struct made first = {.spec = {.epochs = 8}};
	struct made later = {.spec = {.epochs = 8, .first_epoch = 8}};
	struct made_totals kept, moved;
	uint16_t homes[RECORDS];
	unsigned *reads, changed = 0;

	(void)state;
	made_shuffled(&first, RECORDS, NODES, 1000 * RECORDS / 2);
	for (uint64_t unit = 0; unit < RECORDS; unit++) {
		struct placement_holder home;

		assert_true(placement_home(first.plan, unit, &home));
		homes[unit] = home.node;
	}
	/* One that has no home gets none. */
	homes[7] = PLACEMENT_NOBODY;
	later.spec.homes = homes;
	made_shuffled(&later, RECORDS, NODES, 1000 * RECORDS / 2);
	memset(homes, 0, sizeof(homes));
	reads = made_reads(&later);
	for (uint64_t unit = 0; unit < RECORDS; unit++) {
		struct placement_holder home, before;

		assert_true(placement_home(first.plan, unit, &before));
		assert_int_equal(placement_home(later.plan, unit, &home), unit != 7);
		for (unsigned node = 0; unit != 7 && node < NODES; node++) {
			assert_int_equal(home.node, before.node);
			if (node == home.node)
				continue;
			if (placement_tier(later.plan, (uint16_t)node, unit) >= 0)
				assert_true(reads[unit * NODES + node] >= 2);
			changed += placement_tier(later.plan, (uint16_t)node, unit) !=
				   placement_tier(first.plan, (uint16_t)node, unit);
		}
	}
	assert_true(changed > RECORDS / 2);
	kept = made_total(&first);
	moved = made_total(&later);
	assert_in_range(moved.copies_bytes, kept.copies_bytes * 9 / 10,
			UINT64_C(1000) * RECORDS / 2 * NODES);
	free(reads);
	placement_free(first.plan);
	placement_free(later.plan);
}

/* Memory for a part of the homes, disks for the others: later plans count each against its own. */
static void homes_when_given_on_disk_then_they_leave_the_room_of_memory(void **state)
{
	enum { RECORDS = 400, NODES = 4, FIT = 30 };
	struct made made[2] = {{.spec = {.epochs = 8, .tiers = 2}},
			       {.spec = {.epochs = 8, .tiers = 2, .first_epoch = 8}}};
	struct order_spec order = {
		.seed = 5, .records = RECORDS, .batch = NODES * 4, .policy = ORDER_SHUFFLE};
	unsigned copies[2][2] = {{0}}, homes_in[2] = {0};
	uint16_t homes[RECORDS];

	(void)state;
	for (unsigned i = 0; i < 2 * NODES; i++) {
		made[0].room[i] = i % 2 ? 1000 * RECORDS / NODES : 1000 * FIT;
		/* As much more of memory as homes take there, and no disk. */
		made[1].room[i] = i % 2 ? 0 : 1000 * 2 * FIT;
	}
	made_by(&made[0], &order, NODES);
	for (uint64_t unit = 0; unit < RECORDS; unit++) {
		struct placement_holder home;

		assert_true(placement_home(made[0].plan, unit, &home));
		homes[unit] = (uint16_t)(home.node * 2 + home.tier);
		homes_in[home.tier]++;
	}
	assert_int_equal(homes_in[0], NODES * FIT);
	made[1].spec.homes = homes;
	made_by(&made[1], &order, NODES);
	for (unsigned i = 0; i < 2; i++)
		for (uint64_t unit = 0; unit < RECORDS; unit++) {
			struct placement_holder holders[NODES];
			unsigned n = placement_holders(made[i].plan, unit, holders, NODES);

			assert_int_equal(holders[0].node * 2 + holders[0].tier, homes[unit]);
			while (--n)
				copies[i][holders[n].tier]++;
		}
	assert_int_equal(copies[0][0], 0);
	/* Units of a bucket that does not fit as a whole stay out. */
	assert_in_range(copies[1][0], NODES * FIT * 4 / 5, NODES * FIT);
	assert_int_equal(copies[1][1], 0);
	placement_free(made[0].plan);
	placement_free(made[1].plan);
}

/* What somebody has read already is not to be read by another one, as long as it has room. */
static void homes_when_a_node_has_them_already_then_there_as_far_as_it_has_room(void **state)
{
	enum { RECORDS = 500, NODES = 5, FIT = 100 };
	struct made made = {.spec = {.epochs = 8}};
	uint16_t held[RECORDS];
	unsigned kept[NODES] = {0}, all[NODES] = {0};
	struct placement_holder home;

	(void)state;
	/* All of the first half with two nodes, which have room for half of that. */
	for (uint64_t unit = 0; unit < RECORDS; unit++)
		held[unit] = unit < RECORDS / 2 ? (uint16_t)(3 + unit % 2) : PLACEMENT_NOBODY;
	made.spec.held = held;
	made_shuffled(&made, RECORDS, NODES, 1000 * FIT);
	for (uint64_t unit = 0; unit < RECORDS; unit++) {
		assert_true(placement_home(made.plan, unit, &home));
		all[home.node]++;
		kept[home.node] += held[unit] == home.node;
	}
	for (unsigned node = 0; node < NODES; node++)
		assert_int_equal(all[node], FIT);
	assert_int_equal(kept[3], FIT);
	assert_int_equal(kept[4], FIT);
	placement_free(made.plan);
}

static void home_when_all_read_it_once_then_who_reads_first(void **state)
{
	enum { RECORDS = 64, NODES = 64 };
	struct made made = {.spec = {.epochs = 3, .readers_memory = 1 << 20}};
	uint16_t room[PLACEMENT_READS_MOST];

	(void)state;
	made_shuffled(&made, RECORDS, NODES, 1000 * RECORDS);
	for (uint64_t unit = 0; unit < RECORDS; unit++) {
		const uint16_t *readers = placement_readers(made.plan, unit, room);
		struct placement_holder home;

		if (readers[0] == readers[1] || readers[0] == readers[2] ||
		    readers[1] == readers[2])
			continue;
		assert_int_equal(placement_holders(made.plan, unit, &home, 1), 1);
		assert_int_equal(home.node, readers[0]);
	}
	placement_free(made.plan);
}

static void room_when_ranks_share_nodes_then_counted_a_node(void **state)
{
	enum { RECORDS = 400, NODES = 2 };
	static const uint32_t crossed[8] = {0, 1, 0, 1, 0, 1, 0, 1};
	struct made made = {.spec = {.epochs = 4, .ranks = 8, .node_of_rank = crossed}};
	struct made_totals totals;

	(void)state;
	made_shuffled(&made, RECORDS, NODES, 1000 * RECORDS / NODES);
	for (uint32_t position = 0; position < 8; position++)
		assert_int_equal(placement_node(made.plan, position), position % 2);
	totals = made_total(&made);
	assert_true(totals.kept == RECORDS && totals.copies == RECORDS);
	assert_true(totals.local > totals.reads / 2);
	placement_free(made.plan);
}

static void tiers_when_the_fast_one_is_small_then_the_most_read_are_in_it(void **state)
{
	enum { RECORDS = 600, NODES = 3 };
	struct made made = {.spec = {.epochs = 30, .tiers = 2}};
	uint64_t reads[2] = {0}, units[2] = {0};
	unsigned *counts;

	(void)state;
	for (unsigned i = 0; i < NODES; i++) {
		made.room[2 * i] = 1000 * 50;
		made.room[2 * i + 1] = 1000 * 150;
	}
	made_by(&made,
		&(struct order_spec){.records = RECORDS, .batch = 12, .policy = ORDER_SHUFFLE},
		NODES);
	counts = made_reads(&made);
	for (uint64_t unit = 0; unit < RECORDS; unit++) {
		struct placement_holder home;

		assert_int_equal(placement_holders(made.plan, unit, &home, 1), 1);
		units[home.tier]++;
		reads[home.tier] += counts[unit * NODES + home.node];
	}
	assert_int_equal(units[0], 150);
	assert_true(reads[0] * units[1] > reads[1] * units[0]);
	free(counts);
	placement_free(made.plan);
}

static void unread_when_room_is_short_then_last(void **state)
{
	enum { RECORDS = 103, NODES = 2 };
	/* The last 3 records of the sequence are dropped in each epoch. */
	struct order_spec order = {.records = RECORDS, .batch = 10, .tail = ORDER_DROP};
	struct made made = {.spec = {.epochs = 2}, .room = {50000, 51000}};
	struct placement_holder home;

	(void)state;
	made_by(&made, &order, NODES);
	for (uint64_t unit = 0; unit < 100; unit++)
		assert_int_equal(placement_holders(made.plan, unit, &home, 1), 1);
	assert_int_equal(placement_holders(made.plan, 100, &home, 1), 1);
	assert_int_equal(placement_holders(made.plan, 101, &home, 1), 0);
	assert_true(placement_next(made.plan, 100, PLACEMENT_NOBODY, 0) == PLACEMENT_NEVER);
	placement_free(made.plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(home_when_all_have_room_then_who_reads_it_most),
		cmocka_unit_test(residents_when_room_is_for_them_alone_then_they_have_it),
		cmocka_unit_test(homes_when_given_then_they_stay_and_copies_do_not),
		cmocka_unit_test(homes_when_given_on_disk_then_they_leave_the_room_of_memory),
		cmocka_unit_test(
			homes_when_a_node_has_them_already_then_there_as_far_as_it_has_room),
		cmocka_unit_test(home_when_all_read_it_once_then_who_reads_first),
		cmocka_unit_test(room_when_ranks_share_nodes_then_counted_a_node),
		cmocka_unit_test(tiers_when_the_fast_one_is_small_then_the_most_read_are_in_it),
		cmocka_unit_test(unread_when_room_is_short_then_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
