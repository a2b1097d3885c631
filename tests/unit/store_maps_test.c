/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how many maps of the kernel's a window is made of, and what becomes of one that a chunk has to
 * have. */
#include "store_fixture.h"

#include "arena/arena_private.h"
#include "window/store_private.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { KERNEL_MAPS = 200 };

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

/* A kernel that has few maps. */
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

/* In a transaction in which a pointer into the file may be held. */
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

/* MDB_NORDAHEAD is for the map that the file is under again. */
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

/* Every other block of the chunks behind the first two, one map each, until there may be no more. */
static void use_up_all_maps(struct reader *reader)
{
	enter_with_a_pointer(&reader->store);
	for (uint64_t at = 2 * ARENA_CHUNK; at < SIZE && !borders_are_many(&reader->store);
	     at += 2 * ARENA_BLOCK)
		assert_int_equal(store_bring(&reader->store, at, ARENA_BLOCK), 0);
	assert_true(borders_are_many(&reader->store));
}

/* What is shown of a chunk that is not pinned becomes zeros when the node's memory is short. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(chunk_when_evicted_then_its_map_goes, store_setup,
						store_teardown),
		cmocka_unit_test_setup_teardown(
			chunk_when_pages_are_to_be_read_singly_then_its_map_goes_as_well,
			store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(
			chunk_when_it_comes_back_and_maps_are_short_then_it_stays_pinned,
			store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(
			snapshot_when_pages_are_to_be_read_singly_then_they_are_again, store_setup,
			store_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
