/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how many maps of the kernel's a window is made of, and what becomes of one that a chunk has to
 * have. */
#include "store_fixture.h"

#include "window/store_private.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(chunk_when_evicted_then_its_map_goes, store_setup,
						store_teardown),
		cmocka_unit_test_setup_teardown(
			chunk_when_pages_are_to_be_read_singly_then_its_map_goes_as_well,
			store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(
			snapshot_when_pages_are_to_be_read_singly_then_they_are_again, store_setup,
			store_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
