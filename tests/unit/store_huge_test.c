/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a window shows a huge page of the arena by one entry of the page table, whichever
 * process loaded its two halves and in whichever order. */
#include "store_fixture.h"

#include "arena/arena_private.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAIR = 4, OTHER = PAIR + 1 }; /* the chunks of the huge page */

/* A window can show a huge page as one only from a multiple of the huge page's size on. */
static void align(struct reader *reader, const struct fixture *f)
{
	uint8_t *place =
		mmap(NULL, SIZE + ARENA_HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(place != MAP_FAILED);
	place = (uint8_t *)round_up((uintptr_t)place, ARENA_HUGE);
	munmap(reader->base, SIZE);
	reader->base = mmap(place, SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, f->fd, 0);
	assert_ptr_equal(reader->base, place);
	reader->store.file.base = reader->base;
}

/* Both readers join the arena, with a huge page for the pair. Returns false if this kernel makes
 * none. */
static bool begin(struct fixture *f)
{
	align(&f->first, f);
	align(&f->second, f);
	assert_int_equal(store_bring(&f->first.store, 0, ARENA_CHUNK), 0);
	assert_int_equal(store_bring(&f->second.store, 0, ARENA_CHUNK), 0);
	atomic_store(&f->first.store.arena->trust, 1);
	arena_prepare(f->first.store.arena, PAIR, ARENA_PAIR);
	return arena_is_huge(f->first.store.arena, PAIR);
}

static void load(struct fixture *f, uint64_t chunk)
{
	struct reader *reader = &f->first;
	uint64_t length = ARENA_CHUNK;
	struct store_load load;
	void *place;

	assert_int_equal(store_plan(&reader->store, chunk * ARENA_CHUNK, &length, false, &load),
			 PLAN_LOAD);
	place = store_place(&load);
	assert_non_null(place);
	assert_int_equal(pread(f->fd, place, length, (off_t)(chunk * ARENA_CHUNK)), length);
	assert_int_equal(store_finish(&reader->store, &load, place, 0, length), 0);
}

/* Returns how many KiB of the pair's part of a window have huge-page entries. */
static unsigned long mapped_as_one(const struct reader *reader)
{
	char said[MAP_LINE];

	reader_map_says(reader, PAIR * (uint64_t)ARENA_CHUNK, "ShmemPmdMapped:", said);
	return strtoul(said, NULL, 10);
}

static void assert_shown_as_one(const struct reader *reader)
{
	assert_true(store_covers(&reader->store, PAIR * (uint64_t)ARENA_CHUNK, ARENA_HUGE));
	assert_right(reader, PAIR * (uint64_t)ARENA_CHUNK, ARENA_HUGE);
	assert_int_equal(mapped_as_one(reader), ARENA_HUGE / 1024);
}

static void halves_when_both_are_loaded_then_shown_as_one(void **state)
{
	struct fixture *f = *state;

	if (!begin(f))
		skip();
	load(f, PAIR);
	load(f, OTHER);
	assert_shown_as_one(&f->first);
}

static void halves_when_loaded_backwards_then_the_same(void **state)
{
	struct fixture *f = *state;

	if (!begin(f))
		skip();
	load(f, OTHER);
	load(f, PAIR);
	assert_shown_as_one(&f->first);
}

/* A program that waited for the first half already has entries for its pages. */
static void halves_when_the_first_was_in_use_then_the_same(void **state)
{
	struct fixture *f = *state;

	if (!begin(f))
		skip();
	load(f, PAIR);
	assert_right(&f->first, PAIR * (uint64_t)ARENA_CHUNK, ARENA_CHUNK);
	load(f, OTHER);
	assert_shown_as_one(&f->first);
}

/* The other process asks for the first half only. */
static void halves_when_another_process_wants_one_then_it_has_both(void **state)
{
	struct fixture *f = *state;

	if (!begin(f))
		skip();
	load(f, PAIR);
	load(f, OTHER);
	assert_int_equal(store_bring(&f->second.store, PAIR * (uint64_t)ARENA_CHUNK, 1), 0);
	assert_shown_as_one(&f->second);
}

static void half_when_the_other_was_never_read_then_it_is_shown_alone(void **state)
{
	struct fixture *f = *state;

	if (!begin(f))
		skip();
	load(f, OTHER);
	assert_int_equal(store_bring(&f->second.store, OTHER * (uint64_t)ARENA_CHUNK, 1), 0);
	assert_false(store_covers(&f->second.store, PAIR * (uint64_t)ARENA_CHUNK, 1));
	assert_right(&f->second, OTHER * (uint64_t)ARENA_CHUNK, ARENA_CHUNK);
	assert_right(&f->second, PAIR * (uint64_t)ARENA_CHUNK, ARENA_CHUNK);
}

static void halves_when_a_newer_snapshot_comes_then_the_file_is_shown(void **state)
{
	struct fixture *f = *state;
	struct identity newer = f->identity;

	if (!begin(f))
		skip();
	load(f, PAIR);
	load(f, OTHER);
	newer.snapshot++;
	assert_int_equal(store_snapshot(&f->first.store, &newer, SIZE, LOW, true), 0);
	assert_int_equal(mapped_as_one(&f->first), 0);
	assert_right(&f->first, 0, SIZE);
}

/* Marks the pair as huge; a kernel without huge pages shows the same bytes. */
static void be_huge(struct arena *arena)
{
	struct arena_group *group = arena_group_need(arena, PAIR, arena->row);

	assert_non_null(group);
	atomic_fetch_or(&group->huge[PAIR % ARENA_GROUP / 64], UINT64_C(3) << PAIR % 64);
}

/* As a container's look-ahead does: it loads a chunk in one piece, even if parts of it are
 * there. */
static void plan_whole(struct reader *reader, uint64_t chunk, struct store_load *load)
{
	uint64_t length = ARENA_CHUNK;

	reader->store.piece = ARENA_CHUNK;
	store_scan(&reader->store, 1);
	assert_int_equal(store_plan(&reader->store, chunk * ARENA_CHUNK, &length, 0, load),
			 PLAN_LOAD);
	store_scan(&reader->store, -1);
	assert_int_equal(load->length, ARENA_CHUNK);
}

/* A decoder that fails may have written any bytes. */
static void decode_in_vain(struct reader *reader, const struct store_load *load)
{
	uint8_t *buffer = malloc(load->length), *place = store_place(load);

	assert_non_null(buffer);
	memset(place ? place : buffer, 0xee, load->length);
	assert_int_equal(store_finish(&reader->store, load, place ? place : buffer, EBADMSG, 0),
			 EBADMSG);
	free(buffer);
}

static void half_when_a_block_of_it_is_in_use_then_nothing_is_decoded_over_it(void **state)
{
	struct fixture *f = *state;
	uint64_t used = PAIR * (uint64_t)ARENA_CHUNK + 100 * ARENA_BLOCK;
	struct store_load load;

	assert_int_equal(store_bring(&f->second.store, used, ARENA_BLOCK), 0);
	assert_int_equal(store_bring(&f->first.store, 0, ARENA_CHUNK), 0);
	be_huge(f->first.store.arena);
	plan_whole(&f->first, PAIR, &load);
	assert_int_equal(load.blocks, ARENA_BLOCKS - 1);
	assert_null(store_place(&load));
	decode_in_vain(&f->first, &load);
	assert_true(store_covers(&f->second.store, used, ARENA_BLOCK));
	assert_right(&f->second, used, ARENA_BLOCK);
}

/* A half that no process has mapped is decoded in its final place. */
static void half_when_none_of_it_is_in_use_then_it_is_decoded_in_its_place(void **state)
{
	struct fixture *f = *state;
	struct store_load load;

	assert_int_equal(store_bring(&f->first.store, 0, ARENA_CHUNK), 0);
	be_huge(f->first.store.arena);
	plan_whole(&f->first, OTHER, &load);
	assert_non_null(store_place(&load));
	decode_in_vain(&f->first, &load);
	assert_false(store_covers(&f->first.store, load.offset, load.length));
	assert_int_equal(store_bring(&f->first.store, load.offset, load.length), 0);
	assert_right(&f->first, load.offset, load.length);
}

/* What a program has read of a pair at random, so that the rest comes. */
static void random_begin(struct fixture *f, uint64_t chunk)
{
	struct store *store = &f->first.store;

	assert_int_equal(store_bring(store, 0, ARENA_CHUNK), 0);
	store_guess(store, GUESS_CHUNKS);
	for (unsigned i = 0; i < 6; i++)
		arena_pieces_add(store->arena, chunk, 1);
}

/* A chunk that random reads bring as a whole is read into its place in a huge page. */
static void half_when_it_is_read_at_random_then_into_a_huge_page(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	bool can = begin(f);

	random_begin(f, PAIR + ARENA_PAIR);
	atomic_store(&store->arena->trust, 1);
	assert_int_equal(store_bring(store, (PAIR + ARENA_PAIR) * (uint64_t)ARENA_CHUNK, 1), 0);
	assert_int_equal(arena_is_huge(store->arena, PAIR + ARENA_PAIR), can);
	assert_true(store_covers(store, (PAIR + ARENA_PAIR) * (uint64_t)ARENA_CHUNK, ARENA_CHUNK));
	assert_right(&f->first, (PAIR + ARENA_PAIR) * (uint64_t)ARENA_CHUNK, ARENA_HUGE);
	/* The claims of both chunks were given back. */
	assert_int_equal(
		store_bring(store, (PAIR + ARENA_PAIR + 1) * (uint64_t)ARENA_CHUNK, ARENA_CHUNK),
		0);
	assert_true(store_covers(store, (PAIR + ARENA_PAIR) * (uint64_t)ARENA_CHUNK, ARENA_HUGE));
	assert_right(&f->first, (PAIR + ARENA_PAIR) * (uint64_t)ARENA_CHUNK, ARENA_HUGE);
}

/* The file ends within the chunk for now, so a part of its place is read. */
static void half_when_its_read_fails_then_nothing_of_it_is_shown(void **state)
{
	struct fixture *f = *state;
	struct store *store = &f->first.store;
	uint64_t wanted = PAIR * (uint64_t)ARENA_CHUNK + 200 * ARENA_BLOCK;

	random_begin(f, PAIR);
	atomic_store(&store->arena->trust, 1);
	assert_int_equal(ftruncate(f->fd, (off_t)(wanted - ARENA_BLOCK)), 0);
	assert_int_equal(store_bring(store, wanted, 1), EIO);
	assert_false(arena_present(store->arena, PAIR * (uint64_t)ARENA_BLOCKS, 1));
	assert_int_equal(arena_used(store->arena), ARENA_CHUNK - LOW);
}

/* The file was made longer than its data, and the program has set a smaller map size. */
static void half_when_the_window_ends_behind_it_then_it_is_shown_alone(void **state)
{
	struct fixture *f = *state;
	struct arena_options options = f->first.store.options;
	uint64_t length = OTHER * (uint64_t)ARENA_CHUNK;
	struct store *store = &f->first.store;

	assert_int_equal(store_bring(&f->second.store, length, ARENA_CHUNK), 0);
	be_huge(f->second.store.arena);
	align(&f->first, f);
	store_close(store);
	assert_int_equal(store_open(store, STORE_ARENA, f->first.base, length, f->fd, &f->first.io,
				    &options, false),
			 0);
	assert_int_equal(store_snapshot(store, &f->identity, length, LOW, true), 0);
	assert_int_equal(store_bring(store, PAIR * (uint64_t)ARENA_CHUNK, ARENA_CHUNK), 0);
	assert_int_equal(store->shown.mapped_count, 1);
	assert_true(store_covers(store, PAIR * (uint64_t)ARENA_CHUNK, ARENA_CHUNK));
	assert_right(&f->first, 0, SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(halves_when_both_are_loaded_then_shown_as_one,
						store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(halves_when_loaded_backwards_then_the_same,
						store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(halves_when_the_first_was_in_use_then_the_same,
						store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(
			halves_when_another_process_wants_one_then_it_has_both, store_setup,
			store_teardown),
		cmocka_unit_test_setup_teardown(
			half_when_the_other_was_never_read_then_it_is_shown_alone, store_setup,
			store_teardown),
		cmocka_unit_test_setup_teardown(
			halves_when_a_newer_snapshot_comes_then_the_file_is_shown, store_setup,
			store_teardown),
		cmocka_unit_test_setup_teardown(
			half_when_a_block_of_it_is_in_use_then_nothing_is_decoded_over_it,
			store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(
			half_when_none_of_it_is_in_use_then_it_is_decoded_in_its_place, store_setup,
			store_teardown),
		cmocka_unit_test_setup_teardown(
			half_when_it_is_read_at_random_then_into_a_huge_page, store_setup,
			store_teardown),
		cmocka_unit_test_setup_teardown(
			half_when_its_read_fails_then_nothing_of_it_is_shown, store_setup,
			store_teardown),
		cmocka_unit_test_setup_teardown(
			half_when_the_window_ends_behind_it_then_it_is_shown_alone, store_setup,
			store_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
