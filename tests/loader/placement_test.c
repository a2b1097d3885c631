/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what makes a placement right: every unit kept where there is room for
 * all, no node over its room, the same plan however it is made, and the future as it will be. */
#include "placement_fixture.h"

#include "loader/placement_private.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROUNDS = 60 };

/* A small generator of cases; the plan itself is drawn by nothing of it. */
static uint64_t random_below(uint64_t *state, uint64_t n)
{
	return permute_draw(n, 97, (*state)++, 0);
}

static uint64_t odd_bytes(const void *context, uint64_t unit)
{
	const uint64_t *seed = context;

	return 500 + permute_draw(1000, *seed, unit, 1);
}

static const uint64_t odd_seed = 3;

/* --- coverage: the figures of the literature, and ours ---------------------------------------- */

static double coverage(enum placement_kind kind, uint32_t nodes, double *local)
{
	enum { RECORDS = 6400 };
	struct made made = {.spec = {.epochs = 90, .kind = kind, .readers_memory = 4 << 20}};
	struct made_totals totals;

	made_shuffled(&made, RECORDS, nodes, UINT64_C(1000) * RECORDS / nodes);
	totals = made_total(&made);
	assert_true(totals.units == RECORDS);
	assert_true(totals.reads == 90 * RECORDS);
	placement_free(made.plan);
	*local = (double)totals.local / (double)totals.reads;
	return (double)totals.kept / (double)totals.units;
}

static void global_when_room_is_the_data_set_then_every_unit_is_kept(void **state)
{
	double local;

	(void)state;
	assert_true(coverage(PLACEMENT_GLOBAL, 4, &local) == 1);
	assert_true(local > 0.30 && local < 0.31);
	assert_true(coverage(PLACEMENT_GLOBAL, 16, &local) == 1);
	assert_true(local > 0.11 && local < 0.12);
	assert_true(coverage(PLACEMENT_GLOBAL, 64, &local) == 1);
	assert_true(local > 0.05 && local < 0.06);
}

static void per_node_when_room_is_the_data_set_then_a_sixth_to_a_third_is_lost(void **state)
{
	double local, kept;

	(void)state;
	kept = coverage(PLACEMENT_PER_NODE, 4, &local);
	assert_true(kept > 0.81 && kept < 0.84);
	assert_true(local > 0.30 && local < 0.32);
	kept = coverage(PLACEMENT_PER_NODE, 16, &local);
	assert_true(kept > 0.69 && kept < 0.72);
	kept = coverage(PLACEMENT_PER_NODE, 64, &local);
	assert_true(kept > 0.65 && kept < 0.68);
}

static void
global_when_sizes_differ_and_a_unit_a_node_is_spare_then_every_unit_is_kept(void **state)
{
	enum { RECORDS = 2000 };
	struct made_totals totals;
	uint64_t bytes = 0;

	(void)state;
	for (uint64_t unit = 0; unit < RECORDS; unit++)
		bytes += odd_bytes(&odd_seed, unit);
	for (uint32_t nodes = 1; nodes <= NODES_MOST; nodes = nodes * 3 + 1) {
		struct made made = {
			.spec = {.epochs = 6, .bytes_of = odd_bytes, .context = &odd_seed}};

		made_shuffled(&made, RECORDS, nodes, bytes / nodes + 1 + 1500);
		totals = made_total(&made);
		assert_true(totals.bytes == bytes);
		assert_true(totals.kept == RECORDS);
		placement_free(made.plan);
	}
}

/* --- against a plan's definition, on many small cases ----------------------------------------- */

/* Anything small: orders, tails, units, tiers, ranks a node, rooms. */
static void draw_case(struct made *made, uint64_t *seed, enum placement_kind kind)
{
	uint32_t nodes = 1 + (uint32_t)random_below(seed, 9);
	unsigned tiers = 1 + (unsigned)random_below(seed, 3);
	struct order_spec order = {
		.seed = random_below(seed, 1000),
		.records = random_below(seed, 300),
		.batch = 1 + (uint32_t)random_below(seed, 40),
		.block = 1 + (uint32_t)random_below(seed, 9),
		.buffer = 1 + (uint32_t)random_below(seed, 5),
		.resident = random_below(seed, 200),
		.policy = (enum order_policy)random_below(seed, 4),
		.tail = (enum order_tail)random_below(seed, 3),
	};

	*made = (struct made){.spec = {
				      .first_epoch = random_below(seed, 5),
				      .epochs = 1 + (uint32_t)random_below(seed, 12),
				      .ranks = nodes * (1 + (uint32_t)random_below(seed, 3)),
				      .tiers = tiers,
				      .unit_records = 1 + (uint32_t)random_below(seed, 4),
				      .bytes_of = odd_bytes,
				      .context = &odd_seed,
				      .readers_memory = random_below(seed, 2) << 20,
				      .threads = (unsigned)random_below(seed, 4),
				      .kind = kind,
			      }};
	for (uint32_t i = 0; i < nodes * tiers; i++)
		made->room[i] = random_below(seed, 30000);
	made_by(made, &order, nodes);
}

static void assert_readers(const struct made *made, const unsigned *reads)
{
	uint16_t room[PLACEMENT_READS_MOST];

	for (uint64_t unit = 0; unit < placement_spec_units(&made->spec); unit++) {
		const uint16_t *readers = placement_readers(made->plan, unit, room);

		for (uint32_t node = 0; node < made->spec.nodes; node++) {
			unsigned n = 0;

			for (uint32_t i = 0; i < made->spec.epochs * made->spec.unit_records; i++)
				n += readers[i] == node;
			assert_int_equal(n, reads[unit * made->spec.nodes + node]);
		}
	}
}

/* No node and tier is over its room; holders, tiers and totals say the same. */
static void assert_rooms(const struct made *made)
{
	uint64_t used[NODES_MOST * PLACEMENT_TIERS_MOST] = {0}, copies = 0, kept = 0;
	struct made_totals totals;

	for (uint64_t unit = 0; unit < placement_spec_units(&made->spec); unit++) {
		struct placement_holder holders[NODES_MOST];
		unsigned n = placement_holders(made->plan, unit, holders, NODES_MOST);

		assert_true(n <= made->spec.nodes);
		assert_int_equal(placement_holders(made->plan, unit, holders, n / 2), n);
		for (unsigned i = 0; i < n; i++) {
			used[holders[i].node * made->spec.tiers + holders[i].tier] +=
				odd_bytes(&odd_seed, unit);
			assert_int_equal(placement_tier(made->plan, holders[i].node, unit),
					 holders[i].tier);
			for (unsigned j = 0; j < i; j++)
				assert_int_not_equal(holders[i].node, holders[j].node);
		}
		copies += n;
		kept += n > 0;
	}
	for (uint32_t i = 0; i < made->spec.nodes * made->spec.tiers; i++)
		assert_true(used[i] <= made->room[i]);
	totals = made_total(made);
	assert_true(totals.copies == copies && totals.kept == kept);
	assert_true(totals.local + totals.elsewhere <= totals.reads);
	for (uint16_t node = 0; node < made->spec.nodes; node++)
		for (uint64_t unit = 0; unit < placement_spec_units(&made->spec); unit++)
			copies -= placement_tier(made->plan, node, unit) >= 0;
	assert_true(copies == 0);
}

/* A unit without a home would have found no room anywhere, homes and copies of others in place. */
static void assert_nobody_is_left_out(const struct made *made)
{
	uint64_t free_room = 0, used = 0, least = UINT64_MAX;
	struct placement_holder holders[NODES_MOST];

	for (uint32_t i = 0; i < made->spec.nodes * made->spec.tiers; i++)
		free_room += made->room[i];
	for (uint64_t unit = 0; unit < placement_spec_units(&made->spec); unit++) {
		uint64_t bytes = odd_bytes(&odd_seed, unit);

		if (placement_holders(made->plan, unit, holders, 1))
			used += bytes;
		else if (bytes < least)
			least = bytes;
	}
	/* Each node and tier has less than the smallest unit left. */
	if (least != UINT64_MAX)
		assert_true(free_room - used < least * made->spec.nodes * made->spec.tiers);
}

static void global_when_anything_small_then_within_room_and_nobody_left_out(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct made made;
		unsigned *reads;

		draw_case(&made, &seed, PLACEMENT_GLOBAL);
		reads = made_reads(&made);
		assert_readers(&made, reads);
		assert_rooms(&made);
		assert_nobody_is_left_out(&made);
		free(reads);
		placement_free(made.plan);
	}
}

/* Of the units that a node does not keep, none is read there more often than one that it does. */
static void assert_most_frequent(const struct made *made, const unsigned *reads, uint16_t node)
{
	unsigned least_kept = UINT32_MAX, most_left = 0;

	for (uint64_t unit = 0; unit < placement_spec_units(&made->spec); unit++) {
		unsigned count = reads[unit * made->spec.nodes + node];

		if (placement_tier(made->plan, node, unit) < 0)
			most_left = count > most_left ? count : most_left;
		else
			least_kept = count < least_kept ? count : least_kept;
	}
	assert_true(most_left <= least_kept);
}

static void per_node_when_anything_small_then_each_keeps_what_it_reads_most(void **state)
{
	uint64_t seed = 1000;

	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct made made;
		unsigned *reads;

		draw_case(&made, &seed, PLACEMENT_PER_NODE);
		reads = made_reads(&made);
		assert_readers(&made, reads);
		assert_rooms(&made);
		for (uint16_t node = 0; node < made.spec.nodes; node++)
			assert_most_frequent(&made, reads, node);
		free(reads);
		placement_free(made.plan);
	}
}

/* --- the same plan, however it is made -------------------------------------------------------- */

static void plan_when_made_another_way_then_the_same(void **state)
{
	enum { RECORDS = 1500, NODES = 9 };
	static const struct {
		unsigned threads;
		size_t readers_memory;
	} ways[] = {{0, 0}, {1, 1 << 20}, {3, 0}, {7, 1 << 20}};
	struct made made[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		made[i] = (struct made){.spec = {
						.epochs = 12,
						.threads = ways[i].threads,
						.readers_memory = ways[i].readers_memory,
						.bytes_of = odd_bytes,
						.context = &odd_seed,
					}};
		made_shuffled(&made[i], RECORDS, NODES, 1300 * RECORDS / NODES);
	}
	for (uint64_t unit = 0; unit < RECORDS; unit++) {
		struct placement_holder first[NODES], other[NODES];
		unsigned n = placement_holders(made[0].plan, unit, first, NODES);

		for (unsigned i = 1; i < 4; i++) {
			assert_int_equal(placement_holders(made[i].plan, unit, other, NODES), n);
			for (unsigned j = 0; j < n; j++)
				assert_true(first[j].node == other[j].node &&
					    first[j].tier == other[j].tier);
		}
	}
	for (unsigned i = 0; i < 4; i++)
		placement_free(made[i].plan);
}

/* --- what comes next -------------------------------------------------------------------------- */

static void next_when_walked_forward_then_the_same(void **state)
{
	uint64_t seed = 2000;

	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct made made;
		const struct order *order = &made.spec.order;
		uint64_t from, unit, positions, best = PLACEMENT_NEVER;
		uint16_t node;

		draw_case(&made, &seed, PLACEMENT_GLOBAL);
		positions = order_batches(order) * order->spec.batch;
		if (!placement_spec_units(&made.spec) || !positions) {
			placement_free(made.plan);
			continue;
		}
		unit = random_below(&seed, placement_spec_units(&made.spec));
		from = random_below(&seed, made.spec.epochs * positions);
		node = (uint16_t)random_below(&seed, made.spec.nodes + 1u);
		if (node == made.spec.nodes)
			node = PLACEMENT_NOBODY;
		for (uint64_t time = from;
		     best == PLACEMENT_NEVER && time < made.spec.epochs * positions; time++) {
			uint64_t position = time % positions;
			struct order_epoch at;

			if (position >= order->spec.records)
				continue;
			order_begin(&at, order, made.spec.first_epoch + time / positions);
			if (order_record(&at, position) / made.spec.unit_records == unit &&
			    (node == PLACEMENT_NOBODY ||
			     placement_node(made.plan, position) == node))
				best = time;
		}
		assert_true(placement_next(made.plan, unit, node, from) == best);
		assert_true(placement_time(made.plan, made.spec.first_epoch + from / positions,
					   from % positions) == from);
		placement_free(made.plan);
	}
}

/* --- specs ------------------------------------------------------------------------------------ */

static void spec_when_it_makes_no_sense_then_refused(void **state)
{
	static const uint32_t beyond[2] = {0, 2};
	uint64_t room[4] = {0};
	struct placement_spec good = {.epochs = 1,
				      .ranks = 2,
				      .nodes = 2,
				      .tiers = 2,
				      .room = room,
				      .unit_records = 1,
				      .unit_bytes = 1};
	struct order_spec order = {.records = 10, .batch = 2};
	struct placement_spec bad;
	struct placement *plan;

	(void)state;
	assert_int_equal(order_init(&good.order, &order), 0);
	assert_int_equal(placement_make(&plan, &good), 0);
	placement_free(plan);
	bad = good, bad.epochs = 0;
	assert_int_equal(placement_make(&plan, &bad), EINVAL);
	bad = good, bad.epochs = PLACEMENT_READS_MOST + 1;
	assert_int_equal(placement_make(&plan, &bad), EINVAL);
	bad = good, bad.epochs = 65, bad.unit_records = 64;
	assert_int_equal(placement_make(&plan, &bad), EINVAL);
	bad = good, bad.unit_records = 0;
	assert_int_equal(placement_make(&plan, &bad), EINVAL);
	bad = good, bad.ranks = 0;
	assert_int_equal(placement_make(&plan, &bad), EINVAL);
	bad = good, bad.nodes = 0;
	assert_int_equal(placement_make(&plan, &bad), EINVAL);
	bad = good, bad.nodes = 32768;
	assert_int_equal(placement_make(&plan, &bad), EINVAL);
	bad = good, bad.tiers = 0;
	assert_int_equal(placement_make(&plan, &bad), EINVAL);
	bad = good, bad.tiers = PLACEMENT_TIERS_MOST + 1;
	assert_int_equal(placement_make(&plan, &bad), EINVAL);
	bad = good, bad.node_of_rank = beyond;
	assert_int_equal(placement_make(&plan, &bad), EINVAL);
	placement_free(NULL);
}

static void reads_when_as_many_as_can_be_then_planned(void **state)
{
	enum { RECORDS = 130, UNIT = 64, NODES = 3 };
	struct made made = {.spec = {.epochs = PLACEMENT_READS_MOST / UNIT, .unit_records = UNIT}};
	struct made_totals totals;

	(void)state;
	made_shuffled(&made, RECORDS, NODES, 1000);
	totals = made_total(&made);
	assert_true(totals.units == 3 && totals.kept == 3 && totals.copies == 3);
	assert_true(totals.reads == UINT64_C(64) * RECORDS);
	placement_free(made.plan);
}

/* --- threads ---------------------------------------------------------------------------------- */

struct deaf {
	pthread_t caller;
	sem_t heard; /* another thread has listened */
	_Atomic unsigned hearing;
};

static void listen_for_signals(struct placement *plan, uint64_t first, uint64_t n, void *argument)
{
	struct deaf *deaf = argument;
	sigset_t blocked;

	(void)plan, (void)n;
	if (!first) { /* the caller's own: left alone it would take the others' shares, too */
		sem_wait(&deaf->heard);
		return;
	}
	if (pthread_equal(pthread_self(), deaf->caller))
		return;
	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	deaf->hearing += !sigismember(&blocked, SIGALRM) || !sigismember(&blocked, SIGINT);
	sem_post(&deaf->heard);
}

/* The program's handlers know nothing of threads that are not the program's. */
static void share_out_when_in_threads_then_none_takes_a_signal(void **state)
{
	struct placement plan = {.units = 64, .spec = {.threads = 4}};
	struct deaf deaf = {.caller = pthread_self()};

	(void)state;
	sem_init(&deaf.heard, 0, 0);
	placement_share_out(&plan, listen_for_signals, &deaf);
	sem_destroy(&deaf.heard);
	assert_int_equal(deaf.hearing, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(global_when_room_is_the_data_set_then_every_unit_is_kept),
		cmocka_unit_test(
			per_node_when_room_is_the_data_set_then_a_sixth_to_a_third_is_lost),
		cmocka_unit_test(
			global_when_sizes_differ_and_a_unit_a_node_is_spare_then_every_unit_is_kept),
		cmocka_unit_test(global_when_anything_small_then_within_room_and_nobody_left_out),
		cmocka_unit_test(per_node_when_anything_small_then_each_keeps_what_it_reads_most),
		cmocka_unit_test(plan_when_made_another_way_then_the_same),
		cmocka_unit_test(next_when_walked_forward_then_the_same),
		cmocka_unit_test(spec_when_it_makes_no_sense_then_refused),
		cmocka_unit_test(reads_when_as_many_as_can_be_then_planned),
		cmocka_unit_test(share_out_when_in_threads_then_none_takes_a_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
