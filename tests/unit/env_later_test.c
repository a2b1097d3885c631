/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how an environment on a data file of LMDB 1.0 handles damage, and what it dumps and
 * copies. */
#include "env_fixture.h"
#include "later_make.h"

#include "format/layout.h"
#include "format/page.h"
#include "util/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { LARGE = 10000, LARGES = 6, BUSY_MAX = 5 }; /* bytes; values; seconds of computing */

static const struct page_layout *const layout = &page_layouts[FORMAT_1_0];

struct fixture {
	struct place place;
	uint32_t page_size;
	uint64_t pages;  /* of the file */
	uint64_t txnid;  /* of the newest transaction, and of all pages */
	uint8_t *bytes;  /* the file's */
	unsigned newest; /* its meta page */
};

static void file_read(struct fixture *f)
{
	int fd = open(f->place.data, O_RDONLY | O_CLOEXEC);
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	free(f->bytes);
	f->bytes = malloc((size_t)st.st_size);
	assert_non_null(f->bytes);
	assert_int_equal(pread(fd, f->bytes, (size_t)st.st_size, 0), st.st_size);
	close(fd);
	f->page_size = load32(f->bytes + layout->shift + META_FREE_TREE + TREE_PAD);
	f->pages = (uint64_t)st.st_size / f->page_size;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	static char large[LARGE];
	uint32_t page_size;
	char key[] = "large ?";
	MDB_env *orig;

	*state = f;
	if (!f)
		return -1;
	memset(large, 'v', sizeof(large));
	place_make(&f->place);
	orig = origin_open(&f->place);
	origin_put_text(orig, NULL, 0, "key", "value");
	origin_put_text(orig, "x", 0, "inner", "value");
	/* Each in a transaction of its own, which leaves free pages behind. */
	for (char i = 0; i < LARGES; i++) {
		key[6] = (char)('0' + i);
		origin_put(orig, NULL, 0, (MDB_val){7, key}, (MDB_val){LARGE, large});
	}
	lmdbio_orig_mdb_env_close(orig);
	place_newest(&f->place, &page_size, &f->txnid);
	f->newest = f->txnid & 1;
	assert_int_equal(later_make(f->place.data, f->place.data), 0);
	file_read(f);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	place_remove(&f->place);
	free(f->bytes);
	free(f);
	return 0;
}

static uint64_t page_at(const struct fixture *f, uint64_t page)
{
	return page * f->page_size;
}

/* --- names ------------------------------------------------------------------------------------- */

/* Replaces the name "x", which the file has once, by `size` bytes of `name`. */
static void name_patch(const struct fixture *f, const char *name, uint16_t size)
{
	static const uint8_t entry[] = {ENTRY_SUBTREE, 0, 2, 0, 'x', 0};
	const uint8_t *at = f->bytes + page_at(f, FORMAT_METAS);
	uint64_t offset;

	at = memmem(at, f->pages * f->page_size - page_at(f, FORMAT_METAS), entry, sizeof(entry));
	assert_non_null(at);
	offset = (uint64_t)(at - f->bytes);
	place_patch(&f->place, offset + 2, &size, sizeof(size));
	place_patch(&f->place, offset + 4, name, size);
}

/* Asserts the last key of the main database, a name, as a program for LMDB 1.0 gets it. */
static void name_is(const struct fixture *f, const char *name, size_t size)
{
	MDB_env *env = own_open(&f->place, 2, MDB_NOLOCK);
	MDB_val key = {SIZE_MAX, NULL}, moved;
	MDB_cursor *cursor;
	MDB_txn *txn;

	assert_int_equal(txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
	cursor = calloc(1, sizeof(*cursor));
	assert_non_null(cursor);
	cursor->txn = txn;
	cursor_init(&cursor->cursor, &txn->snapshot, &txn->trees[DBI_MAIN],
		    &env->slots[DBI_MAIN].order, NULL);
	assert_int_equal(cursor_get(&cursor->cursor, &moved, NULL, MDB_LAST), 0);
	/* The previous content of the program's key does not matter. */
	assert_int_equal(for_later_name(cursor, &key), 0);
	assert_int_equal(key.mv_size, size);
	assert_memory_equal(key.mv_data, name, size);
	cursor_end(&cursor->cursor);
	free(cursor);
	txn_abort(txn);
	env_close(env);
}

static void name_when_a_cursor_comes_to_it_then_it_is_the_page_s(void **state)
{
	struct fixture *f = *state;

	name_is(f, "x", 2);
	name_patch(f, "xy", 2);
	name_is(f, "xy", 2);
}

static void name_when_the_file_is_of_0_9_then_it_gets_its_nul(void **state)
{
	struct fixture earlier = {0};
	MDB_env *orig;

	(void)state;
	place_make(&earlier.place);
	orig = origin_open(&earlier.place);
	origin_put_text(orig, "x", 0, "inner", "value");
	lmdbio_orig_mdb_env_close(orig);
	name_is(&earlier, "x", 2);
	place_remove(&earlier.place);
}

static void name_when_it_is_empty_then_it_is_one_byte(void **state)
{
	struct fixture *f = *state;

	name_patch(f, "", 1);
	name_is(f, "", 1);
}

/* --- map sizes --------------------------------------------------------------------------------- */

enum { CHILD_FINE = 40, CHILD_BEGAN, CHILD_RESIZED, CHILD_READ, CHILD_HEALED };

static int outgrow(void *argument)
{
	struct fixture *f = argument;
	uint64_t meta = page_at(f, !f->newest) + layout->shift;
	MDB_env *env = own_open(&f->place, 2, MDB_NOLOCK);
	MDB_txn *txn;

	place_patch64(&f->place, meta + META_LAST_PAGE, UINT64_C(1) << 50);
	place_patch64(&f->place, meta + META_TXNID, f->txnid + 1);
	for (unsigned i = 0; i < 2; i++) {
		if (txn_begin(env, NULL, MDB_RDONLY, &txn) != MDB_MAP_RESIZED)
			return CHILD_BEGAN;
		if (!env_set_mapsize(env, 0))
			return CHILD_RESIZED;
	}
	place_patch64(&f->place, meta + META_TXNID, f->txnid - 1);
	if (env_set_mapsize(env, 0) || txn_begin(env, NULL, MDB_RDONLY, &txn))
		return CHILD_HEALED;
	if (!txn_has(txn, DBI_MAIN, "key", "value"))
		return CHILD_READ;
	txn_abort(txn);
	env_close(env);
	return CHILD_FINE;
}

static void set_mapsize_when_the_last_page_is_nonsense_then_error_and_no_signal(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(in_process(outgrow, f), CHILD_FINE);
}

/* --- dumps ------------------------------------------------------------------------------------- */

static bool is_zero(const uint8_t *bytes, size_t size)
{
	return !*bytes && !memcmp(bytes, bytes + 1, size - 1);
}

/* Finds a page without a reference to it. The next page begins a run of at least `run` pages, or
 * with `run` 0 belongs to a tree. */
static uint64_t free_page_find(const struct fixture *f, uint64_t run)
{
	for (uint64_t page = FORMAT_METAS; page + 1 < f->pages; page++) {
		const uint8_t *next = f->bytes + page_at(f, page + 1);

		if (is_zero(f->bytes + page_at(f, page), f->page_size) &&
		    load64(next) == page + 1 &&
		    (run ? page_flags(layout, next) & PAGE_OVERFLOW && page_run(layout, next) >= run
			 : page_is_sound(layout, next, page + 1)))
			return page;
	}
	fail_msg("the file has no free page in front of what is wanted");
	return 0;
}

/* Gives a free page the header of a run. */
static void run_patch(struct fixture *f, uint64_t page, uint64_t txnid, uint32_t pages)
{
	uint64_t at = page_at(f, page);
	uint16_t flags = PAGE_OVERFLOW;

	place_patch64(&f->place, at + PAGE_NUMBER, page);
	place_patch64(&f->place, at + PAGE_TXNID, txnid);
	place_patch(&f->place, at + layout->shift + PAGE_FLAGS, &flags, sizeof(flags));
	place_patch(&f->place, at + layout->shift + PAGE_RUN, &pages, sizeof(pages));
}

/* Reads a dump as mdb_env_incr_loadfd() does, and marks the pages that the dump has. */
static void dump_parse(const struct fixture *f, const uint8_t *dump, size_t size, bool *seen)
{
	while (size) {
		uint64_t page, pages = 1;

		assert_true(size >= f->page_size);
		page = load64(dump + PAGE_NUMBER);
		if (page_flags(layout, dump) & PAGE_OVERFLOW)
			pages = page_run(layout, dump);
		assert_true(pages && page < f->pages && pages <= f->pages - page);
		assert_true(size / f->page_size >= pages);
		/* The older meta page is made from the newer one. */
		if (page >= FORMAT_METAS || page == f->newest)
			assert_memory_equal(dump, f->bytes + page_at(f, page),
					    pages * f->page_size);
		memset(seen + page, true, pages);
		dump += pages * f->page_size;
		size -= pages * f->page_size;
	}
}

/* Dumps the pages newer than `since`. *seen: an entry for each page of the file, malloc'ed. */
static void dump_of(struct fixture *f, uint64_t since, bool **seen)
{
	MDB_env *env = own_open(&f->place, 2, MDB_NOLOCK);
	FILE *file = tmpfile();
	uint8_t *dump;
	off_t size;

	assert_non_null(file);
	assert_int_equal(env_incr_dumpfd(env, fileno(file), since), 0);
	env_close(env);
	size = lseek(fileno(file), 0, SEEK_END);
	dump = malloc((size_t)size + 1);
	*seen = calloc(f->pages, sizeof(**seen));
	assert_non_null(dump);
	assert_non_null(*seen);
	assert_int_equal(pread(fileno(file), dump, (size_t)size, 0), size);
	fclose(file);
	file_read(f);
	dump_parse(f, dump, (size_t)size, *seen);
	free(dump);
}

/* Asserts that a dump of everything has each page that the snapshot uses. `but`: a page that the
 * snapshot does not use, or 0. */
static void dump_is_whole(struct fixture *f, uint64_t since, uint64_t but)
{
	bool *seen;

	dump_of(f, since, &seen);
	for (uint64_t page = 0; page < f->pages; page++)
		if (!seen[page] && page != but &&
		    !is_zero(f->bytes + page_at(f, page), f->page_size))
			fail_msg("page %u is not in the dump", (unsigned)page);
	free(seen);
}

static void dump_when_of_all_then_each_page_is_the_file_s(void **state)
{
	struct fixture *f = *state;

	dump_is_whole(f, 0, 0);
}

static void dump_when_nothing_is_newer_then_empty(void **state)
{
	struct fixture *f = *state;
	bool *seen;

	dump_of(f, f->txnid, &seen);
	assert_true(is_zero((const uint8_t *)seen, f->pages * sizeof(*seen)));
	free(seen);
}

static void dump_when_a_live_page_is_inside_a_freed_run_then_it_is_there(void **state)
{
	struct fixture *f = *state;
	uint64_t page = free_page_find(f, 0);

	run_patch(f, page, f->txnid - 2, 2);
	dump_is_whole(f, f->txnid - 2, page);
}

static void dump_when_a_freed_run_ends_inside_a_live_one_then_all_of_it_is_there(void **state)
{
	struct fixture *f = *state;

	run_patch(f, free_page_find(f, 3), f->txnid, 2);
	dump_is_whole(f, 0, 0);
}

static void dump_when_a_free_page_says_nonsense_then_other_pages_are_there(void **state)
{
	static const uint32_t pages[] = {0, 1000, UINT32_MAX};
	struct fixture *f = *state;
	uint64_t page = free_page_find(f, 0);

	for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
		run_patch(f, page, f->txnid, pages[i]);
		dump_is_whole(f, 0, page);
	}
}

/* --- copies ------------------------------------------------------------------------------------ */

/* Returns the writing end of a pipe that is full and does not wait. */
static int full_pipe(int *reading)
{
	static const char zeros[4096];
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	while (write(ends[1], zeros, sizeof(zeros)) > 0)
		;
	*reading = ends[0];
	return ends[1];
}

/* Limits processor time: without the error the functions under test would not return. */
static void computing_limit(void)
{
	const struct rlimit most = {BUSY_MAX, BUSY_MAX};

	setrlimit(RLIMIT_CPU, &most);
}

static int write_to_full_pipe(void *argument)
{
	struct fixture *f = argument;
	MDB_env *env = own_open(&f->place, 2, MDB_NOLOCK);
	int reading, fd = full_pipe(&reading), copied, dumped;

	computing_limit();
	copied = env_copyfd(env, fd, 0, NULL);
	dumped = env_incr_dumpfd(env, fd, 0);
	env_close(env);
	close(fd);
	close(reading);
	return copied == EAGAIN && dumped == EAGAIN ? CHILD_FINE : CHILD_READ;
}

static void copy_when_a_pipe_is_full_then_eagain(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(in_process(write_to_full_pipe, f), CHILD_FINE);
}

/* The newer meta page lies in the other one's place. */
static int copy_of_swapped_metas(void *argument)
{
	struct fixture *f = argument;
	MDB_env *env;
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC), copied, dumped;

	place_patch64(&f->place, page_at(f, !f->newest) + layout->shift + META_TXNID, f->txnid + 2);
	env = own_open(&f->place, 2, MDB_NOLOCK);
	computing_limit();
	copied = env_copyfd(env, fd, 0, NULL);
	dumped = env_incr_dumpfd(env, fd, 0);
	env_close(env);
	close(fd);
	return copied == MDB_CORRUPTED && dumped == MDB_CORRUPTED ? CHILD_FINE : CHILD_READ;
}

static void copy_when_a_meta_page_is_in_the_other_s_place_then_corrupted(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(in_process(copy_of_swapped_metas, f), CHILD_FINE);
}

/* --- forks ------------------------------------------------------------------------------------- */

/* In a child. Returns 0 if it reads with a slot. */
static int child_reads(void *env)
{
	MDB_txn *txn;
	bool has;

	if (txn_begin(env, NULL, MDB_RDONLY, &txn))
		return 1;
	has = txn->slot && txn_has(txn, DBI_MAIN, "key", "value");
	txn_abort(txn);
	env_close(env);
	return has ? 0 : 2;
}

static void child_when_the_directory_has_moved_then_reads_with_a_slot(void **state)
{
	struct fixture *f = *state;
	MDB_env *env = own_open(&f->place, 2, 0);
	char moved[220];
	int rc;

	snprintf(moved, sizeof(moved), "%s.moved", f->place.directory);
	assert_int_equal(rename(f->place.directory, moved), 0);
	rc = in_process(child_reads, env);
	assert_int_equal(rename(moved, f->place.directory), 0);
	assert_int_equal(rc, 0);
	env_close(env);
}

/* No writer that has the old lock file open would see the child in a new one. */
static void child_when_the_lock_file_was_removed_then_reads_with_a_slot_in_the_old_one(void **state)
{
	struct fixture *f = *state;
	MDB_env *env = own_open(&f->place, 2, 0);
	char lock[220];

	snprintf(lock, sizeof(lock), "%s/lock.mdb", f->place.directory);
	assert_int_equal(unlink(lock), 0);
	assert_int_equal(in_process(child_reads, env), 0);
	assert_int_equal(access(lock, F_OK), -1);
	env_close(env);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(name_when_a_cursor_comes_to_it_then_it_is_the_page_s),
		TEST(name_when_the_file_is_of_0_9_then_it_gets_its_nul),
		TEST(name_when_it_is_empty_then_it_is_one_byte),
		TEST(set_mapsize_when_the_last_page_is_nonsense_then_error_and_no_signal),
		TEST(dump_when_of_all_then_each_page_is_the_file_s),
		TEST(dump_when_nothing_is_newer_then_empty),
		TEST(dump_when_a_live_page_is_inside_a_freed_run_then_it_is_there),
		TEST(dump_when_a_freed_run_ends_inside_a_live_one_then_all_of_it_is_there),
		TEST(dump_when_a_free_page_says_nonsense_then_other_pages_are_there),
		TEST(copy_when_a_pipe_is_full_then_eagain),
		TEST(copy_when_a_meta_page_is_in_the_other_s_place_then_corrupted),
		TEST(child_when_the_directory_has_moved_then_reads_with_a_slot),
		TEST(child_when_the_lock_file_was_removed_then_reads_with_a_slot_in_the_old_one),
	};

	return cmocka_run_group_tests_name("environment on LMDB 1.0", tests, NULL, NULL);
}
