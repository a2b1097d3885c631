/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what a window shows when other processes read too, and when the kernel refuses a map. */
#include "store_fixture.h"

#include "util/stats.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

static int maps_refused;

void *__real_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);

void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	if (maps_refused && flags & MAP_FIXED) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap(address, length, protection, flags, fd, offset);
}

static bool mincore_hides;

int __real_mincore(void *address, size_t length, unsigned char *pages);
int __wrap_mincore(void *address, size_t length, unsigned char *pages);

/* About another user's file the kernel says that all pages are in memory. */
int __wrap_mincore(void *address, size_t length, unsigned char *pages)
{
	if (!mincore_hides)
		return __real_mincore(address, length, pages);
	memset(pages, 1, (length + 4095) / 4096);
	return 0;
}

/* Waits without a bound: in the library the bound is for a reader that does not finish. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock,
				  const struct timespec *until);

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *lock,
				  const struct timespec *until)
{
	(void)until;
	return pthread_cond_wait(condition, lock);
}

static int teardown(void **state)
{
	maps_refused = 0;
	mincore_hides = false;
	return store_teardown(state);
}

static void bring_when_nobody_scans_then_only_what_is_wanted(void **state)
{
	struct fixture *f = *state;
	uint64_t wanted = 3 * ARENA_CHUNK + 5 * ARENA_BLOCK;

	assert_false(store_covers(&f->first.store, wanted, ARENA_BLOCK));
	assert_int_equal(store_bring(&f->first.store, wanted, ARENA_BLOCK), 0);
	assert_true(store_covers(&f->first.store, wanted, ARENA_BLOCK));
	assert_int_equal(io_counted(&f->first.io).bytes, ARENA_BLOCK);
	assert_right(&f->first, wanted, ARENA_BLOCK);
}

static void bring_when_another_process_scans_then_the_whole_chunk(void **state)
{
	struct fixture *f = *state;
	uint64_t wanted = 3 * ARENA_CHUNK + 5 * ARENA_BLOCK;

	store_scan(&f->second.store, 1);
	assert_int_equal(store_bring(&f->second.store, 0, ARENA_CHUNK), 0);
	assert_int_equal(store_bring(&f->first.store, wanted, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).reads, 1);
	assert_int_equal(io_counted(&f->first.io).bytes, ARENA_CHUNK);
	assert_right(&f->first, 3 * ARENA_CHUNK, ARENA_CHUNK);
	/* The blocks that the other reader has read are not read again. */
	assert_int_equal(store_bring(&f->first.store, LOW, ARENA_CHUNK - LOW), 0);
	assert_int_equal(io_counted(&f->first.io).reads, 1);
	store_scan(&f->second.store, -1);
	assert_int_equal(store_bring(&f->first.store, 5 * ARENA_CHUNK, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).bytes, ARENA_CHUNK + ARENA_BLOCK);
}

enum { AROUND = 128 << 10 }; /* bytes */

static void bring_when_it_may_guess_then_around_and_then_the_whole_chunk(void **state)
{
	struct fixture *f = *state;
	uint64_t chunk = 3 * ARENA_CHUNK, read = 2 * AROUND + ARENA_CHUNK;

	store_guess(&f->first.store, GUESS_AROUND);
	assert_int_equal(store_bring(&f->first.store, chunk + 70 * ARENA_BLOCK, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).bytes, AROUND);
	assert_right(&f->first, chunk + 64 * ARENA_BLOCK, AROUND);
	for (uint64_t block = 140; block <= 200; block += 60)
		assert_int_equal(
			store_bring(&f->first.store, chunk + block * ARENA_BLOCK, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).reads, 3);
	assert_int_equal(io_counted(&f->first.io).bytes, read);
	assert_true(store_covers(&f->first.store, chunk, ARENA_CHUNK));
	assert_right(&f->first, chunk, ARENA_CHUNK);
	/* A large value is itself expensive enough: the first time nothing around it is read. */
	chunk += ARENA_CHUNK;
	assert_int_equal(store_bring(&f->first.store, chunk + ARENA_BLOCK, AROUND / 2), 0);
	assert_int_equal(io_counted(&f->first.io).bytes, read + AROUND / 2);
	/* A caller that names exactly what it wants gets exactly that. */
	store_guess(&f->first.store, GUESS_NOTHING);
	assert_int_equal(store_bring(&f->first.store, chunk + 200 * ARENA_BLOCK, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).bytes, read + AROUND / 2 + ARENA_BLOCK);
}

static void bring_when_nothing_around_is_wanted_then_the_seventh_time_the_chunk(void **state)
{
	struct fixture *f = *state;
	uint64_t chunk = 3 * ARENA_CHUNK;

	store_guess(&f->first.store, GUESS_CHUNKS);
	for (uint64_t block = 30; block <= 180; block += 30)
		assert_int_equal(
			store_bring(&f->first.store, chunk + block * ARENA_BLOCK, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).bytes, 6 * ARENA_BLOCK);
	assert_int_equal(store_bring(&f->first.store, chunk + 200 * ARENA_BLOCK, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).reads, 7);
	assert_true(store_covers(&f->first.store, chunk, ARENA_CHUNK));
	assert_right(&f->first, chunk, ARENA_CHUNK);
}

static void guess_when_others_have_read_of_the_chunk_then_that_counts(void **state)
{
	struct fixture *f = *state;
	uint64_t chunk = 3 * ARENA_CHUNK;

	store_guess(&f->first.store, GUESS_CHUNKS);
	store_guess(&f->second.store, GUESS_CHUNKS);
	for (uint64_t block = 30; block <= 180; block += 30)
		assert_int_equal(
			store_bring(&f->second.store, chunk + block * ARENA_BLOCK, ARENA_BLOCK), 0);
	assert_int_equal(store_bring(&f->first.store, chunk, ARENA_BLOCK), 0);
	assert_true(store_covers(&f->first.store, chunk, ARENA_CHUNK));
	assert_right(&f->first, chunk, ARENA_CHUNK);
}

static void guess_when_much_was_read_at_random_then_what_is_missing_around(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t chunk = 3 * ARENA_CHUNK, middle = chunk + ARENA_CHUNK / 2, read = AROUND;

	store_guess(store, GUESS_CHUNKS);
	assert_int_equal(store_bring(store, middle, AROUND), 0);
	assert_int_equal(io_counted(&f->first.io).bytes, read);
	arena_pieces_add(store->arena, 0, (64 << 20) / ARENA_BLOCK);
	assert_int_equal(store_bring(store, chunk + ARENA_BLOCK, ARENA_BLOCK), 0);
	read += ARENA_CHUNK / 2;
	assert_int_equal(io_counted(&f->first.io).bytes, read);
	assert_right(&f->first, chunk, ARENA_CHUNK / 2 + AROUND);
	assert_int_equal(store_bring(store, chunk + ARENA_CHUNK - ARENA_BLOCK, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).bytes, ARENA_CHUNK);
	assert_int_equal(io_counted(&f->first.io).reads, 3);
	/* A few blocks that are already present are read again to save requests. */
	chunk = 5 * ARENA_CHUNK;
	store_guess(store, GUESS_NOTHING);
	assert_int_equal(store_bring(store, chunk + 100 * ARENA_BLOCK, ARENA_BLOCK), 0);
	store_guess(store, GUESS_CHUNKS);
	assert_int_equal(store_bring(store, chunk, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).reads, 5);
	assert_int_equal(io_counted(&f->first.io).bytes, 2 * ARENA_CHUNK + ARENA_BLOCK);
	assert_right(&f->first, chunk, ARENA_CHUNK);
}

static void guess_when_another_reads_the_chunk_then_waiting_is_not_counted(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t claimed = 3 * ARENA_CHUNK, length = ARENA_BLOCK;
	struct store_load load;

	store_guess(store, GUESS_AROUND);
	assert_int_equal(store_plan(&f->second.store, claimed, &length, false, &load), PLAN_LOAD);
	store->patience.impatient_until = UINT64_MAX;
	for (uint64_t block = 100; block <= 200; block += 50)
		assert_int_equal(store_bring(store, claimed + block * ARENA_BLOCK, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).reads, 0);
	assert_int_equal(store_finish(&f->second.store, &load, f->second.base + claimed, 0, length),
			 0);
	assert_int_equal(store_bring(store, claimed + 100 * ARENA_BLOCK, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).bytes, AROUND);
}

static void guess_when_there_is_no_room_for_the_file_then_what_is_wanted(void **state)
{
	struct fixture *f = *state;

	f->first.store.options.budget = SIZE / 2;
	store_guess(&f->first.store, GUESS_AROUND);
	for (uint64_t block = 0; block < ARENA_BLOCKS; block += 64)
		assert_int_equal(store_bring(&f->first.store, ARENA_CHUNK + block * ARENA_BLOCK,
					     ARENA_BLOCK),
				 0);
	assert_int_equal(io_counted(&f->first.io).bytes, ARENA_BLOCKS / 64 * ARENA_BLOCK);
}

static void guess_when_the_file_is_longer_than_its_pages_then_these_need_the_room(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;

	store->options.budget = SIZE / 2;
	assert_int_equal(store_snapshot(store, &f->identity, SIZE / 2, LOW, true), 0);
	store_guess(store, GUESS_AROUND);
	assert_int_equal(store_bring(store, ARENA_CHUNK, ARENA_BLOCK), 0);
	assert_int_equal(store_bring(store, ARENA_CHUNK + AROUND, ARENA_BLOCK), 0);
	assert_int_equal(store_bring(store, ARENA_CHUNK + 2 * AROUND, ARENA_BLOCK), 0);
	assert_true(store_covers(store, ARENA_CHUNK, ARENA_CHUNK));
}

static void guess_when_other_bytes_cannot_be_read_then_the_wanted_ones_are(void **state)
{
	struct fixture *f = *state;
	uint64_t chunk = 3 * ARENA_CHUNK;

	store_guess(&f->first.store, GUESS_AROUND);
	assert_int_equal(ftruncate(f->fd, (off_t)(chunk + 128 * ARENA_BLOCK)), 0);
	assert_int_equal(store_bring(&f->first.store, chunk, ARENA_BLOCK), 0);
	assert_int_equal(store_bring(&f->first.store, chunk + 40 * ARENA_BLOCK, ARENA_BLOCK), 0);
	assert_int_equal(store_bring(&f->first.store, chunk + 100 * ARENA_BLOCK, ARENA_BLOCK), 0);
	assert_right(&f->first, chunk + 100 * ARENA_BLOCK, ARENA_BLOCK);
	assert_int_equal(store_bring(&f->first.store, chunk + 200 * ARENA_BLOCK, ARENA_BLOCK), EIO);
}

/* While the program may hold a pointer into the file, blocks are shown one by one. Blocks that
 * other processes have published meanwhile are shown as well, and not read again past the arena. */
static void bring_when_others_have_published_parts_then_these_are_shown(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t start = 3 * ARENA_CHUNK + 4 * ARENA_BLOCK;

	store_enter(store);
	assert_int_equal(store_bring(store, start, ARENA_BLOCK), 0);
	/* The program may take a pointer into the file now. */
	assert_int_equal(store_pause(store), 0);
	store_resume(store);
	assert_int_equal(store_bring(store, start + ARENA_BLOCK, ARENA_BLOCK), 0);
	assert_false(store_covers(store, start, ARENA_BLOCK));
	assert_int_equal(store_bring(&f->second.store, start + 3 * ARENA_BLOCK, ARENA_BLOCK), 0);
	assert_int_equal(store_bring(store, start, 4 * ARENA_BLOCK), 0);
	assert_true(store_covers(store, start, 4 * ARENA_BLOCK));
	assert_int_equal(io_counted(&f->first.io).bytes, 3 * ARENA_BLOCK);
	assert_right(&f->first, start, 4 * ARENA_BLOCK);
	store_leave(store);
}

enum { ANNOUNCED = 2 * ARENA_CHUNK + 7 * ARENA_BLOCK };

static void *bring_announced(void *argument)
{
	struct reader *reader = argument;

	return (void *)(intptr_t)store_bring(&reader->store, ANNOUNCED, ARENA_BLOCK);
}

static void bring_when_the_bytes_are_announced_then_waits_for_them(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t length = ARENA_BLOCK;
	struct store_load load;
	uint8_t *bytes = io_buffer_new(ARENA_BLOCK);
	bool waits = false;
	pthread_t thread;
	void *result;
	size_t done;

	store_announce(store, true);
	assert_int_equal(pthread_create(&thread, NULL, bring_announced, &f->first), 0);
	while (!waits) {
		sched_yield();
		pthread_mutex_lock(&store->lock);
		waits = store->landing.waiters != NULL;
		pthread_mutex_unlock(&store->lock);
	}
	assert_int_equal(store_plan(store, ANNOUNCED, &length, false, &load), PLAN_LOAD);
	assert_int_equal(io_read(&f->second.io, bytes, length, ANNOUNCED, &done), 0);
	assert_int_equal(store_finish(store, &load, bytes, 0, done), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_null(result);
	assert_int_equal(io_counted(&f->first.io).reads, 0);
	assert_right(&f->first, ANNOUNCED, ARENA_BLOCK);
	store_announce(store, false);
	io_buffer_free(bytes, ARENA_BLOCK);
}

static void bring_when_no_map_can_be_made_then_the_file_serves(void **state)
{
	struct fixture *f = *state;

	maps_refused = 1;
	assert_int_equal(store_bring(&f->first.store, ARENA_CHUNK, ARENA_CHUNK), 0);
	assert_right(&f->first, ARENA_CHUNK, ARENA_CHUNK);
}

/* In a transaction in which the program may hold a pointer into the file. */
static void enter_with_a_pointer(struct store *store)
{
	store_enter(store);
	assert_int_equal(store_pause(store), 0);
	store_resume(store);
}

static void run_when_no_map_can_be_made_then_the_file_serves(void **state)
{
	struct fixture *f = *state;
	uint64_t next = ARENA_CHUNK + 2 * ARENA_BLOCK, large = ARENA_CHUNK + 64 * ARENA_BLOCK;
	uint64_t populated;

	enter_with_a_pointer(&f->first.store);
	assert_int_equal(store_bring(&f->first.store, ARENA_CHUNK, ARENA_BLOCK), 0);
	maps_refused = 1;
	assert_int_equal(store_bring(&f->first.store, next, ARENA_BLOCK), 0);
	assert_right(&f->first, next, ARENA_BLOCK);
	/* The value is not read once more in order to fill the page table. */
	populated = stats_get(STATS_POPULATE_CALLS);
	assert_int_equal(store_bring(&f->first.store, large, 32 * ARENA_BLOCK), 0);
	assert_int_equal(stats_get(STATS_POPULATE_CALLS), populated);
	maps_refused = 0;
	assert_int_equal(store_bring(&f->first.store, next, ARENA_BLOCK), 0);
	assert_true(store_covers(&f->first.store, next, ARENA_BLOCK));
	store_leave(&f->first.store);
}

/* A pointer of the last transaction may lead between the runs of a chunk. */
static void run_when_its_neighbour_is_waited_for_in_vain_then_pointers_stay_right(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t wanted = ARENA_CHUNK + 50 * ARENA_BLOCK, length = ARENA_BLOCK;
	uint64_t claimed = ARENA_CHUNK + 100 * ARENA_BLOCK;
	struct store_load load;

	enter_with_a_pointer(store);
	assert_int_equal(store_bring(store, ARENA_CHUNK, ARENA_BLOCK), 0);
	store_leave(store);
	store_enter(store);
	assert_int_equal(store_plan(&f->second.store, claimed, &length, false, &load), PLAN_LOAD);
	store->patience.impatient_until = UINT64_MAX;
	assert_int_equal(store_bring(store, wanted, ARENA_BLOCK), 0);
	assert_right(&f->first, wanted, ARENA_BLOCK);
	assert_int_equal(store_finish(&f->second.store, &load, f->second.base + claimed, 0, length),
			 0);
	assert_int_equal(store_bring(store, claimed, ARENA_BLOCK), 0);
	assert_true(store_covers(store, claimed, ARENA_BLOCK));
	assert_right(&f->first, wanted, ARENA_BLOCK);
	store_leave(store);
}

static void file_that_served_for_want_of_a_map_then_pointers_stay_right(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t wanted = ARENA_CHUNK + 50 * ARENA_BLOCK;

	store->options.budget = f->second.store.options.budget = SIZE / 2;
	store_enter(store);
	assert_int_equal(store_bring(store, 2 * ARENA_CHUNK, ARENA_BLOCK), 0);
	maps_refused = 1;
	assert_int_equal(store_bring(store, wanted, ARENA_BLOCK), 0);
	assert_right(&f->first, wanted, ARENA_BLOCK);
	maps_refused = 0;
	/* The first chunk is evicted for want of room. */
	for (uint64_t n = 0; n < 3 * CHUNKS; n++)
		assert_int_equal(store_bring(&f->second.store, (2 + n % (CHUNKS - 2)) * ARENA_CHUNK,
					     ARENA_CHUNK),
				 0);
	assert_int_equal(store_bring(store, ARENA_CHUNK, ARENA_BLOCK), 0);
	assert_true(store_covers(store, ARENA_CHUNK, ARENA_BLOCK));
	assert_false(store_covers(store, wanted, ARENA_BLOCK));
	assert_right(&f->first, wanted, ARENA_BLOCK);
	store_leave(store);
}

static void load_that_lands_in_a_warm_chunk_then_pointers_stay_right(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t loaded = ARENA_CHUNK + 100 * ARENA_BLOCK, length = ARENA_BLOCK;
	struct store_load load;

	assert_int_equal(store_plan(store, loaded, &length, false, &load), PLAN_LOAD);
	store->believe_cache = true;
	store_enter(store);
	assert_int_equal(store_bring(store, ARENA_CHUNK, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).reads, 0);
	store_leave(store);
	store_enter(store);
	assert_true(store_covers(store, ARENA_CHUNK, ARENA_CHUNK));
	assert_int_equal(store_finish(store, &load, f->second.base + loaded, 0, length), 0);
	assert_right(&f->first, ARENA_CHUNK, ARENA_CHUNK);
	/* The pointers stay right when the next block lands in the chunk, too. */
	store->believe_cache = false;
	assert_int_equal(store_bring(store, loaded + ARENA_BLOCK, ARENA_BLOCK), 0);
	assert_int_equal(io_counted(&f->first.io).reads, 1);
	assert_right(&f->first, ARENA_CHUNK, ARENA_CHUNK);
	store_leave(store);
}

static void bring_when_the_kernel_does_not_tell_what_is_cached_then_read(void **state)
{
	struct fixture *f = *state;

	for (int hides = 0; hides < 2; hides++) {
		reader_close(&f->first);
		mincore_hides = hides;
		assert_int_equal(reader_open(&f->first, f, STORE_ARENA, false), 0);
		f->first.store.believe_cache = true;
		assert_int_equal(store_bring(&f->first.store, ARENA_CHUNK, ARENA_BLOCK), 0);
		assert_int_equal(io_counted(&f->first.io).reads, hides);
		assert_right(&f->first, ARENA_CHUNK, ARENA_BLOCK);
	}
}

/* Holes of an arena must not pass for bytes of another snapshot. */
static void snapshot_when_the_file_cannot_be_put_back_then_enomem(void **state)
{
	struct fixture *f = *state;
	struct identity next = f->identity;

	next.snapshot++;
	assert_int_equal(store_bring(&f->first.store, ARENA_CHUNK, ARENA_BLOCK), 0);
	maps_refused = 1;
	assert_int_equal(store_pause(&f->first.store), ENOMEM);
	store_resume(&f->first.store);
	assert_int_equal(store_snapshot(&f->first.store, &next, SIZE, LOW, true), ENOMEM);
	maps_refused = 0;
	assert_int_equal(store_snapshot(&f->first.store, &next, SIZE, LOW, true), 0);
	assert_right(&f->first, 0, SIZE);
	assert_int_equal(store_bring(&f->first.store, ARENA_CHUNK, ARENA_BLOCK), 0);
	assert_right(&f->first, ARENA_CHUNK, ARENA_BLOCK);
}

/* The original reads the file, which this window shows in any case. */
static void snapshot_when_a_copy_of_the_page_cache_is_made_then_goes_on(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;

	reader_close(&f->first);
	assert_int_equal(reader_open(&f->first, f, STORE_CACHE, true), 0);
	assert_int_equal(store_pause(store), 0);
	assert_int_equal(store_snapshot(store, &f->identity, SIZE, LOW, true), 0);
	store_resume(store);
	assert_true(store_knows(store));
}

/* The file has grown since the store was told its end, and a look-ahead reads on. */
static void bytes_when_behind_the_end_that_is_known_then_left_to_the_file(void **state)
{
	struct fixture *f = *state;
	struct reader *reader = &f->first;
	struct identity shorter = f->identity;
	uint64_t behind = 5 * ARENA_CHUNK + ARENA_BLOCK;
	struct store_load load;

	for (unsigned kind = STORE_CACHE; kind <= STORE_ARENA; kind++) {
		uint64_t length = 2 * ARENA_CHUNK;

		reader_close(reader);
		assert_int_equal(reader_open(reader, f, kind, false), 0);
		shorter.size = 3 * ARENA_CHUNK;
		assert_int_equal(store_snapshot(&reader->store, &shorter, shorter.size, LOW, true),
				 0);
		assert_int_equal(store_plan(&reader->store, behind, &length, 0, &load), PLAN_REST);
		assert_int_equal(length, 2 * ARENA_CHUNK);
		assert_int_equal(store_bring(&reader->store, behind, length), 0);
		assert_int_equal(reader->store.landing.loads, 0);
		assert_int_equal(io_counted(&reader->io).reads, 0);
		assert_right(reader, behind, length);
		assert_int_equal(store_bring(&reader->store, shorter.size - ARENA_BLOCK, length),
				 0);
		assert_right(reader, shorter.size - ARENA_BLOCK, length);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(bring_when_nobody_scans_then_only_what_is_wanted,
						store_setup, teardown),
		cmocka_unit_test_setup_teardown(
			bring_when_another_process_scans_then_the_whole_chunk, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			bring_when_it_may_guess_then_around_and_then_the_whole_chunk, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			bring_when_nothing_around_is_wanted_then_the_seventh_time_the_chunk,
			store_setup, teardown),
		cmocka_unit_test_setup_teardown(
			guess_when_others_have_read_of_the_chunk_then_that_counts, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			guess_when_much_was_read_at_random_then_what_is_missing_around, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			guess_when_another_reads_the_chunk_then_waiting_is_not_counted, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			guess_when_there_is_no_room_for_the_file_then_what_is_wanted, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			guess_when_the_file_is_longer_than_its_pages_then_these_need_the_room,
			store_setup, teardown),
		cmocka_unit_test_setup_teardown(
			guess_when_other_bytes_cannot_be_read_then_the_wanted_ones_are, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			bring_when_others_have_published_parts_then_these_are_shown, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			bring_when_the_bytes_are_announced_then_waits_for_them, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(bring_when_no_map_can_be_made_then_the_file_serves,
						store_setup, teardown),
		cmocka_unit_test_setup_teardown(run_when_no_map_can_be_made_then_the_file_serves,
						store_setup, teardown),
		cmocka_unit_test_setup_teardown(
			run_when_its_neighbour_is_waited_for_in_vain_then_pointers_stay_right,
			store_setup, teardown),
		cmocka_unit_test_setup_teardown(
			file_that_served_for_want_of_a_map_then_pointers_stay_right, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			bring_when_the_kernel_does_not_tell_what_is_cached_then_read, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			load_that_lands_in_a_warm_chunk_then_pointers_stay_right, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			snapshot_when_the_file_cannot_be_put_back_then_enomem, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			snapshot_when_a_copy_of_the_page_cache_is_made_then_goes_on, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			bytes_when_behind_the_end_that_is_known_then_left_to_the_file, store_setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
