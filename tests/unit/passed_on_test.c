/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which announced records go to the page cache for other processes, and which to shared
 * memory. */
#include "prefetch_fixture.h"

#include <fcntl.h>
#include <sched.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { STEP = 10, KEYS = RECORDS_BIG / STEP, ONE_REQUEST = 128 << 10 };

/* Memory for 64 numbers is the ring of the shown chunks; `no_ring` makes its allocation fail. */
static bool no_ring;
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
	return no_ring && size == 64 * sizeof(uint64_t) ? NULL : __real_malloc(size);
}

/* The requests to read into the page cache, which holds nothing of the file before. */
static atomic_uint cached_requests;
static atomic_bool begun;
static unsigned most_passed; /* reads that were begun since the last wait for one, at most */
static int refusal; /* the errno of each request; 0: the request succeeds */
ssize_t __wrap_readahead(int fd, off64_t offset, size_t length);
ssize_t __wrap_readahead(int fd, off64_t offset, size_t length)
{
	(void)fd, (void)offset, (void)length;
	cached_requests++;
	if (most_passed < f.prefetch->engine.passed.count)
		most_passed = f.prefetch->engine.passed.count;
	errno = refusal;
	begun = !refusal;
	return refusal ? -1 : 0;
}

int __wrap_io_pages_cached(int fd, uint64_t offset, uint64_t length, uint64_t *pages);
int __wrap_io_pages_cached(int fd, uint64_t offset, uint64_t length, uint64_t *pages)
{
	(void)fd, (void)offset, (void)length;
	*pages = atomic_exchange(&begun, false);
	return 0;
}

/* A machine on which other processes look into the page cache, which holds nothing yet. */
static int become_others(void)
{
	f.store.believe_cache = true;
	f.cold = ALL_COLD;
	f.prefetch->passed_on.most = ONE_REQUEST + 1;
	cached_requests = most_passed = 0;
	return 0;
}

static int setup_others(void **state)
{
	return setup_big(state) ? -1 : become_others();
}

static int setup_others_longer(void **state)
{
	return setup_longer(state) ? -1 : become_others();
}

static void wait_for_all(void)
{
	bool busy = true;

	while (busy) {
		sched_yield();
		pthread_mutex_lock(&f.prefetch->lock);
		busy = f.prefetch->announcements || !ahead_is_quiet(&f.prefetch->engine);
		pthread_mutex_unlock(&f.prefetch->lock);
	}
}

/* Announces the records `from` to `from` + side_by_side - 1 of each STEP records. */
static void announce(unsigned from, unsigned side_by_side)
{
	char text[RECORDS_BIG][16];
	MDB_val keys[RECORDS_BIG];
	size_t n = 0;

	for (unsigned i = 0; i < RECORDS_BIG; i++)
		if (i % STEP >= from && i % STEP < from + side_by_side) {
			key_make(text[n], &keys[n], i);
			n++;
		}
	assert_int_equal(prefetch_keys(f.prefetch, &f.snapshot, &f.tree, &f.order.key, keys, n), 0);
	wait_for_all();
}

/* Returns how many blocks of the file are missing in shared memory. */
static uint64_t blocks_missing(void)
{
	uint64_t end = f.size / ARENA_BLOCK, missing = 0, run, n;

	for (uint64_t first = 0; (n = arena_missing(f.store.arena, first, end, &run)) > 0;
	     first = run + n)
		missing += n;
	return missing;
}

/* Each chunk can be claimed: no load has kept its claim. */
static void assert_no_claims(void)
{
	for (uint64_t chunk = 0; chunk < f.size / ARENA_CHUNK; chunk++) {
		assert_true(arena_claim(f.store.arena, chunk));
		arena_release(f.store.arena, chunk);
	}
}

static void records_when_nothing_was_read_then_they_go_to_the_page_cache(void **state)
{
	uint64_t all = f.size / ARENA_BLOCK, before;

	(void)state;
	announce(0, 1);
	/* Requests for pages of the tree count too; this process reads those. */
	assert_in_range(cached_requests, KEYS + 1, KEYS + 8);
	assert_int_equal(blocks_missing(), all);
	before = cached_requests;
	announce(1, 1);
	assert_int_equal(cached_requests, before + KEYS);
	assert_int_equal(io_counted(&f.io).requests, 0);
	assert_no_claims();
}

static void records_when_the_kernel_begins_no_read_then_no_claim_stays(void **state)
{
	(void)state;
	refusal = EPERM;
	announce(0, 1);
	refusal = 0;
	assert_in_range(cached_requests, 1, KEYS + 8);
	assert_no_claims();
}

static void records_when_a_value_was_read_then_they_go_to_shared_memory(void **state)
{
	uint64_t missing, before;

	(void)state;
	announce(0, 1);
	missing = blocks_missing();
	before = cached_requests;
	f.snapshot.served = VALUE_BIG;
	announce(1, 1);
	assert_int_equal(cached_requests, before);
	assert_true(missing - blocks_missing() >= (uint64_t)KEYS * VALUE_BIG / ARENA_BLOCK);
}

/* The other transaction has read and has ended. */
static void records_when_another_transaction_read_then_they_go_to_shared_memory(void **state)
{
	struct snapshot other = f.snapshot;

	(void)state;
	other.served = VALUE_BIG;
	prefetch_end(f.prefetch, &other);
	announce(0, 1);
	assert_int_equal(cached_requests, 0);
}

static void records_when_they_lie_side_by_side_then_in_large_requests(void **state)
{
	uint64_t before;

	(void)state;
	announce(0, 4);
	assert_true(cached_requests > 0);
	announce(4, 4);
	before = cached_requests;
	announce(8, 1);
	assert_int_equal(cached_requests, before);
}

/* Neighbours in the file are one range, however long. */
static void records_when_all_lie_side_by_side_then_few_reads_are_begun_at_a_time(void **state)
{
	static char text[RECORDS_LONGER][16];
	static MDB_val keys[RECORDS_LONGER];

	(void)state;
	for (unsigned i = 0; i < RECORDS_LONGER; i++)
		key_make(text[i], &keys[i], i);
	assert_int_equal(
		prefetch_keys(f.prefetch, &f.snapshot, &f.tree, &f.order.key, keys, RECORDS_LONGER),
		0);
	wait_for_all();
	assert_in_range(most_passed, AHEAD_PASSED / 2, AHEAD_PASSED);
}

static void records_when_the_kernel_reads_less_at_once_then_they_go_to_shared_memory(void **state)
{
	(void)state;
	f.prefetch->passed_on.most = VALUE_BIG / 2;
	announce(0, 1);
	assert_int_equal(cached_requests, 0);
}

static void records_when_others_do_not_look_there_then_they_go_to_shared_memory(void **state)
{
	(void)state;
	f.store.believe_cache = false;
	announce(0, 1);
	assert_int_equal(cached_requests, 0);
}

/* The tree is in memory by then, so only a request for each record is left. */
static void records_when_they_lie_in_two_chunks_then_one_request_each(void **state)
{
	uint64_t before;

	(void)state;
	f.store.believe_cache = false;
	announce(0, 1);
	before = io_counted(&f.io).requests;
	announce(1, 1);
	assert_int_equal(io_counted(&f.io).requests - before, KEYS);
}

/* Without an announcement the engine reads for its own process alone. */
static void records_when_none_is_announced_then_the_engine_reads_for_this_process(void **state)
{
	(void)state;
	announce(0, 1);
	pthread_mutex_lock(&f.prefetch->lock);
	f.prefetch->small = false;
	passed_on_turn(f.prefetch);
	pthread_mutex_unlock(&f.prefetch->lock);
	assert_false(f.store.passes_on);
}

static void fork_when_records_go_to_the_page_cache_then_the_child_begins_anew(void **state)
{
	uint64_t before;

	(void)state;
	announce(0, 1);
	before = cached_requests;
	passed_on_forked(f.prefetch);
	store_pass_on(&f.store, false); /* as store_forked() does in a child */
	announce(1, 1);
	assert_in_range(cached_requests - before, KEYS, KEYS + 8);
}

static void records_when_nothing_can_be_shown_then_their_announcement_ends(void **state)
{
	(void)state;
	f.store.believe_cache = false;
	no_ring = true;
	assert_int_equal(prefetch_range(f.prefetch, &f.snapshot, &f.tree, &f.order.key, NULL, NULL),
			 0);
	announce(0, 1);
	no_ring = false;
	assert_false(atomic_load(&f.store.landing.announced));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup_others, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(records_when_nothing_was_read_then_they_go_to_the_page_cache),
		CASE(records_when_the_kernel_begins_no_read_then_no_claim_stays),
		CASE(records_when_a_value_was_read_then_they_go_to_shared_memory),
		CASE(records_when_another_transaction_read_then_they_go_to_shared_memory),
		CASE(records_when_they_lie_side_by_side_then_in_large_requests),
		cmocka_unit_test_setup_teardown(
			records_when_all_lie_side_by_side_then_few_reads_are_begun_at_a_time,
			setup_others_longer, teardown),
		CASE(records_when_the_kernel_reads_less_at_once_then_they_go_to_shared_memory),
		CASE(records_when_others_do_not_look_there_then_they_go_to_shared_memory),
		CASE(records_when_they_lie_in_two_chunks_then_one_request_each),
		CASE(records_when_none_is_announced_then_the_engine_reads_for_this_process),
		CASE(records_when_nothing_can_be_shown_then_their_announcement_ends),
		CASE(fork_when_records_go_to_the_page_cache_then_the_child_begins_anew),
	};

	alarm(IDLE_SECONDS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
