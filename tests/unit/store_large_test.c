/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests that a window far larger than its file costs only what the file needs, as for a data set
 * that was made with a map of a TiB. */
#include "store_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef __SANITIZE_THREAD__
enum { WINDOW_SHIFT = 38 }; /* ThreadSanitizer leaves a program no free TiB */
#else
enum { WINDOW_SHIFT = 40 };
#endif
enum { TABLE_PAGES_MOST = 8 };

/* Returns the resident pages of the tables of chunk states; all tables lie behind the first one. */
static size_t pages_of_tables(const struct store *store)
{
	size_t length = (size_t)((uintptr_t)(store->shown.states + store->shown.chunks) -
				 (uintptr_t)store->shown.runs);
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (length + page - 1) / page, there = 0;
	unsigned char *map = malloc(pages);

	assert_non_null(map);
	assert_int_equal(mincore((void *)store->shown.runs, length, map), 0);
	for (size_t i = 0; i < pages; i++)
		there += map[i] & 1;
	free(map);
	return there;
}

/* The tables get no huge pages, even where the kernel gives them to every program. Without huge
 * pages the kernel shows no flag. */
static void assert_no_huge_pages(const struct store *store)
{
	const struct reader tables = {.base = (uint8_t *)(uintptr_t)store->shown.runs};
	char said[MAP_LINE];

	if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK))
		return;
	reader_map_says(&tables, 0, "VmFlags:", said);
	assert_non_null(strstr(said, " nh"));
}

/* Simulates a program that forks, and returns the resident pages of the child's tables. */
static size_t pages_in_child(struct store *store)
{
	enum { MOST = 255 };
	size_t pages;
	int status;
	pid_t child;

	store_hold(store);
	child = fork();
	if (!child) {
		store_release(store);
		store_forked(store);
		pages = pages_of_tables(store);
		_exit(pages < MOST ? (int)pages : MOST);
	}
	store_release(store);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return (size_t)WEXITSTATUS(status);
}

/* The file is sparse, as of a program that has opened it with MDB_WRITEMAP. */
static void file_when_as_long_as_its_window_then_only_what_is_read_costs(void **state)
{
	struct fixture *f = *state;
	const uint64_t size = UINT64_C(1) << WINDOW_SHIFT;
	struct arena_options options = {.budget = 2 * SIZE, .node = f->node, .share = true};
	struct identity identity = f->identity;
	struct store store;
	uint8_t *base;

	assert_int_equal(ftruncate(f->fd, (off_t)size), 0);
	identity.size = size;
	base = mmap(NULL, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, f->fd, 0);
	assert_ptr_not_equal(base, MAP_FAILED);
	for (unsigned kind = STORE_CACHE; kind <= STORE_CONTAINER; kind++) {
		assert_int_equal(
			store_open(&store, kind, base, size, f->fd, &f->first.io, &options, false),
			0);
		assert_int_equal(store_snapshot(&store, &identity, SIZE, LOW, true), 0);
		assert_int_equal(store_bring(&store, ARENA_CHUNK, ARENA_CHUNK), 0);
		assert_in_range(pages_in_child(&store), 0, TABLE_PAGES_MOST);
		identity.snapshot++;
		assert_int_equal(store_snapshot(&store, &identity, SIZE, LOW, true), 0);
		assert_in_range(pages_of_tables(&store), 0, TABLE_PAGES_MOST);
		store_close(&store);
	}
	munmap(base, size);
}

static void window_when_far_larger_than_its_file_then_as_cheap(void **state)
{
	struct fixture *f = *state;
	struct arena_options options = {.budget = 2 * SIZE, .node = f->node, .share = true};
	struct store store;
	/* All of the window is reserved, as an environment does: no other map lies in it. */
	uint8_t *base = mmap(NULL, (size_t)1 << WINDOW_SHIFT, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_ptr_not_equal(base, MAP_FAILED);
	assert_ptr_equal(mmap(base, SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, f->fd, 0), base);
	for (unsigned kind = STORE_CACHE; kind <= STORE_CONTAINER; kind++) {
		assert_int_equal(store_open(&store, kind, base, (size_t)1 << WINDOW_SHIFT, f->fd,
					    &f->first.io, &options, false),
				 0);
		assert_int_equal(store_snapshot(&store, &f->identity, SIZE, LOW, true), 0);
		assert_int_equal(store_bring(&store, ARENA_CHUNK, ARENA_CHUNK), 0);
		store_enter(&store);
		store_leave(&store);
		assert_int_equal(store_snapshot(&store, &f->identity, SIZE, LOW, true), 0);
		assert_in_range(pages_of_tables(&store), 0, TABLE_PAGES_MOST);
		assert_no_huge_pages(&store);
		store_close(&store);
	}
	munmap(base, (size_t)1 << WINDOW_SHIFT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(window_when_far_larger_than_its_file_then_as_cheap,
						store_setup, store_teardown),
		cmocka_unit_test_setup_teardown(
			file_when_as_long_as_its_window_then_only_what_is_read_costs, store_setup,
			store_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
