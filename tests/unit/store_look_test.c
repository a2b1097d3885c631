/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests how a store asks what the page cache holds, and what it believes where the kernel does not
 * tell because the file belongs to another user. */
#include "store_fixture.h"
#include "window/store_private.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static bool cold;
static unsigned tries, asks;
static const struct reader *known; /* the reader about whose file the kernel tells */
static uint64_t hole;              /* the offset of a missing block; 0: none */
static unsigned looked_at;         /* pages */
static long faults_read;           /* page faults of this process that had to read */
static struct fixture *shortened;  /* another program has cut its file */

int __wrap_getrusage(int of, struct rusage *usage);
int __wrap_mincore(void *address, size_t length, unsigned char *pages);
int __wrap_io_pages_cached(int fd, uint64_t offset, uint64_t length, uint64_t *pages);
ssize_t __real_preadv2(int fd, const struct iovec *to, int n, off_t offset, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *to, int n, off_t offset, int flags);
int __wrap_fault_in(struct store *store, uint64_t offset, uint64_t end, bool lone, bool *there);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

/* A transaction may begin at any time in another thread. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	struct fixture *f = shortened;
	struct identity identity;

	shortened = NULL;
	if (f) {
		identity = f->identity;
		identity.size /= 2;
		assert_int_equal(
			store_snapshot(&f->first.store, &identity, identity.size, LOW, false), 0);
	}
	return __real_clock_gettime(clock, now);
}

int __wrap_getrusage(int of, struct rusage *usage)
{
	assert_int_equal(of, RUSAGE_SELF);
	memset(usage, 0, sizeof(*usage));
	usage->ru_majflt = faults_read;
	return 0;
}

/* Reports pages behind the file's end as present, too. */
int __wrap_mincore(void *address, size_t length, unsigned char *pages)
{
	uint64_t at = known ? (uint64_t)((uint8_t *)address - known->base) : 0;

	memset(pages, 1, (length + 4095) / 4096);
	if (known && hole >= at && hole < at + length)
		pages[(hole - at) / 4096] = 0;
	looked_at += (unsigned)((length + 4095) / 4096);
	return 0;
}

int __wrap_io_pages_cached(int fd, uint64_t offset, uint64_t length, uint64_t *pages)
{
	*pages = (length + 4095) / 4096;
	if (known && hole >= offset && hole < offset + length)
		--*pages;
	return fd < 0;
}

ssize_t __wrap_preadv2(int fd, const struct iovec *to, int n, off_t offset, int flags)
{
	tries++;
	assert_int_equal(flags, RWF_NOWAIT);
	if (!cold)
		return __real_preadv2(fd, to, n, offset, 0); /* a memfd does not know the flag */
	errno = EAGAIN;
	return -1;
}

int __wrap_fault_in(struct store *store, uint64_t offset, uint64_t end, bool lone, bool *there)
{
	(void)store, (void)offset, (void)end, (void)lone;
	asks++;
	*there = false;
	return 0;
}

static int setup(void **state)
{
	struct fixture *f;

	cold = false;
	tries = asks = 0;
	if (store_setup(state))
		return -1;
	f = *state;
	reader_close(&f->first);
	return reader_open(&f->first, f, STORE_CACHE, true);
}

/* As a scan reads values one after another. */
static void bring_all(struct fixture *f)
{
	for (uint64_t at = ARENA_CHUNK; at < SIZE; at += 16 * ARENA_BLOCK)
		assert_int_equal(store_bring(&f->first.store, at, 16 * ARENA_BLOCK), 0);
}

static void scan_when_memory_has_no_room_for_the_file_then_not_kept_in_large_pieces(void **state)
{
	struct store *store = &((struct fixture *)*state)->first.store;

	assert_false(store_keeps(store));
	store_scan(store, 1);
	assert_true(store_keeps(store));
	store_scan(store, -1);
	assert_false(store_keeps(store));
	store->granted.room = store->file.data - 1;
	store_scan(store, 1);
	assert_false(store_keeps(store));
	store_scan(store, -1);
}

static void scan_when_an_arena_is_filled_then_no_page_cache(void **state)
{
	struct store *store = &((struct fixture *)*state)->second.store;

	store_scan(store, 1);
	assert_false(store_keeps(store));
	store_scan(store, -1);
}

static void file_of_another_when_it_is_warm_then_nothing_is_asked_for(void **state)
{
	struct fixture *f = *state;

	assert_true(store_idle(&f->first.store, ARENA_CHUNK, ARENA_CHUNK));
	assert_int_equal(f->first.store.look.told, TOLD_NOTHING);
	bring_all(f);
	assert_int_equal(asks, 0);
	assert_in_range(tries, 1, 20);
}

static void file_of_another_when_it_is_cold_then_brought_and_seldom_tried(void **state)
{
	struct fixture *f = *state;
	unsigned values = (CHUNKS - 1) * (ARENA_BLOCKS / 16);

	cold = true;
	assert_false(store_idle(&f->first.store, ARENA_CHUNK, ARENA_CHUNK));
	bring_all(f);
	assert_int_equal(asks, values);
	assert_in_range(tries, 1, 10);
}

/* Another process reads the file meanwhile. */
static void file_of_another_when_it_becomes_warm_then_that_is_seen(void **state)
{
	struct fixture *f = *state;
	unsigned asked;

	cold = true;
	bring_all(f);
	cold = false;
	asked = asks;
	for (unsigned i = 0; i < 70; i++)
		(void)store_idle(&f->first.store, ARENA_CHUNK, ARENA_BLOCK);
	assert_true(store_idle(&f->first.store, ARENA_CHUNK, ARENA_BLOCK));
	assert_int_equal(asks, asked);
}

/* If memory cannot hold the file, values in one place tell nothing about another place. */
static void values_at_random_when_memory_holds_little_of_the_file_then_asked_for(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	unsigned tried;

	store_read_alone(store, UINT64_MAX);
	assert_false(store_reads_around(store));
	for (uint64_t at = ARENA_CHUNK; at < 3 * ARENA_CHUNK; at += 16 * ARENA_BLOCK)
		assert_int_equal(store_bring(store, at, 16 * ARENA_BLOCK), 0);
	assert_true(atomic_load(&store->granted.skip) > 1);
	tried = tries;
	assert_int_equal(store_bring(store, 3 * ARENA_CHUNK, 16 * ARENA_BLOCK), 0);
	assert_int_equal(tries, tried);
	cold = true;
	assert_int_equal(store_bring(store, 6 * ARENA_CHUNK, 16 * ARENA_BLOCK), 0);
	assert_true(tries > tried);
	assert_int_equal(asks, 1);
}

/* Bytes that are read past the page cache are not looked for in it. */
static void file_of_another_when_an_arena_has_it_then_no_try(void **state)
{
	struct fixture *f = *state;

	f->second.store.believe_cache = true;
	assert_false(store_idle(&f->second.store, ARENA_CHUNK, ARENA_BLOCK));
	assert_int_equal(store_bring(&f->second.store, ARENA_CHUNK, ARENA_CHUNK), 0);
	assert_int_equal(tries, 0);
	assert_int_equal(io_counted(&f->second.io).bytes, ARENA_CHUNK);
}

static int setup_told(void **state)
{
	if (store_setup_told(state))
		return -1;
	known = &((struct fixture *)*state)->first;
	hole = 0;
	return 0;
}

static int teardown_told(void **state)
{
	known = NULL;
	return store_teardown(state);
}

/* Brings a small value in the middle of a chunk. Returns how many pages the kernel was asked
 * about. */
static unsigned value_bring(struct fixture *f, unsigned chunk)
{
	unsigned before = looked_at;

	assert_int_equal(
		store_bring(&f->first.store, chunk * ARENA_CHUNK + ARENA_CHUNK / 2, ARENA_BLOCK),
		0);
	return looked_at - before;
}

static bool is_left_to_cache(struct fixture *f, unsigned chunk)
{
	return store_covers(&f->first.store, chunk * ARENA_CHUNK, ARENA_CHUNK);
}

/* A question to the kernel costs about as much as the faults that it saves. So after a row of
 * chunks the store asks about one page of the next chunk, then about two pages for two chunks.
 * Returns in front of these two. */
static void row_bring(struct fixture *f)
{
	assert_in_range(value_bring(f, 1), ARENA_BLOCKS, ARENA_BLOCKS + 4);
	for (unsigned chunk = 2; chunk < 5; chunk++)
		assert_in_range(value_bring(f, chunk), 1, ARENA_BLOCKS / 16);
	assert_int_equal(value_bring(f, 5), 2);
}

static void chunks_when_found_in_a_row_then_the_next_are_taken_to_be_there(void **state)
{
	struct fixture *f = *state;

	row_bring(f);
	assert_int_equal(value_bring(f, 6), 2);
	assert_int_equal(value_bring(f, 7), 0);
	for (unsigned chunk = 1; chunk < CHUNKS; chunk++)
		assert_true(is_left_to_cache(f, chunk));
	assert_int_equal(io_counted(&f->first.io).bytes, 0);
}

static void chunks_when_found_backwards_then_the_ones_before_are_taken_to_be_there(void **state)
{
	struct fixture *f = *state;

	for (unsigned chunk = CHUNKS - 1; chunk > 3; chunk--)
		value_bring(f, chunk);
	assert_int_equal(value_bring(f, 3), 2);
	assert_int_equal(value_bring(f, 2), 2);
	assert_int_equal(value_bring(f, 1), 0);
	assert_true(is_left_to_cache(f, 1));
	assert_int_equal(io_counted(&f->first.io).bytes, 0);
}

/* At random places nothing is assumed to be in memory. */
static void chunk_when_it_borders_on_none_then_all_of_it_is_looked_at(void **state)
{
	struct fixture *f = *state;
	uint64_t value = 5 * ARENA_CHUNK + ARENA_CHUNK / 2;

	for (unsigned chunk = 1; chunk < 5; chunk++)
		value_bring(f, chunk);
	assert_in_range(value_bring(f, 7), ARENA_BLOCKS, ARENA_BLOCKS + 4);
	assert_true(is_left_to_cache(f, 7));
	hole = value + 8 * ARENA_BLOCK;
	assert_int_equal(store_bring(&f->first.store, value, 16 * ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).bytes, 16 * ARENA_BLOCK);
	assert_right(&f->first, value, 16 * ARENA_BLOCK);
}

static void chunk_when_many_were_there_at_random_then_it_is_tried(void **state)
{
	struct fixture *f = *state;

	value_bring(f, 1);
	f->first.store.look.warm.found = 64;
	assert_int_equal(value_bring(f, 4), 2);
	assert_true(is_left_to_cache(f, 4));
	faults_read++;
	assert_in_range(value_bring(f, 7), ARENA_BLOCKS, ARENA_BLOCKS + 4);
}

/* If only parts of the file are in memory, each look would be in vain. */
static void chunks_when_at_random_parts_are_missing_then_looked_at_seldom(void **state)
{
	struct fixture *f = *state;

	value_bring(f, 1);
	hole = 4 * ARENA_CHUNK;
	assert_in_range(value_bring(f, 4), ARENA_BLOCKS, ARENA_BLOCKS + 4);
	assert_false(is_left_to_cache(f, 4));
	assert_int_equal(value_bring(f, 7), 1);
	assert_int_equal(value_bring(f, 2), 1);
	hole = 0;
	assert_in_range(value_bring(f, 6), ARENA_BLOCKS, ARENA_BLOCKS + 4);
	assert_true(is_left_to_cache(f, 6));
}

static void chunk_when_a_page_fault_has_read_then_it_is_looked_at_page_by_page(void **state)
{
	struct fixture *f = *state;

	row_bring(f);
	faults_read++;
	assert_in_range(value_bring(f, 6), ARENA_BLOCKS, ARENA_BLOCKS + 4);
	assert_in_range(value_bring(f, 7), 1, ARENA_BLOCKS / 16);
}

static void chunk_when_a_read_has_failed_then_it_is_looked_at(void **state)
{
	struct fixture *f = *state;

	row_bring(f);
	store_take_care(&f->first.store);
	hole = 6 * ARENA_CHUNK + ARENA_CHUNK / 4;
	value_bring(f, 6);
	assert_false(is_left_to_cache(f, 6));
}

/* Samples stand for no other page then: that page may be one that cannot be read. */
static void chunks_when_a_read_has_failed_then_each_page_is_looked_at(void **state)
{
	struct fixture *f = *state;

	row_bring(f);
	store_take_care(&f->first.store);
	hole = 7 * ARENA_CHUNK + ARENA_CHUNK / 4 + 3 * ARENA_BLOCK;
	for (unsigned chunk = 6; chunk < CHUNKS; chunk++)
		assert_in_range(value_bring(f, chunk), ARENA_BLOCKS, ARENA_BLOCKS + 4);
	assert_true(is_left_to_cache(f, 6));
	assert_false(is_left_to_cache(f, 7));
}

/* The end of the cached part is at most one look away. */
static void chunk_when_the_next_ones_are_missing_then_it_is_looked_at_page_by_page(void **state)
{
	struct fixture *f = *state;

	row_bring(f);
	hole = CHUNKS * ARENA_CHUNK - ARENA_BLOCK;
	assert_in_range(value_bring(f, 6), ARENA_BLOCKS, ARENA_BLOCKS + 8);
	assert_true(is_left_to_cache(f, 6));
	assert_false(is_left_to_cache(f, 7));
}

/* After a chunk that was missing, the next one is looked at page by page. */
static void chunk_when_a_try_finds_a_hole_then_it_is_read_and_the_next_looked_at(void **state)
{
	struct fixture *f = *state;

	value_bring(f, 1);
	hole = 2 * ARENA_CHUNK + ARENA_CHUNK / 4;
	value_bring(f, 2);
	assert_false(is_left_to_cache(f, 2));
	hole = 3 * ARENA_CHUNK + ARENA_BLOCK;
	assert_in_range(value_bring(f, 3), ARENA_BLOCKS, ARENA_BLOCKS + 4);
	assert_false(is_left_to_cache(f, 3));
}

/* Whatever the store assumes about other chunks, the value itself is in memory or is read. */
static void value_when_a_block_of_it_is_missing_then_it_is_read(void **state)
{
	struct fixture *f = *state;
	uint64_t value = 2 * ARENA_CHUNK + ARENA_CHUNK / 2;

	value_bring(f, 1);
	hole = value + 3 * ARENA_BLOCK;
	assert_int_equal(store_bring(&f->first.store, value, 8 * ARENA_BLOCK), 0);
	assert_true(io_counted(&f->first.io).bytes >= ARENA_BLOCK);
	assert_right(&f->first, value, 8 * ARENA_BLOCK);
}

/* A look-ahead that does not wait passes over a part that is left to the page cache, as the program
 * does without asking again. This holds until the arena shows other parts of the chunk. */
static void part_when_the_page_cache_has_it_then_it_counts_as_there(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t value = 2 * ARENA_CHUNK + ARENA_CHUNK / 2, length = ARENA_BLOCK;
	struct store_load load;

	hole = 2 * ARENA_CHUNK;
	assert_int_equal(store_plan(store, value, &length, false, &load), PLAN_READY);
	assert_true(store_covers(store, value, ARENA_BLOCK));
	assert_false(store_covers(store, value, 2 * ARENA_BLOCK));
	assert_false(store_covers(store, hole, ARENA_BLOCK));
	assert_int_equal(store_bring(store, hole, ARENA_BLOCK), 0);
	assert_true(store_covers(store, hole, ARENA_BLOCK));
	assert_false(store_covers(store, value, ARENA_BLOCK));
	assert_int_equal(store_bring(store, value, ARENA_BLOCK), 0);
	assert_true(store_covers(store, value, ARENA_BLOCK));
	assert_right(&f->first, 2 * ARENA_CHUNK, ARENA_CHUNK);
}

static void arena_when_the_page_cache_has_all_then_none_is_made(void **state)
{
	struct fixture *f = *state;

	value_bring(f, 1);
	assert_int_equal(store_bring(&f->first.store, 2 * ARENA_CHUNK, 2 * ARENA_CHUNK), 0);
	assert_null(f->first.store.arena);
	hole = 5 * ARENA_CHUNK;
	assert_int_equal(store_bring(&f->first.store, 4 * ARENA_CHUNK, 2 * ARENA_CHUNK), 0);
	assert_non_null(f->first.store.arena);
	assert_right(&f->first, 4 * ARENA_CHUNK, 2 * ARENA_CHUNK);
}

/* Later transactions get pointers to blocks found in the page cache without a further question. */
static void
block_that_the_page_cache_had_when_its_chunk_is_shown_then_pointers_stay_right(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t value = 2 * ARENA_CHUNK + ARENA_CHUNK / 2, other = value + 64 * ARENA_BLOCK;

	hole = other;
	store_enter(store);
	assert_int_equal(store_bring(store, value, ARENA_BLOCK), 0);
	store_leave(store);
	store_enter(store);
	assert_true(store_covers(store, value, ARENA_BLOCK));
	assert_int_equal(store_bring(store, other, ARENA_BLOCK), 0);
	assert_right(&f->first, value, ARENA_BLOCK);
	assert_right(&f->first, other, ARENA_BLOCK);
	store_leave(store);
}

/* Parts of the chunk that show shared memory do not hide what the page cache holds. */
static void hole_when_the_page_cache_has_it_then_storage_is_not_asked(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t first = 2 * ARENA_CHUNK, waits;

	hole = first;
	assert_int_equal(store_bring(store, first, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).bytes, ARENA_BLOCK);
	waits = atomic_load(&store->waits);
	assert_int_equal(store_bring(store, first + 16 * ARENA_BLOCK, 4 * ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).bytes, ARENA_BLOCK);
	assert_int_equal(atomic_load(&store->waits), waits);
	assert_int_equal(arena_pieces(store->arena, 2), 0);
	assert_right(&f->first, first, ARENA_BLOCK);
	assert_right(&f->first, first + 16 * ARENA_BLOCK, 4 * ARENA_BLOCK);
}

/* Another program has cut the file, and a transaction of another thread sees that meanwhile. */
static void value_when_the_file_gets_shorter_before_it_is_brought_then_no_thread_hangs(void **state)
{
	struct fixture *f = *state;

	alarm(60);
	for (uint64_t at = SIZE / 2 - ARENA_BLOCK; at < SIZE; at += ARENA_CHUNK / 2) {
		assert_int_equal(store_snapshot(&f->first.store, &f->identity, SIZE, LOW, true), 0);
		shortened = f;
		assert_int_equal(store_bring(&f->first.store, at, 2 * ARENA_BLOCK), 0);
		assert_null(shortened);
	}
	alarm(0);
}

#define TOLD_CASE(name) cmocka_unit_test_setup_teardown(name, setup_told, teardown_told)
#define CASE(name)      cmocka_unit_test_setup_teardown(name, setup, store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(scan_when_memory_has_no_room_for_the_file_then_not_kept_in_large_pieces),
		CASE(scan_when_an_arena_is_filled_then_no_page_cache),
		CASE(file_of_another_when_it_is_warm_then_nothing_is_asked_for),
		CASE(file_of_another_when_it_is_cold_then_brought_and_seldom_tried),
		CASE(file_of_another_when_it_becomes_warm_then_that_is_seen),
		CASE(values_at_random_when_memory_holds_little_of_the_file_then_asked_for),
		CASE(file_of_another_when_an_arena_has_it_then_no_try),
		TOLD_CASE(part_when_the_page_cache_has_it_then_it_counts_as_there),
		TOLD_CASE(chunks_when_found_in_a_row_then_the_next_are_taken_to_be_there),
		TOLD_CASE(chunks_when_found_backwards_then_the_ones_before_are_taken_to_be_there),
		TOLD_CASE(chunk_when_it_borders_on_none_then_all_of_it_is_looked_at),
		TOLD_CASE(chunk_when_many_were_there_at_random_then_it_is_tried),
		TOLD_CASE(chunks_when_at_random_parts_are_missing_then_looked_at_seldom),
		TOLD_CASE(chunk_when_a_page_fault_has_read_then_it_is_looked_at_page_by_page),
		TOLD_CASE(chunk_when_a_read_has_failed_then_it_is_looked_at),
		TOLD_CASE(chunks_when_a_read_has_failed_then_each_page_is_looked_at),
		TOLD_CASE(chunk_when_the_next_ones_are_missing_then_it_is_looked_at_page_by_page),
		TOLD_CASE(chunk_when_a_try_finds_a_hole_then_it_is_read_and_the_next_looked_at),
		TOLD_CASE(value_when_a_block_of_it_is_missing_then_it_is_read),
		TOLD_CASE(
			block_that_the_page_cache_had_when_its_chunk_is_shown_then_pointers_stay_right),
		TOLD_CASE(hole_when_the_page_cache_has_it_then_storage_is_not_asked),
		TOLD_CASE(arena_when_the_page_cache_has_all_then_none_is_made),
		TOLD_CASE(
			value_when_the_file_gets_shorter_before_it_is_brought_then_no_thread_hangs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
