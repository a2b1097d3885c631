/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: which pages of the file's own map are asked of the kernel before they
 * are handed out, which with them, and what is done about a read that fails. */
#include "residency_fixture.h"
#include "window/window.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmocka.h>

enum { PAGE = 4096, PIECE = RESIDENCY_FAULT, ROW = 16 };

static unsigned asks;
static uint64_t asked_from, asked; /* bytes, of the last one */
static uint8_t *map;
static uint64_t bad; /* the page that cannot be read; 0: none */
static bool cold;    /* all has to be read */
static long major_faults;

int __wrap_madvise(void *address, size_t length, int advice);
int __wrap_getrusage(int who, struct rusage *usage);

int __wrap_madvise(void *address, size_t length, int advice)
{
	(void)advice;
	asks++;
	asked_from = (uint64_t)((uint8_t *)address - map);
	asked = length;
	major_faults += cold;
	if (!bad || bad < asked_from || bad >= asked_from + length)
		return 0;
	errno = EFAULT;
	return -1;
}

int __wrap_getrusage(int who, struct rusage *usage)
{
	assert_int_equal(who, RUSAGE_THREAD);
	*usage = (struct rusage){.ru_majflt = major_faults};
	return 0;
}

static struct residency *first(void **state)
{
	return &((struct fixture *)*state)->first.residency;
}

static int setup(void **state)
{
	struct fixture *f;

	if (residency_setup(state))
		return -1;
	f = *state;
	reader_close(&f->first);
	if (reader_open(&f->first, f, RESIDENCY_CACHE, true))
		return -1;
	map = f->first.base;
	bad = 0;
	cold = false;
	asks = 0;
	return 0;
}

/* A page that is handed out by one who looks at `sure` first. */
static int hand_out(struct residency *residency, uint64_t offset)
{
	return residency_is_sure(residency->sure, offset)
		       ? 0
		       : residency_assure(residency, offset, PAGE);
}

/* All pages of a range; how often the kernel was asked. */
static unsigned hand_out_all(struct residency *residency, uint64_t offset, uint64_t end)
{
	unsigned before = asks;

	for (; offset < end; offset += PAGE)
		assert_int_equal(hand_out(residency, offset), 0);
	return asks - before;
}

/* So many that the next ones come with what is around them. */
static void be_warm(struct residency *residency)
{
	assert_int_equal(hand_out_all(residency, PIECE, 2 * PIECE), ROW);
}

static void page_when_handed_out_again_then_not_asked_for_again(void **state)
{
	struct residency *residency = first(state);

	assert_int_equal(hand_out(residency, 5 * PAGE), 0);
	assert_int_equal(asked_from, 5 * PAGE);
	assert_int_equal(asked, PAGE);
	assert_int_equal(hand_out_all(residency, 5 * PAGE, 6 * PAGE), 0);
	assert_int_equal(hand_out_all(residency, 6 * PAGE, 7 * PAGE), 1);
}

static void pages_when_many_were_there_then_most_are_taken_to_be_there(void **state)
{
	struct residency *residency = first(state);

	be_warm(residency);
	assert_in_range(hand_out_all(residency, ARENA_CHUNK, SIZE), 2, 8);
}

static void pages_when_nothing_is_granted_then_every_piece_is_asked_for(void **state)
{
	struct residency *residency = first(state);

	residency_take_care(residency);
	be_warm(residency);
	/* In large pieces at last. */
	assert_in_range(hand_out_all(residency, ARENA_CHUNK, SIZE), 28, 28 + 6);
	assert_int_equal(asked, 4 * PIECE);
}

static void pages_when_they_have_to_be_read_then_by_themselves(void **state)
{
	struct residency *residency = first(state);

	be_warm(residency);
	cold = true;
	/* The first tells, of a piece; what else that has read is there. */
	residency_take_care(residency);
	assert_int_equal(hand_out_all(residency, ARENA_CHUNK, ARENA_CHUNK + PIECE), 1);
	assert_int_equal(hand_out_all(residency, ARENA_CHUNK + PIECE, ARENA_CHUNK + 4 * PIECE),
			 3 * PIECE / PAGE);
	assert_int_equal(asked, PAGE);
}

static void page_when_it_cannot_be_read_then_eio_until_it_can(void **state)
{
	struct residency *residency = first(state);

	bad = 9 * PAGE;
	assert_int_equal(hand_out(residency, bad), EIO);
	assert_int_equal(hand_out(residency, bad), EIO);
	assert_int_equal(hand_out(residency, 8 * PAGE), 0);
	bad = 0;
	assert_int_equal(hand_out(residency, 9 * PAGE), 0);
	assert_true(residency_is_sure(residency->sure, 9 * PAGE));
}

static void page_when_another_of_its_piece_cannot_be_read_then_it_alone(void **state)
{
	struct residency *residency = first(state);

	be_warm(residency);
	residency_take_care(residency);
	bad = ARENA_CHUNK + 3 * PAGE;
	assert_int_equal(hand_out(residency, ARENA_CHUNK), 0);
	assert_int_equal(asked, PAGE);
	assert_false(residency_is_sure(residency->sure, ARENA_CHUNK + PAGE));
	assert_int_equal(hand_out(residency, bad), EIO);
}

static void pages_when_a_read_has_failed_then_nothing_is_taken_to_be_there(void **state)
{
	struct residency *residency = first(state);
	struct residency_load load;
	uint64_t length = ARENA_CHUNK;
	uint8_t *buffer = io_buffer_new(ARENA_CHUNK);

	be_warm(residency);
	(void)hand_out_all(residency, 2 * PIECE, 4 * PIECE);
	assert_int_equal(residency_plan(residency, 4 * ARENA_CHUNK, &length, true, &load),
			 PLAN_LOAD);
	assert_int_equal(residency_finish(residency, &load, buffer, EIO, 0), EIO);
	io_buffer_free(buffer, ARENA_CHUNK);
	assert_true(residency_is_careful(residency));
	bad = 4 * ARENA_CHUNK + 7 * PAGE;
	assert_int_equal(hand_out(residency, bad - PAGE), 0);
	assert_int_equal(hand_out(residency, bad), EIO);
}

static void bytes_when_they_have_been_read_ahead_then_not_asked_for(void **state)
{
	struct residency *residency = first(state);
	struct residency_load load;
	uint64_t length = ARENA_CHUNK;
	uint8_t *buffer = io_buffer_new(ARENA_CHUNK);

	assert_int_equal(residency_plan(residency, 4 * ARENA_CHUNK, &length, true, &load),
			 PLAN_LOAD);
	assert_int_equal(residency_finish(residency, &load, buffer, 0, ARENA_CHUNK), 0);
	io_buffer_free(buffer, ARENA_CHUNK);
	assert_int_equal(hand_out_all(residency, 4 * ARENA_CHUNK, 5 * ARENA_CHUNK), 0);
	assert_false(residency_is_sure(residency->sure, 4 * ARENA_CHUNK - PAGE));
	assert_false(residency_is_sure(residency->sure, 5 * ARENA_CHUNK));
}

static void range_when_a_page_of_it_is_unknown_then_not_sure(void **state)
{
	struct residency *residency = first(state);
	uint64_t at = 63 * PAGE; /* up to the end of a word and beyond */

	assert_int_equal(residency_assure(residency, at, 3 * PAGE), 0);
	assert_int_equal(asked, 3 * PAGE);
	assert_true(residency_are_sure(residency->sure, at, 3 * PAGE));
	assert_false(residency_are_sure(residency->sure, at, 4 * PAGE));
	assert_false(residency_are_sure(residency->sure, at - PAGE, PAGE));
	/* Of pages smaller than the kernel's. */
	assert_true(residency_are_sure(residency->sure, at + 3 * PAGE - 512, 512));
	assert_false(residency_are_sure(residency->sure, at + 3 * PAGE - 512, 1024));
}

static void run_when_it_is_large_then_asked_for_where_nothing_is_granted(void **state)
{
	struct residency *residency = first(state);
	struct window_view view = {.base = map,
				   .limit = SIZE / PAGE,
				   .pages = SIZE / PAGE,
				   .page_shift = 12,
				   .runs = residency,
				   .sure = residency->sure};
	const uint8_t *run;

	/* Some of them are left to the page cache unasked. */
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(window_run(&view, 256 + 8 * i, 8, &run), 0);
	residency_take_care(residency);
	bad = 512 * PAGE + 5 * PAGE;
	assert_int_equal(window_run(&view, 512, 8, &run), EIO);
	assert_int_equal(window_run(&view, 520, 8, &run), 0);
	assert_int_equal(window_run(&view, 517, 2, &run), EIO);
	assert_int_equal(window_pages(&view, 517, 1, &run), EIO);
	view.nowait = true;
	assert_int_equal(window_pages(&view, 516, 1, &run), 0);
	assert_ptr_equal(run, map + 516 * PAGE);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, residency_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(page_when_handed_out_again_then_not_asked_for_again),
		CASE(pages_when_many_were_there_then_most_are_taken_to_be_there),
		CASE(pages_when_nothing_is_granted_then_every_piece_is_asked_for),
		CASE(pages_when_they_have_to_be_read_then_by_themselves),
		CASE(page_when_it_cannot_be_read_then_eio_until_it_can),
		CASE(page_when_another_of_its_piece_cannot_be_read_then_it_alone),
		CASE(pages_when_a_read_has_failed_then_nothing_is_taken_to_be_there),
		CASE(bytes_when_they_have_been_read_ahead_then_not_asked_for),
		CASE(range_when_a_page_of_it_is_unknown_then_not_sure),
		CASE(run_when_it_is_large_then_asked_for_where_nothing_is_granted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
