/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which bytes are read past the arena, and that such reads leave the arena unchanged. */
#include "store_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum { LENGTH = 48 * ARENA_BLOCK };

static uint8_t *buffer;

static bool is_read(struct reader *reader, uint64_t offset, int expected)
{
	bool served;

	assert_int_equal(store_read(&reader->store, buffer, offset, LENGTH, &served), expected);
	for (uint64_t i = 0; served && !expected && i < LENGTH; i += 97)
		assert_int_equal(buffer[i], byte_at(offset + i));
	return served;
}

/* An arena with room for two chunks, both present. */
static void fill(struct fixture *f)
{
	f->first.store.options.budget = 2 * ARENA_CHUNK;
	assert_int_equal(store_bring(&f->first.store, ARENA_CHUNK, 2 * ARENA_CHUNK), 0);
}

static void read_when_there_is_room_then_better_brought(void **state)
{
	struct fixture *f = *state;

	assert_true(store_reads(&f->first.store));
	assert_false(is_read(&f->first, ARENA_CHUNK, 0));
	assert_int_equal(io_counted(&f->first.io).reads, 0);
}

static void read_when_the_arena_is_full_then_past_it(void **state)
{
	struct fixture *f = *state;
	struct arena *arena;
	uint64_t used;

	fill(f);
	arena = f->first.store.arena;
	used = arena_used(arena);
	for (uint64_t chunk = 3; chunk < CHUNKS; chunk++)
		assert_true(is_read(&f->first, chunk * ARENA_CHUNK + ARENA_BLOCK, 0));
	assert_int_equal(arena_used(arena), used);
	assert_int_equal(arena_evictions(arena), 0);
	assert_true(store_covers(&f->first.store, ARENA_CHUNK, 2 * ARENA_CHUNK));
	assert_int_equal(io_counted(&f->first.io).bytes,
			 2 * ARENA_CHUNK + (CHUNKS - 3) * (uint64_t)LENGTH);
}

static void read_when_somebody_has_it_in_the_arena_then_better_shown(void **state)
{
	struct fixture *f = *state;

	fill(f);
	assert_false(is_read(&f->first, ARENA_CHUNK, 0));
	assert_false(is_read(&f->second, 2 * ARENA_CHUNK, 0));
	/* A part of the chunk is not enough. */
	assert_true(is_read(&f->second, 3 * ARENA_CHUNK - ARENA_BLOCK, 0));
}

static void read_when_the_page_cache_has_it_then_better_shown(void **state)
{
	struct fixture *f = *state;

	fill(f);
	f->first.store.believe_cache = true;
	assert_false(is_read(&f->first, 4 * ARENA_CHUNK, 0));
	assert_int_equal(f->first.store.look.told, TOLD_TRULY);
}

static void read_when_the_file_has_become_shorter_then_eio(void **state)
{
	struct fixture *f = *state;

	fill(f);
	assert_int_equal(ftruncate(f->fd, 5 * ARENA_CHUNK + ARENA_BLOCK), 0);
	assert_true(is_read(&f->first, 5 * ARENA_CHUNK, EIO));
	assert_true(is_read(&f->first, 4 * ARENA_CHUNK, 0));
}

static void read_when_paused_or_in_front_then_not_at_all(void **state)
{
	struct fixture *f = *state;

	fill(f);
	assert_false(is_read(&f->first, 0, 0));
	assert_int_equal(store_pause(&f->first.store), 0);
	assert_false(is_read(&f->first, 4 * ARENA_CHUNK, 0));
	store_resume(&f->first.store);
	assert_true(is_read(&f->first, 4 * ARENA_CHUNK, 0));
}

/* The program has reused the number of the data file's descriptor for another file. */
static void read_when_the_descriptor_is_another_file_then_left_to_the_map(void **state)
{
	struct fixture *f = *state;
	int kept = dup(f->fd), other = memfd_create("another", MFD_CLOEXEC);

	fill(f);
	assert_int_equal(ftruncate(other, SIZE), 0);
	assert_int_equal(dup2(other, f->fd), f->fd);
	memset(buffer, 1, LENGTH);
	assert_false(is_read(&f->first, 4 * ARENA_CHUNK, 0));
	assert_int_equal(buffer[0], 1);
	assert_right(&f->first, 4 * ARENA_CHUNK, LENGTH);
	assert_int_equal(dup2(kept, f->fd), f->fd);
	assert_true(is_read(&f->first, 4 * ARENA_CHUNK, 0));
	close(other);
	close(kept);
}

/* lmdbio leaves half of the descriptors to the program. */
static void read_when_there_is_no_arena_then_left_to_the_map(void **state)
{
	struct fixture *f = *state;
	struct rlimit limit, few;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	few = limit;
	few.rlim_cur = (rlim_t)f->fd + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_false(is_read(&f->first, 4 * ARENA_CHUNK, 0));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_null(f->first.store.arena);
	assert_false(atomic_load(&f->first.store.enabled));
	assert_right(&f->first, 4 * ARENA_CHUNK, LENGTH);
	assert_int_equal(io_counted(&f->first.io).reads, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(read_when_there_is_room_then_better_brought),
		CASE(read_when_the_arena_is_full_then_past_it),
		CASE(read_when_somebody_has_it_in_the_arena_then_better_shown),
		CASE(read_when_the_page_cache_has_it_then_better_shown),
		CASE(read_when_the_file_has_become_shorter_then_eio),
		CASE(read_when_paused_or_in_front_then_not_at_all),
		CASE(read_when_the_descriptor_is_another_file_then_left_to_the_map),
		CASE(read_when_there_is_no_arena_then_left_to_the_map),
	};
	int failed;

	buffer = aligned_alloc(ARENA_BLOCK, LENGTH);
	if (!buffer)
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	free(buffer);
	return failed;
}
