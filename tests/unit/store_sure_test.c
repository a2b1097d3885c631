/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests which pages of the file's own map are touched in a system call before they are handed out,
 * which are read into the page cache by one request, and what a read that fails changes. */
#include "store_fixture.h"
#include "format/layout.h"
#include "io/io_touch.h"
#include "util/checked.h"
#include "window/window.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

enum { PAGE = 4096, PIECE = STORE_FAULT, ROW = 16 };

static unsigned asks;               /* of the kernel, in any way */
static unsigned touches, populates; /* ... by a fault of one page, by madvise() */
static unsigned tries, passes;      /* ... by a read without a wait, with one */
static unsigned looks, begun;       /* ... what it holds, to begin a read */
static uint64_t asked_from, asked;  /* bytes, of the last one */
static uint8_t *map;
static uint64_t bad; /* the page that cannot be read; 0: none */
static bool cold;    /* all has to be read */
static bool slow;    /* a fault takes as long as a read */
static bool untold;  /* by a read without a wait */
static long major_faults;
static uint64_t now; /* nanoseconds; a read takes a while */

int __wrap_madvise(void *address, size_t length, int advice);
int __wrap_mincore(void *address, size_t length, unsigned char *pages);
ssize_t __wrap_readahead(int fd, off_t offset, size_t count);
int __wrap_getrusage(int who, struct rusage *usage);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_io_touch(const void *page);
int __wrap_io_pass(int fd, uint64_t offset, size_t length);
int __wrap_io_pass_now(int fd, uint64_t offset, size_t length);

static int answer(uint64_t offset, size_t length)
{
	asks++;
	asked_from = offset;
	asked = length;
	return bad && bad >= offset && bad < offset + length ? EIO : 0;
}

static int fault(uint64_t offset, size_t length)
{
	major_faults += cold;
	now += cold || slow ? 100000 : 0;
	return answer(offset, length);
}

int __wrap_madvise(void *address, size_t length, int advice)
{
	(void)advice;
	populates++;
	if (!fault((uint64_t)((uint8_t *)address - map), length))
		return 0;
	errno = EFAULT;
	return -1;
}

int __wrap_io_touch(const void *page)
{
	touches++;
	return fault((uint64_t)((const uint8_t *)page - map), PAGE);
}

int __wrap_io_pass(int fd, uint64_t offset, size_t length)
{
	assert_true(fd >= 0);
	passes++;
	now += cold ? 100000 : 0;
	return answer(offset, length);
}

int __wrap_io_pass_now(int fd, uint64_t offset, size_t length)
{
	assert_true(fd >= 0);
	tries++;
	if (untold)
		return EOPNOTSUPP;
	return cold ? EAGAIN : answer(offset, length);
}

int __wrap_mincore(void *address, size_t length, unsigned char *pages)
{
	uint64_t offset = (uint64_t)((uint8_t *)address - map);

	if (offset >= SIZE) {
		*pages = untold; /* behind the file's end */
		return 0;
	}
	looks++;
	for (size_t i = 0; i < length / PAGE; i++)
		pages[i] = !cold && (!bad || bad / PAGE != offset / PAGE + i);
	/* Of several pages the last one is looked at first. */
	if (length == PAGE && pages[0])
		answer(offset, length);
	return 0;
}

ssize_t __wrap_readahead(int fd, off_t offset, size_t count)
{
	assert_true(fd >= 0);
	begun++;
	asked_from = (uint64_t)offset;
	asked = count;
	return 0;
}

int __wrap_getrusage(int who, struct rusage *usage)
{
	assert_int_equal(who, RUSAGE_THREAD);
	*usage = (struct rusage){.ru_majflt = major_faults};
	return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	*time = (struct timespec){.tv_sec = (time_t)(now / 1000000000),
				  .tv_nsec = (long)(now % 1000000000)};
	return 0;
}

static void counts_clear(void)
{
	asks = touches = populates = tries = passes = looks = begun = 0;
}

static struct store *first(void **state)
{
	return &((struct fixture *)*state)->first.store;
}

static int setup(void **state)
{
	struct fixture *f;

	if (store_setup(state))
		return -1;
	f = *state;
	reader_close(&f->first);
	if (reader_open(&f->first, f, STORE_CACHE, true))
		return -1;
	map = f->first.base;
	bad = 0;
	cold = slow = untold = false;
	counts_clear();
	return 0;
}

/* A page that is handed out by one who looks at `sure` first. */
static int hand_out(struct store *store, uint64_t offset)
{
	return store_is_sure(store->granted.sure, offset) ? 0 : store_assure(store, offset, PAGE);
}

/* All pages of a range; how often the kernel was asked. */
static unsigned hand_out_all(struct store *store, uint64_t offset, uint64_t end)
{
	unsigned before = asks;

	for (; offset < end; offset += PAGE)
		assert_int_equal(hand_out(store, offset), 0);
	return asks - before;
}

/* So many that the next ones come with what is around them. */
static void be_warm(struct store *store)
{
	assert_int_equal(hand_out_all(store, PIECE, 2 * PIECE), ROW);
}

static void page_when_handed_out_again_then_not_asked_for_again(void **state)
{
	struct store *store = first(state);

	assert_int_equal(hand_out(store, 5 * PAGE), 0);
	assert_int_equal(asked_from, 5 * PAGE);
	assert_int_equal(asked, PAGE);
	assert_int_equal(hand_out_all(store, 5 * PAGE, 6 * PAGE), 0);
	assert_int_equal(hand_out_all(store, 6 * PAGE, 7 * PAGE), 1);
}

static void pages_when_many_were_there_then_most_are_taken_to_be_there(void **state)
{
	struct store *store = first(state);

	be_warm(store);
	assert_in_range(hand_out_all(store, ARENA_CHUNK, SIZE), 2, 8);
}

/* Values of two pages each, of which every eighth lies across the border of two pieces. */
static void values_when_they_lie_across_pieces_then_taken_to_be_there_as_others(void **state)
{
	struct store *store = first(state);

	be_warm(store);
	counts_clear();
	for (uint64_t at = ARENA_CHUNK + PAGE; at + 2 * PAGE <= SIZE; at += 2 * PAGE)
		if (!store_are_sure(store->granted.sure, at, 2 * PAGE))
			assert_int_equal(store_assure(store, at, 2 * PAGE), 0);
	assert_in_range(asks, 2, 12);
}

static void values_when_they_lie_across_pieces_backward_then_taken_to_be_there_as_others(void **state)
{
	struct store *store = first(state);

	be_warm(store);
	counts_clear();
	for (uint64_t at = SIZE - 3 * PAGE; at >= ARENA_CHUNK; at -= 2 * PAGE)
		if (!store_are_sure(store->granted.sure, at, 2 * PAGE))
			assert_int_equal(store_assure(store, at, 2 * PAGE), 0);
	assert_in_range(asks, 2, 12);
}

static void pages_when_faults_are_slow_then_told_from_reads_by_their_number(void **state)
{
	struct store *store = first(state);

	slow = untold = true;
	(void)hand_out(store, 0); /* another thread's faults were the last ones seen */
	be_warm(store);
	assert_in_range(hand_out_all(store, ARENA_CHUNK, SIZE), 2, 8);
}

static void pages_when_nothing_is_granted_then_every_piece_is_asked_for(void **state)
{
	struct store *store = first(state);

	store_take_care(store);
	be_warm(store);
	/* In large pieces at last. */
	assert_in_range(hand_out_all(store, ARENA_CHUNK, SIZE), 28, 28 + 6);
	assert_int_equal(asked, 4 * PIECE);
}

static void pages_when_they_have_to_be_read_then_by_themselves(void **state)
{
	struct store *store = first(state);

	be_warm(store);
	cold = true;
	/* The first tells, of a piece; what else that has read is there. */
	store_take_care(store);
	assert_int_equal(hand_out_all(store, ARENA_CHUNK, ARENA_CHUNK + PIECE), 1);
	assert_int_equal(hand_out_all(store, ARENA_CHUNK + PIECE, ARENA_CHUNK + 4 * PIECE),
			 3 * PIECE / PAGE);
	assert_int_equal(asked, PAGE);
}

static void page_when_it_cannot_be_read_then_eio_until_it_can(void **state)
{
	struct store *store = first(state);

	bad = 9 * PAGE;
	assert_int_equal(hand_out(store, bad), EIO);
	assert_int_equal(hand_out(store, bad), EIO);
	assert_int_equal(hand_out(store, 8 * PAGE), 0);
	bad = 0;
	assert_int_equal(hand_out(store, 9 * PAGE), 0);
	assert_true(store_is_sure(store->granted.sure, 9 * PAGE));
}

static void page_when_another_of_its_piece_cannot_be_read_then_it_alone(void **state)
{
	struct store *store = first(state);

	be_warm(store);
	store_take_care(store);
	bad = ARENA_CHUNK + 3 * PAGE;
	assert_int_equal(hand_out(store, ARENA_CHUNK), 0);
	assert_int_equal(asked, PAGE);
	assert_false(store_is_sure(store->granted.sure, ARENA_CHUNK + PAGE));
	assert_int_equal(hand_out(store, bad), EIO);
}

static void pages_when_a_read_has_failed_then_nothing_is_taken_to_be_there(void **state)
{
	struct store *store = first(state);
	struct store_load load;
	uint64_t length = ARENA_CHUNK;
	uint8_t *buffer = io_buffer_new(ARENA_CHUNK);

	be_warm(store);
	(void)hand_out_all(store, 2 * PIECE, 4 * PIECE);
	assert_int_equal(store_plan(store, 4 * ARENA_CHUNK, &length, true, &load), PLAN_LOAD);
	assert_int_equal(store_finish(store, &load, buffer, EIO, 0), EIO);
	io_buffer_free(buffer, ARENA_CHUNK);
	assert_true(store_is_careful(store));
	bad = 4 * ARENA_CHUNK + 7 * PAGE;
	assert_int_equal(hand_out(store, bad - PAGE), 0);
	assert_int_equal(hand_out(store, bad), EIO);
}

static void bytes_when_they_have_been_read_ahead_then_not_asked_for(void **state)
{
	struct store *store = first(state);
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
	struct store *store = first(state);
	uint64_t at = 63 * PAGE; /* up to the end of a word and beyond */

	assert_int_equal(store_assure(store, at, 3 * PAGE), 0);
	assert_int_equal(touches + tries + passes, 0);
	assert_true(store_are_sure(store->granted.sure, at, 3 * PAGE));
	assert_false(store_are_sure(store->granted.sure, at, 4 * PAGE));
	assert_false(store_are_sure(store->granted.sure, at - PAGE, PAGE));
	/* Of pages smaller than the kernel's. */
	assert_true(store_are_sure(store->granted.sure, at + 3 * PAGE - 512, 512));
	assert_false(store_are_sure(store->granted.sure, at + 3 * PAGE - 512, 1024));
}

static void run_when_it_is_large_then_asked_for_where_nothing_is_granted(void **state)
{
	struct store *store = first(state);
	struct window_view view = {.base = map,
				   .limit = SIZE / PAGE,
				   .pages = SIZE / PAGE,
				   .page_shift = 12,
				   .runs = store,
				   .sure = store->granted.sure};
	const uint8_t *run;

	/* Some of them are left to the page cache unasked. */
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(window_run(&view, 256 + 8 * i, 8, &run), 0);
	store_take_care(store);
	bad = 512 * PAGE + 5 * PAGE;
	assert_int_equal(window_run(&view, 512, 8, &run), EIO);
	assert_int_equal(window_run(&view, 520, 8, &run), 0);
	assert_int_equal(window_run(&view, 517, 2, &run), EIO);
	assert_int_equal(window_pages(&view, 517, 1, &run), EIO);
	view.nowait = true;
	assert_int_equal(window_pages(&view, 516, 1, &run), 0);
	assert_ptr_equal(run, map + 516 * PAGE);
}

static size_t verified; /* bytes, of the last run */

/* Each run has the right checksum. */
static void sum_run(const MDB_val *src, MDB_val *dst, const MDB_val *key)
{
	(void)key;
	verified = src->mv_size + dst->mv_size;
	memcpy(dst->mv_data, (const uint8_t *)src->mv_data + src->mv_size, dst->mv_size);
}

/* A value of three pages, whose checksum is in the fourth. */
static void run_when_its_checksum_makes_it_large_then_asked_for_before_it_is_verified(void **state)
{
	enum { SUM = 8, RUN = 4 };
	uint8_t reference[REFERENCE_PAGES + sizeof(uint64_t)] = {0};
	struct store *store = first(state);
	struct window_view view = {.base = map,
				   .limit = SIZE / PAGE,
				   .pages = SIZE / PAGE,
				   .page_shift = 12,
				   .runs = store,
				   .reference = reference};
	struct sums *sums;
	const uint8_t *run;

	store64(reference + REFERENCE_PAGES, RUN);
	assert_int_equal(sums_open(&sums, sum_run, SUM, PAGE), 0);
	view.sums = sums_take(sums, 1, 1, SIZE / PAGE);
	assert_non_null(view.sums);
	view.sure = sums_sure(view.sums);
	cold = true;
	verified = 0;
	bad = (512 + RUN - 1) * PAGE;
	assert_int_equal(window_run(&view, 512, RUN - 1, &run), EIO);
	assert_int_equal(verified, 0);
	bad = 0;
	assert_int_equal(window_run(&view, 512, RUN - 1, &run), 0);
	assert_int_equal(verified, RUN * PAGE);
	sums_give(view.sums);
	sums_close(sums);
}

/* What a value costs that has to be read: a page, three, fifty. */
static void values_when_nothing_is_read_around_then_one_request_for_each(void **state)
{
	static const uint64_t pages[] = {3, 50};
	struct store *store = first(state);

	store_read_singly(store);
	cold = true;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t at = (i + 1) * ARENA_CHUNK;

		counts_clear();
		assert_int_equal(store_assure(store, at, pages[i] * PAGE), 0);
		assert_int_equal(tries, 1);
		assert_int_equal(passes, 1);
		assert_int_equal(asked_from, at);
		assert_int_equal(asked, pages[i] * PAGE);
		assert_int_equal(touches + populates, 0);
		assert_true(store_are_sure(store->granted.sure, at, pages[i] * PAGE));
	}
}

static void page_when_the_last_one_was_missing_then_read_without_a_try(void **state)
{
	struct store *store = first(state);

	store_read_singly(store);
	assert_false(store_reads_around(store));
	cold = true;
	assert_int_equal(hand_out(store, 4 * ARENA_CHUNK), 0);
	assert_int_equal(hand_out(store, 5 * ARENA_CHUNK), 0);
	assert_int_equal(passes, 2);
	assert_int_equal(asked_from, 5 * ARENA_CHUNK);
	assert_int_equal(tries + touches + populates, 0);
	/* It shows that a page was there, too. */
	cold = false;
	assert_int_equal(hand_out(store, 4 * ARENA_CHUNK + PAGE), 0);
	assert_int_equal(passes, 3);
	assert_int_equal(hand_out(store, 4 * ARENA_CHUNK + 2 * PAGE), 0);
	assert_int_equal(tries, 1);
	assert_int_equal(passes, 3);
}

static void page_when_it_cannot_be_read_without_a_try_then_eio(void **state)
{
	struct store *store = first(state);

	store_read_singly(store);
	cold = true;
	bad = 4 * ARENA_CHUNK;
	assert_int_equal(hand_out(store, bad), EIO);
	assert_int_equal(touches, 1);
	assert_false(store_is_sure(store->granted.sure, bad));
}

/* A try would begin to read the missing page alone. */
static void page_when_the_kernel_reads_around_then_missing_ones_are_left_to_its_faults(void **state)
{
	struct store *store = first(state);

	assert_true(store_reads_around(store));
	assert_int_equal(hand_out(store, ARENA_CHUNK), 0);
	assert_in_range(looks, 1, 2);
	assert_int_equal(touches + tries + passes, 0);
	cold = true;
	assert_int_equal(hand_out(store, 2 * ARENA_CHUNK), 0);
	assert_int_equal(touches, 1);
	assert_int_equal(tries + passes, 0);
}

static void pages_when_they_are_begun_then_by_the_kernel_and_not_waited_for(void **state)
{
	struct fixture *f = *state;
	struct store *store = first(state);
	unsigned waits = store_waits(store);

	assert_true(store_begin(store, 3 * PAGE, PAGE));
	assert_int_equal(begun, 1);
	assert_int_equal(asked_from, 3 * PAGE);
	assert_int_equal(asked, PAGE);
	assert_int_equal(store_waits(store), waits);
	assert_false(store_is_sure(store->granted.sure, 3 * PAGE));
	assert_false(store_begin(&f->second.store, 3 * PAGE, PAGE)); /* of an arena */
	assert_int_equal(begun, 1);
	cold = true;
	assert_int_equal(hand_out(store, 3 * PAGE), 0);
	assert_int_equal(store_waits(store), waits + 1);
}

static void value_when_it_is_there_then_no_read_waits(void **state)
{
	struct store *store = first(state);

	store_read_singly(store);
	assert_int_equal(store_assure(store, ARENA_CHUNK, 3 * PAGE), 0);
	assert_int_equal(tries, 1);
	assert_int_equal(touches + passes + populates, 0);
}

/* As long as the kernel reads around faults it is to take one; what is missing then is one request.
 */
static void values_when_the_kernel_reads_around_then_by_a_fault_until_that_is_in_vain(void **state)
{
	struct store *store = first(state);
	unsigned value;

	cold = true;
	for (value = 0; value < 100; value++)
		assert_int_equal(store_assure(store, ARENA_CHUNK + value * 4 * PAGE, 3 * PAGE), 0);
	assert_int_equal(touches, value);
	assert_int_equal(passes, value);
	assert_int_equal(asked, 2 * PAGE);
	assert_int_equal(tries + populates, 0);
	for (; value < 110; value++)
		assert_int_equal(store_assure(store, ARENA_CHUNK + value * 4 * PAGE, 3 * PAGE), 0);
	assert_in_range(touches, 100, 101);
	assert_int_equal(asked, 3 * PAGE);
	/* What is there then makes it read around again. */
	cold = false;
	for (; value < 120; value++)
		assert_int_equal(store_assure(store, ARENA_CHUNK + value * 4 * PAGE, 3 * PAGE), 0);
	cold = true;
	counts_clear();
	assert_int_equal(store_assure(store, 6 * ARENA_CHUNK, 3 * PAGE), 0);
	assert_int_equal(touches, 1);
	assert_int_equal(populates, 0);
}

static void value_when_a_page_of_it_cannot_be_read_then_eio(void **state)
{
	struct store *store = first(state);

	store_read_singly(store);
	cold = true;
	bad = ARENA_CHUNK + 2 * PAGE;
	assert_int_equal(store_assure(store, ARENA_CHUNK, 3 * PAGE), EIO);
	assert_int_equal(passes, 1);
	assert_int_equal(touches, 3);
	assert_false(store_is_sure(store->granted.sure, ARENA_CHUNK));
	assert_int_equal(store_assure(store, ARENA_CHUNK, 2 * PAGE), 0);
}

static void value_when_the_file_system_does_not_tell_then_by_faults_and_a_read(void **state)
{
	struct store *store = first(state);

	store_read_singly(store);
	untold = true;
	assert_int_equal(store_assure(store, ARENA_CHUNK, 3 * PAGE), 0);
	assert_int_equal(touches, 3);
	assert_int_equal(passes, 0);
	cold = true;
	counts_clear();
	assert_int_equal(store_assure(store, 2 * ARENA_CHUNK, 3 * PAGE), 0);
	assert_int_equal(touches, 1);
	assert_int_equal(passes, 1);
	assert_int_equal(asked, 2 * PAGE);
}

static void values_when_the_program_has_closed_the_file_then_by_faults(void **state)
{
	struct store *store = first(state);
	int fd = store->file.fd;

	store_read_singly(store);
	store->file.fd = -1;
	cold = true;
	assert_int_equal(store_assure(store, ARENA_CHUNK, 3 * PAGE), 0);
	assert_int_equal(touches, 3);
	assert_int_equal(tries + passes + populates, 0);
	store->file.fd = fd;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(page_when_handed_out_again_then_not_asked_for_again),
		CASE(pages_when_many_were_there_then_most_are_taken_to_be_there),
		CASE(values_when_they_lie_across_pieces_then_taken_to_be_there_as_others),
		CASE(values_when_they_lie_across_pieces_backward_then_taken_to_be_there_as_others),
		CASE(pages_when_faults_are_slow_then_told_from_reads_by_their_number),
		CASE(pages_when_nothing_is_granted_then_every_piece_is_asked_for),
		CASE(pages_when_they_have_to_be_read_then_by_themselves),
		CASE(page_when_it_cannot_be_read_then_eio_until_it_can),
		CASE(page_when_another_of_its_piece_cannot_be_read_then_it_alone),
		CASE(pages_when_a_read_has_failed_then_nothing_is_taken_to_be_there),
		CASE(bytes_when_they_have_been_read_ahead_then_not_asked_for),
		CASE(range_when_a_page_of_it_is_unknown_then_not_sure),
		CASE(run_when_it_is_large_then_asked_for_where_nothing_is_granted),
		CASE(run_when_its_checksum_makes_it_large_then_asked_for_before_it_is_verified),
		CASE(values_when_nothing_is_read_around_then_one_request_for_each),
		CASE(page_when_the_last_one_was_missing_then_read_without_a_try),
		CASE(page_when_it_cannot_be_read_without_a_try_then_eio),
		CASE(page_when_the_kernel_reads_around_then_missing_ones_are_left_to_its_faults),
		CASE(pages_when_they_are_begun_then_by_the_kernel_and_not_waited_for),
		CASE(value_when_it_is_there_then_no_read_waits),
		CASE(values_when_the_kernel_reads_around_then_by_a_fault_until_that_is_in_vain),
		CASE(value_when_a_page_of_it_cannot_be_read_then_eio),
		CASE(value_when_the_file_system_does_not_tell_then_by_faults_and_a_read),
		CASE(values_when_the_program_has_closed_the_file_then_by_faults),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
