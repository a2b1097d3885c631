/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests by which requests pages of the file's own map are read into the page cache. */
#include "sure_kernel.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

/* What a value of several pages costs that has to be read. */
static void values_when_nothing_is_read_around_then_one_request_for_each(void **state)
{
	static const uint64_t pages[] = {3, 50};
	struct store *store = sure_store(state);

	store_read_singly(store);
	kernel.cold = true;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t at = (i + 1) * ARENA_CHUNK;

		kernel_clear_counts();
		assert_int_equal(store_assure(store, at, pages[i] * PAGE), 0);
		assert_int_equal(kernel.begun_from, at);
		assert_int_equal(kernel.begun, pages[i] * PAGE);
		assert_int_equal(kernel.touches, pages[i]);
		assert_int_equal(kernel.passes + kernel.populates, 0);
		assert_true(store_are_sure(store->granted.sure, at, pages[i] * PAGE));
	}
}

/* Hands out pages of which some are missing, so that the store does not assume that the next ones
 * are cached. */
static void hand_out_some(struct store *store)
{
	kernel.untold = true;
	for (unsigned i = 0; i < 2 * ROW; i++) {
		kernel.cold = i % 8 == 0;
		assert_int_equal(sure_hand_out(store, ARENA_CHUNK + i * PIECE), 0);
	}
	kernel.untold = false;
}

static void page_when_nothing_is_read_around_then_touched(void **state)
{
	struct store *store = sure_store(state);

	hand_out_some(store);
	store_read_singly(store);
	kernel_clear_counts();
	kernel.cold = true;
	assert_int_equal(sure_hand_out(store, 4 * ARENA_CHUNK), 0);
	kernel.cold = false;
	assert_int_equal(sure_hand_out(store, 5 * ARENA_CHUNK), 0);
	assert_int_equal(kernel.touches, 2);
	assert_int_equal(kernel.asked_from, 5 * ARENA_CHUNK);
	assert_int_equal(kernel.begun + kernel.passes + kernel.looks, 0);
	kernel.bad = 6 * ARENA_CHUNK;
	assert_int_equal(sure_hand_out(store, kernel.bad), EIO);
	assert_false(store_is_sure(store->granted.sure, kernel.bad));
}

/* Such a wait is no major fault. */
static void page_when_another_process_is_reading_it_then_waited_for(void **state)
{
	struct store *store = sure_store(state);
	unsigned waits;

	hand_out_some(store);
	store_read_singly(store);
	waits = store_waits(store);
	kernel.fault_ns = 100000;
	assert_int_equal(sure_hand_out(store, 4 * ARENA_CHUNK), 0);
	assert_int_equal(store_waits(store), waits + 1);
	kernel.fault_ns = 0;
	assert_int_equal(sure_hand_out(store, 5 * ARENA_CHUNK), 0);
	assert_int_equal(store_waits(store), waits + 1);
}

static void page_when_touches_are_dear_then_read(void **state)
{
	struct store *store = sure_store(state);

	kernel.dear = true;
	hand_out_some(store);
	store_read_singly(store);
	kernel_clear_counts();
	assert_false(store_reads_around(store));
	kernel.cold = true;
	assert_int_equal(sure_hand_out(store, 4 * ARENA_CHUNK), 0);
	assert_int_equal(sure_hand_out(store, 5 * ARENA_CHUNK), 0);
	assert_int_equal(kernel.passes, 2);
	assert_int_equal(kernel.asked_from, 5 * ARENA_CHUNK);
	assert_int_equal(kernel.touches + kernel.populates, 0);
	/* A read also shows that a page was in memory. */
	kernel.cold = false;
	for (unsigned i = 0; !atomic_load(&store->granted.sure_skip); i++) {
		assert_true(i < 2 * ROW);
		assert_int_equal(sure_hand_out(store, 4 * ARENA_CHUNK + i * PIECE), 0);
	}
}

static void page_when_touches_are_dear_and_it_cannot_be_read_then_eio(void **state)
{
	struct store *store = sure_store(state);

	kernel.dear = true;
	hand_out_some(store);
	store_read_singly(store);
	kernel_clear_counts();
	kernel.cold = true;
	assert_int_equal(sure_hand_out(store, 5 * ARENA_CHUNK), 0);
	assert_int_equal(kernel.touches, 0);
	kernel.bad = 4 * ARENA_CHUNK;
	assert_int_equal(sure_hand_out(store, kernel.bad), EIO);
	assert_int_equal(kernel.touches, 1);
	assert_false(store_is_sure(store->granted.sure, kernel.bad));
}

/* A read without a wait would begin to read the missing page alone. */
static void page_when_the_kernel_reads_around_then_missing_ones_are_left_to_its_faults(void **state)
{
	struct store *store = sure_store(state);

	assert_true(store_reads_around(store));
	assert_int_equal(sure_hand_out(store, ARENA_CHUNK), 0);
	assert_in_range(kernel.looks, 1, 2);
	assert_int_equal(kernel.touches + kernel.begun + kernel.passes, 0);
	kernel.cold = true;
	assert_int_equal(sure_hand_out(store, 2 * ARENA_CHUNK), 0);
	assert_int_equal(kernel.touches, 1);
	assert_int_equal(kernel.begun + kernel.passes, 0);
}

static void pages_when_they_are_begun_then_by_the_kernel_and_not_waited_for(void **state)
{
	struct fixture *f = *state;
	struct store *store = sure_store(state);
	unsigned waits = store_waits(store);

	assert_true(store_begins(store));
	assert_true(store_begin(store, 3 * PAGE, PAGE));
	assert_int_equal(kernel.begun_from, 3 * PAGE);
	assert_int_equal(kernel.begun, PAGE);
	assert_int_equal(store_waits(store), waits);
	assert_false(store_is_sure(store->granted.sure, 3 * PAGE));
	assert_false(store_begins(&f->second.store)); /* an arena's store */
	assert_int_equal(kernel.begun, PAGE);
	kernel.cold = true;
	assert_int_equal(sure_hand_out(store, 3 * PAGE), 0);
	assert_int_equal(store_waits(store), waits + 1);
}

static void value_when_it_is_there_then_no_read_waits(void **state)
{
	struct store *store = sure_store(state);

	store_read_singly(store);
	assert_int_equal(store_assure(store, ARENA_CHUNK, 3 * PAGE), 0);
	assert_int_equal(kernel.touches + kernel.begun + kernel.passes + kernel.populates, 0);
	assert_int_equal(store_waits(store), 0);
}

/* A wrong guess would cost a wait for each page. */
static void value_when_few_were_found_then_requested_at_once(void **state)
{
	struct store *store = sure_store(state);

	store_read_singly(store);
	store->believe_cache = true;
	for (unsigned i = 0; i < ROW; i++) {
		assert_int_equal(store_bring(store, ARENA_CHUNK + i * 3 * PAGE, 3 * PAGE), 0);
		assert_int_equal(atomic_load(&store->granted.skip), 0);
	}
	kernel.cold = true;
	assert_int_equal(store_bring(store, 5 * ARENA_CHUNK, 3 * PAGE), 0);
	assert_int_equal(kernel.begun, 3 * PAGE);
	kernel.cold = false;
	for (unsigned i = 0; i <= ROW; i++)
		assert_int_equal(store_bring(store, 3 * ARENA_CHUNK + i * 3 * PAGE, 3 * PAGE), 0);
	assert_true(atomic_load(&store->granted.skip) > 0);
}

static void value_when_the_kernel_does_not_tell_then_touches_tell(void **state)
{
	struct store *store = sure_store(state);

	store_read_singly(store);
	kernel.untold = true;
	assert_int_equal(store_assure(store, ARENA_CHUNK, 3 * PAGE), 0);
	assert_int_equal(kernel.touches, 3);
	assert_int_equal(store_waits(store), 0);
	kernel.cold = true;
	assert_int_equal(store_assure(store, 2 * ARENA_CHUNK, 3 * PAGE), 0);
	assert_int_equal(store_waits(store), 1);
}

/* As long as the kernel reads around faults, the store takes a fault first; pages that are then
 * missing are one request. */
static void values_when_the_kernel_reads_around_then_by_a_fault_until_that_is_in_vain(void **state)
{
	struct store *store = sure_store(state);
	unsigned value;

	kernel.cold = true;
	for (value = 0; value < 100; value++)
		assert_int_equal(store_assure(store, ARENA_CHUNK + value * 4 * PAGE, 3 * PAGE), 0);
	assert_int_equal(kernel.touches, 3 * value);
	assert_int_equal(kernel.begun, 2 * PAGE * value);
	for (; value < 110; value++)
		assert_int_equal(store_assure(store, ARENA_CHUNK + value * 4 * PAGE, 3 * PAGE), 0);
	assert_in_range(kernel.begun, 229 * PAGE, 230 * PAGE);
	assert_int_equal(kernel.passes + kernel.populates, 0);
	/* Values that are then in memory make the store rely on reading around again. */
	kernel.cold = false;
	for (; value < 120; value++)
		assert_int_equal(store_assure(store, ARENA_CHUNK + value * 4 * PAGE, 3 * PAGE), 0);
	kernel.cold = true;
	kernel_clear_counts();
	assert_int_equal(store_assure(store, 6 * ARENA_CHUNK, 3 * PAGE), 0);
	assert_int_equal(kernel.begun, 2 * PAGE);
	assert_int_equal(kernel.populates, 0);
}

/* Asserts how missing pages are requested: by a fault, around which the kernel reads, or alone. */
static void assert_read(struct store *store, uint64_t offset, uint64_t length, bool alone)
{
	kernel_clear_counts();
	assert_int_equal(store_assure(store, offset, length), 0);
	assert_int_equal(kernel.touches, length / PAGE);
	assert_int_equal(kernel.begun, alone ? length : length - PAGE);
	if (kernel.begun)
		assert_int_equal(kernel.begun_from, alone ? offset : offset + PAGE);
}

static struct store *alone_store(void **state)
{
	struct store *store = sure_store(state);

	store_read_alone(store, UINT64_MAX);
	kernel.cold = true;
	return store;
}

static void values_at_random_when_memory_holds_little_of_the_file_then_read_alone(void **state)
{
	struct store *store = alone_store(state);

	assert_false(store_reads_around(store));
	for (uint64_t value = 7; value > 1; value -= 2) {
		assert_read(store, value * ARENA_CHUNK, 3 * PAGE, true);
		assert_read(store, value * ARENA_CHUNK + 3 * PAGE, PAGE, false);
	}
}

/* The store asks for the memory limit at the first missing page. Until then, and where memory is
 * enough, the kernel reads around. */
static void page_when_the_first_is_missing_then_memory_is_asked_for(void **state)
{
	struct store *store = sure_store(state);

	store_read_alone(store, UINT64_MAX);
	assert_int_equal(sure_hand_out(store, 2 * ARENA_CHUNK), 0);
	assert_true(atomic_load(&store->granted.alone_below) != 0);
	assert_false(atomic_load(&store->granted.alone));
	kernel.cold = true;
	assert_read(store, 7 * ARENA_CHUNK, 3 * PAGE, true);
	assert_true(atomic_load(&store->granted.alone));
	assert_int_equal(atomic_load(&store->granted.alone_below), 0);
	atomic_store(&store->granted.alone, false);
	store_read_alone(store, 1);
	assert_read(store, 5 * ARENA_CHUNK, 3 * PAGE, false);
	assert_false(atomic_load(&store->granted.alone));
}

/* Each cursor goes on from its own last read, whatever the others read meanwhile. */
static void pages_when_many_streams_take_turns_then_the_kernel_reads_around_each(void **state)
{
	struct store *store = alone_store(state);
	const uint64_t apart = SIZE / STORE_STREAMS;

	for (uint64_t stream = 1; stream < STORE_STREAMS; stream++)
		assert_read(store, stream * apart, PAGE, true);
	for (uint64_t page = 1; page < 6; page++)
		for (uint64_t stream = 1; stream < STORE_STREAMS; stream++)
			assert_read(store, stream * apart + page * PAGE, PAGE, false);
}

static void values_when_they_are_read_backward_then_the_kernel_reads_around_them(void **state)
{
	struct store *store = alone_store(state);
	const uint64_t length = 50 * PAGE, last = SIZE - length;

	assert_read(store, last, length, true);
	for (uint64_t value = 1; value < 20; value++)
		assert_read(store, last - value * length, length, false);
}

/* A stopped stream is forgotten after as many other streams as the table can hold. */
static void page_when_the_place_was_left_long_ago_then_it_is_read_alone(void **state)
{
	struct store *store = alone_store(state);
	const uint64_t apart = SIZE / 2 / STORE_STREAMS;

	assert_read(store, ARENA_CHUNK, PAGE, true);
	assert_read(store, ARENA_CHUNK + PAGE, PAGE, false);
	for (uint64_t other = 1; other <= STORE_STREAMS; other++)
		assert_int_equal(store_assure(store, SIZE / 2 + (other - 1) * apart + PAGE, PAGE),
				 0);
	assert_read(store, ARENA_CHUNK + 2 * PAGE, PAGE, true);
}

/* Cached pages in one place tell nothing about another place with little in memory. */
static void page_when_many_were_there_then_one_elsewhere_is_asked_for(void **state)
{
	struct store *store = sure_store(state);
	uint64_t page = ARENA_CHUNK;

	store_read_alone(store, UINT64_MAX);
	assert_false(store_reads_around(store));
	while (!atomic_load(&store->granted.sure_skip)) {
		assert_int_equal(sure_hand_out(store, page), 0);
		page += PAGE;
	}
	kernel.cold = true;
	assert_read(store, 6 * ARENA_CHUNK, PAGE, true);
	assert_false(store_is_sure(store->granted.sure, 6 * ARENA_CHUNK + PAGE));
}

static void value_when_a_page_of_it_cannot_be_read_then_eio(void **state)
{
	struct store *store = sure_store(state);

	store_read_singly(store);
	kernel.cold = true;
	kernel.bad = ARENA_CHUNK + 2 * PAGE;
	assert_int_equal(store_assure(store, ARENA_CHUNK, 3 * PAGE), EIO);
	assert_int_equal(kernel.begun, 3 * PAGE);
	assert_int_equal(kernel.touches, 3);
	assert_false(store_is_sure(store->granted.sure, ARENA_CHUNK));
	assert_int_equal(store_assure(store, ARENA_CHUNK, 2 * PAGE), 0);
}

static void values_when_the_program_has_closed_the_file_then_by_faults(void **state)
{
	struct store *store = sure_store(state);
	int fd = store->file.fd;

	store_read_singly(store);
	store->file.fd = -1;
	kernel.cold = true;
	assert_int_equal(store_assure(store, ARENA_CHUNK, 3 * PAGE), 0);
	assert_int_equal(kernel.touches, 3);
	assert_int_equal(kernel.begun + kernel.passes + kernel.populates, 0);
	store->file.fd = fd;
}

enum {
	LARGE = 150 << 20,
	HALF = LARGE / 2
}; /* bytes: more than the store asks the kernel for at a time */

/* Replaces the first reader's store by one for a single large value. */
static void be_large(struct fixture *f)
{
	struct arena_options options = {.budget = SIZE, .node = f->node, .share = true};
	struct identity identity = f->identity;
	struct reader *reader = &f->first;

	store_close(&reader->store);
	munmap(reader->base, SIZE);
	identity.size = LARGE;
	reader->base =
		mmap(NULL, LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(reader->base != MAP_FAILED);
	kernel.map = reader->base;
	assert_int_equal(store_open(&reader->store, STORE_CACHE, reader->base, LARGE, f->fd,
				    &reader->io, &options, false),
			 0);
	assert_int_equal(store_snapshot(&reader->store, &identity, LARGE, LOW, true), 0);
	store_read_singly(&reader->store);
}

static void value_when_it_is_large_then_all_of_it_is_asked_for(void **state)
{
	struct store *store = sure_store(state);

	be_large(*state);
	kernel.bad = LARGE - PAGE;
	assert_int_equal(store_assure(store, ARENA_CHUNK, HALF), 0);
	assert_true(store_are_sure(store->granted.sure, ARENA_CHUNK, HALF));
	assert_int_equal(kernel.asked_from + kernel.asked, ARENA_CHUNK + HALF);
	assert_int_equal(store_assure(store, HALF, LARGE - HALF), EIO);
	assert_false(store_is_sure(store->granted.sure, kernel.bad));
	assert_int_equal(store_bring(store, ARENA_CHUNK, LARGE - ARENA_CHUNK), EIO);
	assert_int_equal(store_bring(store, ARENA_CHUNK, LARGE - ARENA_CHUNK - PAGE), 0);
	munmap(store->file.base + SIZE, LARGE - SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SURE_CASE(values_when_nothing_is_read_around_then_one_request_for_each),
		SURE_CASE(page_when_nothing_is_read_around_then_touched),
		SURE_CASE(page_when_another_process_is_reading_it_then_waited_for),
		SURE_CASE(page_when_touches_are_dear_then_read),
		SURE_CASE(page_when_touches_are_dear_and_it_cannot_be_read_then_eio),
		SURE_CASE(
			page_when_the_kernel_reads_around_then_missing_ones_are_left_to_its_faults),
		SURE_CASE(pages_when_they_are_begun_then_by_the_kernel_and_not_waited_for),
		SURE_CASE(value_when_it_is_there_then_no_read_waits),
		SURE_CASE(value_when_the_kernel_does_not_tell_then_touches_tell),
		SURE_CASE(value_when_few_were_found_then_requested_at_once),
		SURE_CASE(
			values_when_the_kernel_reads_around_then_by_a_fault_until_that_is_in_vain),
		SURE_CASE(values_at_random_when_memory_holds_little_of_the_file_then_read_alone),
		SURE_CASE(page_when_the_first_is_missing_then_memory_is_asked_for),
		SURE_CASE(pages_when_many_streams_take_turns_then_the_kernel_reads_around_each),
		SURE_CASE(values_when_they_are_read_backward_then_the_kernel_reads_around_them),
		SURE_CASE(page_when_the_place_was_left_long_ago_then_it_is_read_alone),
		SURE_CASE(page_when_many_were_there_then_one_elsewhere_is_asked_for),
		SURE_CASE(value_when_a_page_of_it_cannot_be_read_then_eio),
		SURE_CASE(values_when_the_program_has_closed_the_file_then_by_faults),
		SURE_CASE(value_when_it_is_large_then_all_of_it_is_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
