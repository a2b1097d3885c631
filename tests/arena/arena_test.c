/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what an arena promises to one process. */
#include "arena_children.h"
#include "arena_support.h"

#include "arena/arena_private.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { CHUNKS = 40, MIB = 1 << 20 };

static struct dataset dataset;
static const uint8_t any_block[ARENA_BLOCK] = {1};

static struct arena *open_arena(uint64_t chunks, bool share)
{
	struct arena_options options = {
		.budget = chunks * ARENA_CHUNK, .share = share, .node = test_node()};
	struct arena *arena;
	const char *why;

	assert_int_equal(arena_open(&arena, &dataset.identity, &options, &why), 0);
	assert_null(why);
	return arena;
}

static struct reader open_reader(uint64_t chunks)
{
	struct reader reader;

	reader_begin(&reader, open_arena(chunks, true), &dataset);
	return reader;
}

static void close_reader(struct reader *reader)
{
	reader_end(reader);
	arena_close(reader->arena);
}

static void load(struct reader *reader, uint64_t chunk)
{
	assert_true(arena_claim(reader->arena, chunk));
	assert_true(reader_load(reader, chunk * ARENA_BLOCKS, ARENA_BLOCKS));
	arena_release(reader->arena, chunk);
}

static bool is_present(struct arena *arena, uint64_t chunk)
{
	return arena_present(arena, chunk * ARENA_BLOCKS, ARENA_BLOCKS);
}

static uint64_t memory_of(struct arena *arena)
{
	struct stat st;

	assert_int_equal(fstat(arena_fd(arena), &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

/* --- blocks --------------------------------------------------------------------------------- */

static void arena_when_new_then_empty(void **state)
{
	struct arena *arena = open_arena(8, true);
	uint64_t run;

	(void)state;
	assert_int_equal(arena_chunks(arena), CHUNKS);
	assert_int_equal(arena_members(arena), 1);
	assert_int_equal(arena_budget(arena), 8 * ARENA_CHUNK);
	assert_int_equal(arena_used(arena), 0);
	assert_int_equal(arena_evictions(arena), 0);
	assert_false(arena_pressed(arena));
	assert_false(arena_present(arena, 0, 1));
	assert_true(arena_present(arena, 7, 0));
	assert_int_equal(arena_missing(arena, 3, 1000, &run), 997);
	assert_int_equal(run, 3);
	assert_true(memory_of(arena) < MIB);
	arena_close(arena);
}

static void blocks_when_published_then_present_with_right_bytes(void **state)
{
	struct reader reader = open_reader(8);

	(void)state;
	load(&reader, 0);
	load(&reader, CHUNKS - 1);
	assert_true(is_present(reader.arena, 0));
	assert_true(is_present(reader.arena, CHUNKS - 1));
	assert_false(is_present(reader.arena, 1));
	assert_false(arena_present(reader.arena, ARENA_BLOCKS - 1, 2));
	assert_int_equal(reader_wrong(&reader, 0, ARENA_BLOCKS), 0);
	assert_int_equal(arena_used(reader.arena), 2 * ARENA_CHUNK);
	close_reader(&reader);
}

static void missing_when_holes_then_each_run_is_found(void **state)
{
	struct reader reader = open_reader(8);
	static const struct {
		uint64_t first, count;
	} published[] = {{0, 3}, {60, 8}, {127, 1}, {250, 6}, {256, 5}, {300, 1}};
	static const struct {
		uint64_t run, length;
	} missing[] = {{3, 57}, {68, 59}, {128, 122}, {261, 39}, {301, 211}};
	uint64_t run, first = 0;

	(void)state;
	assert_true(arena_claim(reader.arena, 0));
	assert_true(arena_claim(reader.arena, 1));
	for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++)
		assert_true(reader_load(&reader, published[i].first, published[i].count));
	for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
		assert_int_equal(arena_missing(reader.arena, first, 512, &run), missing[i].length);
		assert_int_equal(run, missing[i].run);
		first = run + missing[i].length;
	}
	assert_int_equal(arena_missing(reader.arena, first, 512, &run), 0);
	assert_int_equal(arena_missing(reader.arena, 130, 140, &run), 10);
	assert_int_equal(run, 130);
	assert_int_equal(arena_missing(reader.arena, 60, 68, &run), 0);
	assert_int_equal(arena_missing(reader.arena, 9, 9, &run), 0);
	assert_true(arena_present(reader.arena, 250, 11));
	assert_false(arena_present(reader.arena, 249, 2));
	assert_int_equal(arena_used(reader.arena), 24 * ARENA_BLOCK);
	close_reader(&reader);
}

static void blocks_when_out_of_range_then_nothing_happens(void **state)
{
	struct arena *arena = open_arena(8, true);
	uint64_t run, blocks = (uint64_t)CHUNKS * ARENA_BLOCKS;

	(void)state;
	assert_false(arena_claim(arena, CHUNKS));
	assert_false(arena_claim(arena, UINT64_MAX));
	assert_false(arena_wait(arena, CHUNKS, 0));
	assert_false(arena_pin(arena, CHUNKS));
	arena_unpin(arena, UINT64_MAX);
	arena_touch(arena, UINT64_MAX);
	arena_release(arena, UINT64_MAX);
	arena_publish(arena, UINT64_MAX, 2);
	arena_publish(arena, blocks, 1);
	assert_false(arena_present(arena, blocks, 1));
	assert_false(arena_present(arena, UINT64_MAX, 1));
	assert_false(arena_present(arena, 1, UINT64_MAX));
	assert_int_equal(arena_missing(arena, blocks, blocks + 10, &run), 0);
	assert_int_equal(arena_missing(arena, blocks - 1, UINT64_MAX, &run), 1);
	arena_close(arena);
}

/* --- claims --------------------------------------------------------------------------------- */

static void claim_when_held_then_refused_until_released(void **state)
{
	struct arena *arena = open_arena(8, true);

	(void)state;
	assert_true(arena_claim(arena, 5));
	assert_false(arena_claim(arena, 5));
	assert_false(arena_wait(arena, 5, 0));
	assert_true(arena_claim(arena, 6));
	arena_release(arena, 5);
	assert_true(arena_wait(arena, 5, 0));
	assert_true(arena_claim(arena, 5));
	arena_close(arena);
}

static void claim_when_another_attachment_has_it_then_its_release_does_not_count(void **state)
{
	struct arena *one = open_arena(8, true), *two = open_arena(8, true);

	(void)state;
	assert_int_equal(arena_inode(one), arena_inode(two));
	assert_true(arena_claim(one, 5));
	assert_false(arena_claim(two, 5));
	arena_release(two, 5);
	arena_publish(two, 5 * ARENA_BLOCKS, 1);
	assert_false(arena_present(two, 5 * ARENA_BLOCKS, 1));
	assert_false(arena_claim(two, 5));
	arena_close(one);
	assert_true(arena_claim(two, 5));
	arena_close(two);
}

static void publish_when_not_claimed_or_twice_then_accounts_stay_right(void **state)
{
	struct reader reader = open_reader(8);

	(void)state;
	arena_publish(reader.arena, 0, 10);
	assert_false(arena_present(reader.arena, 0, 1));
	assert_true(arena_claim(reader.arena, 0));
	assert_true(arena_reserve(reader.arena, 10));
	arena_publish(reader.arena, 0, 10);
	arena_publish(reader.arena, 5, 10); /* five again, and five not reserved */
	assert_int_equal(arena_used(reader.arena), 15 * ARENA_BLOCK);
	arena_unreserve(reader.arena, 100); /* nothing is reserved any more */
	assert_int_equal(arena_used(reader.arena), 15 * ARENA_BLOCK);
	close_reader(&reader);
}

static void read_when_it_fails_then_its_memory_goes(void **state)
{
	struct reader reader = open_reader(8);

	(void)state;
	assert_true(arena_claim(reader.arena, 0));
	assert_true(reader_load(&reader, 0, 4));
	assert_true(arena_reserve(reader.arena, ARENA_BLOCKS - 4));
	for (uint64_t i = 4; i < 104; i++)
		assert_int_equal(arena_fill(reader.arena, i * ARENA_BLOCK, any_block, sizeof(any_block)), 0);
	arena_abandon(reader.arena, 0, ARENA_BLOCKS - 4);
	assert_int_equal(arena_memory(reader.arena), 4 * ARENA_BLOCK);
	assert_int_equal(arena_used(reader.arena), 4 * ARENA_BLOCK);
	assert_int_equal(reader_wrong(&reader, 0, 4), 0);
	close_reader(&reader);
}

static void progress_when_the_holder_publishes_elsewhere_then_moves(void **state)
{
	struct reader one = open_reader(8), two = open_reader(8);
	uint64_t before;

	(void)state;
	assert_true(arena_claim(one.arena, 0));
	assert_true(arena_claim(one.arena, 1));
	before = arena_progress(two.arena, 0);
	assert_int_equal(arena_progress(two.arena, 0), before);
	assert_true(reader_load(&one, ARENA_BLOCKS, 4));
	assert_int_not_equal(arena_progress(two.arena, 0), before);
	arena_release(one.arena, 0);
	arena_release(one.arena, 1);
	close_reader(&one);
	close_reader(&two);
}

/* --- pins and memory ------------------------------------------------------------------------ */

static void reserve_when_full_then_the_longest_unused_goes(void **state)
{
	struct reader reader = open_reader(4);

	(void)state;
	for (uint64_t chunk = 0; chunk < 4; chunk++)
		load(&reader, chunk * 3);
	arena_touch(reader.arena, 0);
	load(&reader, 20);
	assert_true(is_present(reader.arena, 0));
	assert_false(is_present(reader.arena, 3));
	assert_true(is_present(reader.arena, 6));
	load(&reader, 21);
	assert_true(is_present(reader.arena, 0));
	assert_false(is_present(reader.arena, 6));
	assert_int_equal(arena_used(reader.arena), 4 * ARENA_CHUNK);
	assert_int_equal(arena_evictions(reader.arena), 2);
	assert_int_equal(arena_memory(reader.arena), 4 * ARENA_CHUNK);
	close_reader(&reader);
}

static void reserve_when_some_is_read_ahead_then_what_was_used_goes(void **state)
{
	struct reader reader = open_reader(8);

	(void)state;
	for (uint64_t chunk = 0; chunk < 8; chunk++) {
		load(&reader, chunk);
		if (chunk >= 4)
			arena_touch(reader.arena, chunk - 4);
	}
	for (uint64_t chunk = 8; chunk < 11; chunk++) {
		load(&reader, chunk);
		assert_false(is_present(reader.arena, chunk - 8));
		for (uint64_t next = 4; next < chunk; next++)
			assert_true(is_present(reader.arena, next));
	}
	close_reader(&reader);
}

static void reserve_when_all_is_pinned_then_refused_and_pressed(void **state)
{
	struct reader reader = open_reader(4);

	(void)state;
	for (uint64_t chunk = 0; chunk < 4; chunk++) {
		load(&reader, chunk);
		assert_true(arena_pin(reader.arena, chunk));
	}
	assert_true(arena_claim(reader.arena, 10));
	assert_false(arena_reserve(reader.arena, 1));
	assert_true(arena_pressed(reader.arena));
	assert_int_equal(arena_used(reader.arena), 4 * ARENA_CHUNK);
	arena_unpin(reader.arena, 2);
	assert_true(arena_reserve(reader.arena, ARENA_BLOCKS));
	assert_false(is_present(reader.arena, 2));
	assert_true(arena_pressed(reader.arena));
	arena_unpin(reader.arena, 1);
	arena_unreserve(reader.arena, ARENA_BLOCKS); /* three of four: below 7/8 */
	assert_false(arena_pressed(reader.arena));
	for (uint64_t chunk = 0; chunk < 4; chunk += 3) {
		assert_true(is_present(reader.arena, chunk));
		assert_int_equal(reader_wrong(&reader, chunk * ARENA_BLOCKS, ARENA_BLOCKS), 0);
	}
	close_reader(&reader);
}

static void reserve_when_chunks_are_claimed_then_they_stay(void **state)
{
	struct reader reader = open_reader(2);

	(void)state;
	for (uint64_t chunk = 0; chunk < 2; chunk++) {
		assert_true(arena_claim(reader.arena, chunk));
		assert_true(reader_load(&reader, chunk * ARENA_BLOCKS, ARENA_BLOCKS));
	}
	assert_false(arena_reserve(reader.arena, 1));
	arena_release(reader.arena, 0);
	assert_true(arena_reserve(reader.arena, 1));
	assert_false(is_present(reader.arena, 0));
	assert_true(is_present(reader.arena, 1));
	close_reader(&reader);
}

static void reserve_when_more_than_the_budget_then_refused_and_nothing_goes(void **state)
{
	struct reader reader = open_reader(2);

	(void)state;
	load(&reader, 0);
	assert_false(arena_reserve(reader.arena, 2 * ARENA_BLOCKS + 1));
	assert_false(arena_reserve(reader.arena, UINT64_MAX));
	assert_false(arena_pressed(reader.arena));
	assert_true(is_present(reader.arena, 0));
	close_reader(&reader);
}

static void pin_when_another_attachment_evicts_then_it_counts(void **state)
{
	struct reader one = open_reader(2), two = open_reader(2);

	(void)state;
	load(&one, 0);
	load(&one, 1);
	assert_true(arena_pin(one.arena, 0));
	assert_true(arena_pin(one.arena, 0)); /* once per process */
	assert_int_equal(arena_members(two.arena), 2);
	load(&two, 2);
	assert_true(is_present(one.arena, 0));
	assert_false(is_present(one.arena, 1));
	arena_unpin(one.arena, 0);
	assert_true(arena_pin(two.arena, 2));
	load(&two, 3);
	assert_false(is_present(one.arena, 0));
	close_reader(&one);
	close_reader(&two);
}

static void sweep_when_many_times_the_budget_then_memory_stays_bounded(void **state)
{
	struct reader reader = open_reader(5);
	_Atomic uint64_t wrong = 0, direct = 0;

	(void)state;
	reader.wrong = &wrong;
	reader.direct = &direct;
	for (unsigned i = 0; i < 3 * CHUNKS; i++) {
		reader_use(&reader, i % CHUNKS, 0, ARENA_BLOCKS);
		assert_true(arena_used(reader.arena) <= 5 * ARENA_CHUNK);
		assert_int_equal(arena_memory(reader.arena), arena_used(reader.arena));
	}
	assert_int_equal(wrong, 0);
	assert_int_equal(direct, 0);
	close_reader(&reader);
}

/* --- opening -------------------------------------------------------------------------------- */

static void arena_when_another_node_or_identity_then_another_arena(void **state)
{
	struct arena_options options = {.budget = ARENA_CHUNK, .share = true, .node = "n1"};
	struct identity identity = dataset.identity;
	struct arena *one = open_arena(1, true), *two, *three;
	const char *why;

	(void)state;
	assert_int_equal(arena_open(&two, &identity, &options, &why), 0);
	assert_int_not_equal(arena_inode(one), arena_inode(two));
	identity.mtime_ns++;
	assert_int_equal(arena_open(&three, &identity, &options, &why), 0);
	assert_int_not_equal(arena_inode(two), arena_inode(three));
	assert_null(why);
	arena_close(one);
	arena_close(two);
	arena_close(three);
}

static void arena_when_not_shared_then_nobody_finds_it(void **state)
{
	struct arena *one = open_arena(1, false), *two = open_arena(1, true);
	struct arena *three = open_arena(1, false);

	(void)state;
	assert_int_not_equal(arena_inode(one), arena_inode(two));
	assert_int_not_equal(arena_inode(one), arena_inode(three));
	assert_int_equal(names_left(one, true), 1);
	assert_true(arena_claim(one, 0));
	assert_true(arena_pin(one, 0));
	arena_close(two);
	arena_close(one);
	arena_close(three);
}

/* Only a stray store of the program itself can mark a second row. */
static void arena_when_not_shared_then_no_other_row_lives(void **state)
{
	struct arena *arena = open_arena(8, false);

	(void)state;
	atomic_store(&arena->rows[2].used, 1);
	atomic_store(&arena->head->high, 2);
	assert_false(arena_row_lives(arena, 2));
	assert_true(arena_row_lives(arena, arena->row));
	assert_int_equal(arena_bury_dead(arena), 0);
	assert_int_equal(arena_members(arena), 1);
	arena_close(arena);
}

static void arena_when_more_attach_than_it_has_rows_then_the_last_is_alone(void **state)
{
	struct rlimit limit = {.rlim_cur = 1000, .rlim_max = 1000}, before;
	struct arena *arenas[ARENA_ROWS - 1], *more;
	struct arena_options options = {.budget = ARENA_CHUNK, .share = true, .node = test_node()};
	const char *why;

	(void)state;
	getrlimit(RLIMIT_NOFILE, &before);
	limit.rlim_max = before.rlim_max;
	limit.rlim_cur = before.rlim_max < 4096 ? before.rlim_max : 4096;
	setrlimit(RLIMIT_NOFILE, &limit);
	for (unsigned i = 0; i < ARENA_ROWS - 1; i++) {
		arenas[i] = open_arena(1, true);
		assert_int_equal(arena_inode(arenas[i]), arena_inode(arenas[0]));
		assert_true(arena_pin(arenas[i], 0));
	}
	assert_int_equal(names_left(arenas[0], true), ARENA_ROWS - 1);
	assert_int_equal(arena_open(&more, &dataset.identity, &options, &why), 0);
	assert_non_null(why);
	assert_true(arena_claim(more, 0));
	assert_int_equal(arena_members(more), 1);
	arena_close(more);
	arena_close(arenas[0]);
	arenas[0] = open_arena(1, true);
	assert_int_equal(arena_inode(arenas[0]), arena_inode(arenas[1]));
	for (unsigned i = 0; i < ARENA_ROWS - 1; i++)
		arena_close(arenas[i]);
	setrlimit(RLIMIT_NOFILE, &before);
}

static void arena_when_the_file_is_huge_then_the_table_stays_small(void **state)
{
	struct identity identity = {.inode = 1, .size = (UINT64_C(40) << 40) + 12345};
	struct arena_options options = {
		.budget = UINT64_C(1) << 40, .share = true, .node = test_node()};
	uint64_t last;
	struct arena *arena;
	const char *why;

	(void)state;
	if (arena_open(&arena, &identity, &options, &why) == ENOMEM)
		skip(); /* no such address space, or a sanitizer has it */
	assert_null(why);
	assert_true(memory_of(arena) < MIB);
	last = arena_chunks(arena) - 1;
	assert_int_equal(last, 40 * 1024 * 1024);
	for (uint64_t chunk = last; chunk > last / 2; chunk -= last / 8) {
		assert_true(arena_claim(arena, chunk));
		assert_true(arena_reserve(arena, 1));
		assert_int_equal(arena_fill(arena, chunk * ARENA_CHUNK, any_block, sizeof(any_block)), 0);
		arena_publish(arena, chunk * ARENA_BLOCKS, 1);
		arena_release(arena, chunk);
		assert_true(arena_present(arena, chunk * ARENA_BLOCKS, 1));
		assert_true(arena_pin(arena, chunk));
	}
	assert_true(memory_of(arena) < MIB);
	arena_close(arena);
}

static void arena_when_misused_then_errno(void **state)
{
	struct arena_options options = {.share = true, .node = test_node()};
	struct identity identity = {0};
	struct arena *arena;
	const char *why;

	(void)state;
	assert_int_equal(arena_open(&arena, &identity, &options, &why), EINVAL);
	assert_null(arena);
	identity.size = UINT64_MAX;
	assert_int_equal(arena_open(&arena, &identity, &options, &why), EFBIG);
	arena_close(NULL);
	arena = open_arena(0, true); /* no budget: each process reads for itself */
	assert_true(arena_claim(arena, 0));
	assert_false(arena_reserve(arena, 1));
	arena_close(arena);
}

/* The table is shared memory: whatever another process writes into it, each call returns. */
static void table_when_scribbled_over_then_no_crash_and_no_hang(void **state)
{
	struct reader reader = open_reader(3);
	uint8_t *table = arena_bytes(reader.arena) + CHUNKS * ARENA_CHUNK;
	/* The head without its identity, the rows, and the part of the group that has memory. */
	const struct {
		uint64_t start, length;
	} parts[] = {{128, 4096 - 128}, {4096, ARENA_ROWS * sizeof(struct arena_row)},
		     {reader.arena->length - CHUNKS * ARENA_CHUNK - sizeof(struct arena_group), 45056}};

	(void)state;
	reader.patience = 0;
	load(&reader, 0);
	for (unsigned i = 0; i < 30000; i++) {
		unsigned part = (unsigned)reader_random(&reader) % 3;

		table[parts[part].start + reader_random(&reader) % parts[part].length] =
			(uint8_t)reader_random(&reader);
		if (i % 3 == 0)
			reader_use(&reader, reader_random(&reader) % CHUNKS, 0, 9);
		(void)arena_members(reader.arena);
	}
	close_reader(&reader);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(arena_when_new_then_empty),
		cmocka_unit_test(blocks_when_published_then_present_with_right_bytes),
		cmocka_unit_test(missing_when_holes_then_each_run_is_found),
		cmocka_unit_test(blocks_when_out_of_range_then_nothing_happens),
		cmocka_unit_test(claim_when_held_then_refused_until_released),
		cmocka_unit_test(
			claim_when_another_attachment_has_it_then_its_release_does_not_count),
		cmocka_unit_test(publish_when_not_claimed_or_twice_then_accounts_stay_right),
		cmocka_unit_test(read_when_it_fails_then_its_memory_goes),
		cmocka_unit_test(progress_when_the_holder_publishes_elsewhere_then_moves),
		cmocka_unit_test(reserve_when_full_then_the_longest_unused_goes),
		cmocka_unit_test(reserve_when_some_is_read_ahead_then_what_was_used_goes),
		cmocka_unit_test(reserve_when_all_is_pinned_then_refused_and_pressed),
		cmocka_unit_test(reserve_when_chunks_are_claimed_then_they_stay),
		cmocka_unit_test(reserve_when_more_than_the_budget_then_refused_and_nothing_goes),
		cmocka_unit_test(pin_when_another_attachment_evicts_then_it_counts),
		cmocka_unit_test(sweep_when_many_times_the_budget_then_memory_stays_bounded),
		cmocka_unit_test(arena_when_another_node_or_identity_then_another_arena),
		cmocka_unit_test(arena_when_not_shared_then_nobody_finds_it),
		cmocka_unit_test(arena_when_not_shared_then_no_other_row_lives),
		cmocka_unit_test(arena_when_more_attach_than_it_has_rows_then_the_last_is_alone),
		cmocka_unit_test(arena_when_the_file_is_huge_then_the_table_stays_small),
		cmocka_unit_test(arena_when_misused_then_errno),
		cmocka_unit_test(table_when_scribbled_over_then_no_crash_and_no_hang),
	};
	int failed;

	dataset = dataset_make(CHUNKS);
	child_yield_at_steps();
	alarm(300); /* a hang counts as a failure */
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	dataset_close(&dataset);
	return failed;
}
