/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what opening, and a forked child's first transaction, say when calls of the C library fail
 * by chance: the code of a fault, and nothing once no call fails. */
#include "habit_data.h"

#include "chance_faults.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { SEEDS = 300, ONE_IN = 6 };

static struct chance_counts counts;

static bool is_code(int rc)
{
	return rc == EIO || rc == ENOMEM || rc == EMFILE || rc == EAGAIN || rc == ENOSPC;
}

static int open_once(const char *path, unsigned flags, MDB_env **env)
{
	int rc = mdb_env_create(env);

	if (rc)
		return rc;
	rc = mdb_env_open(*env, path, flags, 0);
	if (rc)
		mdb_env_close(*env);
	return rc;
}

static void open_many_times(const char *path)
{
	unsigned codes = 0;

	for (unsigned seed = 0; seed < SEEDS; seed++) {
		MDB_env *env;
		int rc;

		chance_set(seed, ONE_IN, &counts);
		rc = open_once(path, MDB_RDONLY, &env);
		chance_set(0, 0, &counts);
		if (rc) {
			if (!is_code(rc))
				fail_msg("seed %u: %d, %s", seed, rc, mdb_strerror(rc));
			codes++;
			assert_int_equal(open_once(path, MDB_RDONLY, &env), 0);
		}
		assert_int_equal(data_check_env(env, 0), 0);
		mdb_env_close(env);
	}
	assert_true(codes > SEEDS / 10);
}

static void opening_when_a_call_fails_then_says_its_code(void **state)
{
	(void)state;
	open_many_times(data_make("data"));
}

static const char *container_make(void)
{
	const char *from = data_make("from"), *to = room_path("packed");
	char line[1024];

	snprintf(line, sizeof(line), "'%s/tools/lmdbio-convert' -q '%s' '%s'",
		 getenv("top_builddir"), from, to);
	assert_int_equal(system(line), 0);
	return to;
}

static void opening_a_container_when_a_call_fails_then_says_its_code(void **state)
{
	(void)state;
	open_many_times(container_make());
}

/* The original would make a data file, which hides the container from then on. */
static void
container_when_it_is_opened_for_writing_and_a_call_fails_then_no_file_is_made(void **state)
{
	const char *path = container_make();
	char data[256];

	(void)state;
	snprintf(data, sizeof(data), "%s/data.mdb", path);
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		MDB_env *env;
		int rc;

		chance_set(seed, ONE_IN, &counts);
		rc = open_once(path, 0, &env);
		chance_set(0, 0, &counts);
		if (rc != EACCES && !is_code(rc))
			fail_msg("seed %u: %d, %s", seed, rc, mdb_strerror(rc));
		assert_int_not_equal(access(data, F_OK), 0);
	}
}

struct inherited {
	MDB_env *env;
	unsigned seed;
};

/* 0, 1: a code was said, or 2 and above: wrong. */
static int child_begins(void *context)
{
	struct inherited *in = context;
	MDB_txn *txn;
	int rc;

	chance_set(in->seed, ONE_IN, &counts);
	rc = mdb_txn_begin(in->env, NULL, MDB_RDONLY, &txn);
	chance_set(0, 0, &counts);
	if (rc && !is_code(rc))
		return 2;
	if (!rc)
		mdb_txn_abort(txn);
	return data_check_env(in->env, 0) ? 3 : rc != 0;
}

/* The child reopens the file by its descriptor. */
static void child_when_its_file_was_replaced_and_a_call_fails_then_says_its_code(void **state)
{
	const char *path = data_make("old");
	struct inherited in = {.seed = 0};
	unsigned codes = 0;
	char data[256];

	(void)state;
	assert_int_equal(open_once(path, MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS, &in.env), 0);
	snprintf(data, sizeof(data), "%s/data.mdb", path);
	assert_non_null(data_make("new"));
	assert_int_equal(rename(room_path("new/data.mdb"), data), 0);
	for (in.seed = 0; in.seed < SEEDS; in.seed++) {
		int rc = child_run(child_begins, &in);

		if (rc > 1)
			fail_msg("seed %u: %d", in.seed, rc);
		codes += rc == 1;
	}
	assert_true(codes > SEEDS / 10);
	mdb_env_close(in.env);
}

/* Maps of the arena in this process. */
static unsigned arena_maps(void)
{
	unsigned n = 0;
	char line[512];
	FILE *maps;

	chance_pause();
	maps = fopen("/proc/self/maps", "re");
	while (maps && fgets(line, sizeof(line), maps))
		n += strstr(line, "/memfd:lmdbio (deleted)") && strstr(line, " r--s ");
	if (maps)
		fclose(maps);
	chance_go_on();
	return n;
}

/* 0, or what is wrong. Unless the file is under the window, it shows what the parent's arena gives
 * up. */
static int child_looks_at_its_window(void *context)
{
	struct inherited *in = context;
	MDB_txn *txn;
	int rc;

	if (!arena_maps())
		return 2; /* the file has been laid there */
	rc = mdb_txn_begin(in->env, NULL, MDB_RDONLY, &txn);
	if (!is_code(rc))
		return 3;
	chance_set(0, 0, &counts);
	rc = mdb_txn_begin(in->env, NULL, MDB_RDONLY, &txn);
	if (rc)
		return 4;
	rc = arena_maps() ? 5 : 0;
	mdb_txn_abort(txn);
	return rc ? rc : data_check_env(in->env, 0);
}

static void child_when_no_call_works_at_the_fork_then_its_window_shows_the_file_later(void **state)
{
	struct inherited in = {.seed = 0};
	struct child child;

	(void)state;
	assert_int_equal(open_once(container_make(), MDB_RDONLY, &in.env), 0);
	assert_int_equal(data_check_env(in.env, 0), 0);
	assert_true(arena_maps() > 0);
	fflush(NULL);
	chance_set(0, 1, &counts);
	child = child_start(child_looks_at_its_window, &in);
	chance_set(0, 0, &counts);
	assert_int_equal(child_result(&child), 0);
	assert_int_equal(data_check_env(in.env, 0), 0);
	mdb_env_close(in.env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(opening_when_a_call_fails_then_says_its_code,
						room_begin, room_end),
		cmocka_unit_test_setup_teardown(
			opening_a_container_when_a_call_fails_then_says_its_code, room_begin,
			room_end),
		cmocka_unit_test_setup_teardown(
			container_when_it_is_opened_for_writing_and_a_call_fails_then_no_file_is_made,
			room_begin, room_end),
		cmocka_unit_test_setup_teardown(
			child_when_its_file_was_replaced_and_a_call_fails_then_says_its_code,
			room_begin, room_end),
		cmocka_unit_test_setup_teardown(
			child_when_no_call_works_at_the_fork_then_its_window_shows_the_file_later,
			room_begin, room_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
