/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which page numbers a view turns into pointers, and which it refuses. */
#include "window/window.h"

#include <errno.h>
#include <unistd.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { SIZE = 512, PAGES = 10 };

struct fixture {
	int fd; /* the file of these pages, each with its number */
	struct window window;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	uint8_t page[SIZE] = {0};

	if (!f || (f->fd = memfd_create("window-test", MFD_CLOEXEC)) < 0)
		return -1;
	for (unsigned i = 0; i < PAGES; i++) {
		store64(page, i);
		if (write(f->fd, page, sizeof(page)) != sizeof(page))
			return -1;
	}
	*state = f;
	return window_open(&f->window, f->fd, PAGES * SIZE, SIZE);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	window_close(&f->window);
	close(f->fd);
	free(f);
	return 0;
}

static void window_open_when_any_page_size_then_shift_fits(void **state)
{
	struct fixture *f = *state;

	for (uint32_t size = 256; size <= 32768; size *= 2) {
		struct window window;

		assert_int_equal(window_open(&window, f->fd, PAGES * SIZE, size), 0);
		assert_int_equal(1u << window.page_shift, size);
		assert_int_equal(window.page_size, size);
		window_close(&window);
	}
}

static void window_open_when_nothing_can_be_mapped_then_errno(void **state)
{
	struct window window = {0};
	int ends[2]; /* a pipe, which has no pages */

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(window_open(&window, ends[0], 4096, 4096), ENODEV);
	assert_null(window.base);
	window_close(&window); /* a window that was never open */
	close(ends[0]);
	close(ends[1]);
}

static void window_close_when_closed_twice_then_nothing_happens(void **state)
{
	struct fixture *f = *state;
	struct window window;

	assert_int_equal(window_open(&window, f->fd, SIZE, SIZE), 0);
	window_close(&window);
	assert_null(window.base);
	window_close(&window);
}

static void window_meta_when_asked_then_first_two_pages(void **state)
{
	struct fixture *f = *state;

	assert_ptr_equal(window_meta(&f->window, 0), f->window.base);
	assert_ptr_equal(window_meta(&f->window, 1), f->window.base + SIZE);
}

static void window_look_when_snapshot_fits_the_file_then_limit_is_the_snapshot(void **state)
{
	struct fixture *f = *state;
	struct window_view view;

	assert_int_equal(window_look(&f->window, 7, PAGES * SIZE, &view), 0);
	assert_int_equal(view.pages, 7);
	assert_int_equal(view.limit, 7);
	assert_ptr_equal(view.base, f->window.base);
	assert_int_equal(view.page_shift, f->window.page_shift);
}

static void window_look_when_file_is_shorter_then_limit_is_its_whole_pages(void **state)
{
	struct fixture *f = *state;
	struct window_view view;

	assert_int_equal(window_look(&f->window, 7, 4 * SIZE, &view), 0);
	assert_int_equal(view.limit, 4);
	assert_int_equal(view.pages, 7);
	assert_int_equal(window_look(&f->window, 7, 5 * SIZE - 1, &view), 0);
	assert_int_equal(view.limit, 4);
	assert_int_equal(window_look(&f->window, 7, 0, &view), 0);
	assert_int_equal(view.limit, 0);
}

static void window_look_when_snapshot_is_longer_than_the_window_then_map_resized(void **state)
{
	struct fixture *f = *state;
	struct window_view view = {.pages = 99};

	assert_int_equal(window_look(&f->window, PAGES, PAGES * SIZE, &view), 0);
	view.pages = 99;
	assert_int_equal(window_look(&f->window, PAGES + 1, UINT64_MAX, &view), MDB_MAP_RESIZED);
	assert_int_equal(window_look(&f->window, UINT64_MAX, UINT64_MAX, &view), MDB_MAP_RESIZED);
	/* Times the page size this is 0 in 64 bits. */
	assert_int_equal(window_look(&f->window, 1ull << 55, UINT64_MAX, &view), MDB_MAP_RESIZED);
	assert_int_equal(view.pages, 99);
}

static void window_look_when_window_is_no_multiple_of_pages_then_rest_is_not_counted(void **state)
{
	struct fixture *f = *state;
	struct window window;
	struct window_view view;

	assert_int_equal(window_open(&window, f->fd, 3 * SIZE + 511, SIZE), 0);
	assert_int_equal(window_look(&window, 3, PAGES * SIZE, &view), 0);
	assert_int_equal(window_look(&window, 4, PAGES * SIZE, &view), MDB_MAP_RESIZED);
	window_close(&window);
}

static void window_pages_when_inside_then_address_of_the_page(void **state)
{
	struct fixture *f = *state;
	struct window_view view;
	const uint8_t *address = NULL;

	assert_int_equal(window_look(&f->window, PAGES, PAGES * SIZE, &view), 0);
	for (uint64_t n = 0; n < PAGES; n++) {
		assert_int_equal(window_pages(&view, n, 1, &address), 0);
		assert_int_equal(load64(address), n);
		assert_int_equal(window_pages(&view, n, PAGES - n, &address), 0);
		assert_int_equal(load64(address), n);
	}
}

static void window_pages_when_past_the_snapshot_then_page_notfound(void **state)
{
	struct fixture *f = *state;
	struct window_view view;
	const uint8_t *address = NULL;

	assert_int_equal(window_look(&f->window, 7, PAGES * SIZE, &view), 0);
	assert_int_equal(window_pages(&view, 6, 1, &address), 0);
	assert_int_equal(window_pages(&view, 7, 1, &address), MDB_PAGE_NOTFOUND);
	assert_int_equal(window_pages(&view, 6, 2, &address), MDB_PAGE_NOTFOUND);
	assert_int_equal(window_pages(&view, 0, 8, &address), MDB_PAGE_NOTFOUND);
	assert_int_equal(window_pages(&view, PAGES, 1, &address), MDB_PAGE_NOTFOUND);
}

static void window_pages_when_past_the_file_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct window_view view;
	const uint8_t *address = NULL;

	assert_int_equal(window_look(&f->window, 7, 4 * SIZE + 100, &view), 0);
	assert_int_equal(window_pages(&view, 3, 1, &address), 0);
	assert_int_equal(window_pages(&view, 4, 1, &address), MDB_CORRUPTED);
	assert_int_equal(window_pages(&view, 6, 1, &address), MDB_CORRUPTED);
	assert_int_equal(window_pages(&view, 2, 3, &address), MDB_CORRUPTED);
	assert_int_equal(window_pages(&view, 2, 5, &address), MDB_CORRUPTED);
	assert_int_equal(window_pages(&view, 2, 6, &address), MDB_PAGE_NOTFOUND);
	assert_int_equal(window_pages(&view, 7, 1, &address), MDB_PAGE_NOTFOUND);
}

static void window_pages_when_number_plus_count_overflows_then_page_notfound(void **state)
{
	struct fixture *f = *state;
	struct window_view view;
	const uint8_t *address = NULL;

	assert_int_equal(window_look(&f->window, 7, 4 * SIZE, &view), 0);
	assert_int_equal(window_pages(&view, 3, UINT64_MAX - 2, &address), MDB_PAGE_NOTFOUND);
	assert_int_equal(window_pages(&view, 1, UINT64_MAX, &address), MDB_PAGE_NOTFOUND);
	assert_int_equal(window_pages(&view, UINT64_MAX, 1, &address), MDB_PAGE_NOTFOUND);
	assert_int_equal(window_pages(&view, UINT64_MAX, UINT64_MAX, &address), MDB_PAGE_NOTFOUND);
	assert_int_equal(window_pages(&view, 1ull << 55, 1, &address), MDB_PAGE_NOTFOUND);
	assert_int_equal(window_pages(&view, 0, 1ull << 55, &address), MDB_PAGE_NOTFOUND);
}

static void window_pages_when_nothing_is_there_then_never_an_address(void **state)
{
	struct fixture *f = *state;
	struct window_view view;
	const uint8_t *address = NULL;

	assert_int_equal(window_look(&f->window, 0, PAGES * SIZE, &view), 0);
	assert_int_equal(window_pages(&view, 0, 1, &address), MDB_PAGE_NOTFOUND);
	assert_int_equal(window_look(&f->window, 3, 0, &view), 0);
	assert_int_equal(window_pages(&view, 0, 1, &address), MDB_CORRUPTED);
}

/* While a writer commits, a reader does not use shared memory for some time. */
static void window_pages_when_shared_memory_is_not_used_then_a_failed_read_is_eio(void **state)
{
	enum { BLOCKS = 64, LENGTH = BLOCKS * ARENA_BLOCK, BAD = 40 };
	const struct identity identity = {.device = 1, .inode = 2, .size = LENGTH, .snapshot = 3};
	const struct arena_options options = {.budget = LENGTH};
	int fd = memfd_create("window-test", MFD_CLOEXEC);
	struct window window;
	struct window_view view;
	struct store store;
	const uint8_t *page;
	struct io io;

	(void)state;
	assert_int_equal(ftruncate(fd, LENGTH), 0);
	assert_int_equal(window_open(&window, fd, LENGTH, ARENA_BLOCK), 0);
	assert_int_equal(io_open_file(&io, "pread", fd), 0);
	assert_int_equal(store_open(&store, STORE_ARENA, (uint8_t *)(uintptr_t)window.base, LENGTH,
				    fd, &io, &options, false),
			 0);
	assert_int_equal(store_snapshot(&store, &identity, LENGTH, ARENA_BLOCK, false), 0);
	assert_int_equal(window_look(&window, BLOCKS, LENGTH, &view), 0);
	view.store = view.runs = &store;
	assert_int_equal(ftruncate(fd, BAD * ARENA_BLOCK), 0);
	for (uint64_t n = 0; n < BLOCKS; n++)
		assert_int_equal(window_pages(&view, n, 1, &page), n < BAD ? 0 : EIO);
	assert_int_equal(window_run(&view, BAD - 8, 8, &page), 0);
	assert_int_equal(window_run(&view, BAD - 4, 8, &page), EIO);
	view.nowait = true;
	assert_int_equal(window_pages(&view, BAD, 1, &page), EIO);
	assert_int_equal(ftruncate(fd, LENGTH), 0);
	assert_int_equal(window_pages(&view, BAD, 1, &page), 0);
	store_close(&store);
	io_close(&io);
	window_close(&window);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(window_open_when_any_page_size_then_shift_fits),
		cmocka_unit_test(window_open_when_nothing_can_be_mapped_then_errno),
		cmocka_unit_test(window_close_when_closed_twice_then_nothing_happens),
		cmocka_unit_test(window_meta_when_asked_then_first_two_pages),
		cmocka_unit_test(
			window_look_when_snapshot_fits_the_file_then_limit_is_the_snapshot),
		cmocka_unit_test(window_look_when_file_is_shorter_then_limit_is_its_whole_pages),
		cmocka_unit_test(
			window_look_when_snapshot_is_longer_than_the_window_then_map_resized),
		cmocka_unit_test(
			window_look_when_window_is_no_multiple_of_pages_then_rest_is_not_counted),
		cmocka_unit_test(window_pages_when_inside_then_address_of_the_page),
		cmocka_unit_test(window_pages_when_past_the_snapshot_then_page_notfound),
		cmocka_unit_test(window_pages_when_past_the_file_then_corrupted),
		cmocka_unit_test(window_pages_when_number_plus_count_overflows_then_page_notfound),
		cmocka_unit_test(window_pages_when_nothing_is_there_then_never_an_address),
		cmocka_unit_test(
			window_pages_when_shared_memory_is_not_used_then_a_failed_read_is_eio),
	};

	return cmocka_run_group_tests_name("window", tests, setup, teardown);
}
