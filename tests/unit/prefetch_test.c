/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what the prefetch thread reads for an announced range, and what it does when storage
 * fails. */
#include "prefetch_fixture.h"

#include "arena/arena_private.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static int range_begin(const MDB_val *first, const MDB_val *last)
{
	return prefetch_range(f.prefetch, &f.snapshot, &f.tree, &f.order.key, first, last);
}

static void announce(const MDB_val *first, const MDB_val *last)
{
	assert_int_equal(range_begin(first, last), 0);
	assert_comes_to_rest();
}

/* Announces all records, but as a range with a beginning. The engine asks for such a range page by
 * page, again and again until it has come. */
static void announce_from_first(void)
{
	char text[16];
	MDB_val first;

	key_make(text, &first, 0);
	announce(&first, NULL);
}

static void range_when_all_is_wanted_then_all_comes_once(void **state)
{
	uint64_t low = 2 * f.snapshot.page_size;

	(void)state;
	announce(NULL, NULL);
	assert_true(store_covers(&f.store, low, f.size - low));
	assert_true(bytes_read() <= f.size);
	announce(NULL, NULL);
	assert_true(bytes_read() <= f.size);
}

static void range_when_one_process_scans_then_all_reads_are_its_own(void **state)
{
	(void)state;
	store_scan(&f.store, 1);
	announce(NULL, NULL);
	/* No more than the room for look-ahead. */
	assert_int_equal(f.in_flight, AHEAD / ARENA_CHUNK);
	store_scan(&f.store, -1);
}

/* The engine learns the leaves from one branch at a time, and the branches from the root. */
static void range_of_small_values_when_wanted_then_many_reads_are_in_flight(void **state)
{
	(void)state;
	announce(NULL, NULL);
	assert_in_range(f.in_flight, AHEAD / ARENA_CHUNK / 2, AHEAD / ARENA_CHUNK);
}

/* Each value is one range, of many reads. */
static void range_of_huge_values_when_wanted_then_no_more_reads_are_in_flight(void **state)
{
	(void)state;
	announce_from_first();
	assert_in_range(f.in_flight, AHEAD / ARENA_CHUNK, AHEAD / ARENA_CHUNK + 1);
	assert_in_range(bytes_read(), VALUE_HUGE, RECORDS_HUGE * (VALUE_HUGE + ARENA_CHUNK));
}

static void range_when_eight_processes_scan_then_they_share_the_reads_in_flight(void **state)
{
	struct arena_options options = {.budget = 64 << 20, .node = f.node, .share = true};
	const char *why;

	(void)state;
	for (unsigned i = 0; i < OTHERS; i++) {
		assert_int_equal(arena_open(&f.others[i], &f.identity, &options, &why), 0);
		assert_null(why);
		arena_scanning(f.others[i], 1, 0);
	}
	store_scan(&f.store, 1);
	announce(NULL, NULL);
	assert_int_equal(f.in_flight, 2 * DEPTH / (OTHERS + 1));
	store_scan(&f.store, -1);
}

/* A tenth of the records, and the tree above them; the range may end in the middle of a leaf. */
static void range_when_it_ends_early_then_the_rest_is_left(void **state)
{
	unsigned records = (unsigned)f.tree.record.entries;
	char from[16], to[16];
	MDB_val first, last;

	(void)state;
	key_make(from, &first, records / 2);
	key_make(to, &last, records / 2 + records / 10);
	announce(&first, &last);
	assert_true(bytes_read() >= f.size / 10);
	assert_true(bytes_read() <= f.size / 10 * 2 + ARENA_CHUNK);
}

/* The file does not have the bytes that the sizes promise. */
static void hints_when_sizes_are_absurd_then_only_sound_keys_are_brought(void **state)
{
	char text[16];
	MDB_val keys[4];
	uint64_t read;

	(void)state;
	key_make(text, &keys[0], 1);
	keys[1] = (MDB_val){SIZE_MAX, text};
	keys[2] = (MDB_val){2, text};
	keys[3] = (MDB_val){0, NULL};
	assert_int_equal(prefetch_keys(f.prefetch, &f.snapshot, &f.tree, &f.order.key, keys, 4), 0);
	assert_comes_to_rest();
	read = bytes_read();
	assert_in_range(read, VALUE_BIG, 4 * VALUE_BIG);
	assert_int_equal(range_begin(&keys[1], NULL), 0);
	assert_int_equal(range_begin(NULL, &keys[1]), 0);
	assert_comes_to_rest_again();
	assert_int_equal(bytes_read(), read);
}

enum { CHUNKS_BIG = RECORDS_BIG * VALUE_BIG / ARENA_CHUNK };

/* Announces every other record, and ends the transaction while each chunk has a read in flight. */
static void keys_when_their_transaction_ends_then_the_rest_is_left(void **state)
{
	char text[RECORDS_BIG / 2][16];
	MDB_val keys[RECORDS_BIG / 2];

	(void)state;
	for (unsigned i = 0; i < RECORDS_BIG / 2; i++)
		key_make(text[i], &keys[i], 2 * i);
	f.hold_at = CHUNKS_BIG;
	assert_int_equal(prefetch_keys(f.prefetch, &f.snapshot, &f.tree, &f.order.key, keys,
				       RECORDS_BIG / 2),
			 0);
	assert_int_equal(sem_wait(&f.held), 0);
	prefetch_end(f.prefetch, &f.snapshot);
	sem_post(&f.go);
	assert_comes_to_rest();
	assert_in_range(bytes_read(), 1, 2 * (CHUNKS_BIG + 1) * VALUE_BIG);
}

/* The same for a range. It has ended before its transaction: it has asked for all that it wants. */
static void range_when_its_transaction_ends_then_the_rest_is_left(void **state)
{
	(void)state;
	f.hold_at = AHEAD / ARENA_CHUNK;
	assert_int_equal(range_begin(NULL, NULL), 0);
	assert_int_equal(sem_wait(&f.held), 0);
	prefetch_end(f.prefetch, &f.snapshot);
	sem_post(&f.go);
	assert_comes_to_rest();
	assert_in_range(bytes_read(), 1, AHEAD + 4 * ARENA_CHUNK);
}

/* Announces the first n records, in a process that has 4 MiB of memory. */
static void hint_begin(unsigned n)
{
	char text[RECORDS_BIG][16];
	MDB_val keys[RECORDS_BIG];

	f.store.options.budget = 4 << 20;
	for (unsigned i = 0; i < n; i++)
		key_make(text[i], &keys[i], i);
	assert_int_equal(prefetch_keys(f.prefetch, &f.snapshot, &f.tree, &f.order.key, keys, n), 0);
}

/* The same in a process that reads what it announces. Returns the bytes that this has read. */
static uint64_t hint(unsigned n)
{
	uint64_t before = bytes_read();

	snapshot_serve(&f.snapshot, 1);
	hint_begin(n);
	assert_comes_to_rest();
	return bytes_read() - before;
}

static void hints_when_they_come_before_the_first_read_then_only_what_memory_keeps(void **state)
{
	(void)state;
	hint_begin(RECORDS_BIG);
	assert_comes_to_rest();
	assert_in_range(bytes_read(), 3 << 20, 5 << 20);
}

/* No announcement ends while the thread waits for a read. */
static void hints_when_very_many_wait_then_further_ones_are_dropped(void **state)
{
	enum { MANY = 400000 };
	size_t most = 0;
	char text[16];
	MDB_val key;

	(void)state;
	f.hold_at = 1;
	key_make(text, &key, 0);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(
			prefetch_keys(f.prefetch, &f.snapshot, &f.tree, &f.order.key, &key, 1), 0);
		if (!i)
			assert_int_equal(sem_wait(&f.held), 0);
		if (most < f.prefetch->waiting)
			most = f.prefetch->waiting;
	}
	assert_in_range(most, 1 << 20, 4 << 20);
	sem_post(&f.go);
	assert_comes_to_rest();
	assert_int_equal(f.prefetch->waiting, 0);
	assert_null(f.prefetch->announcements);
}

/* How many claims away the use is at which a chunk is stamped last. */
static int32_t longest_expected(void)
{
	struct arena *arena = f.store.arena;
	int32_t longest = 0;

	for (uint64_t chunk = 0; arena && chunk < arena->chunks; chunk++) {
		struct arena_group *group = arena_group_of(arena, chunk);
		int32_t left =
			group && arena_published(group, chunk)
				? (int32_t)(atomic_load(&group->stamps[chunk % ARENA_GROUP]) -
					    atomic_load(&arena->head->clock))
				: 0;

		if (left > longest)
			longest = left;
	}
	return longest;
}

/* A claim alone stamps a chunk half of the memory's chunks ahead. */
static void hints_when_their_values_have_come_then_evicted_after_what_was_used(void **state)
{
	(void)state;
	assert_true(hint(1) > 0);
	assert_true(longest_expected() > (int32_t)(arena_budget(f.store.arena) / ARENA_CHUNK / 2));
}

static void hints_when_memory_keeps_some_records_then_these_are_read(void **state)
{
	(void)state;
	assert_in_range(hint(RECORDS_BIG), 3 << 20, 5 << 20);
}

/* Forks while a read of the hints is in flight, of which most were dropped. As long as that counts, no
 * reader waits for a hint. */
static void child_when_its_parents_hints_were_dropped_then_it_counts_from_the_start(void **state)
{
	pid_t child;
	int status;

	(void)state;
	f.hold_at = 4;
	snapshot_serve(&f.snapshot, 1);
	hint_begin(RECORDS_BIG);
	assert_int_equal(sem_wait(&f.held), 0);
	prefetch_hold(f.prefetch, true);
	assert_true(f.prefetch->some_dropped);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		prefetch_forked(f.prefetch);
		_exit(f.prefetch->small || f.prefetch->some_dropped || f.prefetch->keys);
	}
	prefetch_hold(f.prefetch, false);
	assert_int_equal(waitpid(child, &status, 0), child);
	sem_post(&f.go);
	assert_comes_to_rest();
	assert_int_equal(status, 0);
}

static void hints_when_transactions_read_side_by_side_then_only_what_all_of_them_keep(void **state)
{
	enum { FEW = 20 };

	(void)state;
	store_enter(&f.store);
	store_enter(&f.store);
	store_enter(&f.store);
	assert_in_range(hint(RECORDS_BIG), 1, VALUE_BIG);
	assert_in_range(hint(FEW), FEW * VALUE_BIG, 2 * FEW * VALUE_BIG);
	store_leave(&f.store);
	store_leave(&f.store);
	store_leave(&f.store);
}

/* A file that is larger than a range may bring. A look-ahead that has brought all that it may must not
 * keep its place, nor have other processes read whole chunks for a scan. */
static void ranges_when_they_exceed_memory_then_each_makes_room_for_the_next(void **state)
{
	(void)state;
	for (unsigned i = 0; i <= PREFETCH_STREAMS; i++) {
		assert_int_equal(range_begin(NULL, NULL), 0);
		assert_comes_to_rest_again();
	}
	assert_in_range(bytes_read(), AHEAD, 3 * AHEAD);
	assert_int_equal(atomic_load(&f.store.scans), 0);
}

static void range_when_every_read_fails_then_the_loader_rests(void **state)
{
	(void)state;
	f.plan = (struct io_fault){
		.calls = IO_FAULT_READS, .nth = 1, .for_ever = true, .error = EIO};
	announce_from_first();
	assert_in_range(f.plan.failed, 1, DEPTH);
	assert_int_equal(bytes_read(), 0);
}

/* The fault does not begin with the first read: by then there are ranges in the queue, and reads in
 * flight. */
static void range_when_reads_begin_to_fail_then_the_loader_rests(void **state)
{
	(void)state;
	f.plan = (struct io_fault){
		.calls = IO_FAULT_READS, .nth = 5, .for_ever = true, .error = EIO};
	announce_from_first();
	assert_in_range(f.plan.failed, 1, 2 * DEPTH);
}

static void range_when_one_read_has_failed_then_the_next_brings_all(void **state)
{
	uint64_t low = 2 * f.snapshot.page_size;

	(void)state;
	f.plan = (struct io_fault){.calls = IO_FAULT_READS, .nth = 3, .error = EIO};
	announce_from_first();
	assert_int_equal(f.plan.failed, 1);
	announce(NULL, NULL);
	assert_true(store_covers(&f.store, low, f.size - low));
}

/* The program has closed all descriptors: shared memory gets no table for claims of chunks. */
static void range_when_no_chunk_can_be_claimed_then_the_loader_rests(void **state)
{
	(void)state;
	store_hold(&f.store); /* attaches the arena, as before a fork */
	store_release(&f.store);
	assert_non_null(f.store.arena);
	close(f.store.arena->file.fd);
	announce_from_first();
	assert_int_equal(bytes_read(), 0);
	assert_int_equal(f.prefetch->engine.later.count, 0);
}

/* Afterwards the next range allocates again all that it needs. */
static void range_when_it_has_come_then_threads_and_memory_go_after_a_while(void **state)
{
	bool rests;

	(void)state;
	announce_from_first();
	do {
		clock_sleep(CLOCK_SECOND / 100);
		pthread_mutex_lock(&f.prefetch->lock);
		rests = f.prefetch->rest_at == CLOCK_NEVER;
		pthread_mutex_unlock(&f.prefetch->lock);
	} while (!rests);
	for (unsigned i = 0; i < AHEAD_FLIGHTS / SLAB_FLIGHTS; i++)
		assert_null(f.prefetch->engine.slabs[i].bytes);
	announce(NULL, NULL);
	assert_true(store_covers(&f.store, 2 * f.snapshot.page_size,
				 f.size - 2 * f.snapshot.page_size));
}

/* --- a cursor's look-ahead ---------------------------------------------------------------------
 */

/* A stream that ends takes only its own ranges out of the queue. */
static void wishes_when_one_leaves_then_the_others_stay(void **state)
{
	static struct range_queue queue;
	const int one = 1, other = 2;

	(void)state;
	queue = (struct range_queue){.first = AHEAD_RANGES - 2};
	assert_true(ranges_put(&queue, (struct wanted_range){.offset = 1, .whose = &one}));
	assert_true(ranges_put(&queue, (struct wanted_range){.offset = 2}));
	assert_true(ranges_put(&queue, (struct wanted_range){.offset = 3, .whose = &other}));
	assert_true(ranges_put(&queue, (struct wanted_range){.offset = 4, .whose = &one}));
	ranges_forget(&queue, &one);
	assert_int_equal(queue.count, 2);
	assert_int_equal(ranges_take(&queue).offset, 2);
	assert_int_equal(ranges_take(&queue).offset, 3);
}

static void jobs_when_the_queue_is_full_then_nothing_is_overwritten(void **state)
{
	static struct range_queue queue;

	(void)state;
	queue = (struct range_queue){.first = 7};
	for (unsigned i = 0; i < AHEAD_RANGES; i++)
		assert_true(ranges_put(&queue, (struct wanted_range){.offset = i}));
	assert_false(ranges_put(&queue, (struct wanted_range){.offset = AHEAD_RANGES}));
	assert_false(ranges_put_back(&queue, (struct wanted_range){.offset = AHEAD_RANGES}));
	assert_int_equal(ranges_take(&queue).offset, 0);
	assert_true(ranges_put_back(&queue, (struct wanted_range){.offset = 1000}));
	assert_int_equal(ranges_take(&queue).offset, 1000);
	for (unsigned i = 1; i < AHEAD_RANGES; i++)
		assert_int_equal(ranges_take(&queue).offset, i);
	assert_int_equal(queue.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(range_when_all_is_wanted_then_all_comes_once,
						setup_big, teardown),
		{"range_of_small_values_when_all_is_wanted_then_all_comes_once",
		 range_when_all_is_wanted_then_all_comes_once, setup_small, teardown, NULL},
		cmocka_unit_test_setup_teardown(
			range_when_one_process_scans_then_all_reads_are_its_own, setup_big,
			teardown),
		cmocka_unit_test_setup_teardown(
			range_of_small_values_when_wanted_then_many_reads_are_in_flight,
			setup_small, teardown),
		cmocka_unit_test_setup_teardown(
			range_of_huge_values_when_wanted_then_no_more_reads_are_in_flight,
			setup_huge, teardown),
		cmocka_unit_test_setup_teardown(
			range_when_eight_processes_scan_then_they_share_the_reads_in_flight,
			setup_big, teardown),
		cmocka_unit_test_setup_teardown(range_when_it_ends_early_then_the_rest_is_left,
						setup_big, teardown),
		{"range_of_small_values_when_it_ends_early_then_the_rest_is_left",
		 range_when_it_ends_early_then_the_rest_is_left, setup_small, teardown, NULL},
		cmocka_unit_test_setup_teardown(
			hints_when_sizes_are_absurd_then_only_sound_keys_are_brought, setup_big,
			teardown),
		cmocka_unit_test_setup_teardown(
			keys_when_their_transaction_ends_then_the_rest_is_left, setup_big,
			teardown),
		cmocka_unit_test_setup_teardown(
			range_when_its_transaction_ends_then_the_rest_is_left, setup_longer,
			teardown),
		cmocka_unit_test_setup_teardown(
			hints_when_they_come_before_the_first_read_then_only_what_memory_keeps,
			setup_big, teardown),
		cmocka_unit_test_setup_teardown(
			hints_when_very_many_wait_then_further_ones_are_dropped, setup_big,
			teardown),
		cmocka_unit_test_setup_teardown(
			hints_when_memory_keeps_some_records_then_these_are_read, setup_big,
			teardown),
		cmocka_unit_test_setup_teardown(
			hints_when_their_values_have_come_then_evicted_after_what_was_used,
			setup_big, teardown),
		cmocka_unit_test_setup_teardown(
			child_when_its_parents_hints_were_dropped_then_it_counts_from_the_start,
			setup_big, teardown),
		cmocka_unit_test_setup_teardown(
			hints_when_transactions_read_side_by_side_then_only_what_all_of_them_keep,
			setup_big, teardown),
		cmocka_unit_test_setup_teardown(
			ranges_when_they_exceed_memory_then_each_makes_room_for_the_next,
			setup_longer, teardown),
		cmocka_unit_test_setup_teardown(range_when_every_read_fails_then_the_loader_rests,
						setup_big, teardown),
		cmocka_unit_test_setup_teardown(
			range_when_reads_begin_to_fail_then_the_loader_rests, setup_big, teardown),
		cmocka_unit_test_setup_teardown(
			range_when_one_read_has_failed_then_the_next_brings_all, setup_big,
			teardown),
		cmocka_unit_test_setup_teardown(
			range_when_no_chunk_can_be_claimed_then_the_loader_rests, setup_big,
			teardown),
		cmocka_unit_test_setup_teardown(
			range_when_it_has_come_then_threads_and_memory_go_after_a_while,
			setup_small, teardown),
		cmocka_unit_test(wishes_when_one_leaves_then_the_others_stay),
		cmocka_unit_test(jobs_when_the_queue_is_full_then_nothing_is_overwritten),
	};

	return cmocka_run_group_tests_name("prefetch", tests, NULL, NULL);
}
