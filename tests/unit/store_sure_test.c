/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests which pages of the file's own map are touched in a system call before they are handed out,
 * and what a failed read changes. */
#include "sure_kernel.h"

#include "format/layout.h"
#include "util/checked.h"
#include "window/window.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Hands out all pages of a range. Returns how often the kernel was asked. */
static unsigned hand_out_all(struct store *store, uint64_t offset, uint64_t end)
{
	unsigned before = kernel.asks;

	for (; offset < end; offset += PAGE)
		assert_int_equal(sure_hand_out(store, offset), 0);
	return kernel.asks - before;
}

/* Hands out enough cached pages that the store then checks whole surroundings at once. */
static void be_warm(struct store *store)
{
	assert_int_equal(hand_out_all(store, PIECE, 2 * PIECE), ROW);
}

static void page_when_handed_out_again_then_not_asked_for_again(void **state)
{
	struct store *store = sure_store(state);

	assert_int_equal(sure_hand_out(store, 5 * PAGE), 0);
	assert_int_equal(kernel.asked_from, 5 * PAGE);
	assert_int_equal(kernel.asked, PAGE);
	assert_int_equal(hand_out_all(store, 5 * PAGE, 6 * PAGE), 0);
	assert_int_equal(hand_out_all(store, 6 * PAGE, 7 * PAGE), 1);
}

static void pages_when_many_were_there_then_most_are_taken_to_be_there(void **state)
{
	struct store *store = sure_store(state);

	be_warm(store);
	assert_in_range(hand_out_all(store, ARENA_CHUNK, SIZE), 2, 8);
}

/* The last ones end with the file. */
static void pieces_when_many_are_taken_to_be_there_then_at_once(void **state)
{
	enum { AT_ONCE = 8 * PIECE };
	struct store *store = sure_store(state);
	uint64_t at = SIZE - AT_ONCE - PIECE;

	store->file.size = SIZE - PAGE;
	be_warm(store);
	for (uint64_t i = 1; atomic_load(&store->granted.sure_skip) < 2 * 8; i++)
		assert_int_equal(sure_hand_out(store, i * ARENA_CHUNK), 0);
	kernel_clear_counts();
	assert_int_equal(sure_hand_out(store, at), 0);
	assert_int_equal(sure_hand_out(store, SIZE - 2 * PAGE), 0);
	assert_int_equal(kernel.asks, 0);
	at &= ~(uint64_t)(AT_ONCE - 1);
	assert_true(store_are_sure(store->granted.sure, at, AT_ONCE));
	assert_true(store_are_sure(store->granted.sure, SIZE - AT_ONCE, AT_ONCE - PAGE));
	assert_false(store_is_sure(store->granted.sure, SIZE - PAGE));
}

/* Values of two pages each; every eighth value crosses the border of two pieces. */
static void values_when_they_lie_across_pieces_then_taken_to_be_there_as_others(void **state)
{
	struct store *store = sure_store(state);

	be_warm(store);
	kernel_clear_counts();
	for (uint64_t at = ARENA_CHUNK + PAGE; at + 2 * PAGE <= SIZE; at += 2 * PAGE)
		if (!store_are_sure(store->granted.sure, at, 2 * PAGE))
			assert_int_equal(store_assure(store, at, 2 * PAGE), 0);
	assert_in_range(kernel.asks, 2, 12);
}

static void values_when_they_lie_across_pieces_backward_then_taken_to_be_there_as_others(void **state)
{
	struct store *store = sure_store(state);

	be_warm(store);
	kernel_clear_counts();
	for (uint64_t at = SIZE - 3 * PAGE; at >= ARENA_CHUNK; at -= 2 * PAGE)
		if (!store_are_sure(store->granted.sure, at, 2 * PAGE))
			assert_int_equal(store_assure(store, at, 2 * PAGE), 0);
	assert_in_range(kernel.asks, 2, 12);
}

static void pages_when_faults_are_slow_then_told_from_reads_by_their_number(void **state)
{
	struct store *store = sure_store(state);

	kernel.fault_ns = 10000;
	kernel.untold = true;
	(void)sure_hand_out(store, 0); /* another thread's faults were the last ones seen */
	be_warm(store);
	assert_in_range(hand_out_all(store, ARENA_CHUNK, SIZE), 2, 8);
}

static void pages_when_nothing_is_granted_then_every_piece_is_asked_for(void **state)
{
	struct store *store = sure_store(state);

	store_take_care(store);
	be_warm(store);
	/* At last in large pieces. */
	assert_in_range(hand_out_all(store, ARENA_CHUNK, SIZE), 28, 28 + 6);
	assert_int_equal(kernel.asked, 4 * PIECE);
}

static void pages_when_they_have_to_be_read_then_by_themselves(void **state)
{
	struct store *store = sure_store(state);

	be_warm(store);
	kernel.cold = true;
	/* The first request is for a whole piece, and shows that storage was read. The rest of that
	 * piece is in memory then. */
	store_take_care(store);
	assert_int_equal(hand_out_all(store, ARENA_CHUNK, ARENA_CHUNK + PIECE), 1);
	assert_int_equal(hand_out_all(store, ARENA_CHUNK + PIECE, ARENA_CHUNK + 4 * PIECE),
			 3 * PIECE / PAGE);
	assert_int_equal(kernel.asked, PAGE);
}

static void page_when_it_cannot_be_read_then_eio_until_it_can(void **state)
{
	struct store *store = sure_store(state);

	kernel.bad = 9 * PAGE;
	assert_int_equal(sure_hand_out(store, kernel.bad), EIO);
	assert_int_equal(sure_hand_out(store, kernel.bad), EIO);
	assert_int_equal(sure_hand_out(store, 8 * PAGE), 0);
	kernel.bad = 0;
	assert_int_equal(sure_hand_out(store, 9 * PAGE), 0);
	assert_true(store_is_sure(store->granted.sure, 9 * PAGE));
}

static void page_when_another_of_its_piece_cannot_be_read_then_it_alone(void **state)
{
	struct store *store = sure_store(state);

	be_warm(store);
	store_take_care(store);
	kernel.bad = ARENA_CHUNK + 3 * PAGE;
	assert_int_equal(sure_hand_out(store, ARENA_CHUNK), 0);
	assert_int_equal(kernel.asked, PAGE);
	assert_false(store_is_sure(store->granted.sure, ARENA_CHUNK + PAGE));
	assert_int_equal(sure_hand_out(store, kernel.bad), EIO);
}

static void pages_when_a_read_has_failed_then_nothing_is_taken_to_be_there(void **state)
{
	struct store *store = sure_store(state);
	struct store_load load;
	uint64_t length = ARENA_CHUNK;
	uint8_t *buffer = io_buffer_new(ARENA_CHUNK);

	be_warm(store);
	(void)hand_out_all(store, 2 * PIECE, 4 * PIECE);
	assert_int_equal(store_plan(store, 4 * ARENA_CHUNK, &length, true, &load), PLAN_LOAD);
	assert_int_equal(store_finish(store, &load, buffer, EIO, 0), EIO);
	io_buffer_free(buffer, ARENA_CHUNK);
	assert_true(store_is_careful(store));
	kernel.bad = 4 * ARENA_CHUNK + 7 * PAGE;
	assert_int_equal(sure_hand_out(store, kernel.bad - PAGE), 0);
	assert_int_equal(sure_hand_out(store, kernel.bad), EIO);
}

/* Where pages are smaller than blocks, a snapshot may end in the middle of a block. */
static void load_when_the_file_grows_meanwhile_then_ends_where_the_file_ended(void **state)
{
	struct store *store = sure_store(state);
	uint64_t last = SIZE - ARENA_CHUNK, length = ARENA_CHUNK - PAGE / 2;
	struct store_load load;
	uint8_t *buffer = io_buffer_new(ARENA_CHUNK);

	store->file.size = last + length;
	assert_int_equal(store_plan(store, last, &length, true, &load), PLAN_LOAD);
	store->file.size = SIZE;
	assert_int_equal(store_finish(store, &load, buffer, 0, ARENA_CHUNK - PAGE / 2), 0);
	assert_int_equal(store_plan(store, last - ARENA_CHUNK, &length, true, &load), PLAN_LOAD);
	assert_int_equal(store_finish(store, &load, buffer, 0, PAGE), EIO);
	io_buffer_free(buffer, ARENA_CHUNK);
}

static void bytes_when_they_have_been_read_ahead_then_not_asked_for(void **state)
{
	struct store *store = sure_store(state);
	struct store_load load;
	uint64_t length = ARENA_CHUNK;
	uint8_t *buffer = io_buffer_new(ARENA_CHUNK);

	assert_int_equal(store_plan(store, 4 * ARENA_CHUNK, &length, true, &load), PLAN_LOAD);
	assert_int_equal(store_finish(store, &load, buffer, 0, ARENA_CHUNK), 0);
	io_buffer_free(buffer, ARENA_CHUNK);
	assert_int_equal(hand_out_all(store, 4 * ARENA_CHUNK, 5 * ARENA_CHUNK), 0);
	assert_false(store_is_sure(store->granted.sure, 4 * ARENA_CHUNK - PAGE));
	assert_false(store_is_sure(store->granted.sure, 5 * ARENA_CHUNK));
}

static void range_when_a_page_of_it_is_unknown_then_not_sure(void **state)
{
	struct store *store = sure_store(state);
	uint64_t at = 63 * PAGE; /* to the end of a word and beyond */

	assert_int_equal(store_assure(store, at, 3 * PAGE), 0);
	assert_int_equal(kernel.touches + kernel.begun + kernel.passes, 0);
	assert_true(store_are_sure(store->granted.sure, at, 3 * PAGE));
	assert_false(store_are_sure(store->granted.sure, at, 4 * PAGE));
	assert_false(store_are_sure(store->granted.sure, at - PAGE, PAGE));
	/* Pages smaller than the kernel's. */
	assert_true(store_are_sure(store->granted.sure, at + 3 * PAGE - 512, 512));
	assert_false(store_are_sure(store->granted.sure, at + 3 * PAGE - 512, 1024));
}

static void run_when_it_is_large_then_asked_for_where_nothing_is_granted(void **state)
{
	struct store *store = sure_store(state);
	struct window_view view = {.base = kernel.map,
				   .limit = SIZE / PAGE,
				   .pages = SIZE / PAGE,
				   .page_shift = 12,
				   .runs = store,
				   .sure = store->granted.sure};
	const uint8_t *run;

	/* Some of the pages are left to the page cache without a question. */
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(window_run(&view, 256 + 8 * i, 8, &run), 0);
	store_take_care(store);
	kernel.bad = 512 * PAGE + 5 * PAGE;
	assert_int_equal(window_run(&view, 512, 8, &run), EIO);
	assert_int_equal(window_run(&view, 520, 8, &run), 0);
	assert_int_equal(window_run(&view, 517, 2, &run), EIO);
	assert_int_equal(window_pages(&view, 517, 1, &run), EIO);
	view.nowait = true;
	assert_int_equal(window_pages(&view, 516, 1, &run), 0);
	assert_ptr_equal(run, kernel.map + 516 * PAGE);
}

static size_t verified; /* bytes of the last run */

/* Each run gets the right checksum. */
static void sum_run(const MDB_val *src, MDB_val *dst, const MDB_val *key)
{
	(void)key;
	verified = src->mv_size + dst->mv_size;
	memcpy(dst->mv_data, (const uint8_t *)src->mv_data + src->mv_size, dst->mv_size);
}

/* A value of three pages with its checksum in the fourth. */
static void run_when_its_checksum_makes_it_large_then_asked_for_before_it_is_verified(void **state)
{
	enum { SUM = 8, RUN = 4 };
	const struct page_layout *layout = &page_layouts[FORMAT_1_0];
	uint8_t reference[REFERENCE_PAGES + sizeof(uint64_t)] = {0}, head[PAGE] = {0};
	struct store *store = sure_store(state);
	struct window_view view = {.base = kernel.map,
				   .limit = SIZE / PAGE,
				   .pages = SIZE / PAGE,
				   .page_shift = 12,
				   .runs = store,
				   .reference = reference};
	struct sums *sums;
	const uint8_t *run;

	store64(reference, 512);
	store64(reference + REFERENCE_PAGES, RUN);
	assert_int_equal(sums_open(&sums, sum_run, SUM, PAGE), 0);
	view.sums = sums_take(sums, 1, 1, SIZE / PAGE);
	assert_non_null(view.sums);
	view.sure = sums_sure(view.sums);
	kernel.cold = true;
	verified = 0;
	kernel.bad = (512 + RUN - 1) * PAGE;
	assert_int_equal(window_run(&view, 512, RUN - 1, &run), EIO);
	assert_int_equal(verified, 0);
	kernel.bad = 0;
	assert_int_equal(window_run(&view, 512, RUN - 1, &run), 0);
	assert_int_equal(verified, RUN * PAGE);
	/* Another thread of the transaction has replaced the reference: the run's first page states
	 * the length. */
	store16(head + layout->shift + PAGE_FLAGS, PAGE_OVERFLOW);
	store32(head + layout->shift + PAGE_RUN, RUN + 1);
	assert_int_equal(pwrite(((struct fixture *)*state)->fd, head, sizeof(head), 600 * PAGE),
			 sizeof(head));
	assert_int_equal(window_run(&view, 600, RUN - 1, &run), 0);
	assert_int_equal(verified, (RUN + 1) * PAGE);
	sums_give(view.sums);
	sums_close(sums);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SURE_CASE(page_when_handed_out_again_then_not_asked_for_again),
		SURE_CASE(pages_when_many_were_there_then_most_are_taken_to_be_there),
		SURE_CASE(pieces_when_many_are_taken_to_be_there_then_at_once),
		SURE_CASE(values_when_they_lie_across_pieces_then_taken_to_be_there_as_others),
		SURE_CASE(
			values_when_they_lie_across_pieces_backward_then_taken_to_be_there_as_others),
		SURE_CASE(pages_when_faults_are_slow_then_told_from_reads_by_their_number),
		SURE_CASE(pages_when_nothing_is_granted_then_every_piece_is_asked_for),
		SURE_CASE(pages_when_they_have_to_be_read_then_by_themselves),
		SURE_CASE(page_when_it_cannot_be_read_then_eio_until_it_can),
		SURE_CASE(page_when_another_of_its_piece_cannot_be_read_then_it_alone),
		SURE_CASE(pages_when_a_read_has_failed_then_nothing_is_taken_to_be_there),
		SURE_CASE(load_when_the_file_grows_meanwhile_then_ends_where_the_file_ended),
		SURE_CASE(bytes_when_they_have_been_read_ahead_then_not_asked_for),
		SURE_CASE(range_when_a_page_of_it_is_unknown_then_not_sure),
		SURE_CASE(run_when_it_is_large_then_asked_for_where_nothing_is_granted),
		SURE_CASE(
			run_when_its_checksum_makes_it_large_then_asked_for_before_it_is_verified),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
