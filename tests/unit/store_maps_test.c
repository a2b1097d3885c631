/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how many of the kernel's maps a window is made of, and what happens to a chunk that needs
 * a map of its own. */
#include "store_fixture.h"

#include "arena/arena_private.h"
#include "window/store_private.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { KERNEL_MAPS = 200 };

static bool locks_refused;
/* Chunk 1 of this store misses a block that a thread might take for present. */
static const struct store *looked_at;
static bool taken_early;

enum { MISSING = ARENA_CHUNK + 8 * ARENA_BLOCK };

void *__real_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);

/* Simulates a program that locks its maps and has reached the limit of locked memory. */
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	if (locks_refused && flags & MAP_FIXED) {
		errno = EAGAIN;
		return MAP_FAILED;
	}
	if (looked_at && flags & MAP_FIXED)
		taken_early |= store_has(looked_at, 1, MISSING, ARENA_BLOCK);
	return __real_mmap(address, length, protection, flags, fd, offset);
}

void *__real_mremap(void *address, size_t length, size_t now, int flags, ...);
void *__wrap_mremap(void *address, size_t length, size_t now, int flags, ...);

/* Another thread's map, in the place from which a map has been moved. */
static void *taken_place;

void *__wrap_mremap(void *address, size_t length, size_t now, int flags, ...)
{
	void *to = NULL, *map;
	va_list rest;

	va_start(rest, flags);
	if (flags & MREMAP_FIXED)
		to = va_arg(rest, void *);
	va_end(rest);
	map = __real_mremap(address, length, now, flags, to);
	if (to && map != MAP_FAILED)
		taken_place = __real_mmap(address, ARENA_BLOCK, PROT_READ,
					  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	return map;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

/* Simulates a kernel with few maps. */
int __wrap_open(const char *path, int flags, ...)
{
	char text[16];
	mode_t mode;
	va_list rest;
	int fd;

	va_start(rest, flags);
	mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
	va_end(rest);
	if (strcmp(path, "/proc/sys/vm/max_map_count"))
		return __real_open(path, flags, mode);
	fd = memfd_create("max-map-count", MFD_CLOEXEC);
	snprintf(text, sizeof(text), "%d\n", KERNEL_MAPS);
	assert_int_equal(pwrite(fd, text, strlen(text), 0), (ssize_t)strlen(text));
	return fd;
}

/* Whether the kernel was told to read the pages of a map singly. */
static bool is_read_singly(const struct reader *reader, uint64_t offset)
{
	char said[MAP_LINE];

	reader_map_says(reader, offset, "VmFlags:", said);
	return strstr(said, " rr") != NULL;
}

static void leave(struct store *store, uint64_t chunk)
{
	pthread_mutex_lock(&store->lock);
	assert_true(chunk_leave(store, chunk));
	pthread_mutex_unlock(&store->lock);
}

/* Enters a transaction in which the program may hold a pointer into the file. */
static void enter_with_a_pointer(struct store *store)
{
	store_enter(store);
	assert_int_equal(store_pause(store), 0);
	store_resume(store);
}

static void bring_every_second_chunk_and_leave(struct reader *reader)
{
	for (uint64_t chunk = 1; chunk < CHUNKS; chunk += 2)
		assert_int_equal(store_bring(&reader->store, chunk * ARENA_CHUNK, ARENA_CHUNK), 0);
	assert_int_equal(reader_maps(reader), CHUNKS);
	for (uint64_t chunk = 1; chunk < CHUNKS; chunk += 2)
		leave(&reader->store, chunk);
}

static void chunk_when_evicted_then_its_map_goes(void **state)
{
	struct fixture *f = *state;

	bring_every_second_chunk_and_leave(&f->first);
	assert_int_equal(reader_maps(&f->first), 1);
	assert_right(&f->first, 0, SIZE);
}

static void chunk_when_pages_are_to_be_read_singly_then_its_map_goes_as_well(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(madvise(f->first.base, SIZE, MADV_RANDOM), 0);
	store_read_singly(&f->first.store);
	bring_every_second_chunk_and_leave(&f->first);
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
		assert_true(is_read_singly(&f->first, chunk * ARENA_CHUNK));
	assert_int_equal(reader_maps(&f->first), 1);
	assert_right(&f->first, 0, SIZE);
}

/* MDB_NORDAHEAD applies to the file's new map as well. */
static void snapshot_when_pages_are_to_be_read_singly_then_they_are_again(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	struct identity next = f->identity;

	assert_int_equal(madvise(f->first.base, SIZE, MADV_RANDOM), 0);
	store_read_singly(store);
	assert_int_equal(store_bring(store, 0, SIZE), 0);
	assert_false(is_read_singly(&f->first, SIZE / 2));
	next.snapshot++;
	assert_int_equal(store_snapshot(store, &next, SIZE, LOW, true), 0);
	assert_true(is_read_singly(&f->first, SIZE / 2));
	assert_right(&f->first, 0, SIZE);
}

/* Brings every other block of the chunks behind the first one. */
static void bring_every_other_block(struct reader *reader, uint64_t chunks)
{
	for (uint64_t at = ARENA_CHUNK; at < (1 + chunks) * ARENA_CHUNK; at += 2 * ARENA_BLOCK) {
		assert_int_equal(store_bring(&reader->store, at, ARENA_BLOCK), 0);
		assert_int_equal(reader->base[at], byte_at(at));
	}
}

static void first_transaction_when_single_blocks_come_then_a_chunk_is_one_map(void **state)
{
	struct fixture *f = *state;

	store_enter(&f->first.store);
	bring_every_other_block(&f->first, 2);
	assert_int_equal(reader_maps(&f->first), 3);
	store_leave(&f->first.store);
}

static void runs_when_they_are_many_then_half_of_the_kernels_maps(void **state)
{
	struct fixture *f = *state;
	int before = reader_maps(&f->first);

	enter_with_a_pointer(&f->first.store);
	enter_with_a_pointer(&f->second.store);
	bring_every_other_block(&f->first, CHUNKS - 1);
	assert_in_range(reader_maps(&f->first), before + KERNEL_MAPS / 4, KERNEL_MAPS / 2 + 2);
	/* A store that comes late still gets maps. */
	assert_int_equal(store_bring(&f->second.store, ARENA_CHUNK, ARENA_BLOCK), 0);
	assert_true(store_covers(&f->second.store, ARENA_CHUNK, ARENA_BLOCK));
	bring_every_other_block(&f->second, CHUNKS - 1);
	/* Holds for all windows of the process together. */
	assert_true(reader_maps(&f->first) + reader_maps(&f->second) <= KERNEL_MAPS / 2 + 4);
	assert_right(&f->first, 0, SIZE);
	assert_right(&f->second, 0, SIZE);
	store_leave(&f->first.store);
	store_leave(&f->second.store);
	/* Borders are no longer counted once the windows show the file. */
	assert_int_equal(store_pause(&f->first.store), 0);
	assert_int_equal(store_pause(&f->second.store), 0);
	assert_int_equal(f->first.store.shown.borders, 0);
	assert_int_equal(f->second.store.shown.borders, 0);
	assert_int_equal(reader_maps(&f->first), 1);
	store_resume(&f->first.store);
	store_resume(&f->second.store);
}

/* Brings every other block behind the first two chunks, each in a map of its own, until no more
 * maps are allowed. */
static void use_up_all_maps(struct reader *reader)
{
	enter_with_a_pointer(&reader->store);
	for (uint64_t at = 2 * ARENA_CHUNK; at < SIZE && !borders_are_many(&reader->store);
	     at += 2 * ARENA_BLOCK)
		assert_int_equal(store_bring(&reader->store, at, ARENA_BLOCK), 0);
	assert_true(borders_are_many(&reader->store));
}

/* An unpinned chunk that the window shows becomes zeros when the node's memory is short. */
static void chunk_when_it_comes_back_and_maps_are_short_then_it_stays_pinned(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t next = ARENA_CHUNK + 2 * ARENA_BLOCK;

	store_enter(store);
	assert_int_equal(store_bring(store, ARENA_CHUNK, ARENA_BLOCK), 0);
	leave(store, 1);
	assert_int_equal(store_bring(store, ARENA_CHUNK, ARENA_BLOCK), 0);
	use_up_all_maps(&f->second);
	assert_int_equal(store_bring(store, next, ARENA_BLOCK), 0);
	assert_int_equal(store_pause(&f->second.store), 0);
	arena_evict(store->arena, CHUNKS * ARENA_BLOCKS);
	assert_right(&f->first, ARENA_CHUNK, 3 * ARENA_BLOCK);
	assert_int_equal(store->shown.mapped_count, 1);
	store_resume(&f->second.store);
	store_leave(&f->second.store);
	store_leave(store);
}

/* A thread that looks before the file is laid over the window would see the arena's zeros. */
static void file_when_it_is_not_shown_yet_then_what_is_missing_is_missed(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	struct identity next = f->identity;

	next.snapshot++;
	for (unsigned newer = 0; newer < 2; newer++) {
		assert_int_equal(store_bring(store, ARENA_CHUNK, ARENA_BLOCK), 0);
		assert_false(store_has(store, 1, MISSING, ARENA_BLOCK));
		looked_at = store;
		taken_early = false;
		if (newer)
			assert_int_equal(store_snapshot(store, &next, SIZE, LOW, false), 0);
		else
			assert_int_equal(store_pause(store), 0);
		looked_at = NULL;
		assert_false(taken_early);
		assert_true(store_has(store, 1, MISSING, ARENA_BLOCK));
		if (!newer)
			store_resume(store);
	}
}

static int teardown(void **state)
{
	looked_at = NULL;
	locks_refused = false;
	return store_teardown(state);
}

static void file_when_no_more_may_be_locked_then_it_is_put_back_unlocked(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	struct identity next = f->identity;

	assert_int_equal(store_bring(store, ARENA_CHUNK, ARENA_CHUNK), 0);
	assert_int_equal(store_bring(store, 3 * ARENA_CHUNK, ARENA_CHUNK), 0);
	locks_refused = true;
	leave(store, 1);
	assert_int_equal(reader_maps(&f->first), 3);
	next.snapshot++;
	assert_int_equal(store_snapshot(store, &next, SIZE, LOW, true), 0);
	assert_int_equal(reader_maps(&f->first), 1);
	/* The arena cannot be shown. */
	assert_int_equal(store_bring(store, ARENA_CHUNK, ARENA_CHUNK), 0);
	locks_refused = false;
	assert_int_equal(reader_maps(&f->first), 1);
	assert_right(&f->first, 0, SIZE);
}

enum { MAY_NOT_LOCK = 77 };

static bool is_locked(const struct reader *reader, uint64_t offset)
{
	char said[MAP_LINE];

	reader_map_says(reader, offset, "VmFlags:", said);
	return strstr(said, " lo") != NULL;
}

/* Runs in a process of its own. Returns the exit status. */
static int lock_all_maps(void)
{
	struct identity next;
	struct fixture *f;
	struct store *store;
	void *state;

	if (store_setup(&state))
		return 1;
	f = state;
	store = &f->first.store;
	next = f->identity;
	next.snapshot++;
	if (store_bring(store, ARENA_CHUNK, ARENA_CHUNK))
		return 2;
	if (mlockall(MCL_FUTURE))
		return MAY_NOT_LOCK;
	if (store_snapshot(store, &next, SIZE, LOW, true))
		return 3;
	if (reader_maps(&f->first) != 1 || is_locked(&f->first, ARENA_CHUNK))
		return 4;
	if (store_bring(store, 2 * ARENA_CHUNK, ARENA_CHUNK))
		return 5;
	pthread_mutex_lock(&store->lock);
	if (!chunk_leave(store, 2) || is_locked(&f->first, 2 * ARENA_CHUNK))
		return 6;
	for (uint64_t at = 0; at < SIZE; at += ARENA_BLOCK)
		if (f->first.base[at] != byte_at(at))
			return 7;
	return reader_maps(&f->first) != 1;
}

/* If the file were mapped as a locked map, the kernel would first read all of it. */
static void file_when_new_maps_are_locked_then_it_is_put_back_unlocked(void **state)
{
	pid_t child = fork();
	int status;

	(void)state;
	assert_true(child >= 0);
	if (!child)
		_exit(lock_all_maps());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == MAY_NOT_LOCK)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* A program has closed the file, and its threads go on making maps. */
static void file_when_it_is_put_back_without_its_descriptor_then_other_maps_stay(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	unsigned char page;

	assert_int_equal(store_bring(store, LOW, ARENA_BLOCK), 0);
	store->file.inode++;
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk += CHUNKS - 1) {
		assert_int_equal(store_bring(store, chunk * ARENA_CHUNK + LOW, ARENA_BLOCK), 0);
		taken_place = NULL;
		leave(store, chunk);
		assert_non_null(taken_place);
		assert_ptr_not_equal(taken_place, MAP_FAILED);
		assert_int_equal(mincore(taken_place, ARENA_BLOCK, &page), 0);
		munmap(taken_place, ARENA_BLOCK);
		assert_right(&f->first, 0, SIZE);
	}
	store->file.inode--;
}

/* The store asks no question about pages that the page cache holds, so it does not record the
 * pointers into them. */
static void page_that_a_cursor_stands_on_when_room_is_short_then_stays(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;

	store->options.budget = SIZE - 2 * ARENA_CHUNK;
	assert_int_equal(store_bring(store, ARENA_CHUNK, ARENA_CHUNK), 0);
	for (uint64_t n = 0; n < 4 * CHUNKS; n++) {
		store_use(store, store->file.base + ARENA_CHUNK);
		assert_int_equal(
			store_bring(store, (2 + n % (CHUNKS - 2)) * ARENA_CHUNK, ARENA_CHUNK), 0);
		assert_true(store_shows(store, ARENA_CHUNK, ARENA_CHUNK));
	}
	assert_true(io_counted(&f->first.io).bytes > SIZE);
}

/* Announced values land in chunks that were mapped long ago, too. */
static void chunk_in_which_bytes_have_landed_when_room_is_short_then_stays(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	struct store_load load;

	store->options.budget = SIZE - 2 * ARENA_CHUNK;
	for (uint64_t n = 0; n < 4 * CHUNKS; n++) {
		uint64_t landed = ARENA_CHUNK + n * ARENA_BLOCK, length = ARENA_BLOCK;

		assert_int_equal(store_plan(store, landed, &length, 0, &load), PLAN_LOAD);
		assert_int_equal(store_finish(store, &load, f->second.base + landed, 0, length), 0);
		assert_int_equal(
			store_bring(store, (2 + n % (CHUNKS - 2)) * ARENA_CHUNK, ARENA_CHUNK), 0);
		assert_true(store_covers(store, ARENA_CHUNK, (n + 1) * ARENA_BLOCK));
	}
	assert_true(io_counted(&f->first.io).bytes > SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			page_that_a_cursor_stands_on_when_room_is_short_then_stays, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			chunk_in_which_bytes_have_landed_when_room_is_short_then_stays, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(chunk_when_evicted_then_its_map_goes, store_setup,
						store_teardown),
		cmocka_unit_test_setup_teardown(
			chunk_when_pages_are_to_be_read_singly_then_its_map_goes_as_well,
			store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(
			first_transaction_when_single_blocks_come_then_a_chunk_is_one_map,
			store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(
			runs_when_they_are_many_then_half_of_the_kernels_maps, store_setup,
			store_teardown),
		cmocka_unit_test_setup_teardown(
			chunk_when_it_comes_back_and_maps_are_short_then_it_stays_pinned,
			store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(
			file_when_no_more_may_be_locked_then_it_is_put_back_unlocked, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			file_when_it_is_not_shown_yet_then_what_is_missing_is_missed, store_setup,
			teardown),
		cmocka_unit_test_setup_teardown(
			file_when_it_is_put_back_without_its_descriptor_then_other_maps_stay,
			store_setup, store_teardown),
		cmocka_unit_test(file_when_new_maps_are_locked_then_it_is_put_back_unlocked),
		cmocka_unit_test_setup_teardown(
			snapshot_when_pages_are_to_be_read_singly_then_they_are_again, store_setup,
			store_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
