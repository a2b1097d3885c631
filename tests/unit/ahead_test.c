/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which bytes become one read, what a gap is worth, and how many reads are in flight. */
#include "ahead/reads.h"

#include "util/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { GAP = 10, MOST = 100, READERS = 16, KIB = 1 << 10 };

static void join_when_bytes_are_near_then_both_are_one(void **state)
{
	const struct {
		struct extent with, both;
	} table[] = {
		{{60, 70}, {50, 70}}, {{70, 80}, {50, 80}}, {{60, 150}, {50, 150}},
		{{30, 40}, {30, 60}}, {{40, 50}, {40, 60}}, {{55, 58}, {50, 60}},
		{{45, 65}, {45, 65}}, {{50, 60}, {50, 60}}, {{0, 45}, {0, 60}},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct extent extent = {50, 60};

		assert_true(extent_join(&extent, table[i].with.from, table[i].with.end, GAP, MOST));
		assert_int_equal(extent.from, table[i].both.from);
		assert_int_equal(extent.end, table[i].both.end);
	}
}

static void join_when_bytes_are_far_or_many_then_the_extent_stays(void **state)
{
	const struct extent table[] = {
		{71, 80}, {20, 39}, {60, 151}, {0, 101}, {UINT64_MAX - 1, UINT64_MAX}};

	(void)state;
	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct extent extent = {50, 60};

		assert_false(extent_join(&extent, table[i].from, table[i].end, GAP, MOST));
		assert_int_equal(extent.from, 50);
		assert_int_equal(extent.end, 60);
	}
}

/* Checks what every caller of the join relies on. Reads follow the order of the file. A gap inside
 * a read is no larger than allowed, a gap between two reads is larger, and no byte is in two
 * reads. */
static void join_when_many_are_sorted_then_reads_part_at_large_gaps_alone(void **state)
{
	unsigned reads = 0;

	(void)state;
	srandom(25);
	for (unsigned round = 0; round < 1000; round++) {
		uint64_t at = (uint64_t)random() % 50;
		struct extent read = {at, at + 1 + (uint64_t)random() % 20};

		for (unsigned i = 0; i < 50; i++) {
			uint64_t gap = (uint64_t)random() % (2 * GAP + 1), from = read.end + gap;
			uint64_t end = from + 1 + (uint64_t)random() % 20, first = read.from;
			bool joined = extent_join(&read, from, end, GAP, UINT64_MAX);

			assert_int_equal(joined, gap <= GAP);
			assert_int_equal(read.end, joined ? end : from - gap);
			assert_int_equal(read.from, first);
			if (joined)
				continue;
			read = (struct extent){from, end};
			reads++;
		}
	}
	assert_true(reads > 1000);
}

static void gap_when_storage_is_unknown_then_it_is_the_customers(void **state)
{
	const struct depth new = {.now = 4}, half = {.now = 4, .latency = 1000};
	const uint64_t most[GAPS] = {
		[GAP_RUN] = 0,          [GAP_KEYS] = 4 * KIB,   [GAP_STREAM] = 32 * KIB,
		[GAP_ROUND] = 64 * KIB, [GAP_SWEEP] = 64 * KIB,
	};

	(void)state;
	for (unsigned i = 0; i < GAPS; i++) {
		assert_int_equal(gap_bytes(i, NULL), most[i]);
		assert_int_equal(gap_bytes(i, &new), most[i]);
		assert_int_equal(gap_bytes(i, &half), most[i]);
	}
}

static void gap_when_storage_is_known_then_it_is_what_a_request_costs(void **state)
{
	/* 100 us and 2000 MB/s: 200,000 bytes in the time of a request. */
	struct depth depth = {.now = 4, .latency = CLOCK_SECOND / 10000, .rate = 2000000000};

	(void)state;
	assert_int_equal(gap_bytes(GAP_ROUND, &depth), 50000);
	assert_int_equal(gap_bytes(GAP_SWEEP, &depth), 50000);
	assert_int_equal(gap_bytes(GAP_STREAM, &depth), 32 * KIB);
	assert_int_equal(gap_bytes(GAP_KEYS, &depth), 4 * KIB);
	assert_int_equal(gap_bytes(GAP_RUN, &depth), 0);
	depth.now = READERS;
	assert_int_equal(gap_bytes(GAP_ROUND, &depth), 12500);
	assert_int_equal(gap_bytes(GAP_SWEEP, &depth), 32 * KIB);
	depth.latency /= 100;
	assert_int_equal(gap_bytes(GAP_ROUND, &depth), 8 * KIB);
	depth.latency *= 10000;
	assert_int_equal(gap_bytes(GAP_ROUND, &depth), 128 * KIB);
}

static void fit_when_memory_differs_then_depth_is_what_it_holds(void **state)
{
	(void)state;
	assert_int_equal(depth_fit(0, 10, 2, READERS), 2);
	assert_int_equal(depth_fit(29, 10, 2, READERS), 2);
	assert_int_equal(depth_fit(30, 10, 2, READERS), 3);
	assert_int_equal(depth_fit(1000, 10, 2, READERS), READERS);
	assert_int_equal(depth_fit(UINT64_MAX, 1, 2, READERS), READERS);
}

/* Simulates storage that is fastest with `best` reads in flight, 100 MiB a second for each. Each
 * further read slows the others, and the rate varies at random by `noise` percent. */
struct storage {
	unsigned best, cost, noise; /* `cost` and `noise` in percent */
	uint64_t now;
	uint64_t depths; /* the sum of all reads' depths */
	unsigned least;  /* the smallest depth of a read; 0: no read yet */
};

static void storage_reads(struct storage *storage, struct depth *depth, unsigned reads)
{
	uint64_t take = 100;

	for (unsigned i = 0; i < reads; i++) {
		unsigned most = depth->now < storage->best ? depth->now : storage->best;

		if (i % 40 == 0 && storage->noise)
			take = 100 - storage->noise + (uint64_t)random() % (2 * storage->noise + 1);
		storage->now += CLOCK_SECOND / (100 * most) *
				(100 + storage->cost * (depth->now - most)) / 100 * take / 100;
		storage->depths += depth->now;
		if (!storage->least || depth->now < storage->least)
			storage->least = depth->now;
		depth_note(depth, KIB * KIB, CLOCK_SECOND / 100, storage->now, READERS);
	}
}

static void depth_when_more_reads_are_faster_then_it_grows_to_the_most(void **state)
{
	struct storage storage = {.best = READERS, .now = CLOCK_SECOND};
	struct depth depth = {.now = 4};

	(void)state;
	storage_reads(&storage, &depth, 7);
	assert_int_equal(depth.now, 4);
	storage_reads(&storage, &depth, 1000);
	assert_int_equal(depth.now, READERS);
	assert_in_range(depth.rate, 1000 * KIB * KIB, 1700 * (uint64_t)KIB * KIB);
	assert_int_equal(depth.latency, 0);
}

/* Storage that is slower for a moment is so at any depth. */
static void depth_when_the_rate_goes_up_and_down_then_it_stays_near_the_most(void **state)
{
	(void)state;
	srandom(25);
	for (unsigned noise = 10; noise <= 60; noise += 10) {
		struct storage storage = {.best = READERS, .noise = noise, .now = CLOCK_SECOND};
		struct depth depth = {.now = 4};

		storage_reads(&storage, &depth, 20000);
		assert_in_range(storage.depths / 20000, READERS - 3, READERS);
	}
}

/* A disk with a head: each further read makes all of them take longer. */
static void depth_when_more_reads_are_slower_then_it_comes_back(void **state)
{
	(void)state;
	srandom(25);
	for (unsigned begin = 2; begin <= 4; begin++)
		for (unsigned best = 1; best <= 4; best++) {
			struct storage storage = {
				.best = best, .cost = 25, .noise = 5, .now = CLOCK_SECOND};
			struct depth depth = {.now = begin};

			storage_reads(&storage, &depth, 20000);
			assert_in_range(storage.depths / 20000, 2, best + 3);
			assert_true(best > 2 || storage.least == 2);
		}
}

static void depth_when_readers_are_few_then_it_is_no_more(void **state)
{
	struct depth depth = {.now = 4};
	uint64_t now = CLOCK_SECOND;

	(void)state;
	for (unsigned i = 0; i < 100; i++)
		depth_note(&depth, KIB, 1000, now += 1000, 1);
	assert_int_equal(depth.now, 1);
	assert_int_equal(depth.latency, 1000);
}

/* A consumer that pauses makes storage no slower. */
static void depth_when_nothing_is_read_for_long_then_the_pause_does_not_count(void **state)
{
	struct storage storage = {.best = 4, .now = CLOCK_SECOND}, other = storage;
	struct depth depth = {.now = 4}, paused = {.now = 4};

	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		storage_reads(&storage, &depth, 30);
		storage_reads(&other, &paused, 30);
		depth_pause(&depth);
		depth_pause(&paused);
		other.now += 3600 * CLOCK_SECOND;
	}
	assert_int_equal(paused.now, depth.now);
	assert_int_equal(paused.rate, depth.rate);
	assert_true(paused.rate > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(join_when_bytes_are_near_then_both_are_one),
		cmocka_unit_test(join_when_bytes_are_far_or_many_then_the_extent_stays),
		cmocka_unit_test(join_when_many_are_sorted_then_reads_part_at_large_gaps_alone),
		cmocka_unit_test(gap_when_storage_is_unknown_then_it_is_the_customers),
		cmocka_unit_test(gap_when_storage_is_known_then_it_is_what_a_request_costs),
		cmocka_unit_test(fit_when_memory_differs_then_depth_is_what_it_holds),
		cmocka_unit_test(depth_when_more_reads_are_faster_then_it_grows_to_the_most),
		cmocka_unit_test(depth_when_the_rate_goes_up_and_down_then_it_stays_near_the_most),
		cmocka_unit_test(depth_when_more_reads_are_slower_then_it_comes_back),
		cmocka_unit_test(depth_when_readers_are_few_then_it_is_no_more),
		cmocka_unit_test(depth_when_nothing_is_read_for_long_then_the_pause_does_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
