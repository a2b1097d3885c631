/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what becomes of a copy that cannot be made. */
#include "habit_data.h"

#include "origin/origin.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

struct copying {
	const char *path;
	bool original;        /* it makes the copy */
	int ends[2];          /* the pipe that it goes into */
	bool blocks, has_one; /* SIGPIPE, before the copy */
};

static int copy_compacted(const struct copying *copying)
{
	MDB_env *env;
	int rc;

	if (copying->original) {
		rc = lmdbio_orig_mdb_env_create(&env);
		if (!rc)
			rc = lmdbio_orig_mdb_env_open(env, copying->path, MDB_RDONLY, 0);
		if (!rc)
			rc = lmdbio_orig_mdb_env_copyfd2(env, copying->ends[1], MDB_CP_COMPACT);
		lmdbio_orig_mdb_env_close(env);
		return rc;
	}
	rc = mdb_env_create(&env);
	if (!rc)
		rc = mdb_env_open(env, copying->path, MDB_RDONLY, 0);
	if (!rc)
		rc = mdb_env_copyfd2(env, copying->ends[1], MDB_CP_COMPACT);
	mdb_env_close(env);
	return rc;
}

/* In a child: what the copy returns; 2000: the signals are not as before. */
static int copy_into_pipe(void *context)
{
	const struct copying *copying = context;
	sigset_t set, pending, mask;
	int rc;

	close(copying->ends[0]);
	signal(SIGPIPE, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	sigprocmask(copying->blocks ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
	if (copying->has_one)
		raise(SIGPIPE);
	rc = copy_compacted(copying);
	sigpending(&pending);
	sigprocmask(SIG_BLOCK, NULL, &mask);
	return sigismember(&pending, SIGPIPE) == copying->has_one &&
			       sigismember(&mask, SIGPIPE) == copying->blocks
		       ? rc
		       : 2000;
}

/* Reads so much of the copy, then breaks the pipe. */
static int copy_broken_after(struct copying copying, size_t most)
{
	char bytes[4096];
	struct child child;
	size_t got = 0;

	assert_int_equal(pipe(copying.ends), 0);
	if (!most)
		close(copying.ends[0]);
	child = child_start(copy_into_pipe, &copying);
	close(copying.ends[1]);
	while (got < most) {
		ssize_t n = read(copying.ends[0], bytes, sizeof(bytes));

		assert_true(n > 0);
		got += (size_t)n;
	}
	if (most)
		close(copying.ends[0]);
	return child_result(&child);
}

static void compacted_copy_into_a_broken_pipe_is_epipe_without_a_signal(void **state)
{
	struct copying copying = {.path = data_make("data")};

	(void)state;
	assert_non_null(copying.path);
	for (int original = 1; original >= 0; original--) {
		copying.original = original;
		assert_int_equal(copy_broken_after(copying, 0), EPIPE);
		/* More than a pipe holds is still to come. */
		assert_int_equal(copy_broken_after(copying, 100000), EPIPE);
	}
}

static void sigpipe_blocked_or_pending_before_a_copy_stays_so(void **state)
{
	struct copying copying = {.path = data_make("data"), .blocks = true};

	(void)state;
	assert_non_null(copying.path);
	assert_int_equal(copy_broken_after(copying, 0), EPIPE);
	copying.has_one = true;
	assert_int_equal(copy_broken_after(copying, 0), EPIPE);
	assert_int_equal(copy_broken_after(copying, 100000), EPIPE);
}

int mdb_env_copy3(MDB_env *env, const char *path, unsigned flags, MDB_txn *txn);
int mdb_env_copyfd3(MDB_env *env, int fd, unsigned flags, MDB_txn *txn);

static void copy_of_a_transaction_that_is_refused_leaves_no_file(void **state)
{
	const char *path = data_make("data"), *to = room_path("copy");
	MDB_env *env;
	MDB_txn *txn;

	(void)state;
	assert_non_null(path);
	assert_int_equal(mkdir(to, 0755), 0);
	for (int reading = 0; reading < 2; reading++) {
		assert_int_equal(mdb_env_create(&env), 0);
		assert_int_equal(mdb_env_open(env, path, reading ? MDB_RDONLY : 0, 0644), 0);
		assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
		assert_int_equal(mdb_env_copy3(env, to, 0, txn), MDB_INCOMPATIBLE);
		assert_int_equal(mdb_env_copyfd3(env, -1, 0, txn), MDB_INCOMPATIBLE);
		if (!reading)
			assert_int_equal(mdb_env_copy3(env, to, MDB_CP_COMPACT, txn),
					 MDB_INCOMPATIBLE);
		assert_int_equal(directory_count(to), 2); /* . and .. */
		if (reading)
			assert_int_equal(mdb_env_copy3(env, to, MDB_CP_COMPACT, txn), 0);
		mdb_txn_abort(txn);
		mdb_env_close(env);
	}
	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_open(env, to, MDB_RDONLY, 0), 0);
	assert_int_equal(data_check_env(env, 0), 0);
	mdb_env_close(env);
}

int main(void)
{
#define IN_A_ROOM(test) cmocka_unit_test_setup_teardown(test, room_begin, room_end)
	const struct CMUnitTest tests[] = {
		IN_A_ROOM(compacted_copy_into_a_broken_pipe_is_epipe_without_a_signal),
		IN_A_ROOM(copy_of_a_transaction_that_is_refused_leaves_no_file),
		IN_A_ROOM(sigpipe_blocked_or_pending_before_a_copy_stays_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
