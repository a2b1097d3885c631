/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how an environment handles files that are no data files, lack of memory, and a process
 * that forks. */
#include "env_fixture.h"

#include "format/layout.h"
#include "origin/origin_loan.h"
#include "util/checked.h"
#include "util/stats.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The linker gives this file every calloc() of the program (see the Makemodule): the n-th call may
 * fail. */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

static unsigned callocs_until_failure;

/* The built-in original may be missing, too, as it may be in a build that loads it. */
int __real_origin_check(const char **why);
int __wrap_origin_check(const char **why);

static bool origin_is_missing;

int __wrap_origin_check(const char **why)
{
	if (!origin_is_missing)
		return __real_origin_check(why);
	*why = "the original is missing";
	return ELIBACC;
}

void *__wrap_calloc(size_t n, size_t size)
{
	if (callocs_until_failure && --callocs_until_failure == 0)
		return NULL;
	return __real_calloc(n, size);
}

struct fixture {
	struct place place;
	MDB_env *env;
	MDB_txn *txn;
	unsigned nth;
};

/* A child process's exit codes: a sanitizer's report or a failed assertion has none of these. */
enum { CHILD_FINE = 40, CHILD_ERROR, CHILD_NOT_REACHED, CHILD_OUTSIDE };

static void put_more(MDB_env *orig, char what)
{
	char key[] = "more ?";

	key[5] = what;
	origin_put_text(orig, NULL, 0, key, key);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	MDB_env *orig;

	*state = f;
	if (!f)
		return -1;
	place_make(&f->place);
	orig = origin_open(&f->place);
	origin_put_text(orig, NULL, 0, "key", "value");
	origin_put_text(orig, "named", 0, "inner", "value");
	lmdbio_orig_mdb_env_close(orig);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	place_remove(&f->place);
	free(f);
	return 0;
}

static unsigned descriptors_count(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(directory);
	while (readdir(directory))
		n++;
	closedir(directory);
	return n;
}

/* Returns the code of mdb_env_open(). Afterwards only the descriptor of the process's counters
 * stays open. */
static int open_answer(const char *path, unsigned flags)
{
	unsigned before;
	MDB_env *env;
	int rc;

	stats_opened();
	stats_closed();
	before = descriptors_count();
	assert_int_equal(env_create(&env), 0);
	rc = env_open(env, path, MDB_RDONLY | flags, 0600);
	env_close(env);
	assert_int_equal(descriptors_count(), before);
	return rc;
}

static void open_when_there_is_no_data_set_then_lmdb_code(void **state)
{
	struct fixture *f = *state;
	static const char zeros[8192];

	assert_int_equal(open_answer("/nonexistent/place", 0), ENOENT);
	assert_int_equal(open_answer(f->place.data, 0), ENOTDIR);
	assert_int_equal(open_answer(f->place.directory, MDB_NOLOCK), 0);
	place_cut(&f->place, 100);
	assert_int_equal(open_answer(f->place.directory, 0), MDB_INVALID);
	place_cut(&f->place, 0);
	place_patch(&f->place, 0, zeros, sizeof(zeros));
	assert_int_equal(open_answer(f->place.directory, 0), MDB_INVALID);
	unlink(f->place.data);
	assert_int_equal(open_answer(f->place.directory, MDB_NOLOCK), ENOENT);
}

/* LMDB's own library divides and multiplies by these before it checks them. */
static void open_when_page_size_is_nonsense_then_invalid(void **state)
{
	static const uint32_t sizes[] = {0, 1, 100, 4095, 65536, 0x80000000, 0xffffffff};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		place_patch(&f->place, META_FREE_TREE + TREE_PAD, &sizes[i], 4);
		assert_int_equal(open_answer(f->place.directory, 0), MDB_INVALID);
	}
}

static void open_when_second_meta_is_bad_then_its_error(void **state)
{
	struct fixture *f = *state;
	uint32_t page_size, twice;
	uint64_t id;

	place_newest(&f->place, &page_size, &id);
	twice = page_size * 2;
	place_patch(&f->place, page_size + META_FREE_TREE + TREE_PAD, &twice, 4);
	assert_int_equal(open_answer(f->place.directory, 0), MDB_INVALID);
	place_patch(&f->place, page_size + META_VERSION, "\3", 1);
	assert_int_equal(open_answer(f->place.directory, 0), MDB_VERSION_MISMATCH);
	place_patch(&f->place, page_size + META_MAGIC, "?", 1);
	assert_int_equal(open_answer(f->place.directory, 0), MDB_INVALID);
	place_cut(&f->place, page_size + META_END - 1);
	assert_int_equal(open_answer(f->place.directory, 0), MDB_INVALID);
}

static int open_and_read(void *argument)
{
	struct fixture *f = argument;
	MDB_val key = {3, (char[]){"key"}}, data;
	MDB_env *env;
	MDB_txn *txn;
	int rc;

	if (env_create(&env))
		return 100;
	rc = env_open(env, f->place.directory, MDB_RDONLY, 0600);
	/* Both meta pages are read through the window, at every begin. */
	if (!rc && env->window.length < FORMAT_METAS * (size_t)env->window.page_size)
		return CHILD_OUTSIDE;
	if (!rc && !(rc = txn_begin(env, NULL, MDB_RDONLY, &txn))) {
		rc = tree_get(&txn->snapshot, &txn->trees[DBI_MAIN], &env->slots[DBI_MAIN].order,
			      &key, &data);
		txn_abort(txn);
	}
	env_close(env);
	return rc ? CHILD_ERROR : CHILD_FINE;
}

/* Written to both meta pages, so that the newer one has it, whichever that is. */
static void patch_both(const struct place *place, unsigned field, uint64_t value)
{
	uint32_t page_size;
	uint64_t id;

	place_newest(place, &page_size, &id);
	place_patch64(place, field, value);
	place_patch64(place, page_size + field, value);
}

static void open_when_map_size_and_last_page_are_nonsense_then_no_signal(void **state)
{
	static const struct {
		uint64_t mapsize, last_page;
	} cases[] = {
		{0, 0},		 {1, 0},
		{4096, 0},	 {4096, UINT64_MAX},
		{0, UINT64_MAX}, {8192, 0},
		{UINT64_MAX, 3}, {1, 1},
		{0, 1ull << 52}, {0, (1ull << 52) - 1},
		{1ull << 63, 3}, {1 << 20, 1ull << 40},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int rc;

		patch_both(&f->place, META_MAPSIZE, cases[i].mapsize);
		patch_both(&f->place, META_LAST_PAGE, cases[i].last_page);
		rc = in_process(open_and_read, f);
		if (rc != CHILD_FINE && rc != CHILD_ERROR)
			print_error("map size %#llx, last page %#llx: %d\n",
				    (unsigned long long)cases[i].mapsize,
				    (unsigned long long)cases[i].last_page, rc);
		assert_true(rc == CHILD_FINE || rc == CHILD_ERROR);
	}
}

static int copy_compactly(void *argument)
{
	struct fixture *f = argument;
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	MDB_env *env = own_open(&f->place, 2, 0);
	int rc = env_copyfd(env, fd, MDB_CP_COMPACT, NULL);

	env_close(env);
	close(fd);
	return rc ? CHILD_ERROR : CHILD_FINE;
}

static void copy_when_free_list_is_flagged_dupsort_then_no_signal(void **state)
{
	struct fixture *f = *state;
	uint32_t page_size;
	uint64_t id;
	int rc;

	assert_int_equal(in_process(copy_compactly, f), CHILD_FINE);
	place_newest(&f->place, &page_size, &id);
	place_patch(&f->place, META_FREE_TREE + TREE_FLAGS, "\x0c", 1);
	place_patch(&f->place, page_size + META_FREE_TREE + TREE_FLAGS, "\x0c", 1);
	rc = in_process(copy_compactly, f);
	assert_true(rc == CHILD_FINE || rc == CHILD_ERROR);
}

/* Opens, reads and closes while the nth calloc() from now on fails. */
static int open_without_memory(void *argument)
{
	struct fixture *f = argument;
	MDB_env *env = NULL;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc;

	callocs_until_failure = f->nth;
	rc = env_create(&env);
	if (!rc)
		rc = env_open(env, f->place.directory, MDB_RDONLY, 0600);
	if (!rc)
		rc = txn_begin(env, NULL, MDB_RDONLY, &txn);
	if (!rc) {
		rc = dbi_open(txn, NULL, 0, &dbi);
		txn_abort(txn);
	}
	env_close(env);
	if (callocs_until_failure)
		return rc ? CHILD_ERROR : CHILD_NOT_REACHED;
	return rc == ENOMEM ? CHILD_FINE : CHILD_ERROR;
}

static void open_when_any_calloc_fails_then_enomem_and_no_signal(void **state)
{
	struct fixture *f = *state;
	int rc = 0;

	for (f->nth = 1; rc != CHILD_NOT_REACHED && f->nth < 100; f->nth++) {
		rc = in_process(open_without_memory, f);
		if (rc != CHILD_FINE && rc != CHILD_NOT_REACHED)
			print_error("calloc number %u: %d\n", f->nth, rc);
		assert_true(rc == CHILD_FINE || rc == CHILD_NOT_REACHED);
	}
	assert_int_equal(rc, CHILD_NOT_REACHED);
	assert_true(f->nth > 4);
}

static int child_reads_on(void *argument)
{
	struct fixture *f = argument;
	MDB_env *inherited = f->env->orig;
	MDB_txn *txn;

	if (!txn_has(f->txn, DBI_MAIN, "key", "value") || f->env->orig == inherited)
		return 1;
	if (f->txn->generation != fork_generation || readers_count(f->env) != 2)
		return 2;
	txn_abort(f->txn);
	if (txn_begin(f->env, NULL, MDB_RDONLY, &txn) || !txn_has(txn, DBI_MAIN, "key", "value"))
		return 3;
	txn_abort(txn);
	env_close(f->env);
	return 0;
}

static void fork_when_child_reads_on_then_it_has_a_slot_of_its_own(void **state)
{
	struct fixture *f = *state;

	f->env = own_open(&f->place, 2, MDB_NOTLS);
	assert_int_equal(txn_begin(f->env, NULL, MDB_RDONLY, &f->txn), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(in_process(child_reads_on, f), 0);
	assert_int_equal(readers_count(f->env), 1);
	assert_true(txn_has(f->txn, DBI_MAIN, "key", "value"));
	txn_abort(f->txn);
	env_close(f->env);
}

static int child_of_a_child(void *argument)
{
	return in_process(child_reads_on, argument) ? 4 : 0;
}

static void fork_when_twice_then_the_grandchild_reads(void **state)
{
	struct fixture *f = *state;

	f->env = own_open(&f->place, 2, MDB_NOTLS);
	assert_int_equal(txn_begin(f->env, NULL, MDB_RDONLY, &f->txn), 0);
	assert_int_equal(in_process(child_of_a_child, f), 0);
	txn_abort(f->txn);
	env_close(f->env);
}

static int child_only_closes(void *argument)
{
	struct fixture *f = argument;

	txn_abort(f->txn);
	env_close(f->env);
	return 0;
}

static void fork_when_child_only_closes_then_parent_reads_on(void **state)
{
	struct fixture *f = *state;

	f->env = own_open(&f->place, 2, 0);
	assert_int_equal(txn_begin(f->env, NULL, MDB_RDONLY, &f->txn), 0);
	assert_int_equal(in_process(child_only_closes, f), 0);
	assert_int_equal(readers_count(f->env), 1);
	assert_true(txn_has(f->txn, DBI_MAIN, "key", "value"));
	txn_abort(f->txn);
	env_close(f->env);
}

static struct writer commits;

static int child_meets_a_commit(void *argument)
{
	struct fixture *f = argument;
	MDB_txn *txn;

	writer_ask(&commits, 'x');
	if (txn_here(f->txn) != MDB_BAD_TXN)
		return 1;
	if (txn_begin(f->env, NULL, MDB_RDONLY, &txn) ||
	    !txn_has(txn, DBI_MAIN, "more x", "more x"))
		return 2;
	txn_abort(txn);
	txn_abort(f->txn);
	return 0;
}

static void fork_when_somebody_commits_then_child_cannot_hold_the_old_snapshot(void **state)
{
	struct fixture *f = *state;

	writer_start(&commits, &f->place, put_more);
	f->env = own_open(&f->place, 2, MDB_NOTLS);
	assert_int_equal(txn_begin(f->env, NULL, MDB_RDONLY, &f->txn), 0);
	assert_int_equal(in_process(child_meets_a_commit, f), 0);
	assert_true(txn_has(f->txn, DBI_MAIN, "key", "value"));
	assert_int_equal(f->txn->trees[DBI_MAIN].record.entries, 2);
	txn_abort(f->txn);
	env_close(f->env);
	writer_stop(&commits);
}

static int child_renews(void *argument)
{
	struct fixture *f = argument;

	if (txn_here(f->txn) || txn_renew(f->txn))
		return 1;
	return !txn_has(f->txn, DBI_MAIN, "key", "value") || readers_count(f->env) != 2;
}

static void fork_when_transaction_was_reset_then_child_renews_it(void **state)
{
	struct fixture *f = *state;

	f->env = own_open(&f->place, 2, MDB_NOTLS);
	assert_int_equal(txn_begin(f->env, NULL, MDB_RDONLY, &f->txn), 0);
	txn_reset(f->txn);
	assert_int_equal(in_process(child_renews, f), 0);
	assert_int_equal(txn_renew(f->txn), 0);
	assert_true(txn_has(f->txn, DBI_MAIN, "key", "value"));
	txn_abort(f->txn);
	env_close(f->env);
}

static int child_is_refused(void *argument)
{
	struct fixture *f = argument;

	return txn_here(f->txn) != MDB_INVALID;
}

static void fork_when_the_file_was_replaced_then_child_refuses(void **state)
{
	struct fixture *f = *state;
	MDB_env *orig;

	f->env = own_open(&f->place, 2, 0);
	assert_int_equal(txn_begin(f->env, NULL, MDB_RDONLY, &f->txn), 0);
	assert_int_equal(unlink(f->place.data), 0);
	orig = origin_open(&f->place);
	origin_put_text(orig, NULL, 0, "other", "file");
	assert_int_equal(in_process(child_is_refused, f), 0);
	assert_true(txn_has(f->txn, DBI_MAIN, "key", "value"));
	txn_abort(f->txn);
	env_close(f->env);
	lmdbio_orig_mdb_env_close(orig);
}

/* No writer that has the old lock file open would see the child in a new one. An original that is
 * held by dlopen() opens the lock file by its path alone. */
static void fork_when_the_lock_file_was_removed_then_child_makes_none(void **state)
{
	struct fixture *f = *state;
	char lock[220];

	snprintf(lock, sizeof(lock), "%s/lock.mdb", f->place.directory);
	f->env = own_open(&f->place, 2, MDB_NOTLS);
	assert_int_equal(txn_begin(f->env, NULL, MDB_RDONLY, &f->txn), 0);
	assert_int_equal(unlink(lock), 0);
	if (origin_takes_loans(f->env->origin))
		assert_int_equal(in_process(child_reads_on, f), 0);
	else
		assert_int_equal(in_process(child_is_refused, f), 0);
	assert_int_equal(access(lock, F_OK), -1);
	assert_true(txn_has(f->txn, DBI_MAIN, "key", "value"));
	txn_abort(f->txn);
	env_close(f->env);
}

static void resize_when_the_size_cannot_be_mapped_then_enomem_and_reads_on(void **state)
{
	const uint64_t most = UINT64_C(1) << 62;
	struct fixture *f = *state;
	uint32_t page_size;
	uint64_t id;

	f->env = own_open(&f->place, 2, 0);
	assert_int_equal(env_set_mapsize(f->env, most), ENOMEM);
	/* The size that a damaged file has. */
	place_newest(&f->place, &page_size, &id);
	for (unsigned i = 0; i < 2; i++)
		place_patch(&f->place, i * page_size + META_MAPSIZE, &most, sizeof(most));
	assert_int_equal(env_set_mapsize(f->env, 0), ENOMEM);
	assert_int_equal(txn_begin(f->env, NULL, MDB_RDONLY, &f->txn), 0);
	assert_true(txn_has(f->txn, DBI_MAIN, "key", "value"));
	txn_abort(f->txn);
	assert_int_equal(env_set_mapsize(f->env, 64 << 20), 0);
	assert_int_equal(txn_begin(f->env, NULL, MDB_RDONLY, &f->txn), 0);
	assert_true(txn_has(f->txn, DBI_MAIN, "key", "value"));
	txn_abort(f->txn);
	env_close(f->env);
}

static void create_when_the_original_is_missing_then_its_code(void **state)
{
	struct origin later = *origin_built_in();
	MDB_env *env = NULL;

	(void)state;
	later.for_later = true;
	origin_is_missing = true;
	assert_int_equal(env_create(&env), ELIBACC);
	assert_int_equal(env_create_by(&later, &env), ELIBACC);
	origin_is_missing = false;
	assert_null(env);
	assert_int_equal(env_create_by(&later, &env), 0);
	env_close(env);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(create_when_the_original_is_missing_then_its_code),
		TEST(open_when_there_is_no_data_set_then_lmdb_code),
		TEST(open_when_page_size_is_nonsense_then_invalid),
		TEST(open_when_second_meta_is_bad_then_its_error),
		TEST(open_when_map_size_and_last_page_are_nonsense_then_no_signal),
		TEST(copy_when_free_list_is_flagged_dupsort_then_no_signal),
		TEST(open_when_any_calloc_fails_then_enomem_and_no_signal),
		TEST(fork_when_child_reads_on_then_it_has_a_slot_of_its_own),
		TEST(fork_when_twice_then_the_grandchild_reads),
		TEST(fork_when_child_only_closes_then_parent_reads_on),
		TEST(fork_when_somebody_commits_then_child_cannot_hold_the_old_snapshot),
		TEST(fork_when_transaction_was_reset_then_child_renews_it),
		TEST(fork_when_the_file_was_replaced_then_child_refuses),
		TEST(fork_when_the_lock_file_was_removed_then_child_makes_none),
		TEST(resize_when_the_size_cannot_be_mapped_then_enomem_and_reads_on),
	};

	return cmocka_run_group_tests_name("environment", tests, NULL, NULL);
}
