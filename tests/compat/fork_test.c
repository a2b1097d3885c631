/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what must stay right on both sides of a fork with an open environment.
 * The original forbids this; every loader that forks its workers does it.
 */
#include "habit_data.h"

#include "origin/origin.h"

#include <fcntl.h>
#include <lmdbio.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* What a child inherits, and how it is told to go on and to end. */
struct inherited {
	const char *path;
	MDB_env *env;
	MDB_txn *txn; /* open at the fork, or NULL */
	MDB_cursor *cursor;
	int go[2], done[2];
};

static const unsigned kinds[] = {MDB_RDONLY, MDB_RDONLY | MDB_NOTLS,
				 MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS};

static void inherited_open(struct inherited *in, const char *path, unsigned flags, bool with_txn)
{
	MDB_val key, value;
	MDB_dbi dbi;

	*in = (struct inherited){.path = path};
	assert_non_null(path);
	assert_int_equal(mdb_env_create(&in->env), 0);
	assert_int_equal(mdb_env_open(in->env, path, flags, 0), 0);
	if (with_txn) {
		assert_int_equal(mdb_txn_begin(in->env, NULL, MDB_RDONLY, &in->txn), 0);
		assert_int_equal(mdb_dbi_open(in->txn, NULL, 0, &dbi), 0);
		assert_int_equal(mdb_cursor_open(in->txn, dbi, &in->cursor), 0);
		assert_int_equal(mdb_cursor_get(in->cursor, &key, &value, MDB_FIRST), 0);
	}
	assert_int_equal(pipe(in->go), 0);
	assert_int_equal(pipe(in->done), 0);
}

static void inherited_close(struct inherited *in)
{
	if (in->cursor)
		mdb_cursor_close(in->cursor);
	if (in->txn)
		mdb_txn_abort(in->txn);
	mdb_env_close(in->env);
	for (int i = 0; i < 2; i++) {
		close(in->go[i]);
		close(in->done[i]);
	}
}

static void tell(const int ends[2])
{
	if (write(ends[1], "", 1) != 1)
		abort();
}

static void wait_for(const int ends[2])
{
	char byte;

	if (read(ends[0], &byte, 1) != 1)
		abort();
}

static int child_reads(void *context)
{
	struct inherited *in = context;
	MDB_val key, value;
	int rc;

	if (in->txn) {
		/* The cursor goes on from where the parent left it. */
		rc = mdb_cursor_get(in->cursor, &key, &value, MDB_NEXT);
		if (rc || !data_is_record(1, 0, &key, &value))
			return rc ? rc : 2;
		rc = data_check(in->txn, 0);
		if (rc)
			return rc;
		mdb_cursor_close(in->cursor);
		mdb_txn_abort(in->txn);
	}
	for (int round = 0; round < 3; round++) {
		rc = data_check_env(in->env, 0);
		if (rc)
			return rc;
	}
	return 0;
}

static int child_reads_and_closes(void *context)
{
	int rc = child_reads(context);

	mdb_env_close(((struct inherited *)context)->env);
	return rc;
}

static int child_closes_at_once(void *context)
{
	struct inherited *in = context;

	if (in->txn) {
		mdb_cursor_close(in->cursor);
		mdb_txn_abort(in->txn);
	}
	mdb_env_close(in->env);
	return 0;
}

static int child_ends_at_once(void *context)
{
	(void)context;
	return 0;
}

/* The parent, with its own transaction if it has one, before and after the child has ended. */
static void children_of_every_kind(int (*body)(void *context))
{
	for (unsigned kind = 0; kind < 3; kind++) {
		for (int with_txn = 0; with_txn < 2; with_txn++) {
			char name[20];
			struct inherited in;

			snprintf(name, sizeof(name), "data%u%d", kind, with_txn);
			inherited_open(&in, data_make(name), kinds[kind], with_txn);
			for (int round = 0; round < 2; round++) {
				assert_int_equal(child_run(body, &in), 0);
				assert_int_equal(with_txn ? data_check(in.txn, 0)
							  : data_check_env(in.env, 0),
						 0);
			}
			inherited_close(&in);
		}
	}
}

static void child_that_reads_gets_right_data(void **state)
{
	(void)state;
	children_of_every_kind(child_reads);
}

static void child_that_reads_and_closes_leaves_the_parent_unhurt(void **state)
{
	(void)state;
	children_of_every_kind(child_reads_and_closes);
}

static void child_that_closes_at_once_leaves_the_parent_unhurt(void **state)
{
	(void)state;
	children_of_every_kind(child_closes_at_once);
}

static void child_that_does_nothing_leaves_the_parent_unhurt(void **state)
{
	(void)state;
	children_of_every_kind(child_ends_at_once);
}

static int parent_txn_after_child(int (*body)(void *context), unsigned flags)
{
	struct inherited in;
	int rc;

	inherited_open(&in, data_make(flags & MDB_NOTLS ? "notls" : "tls"), flags, true);
	assert_int_equal(child_run(body, &in), 0);
	/* A slot that the child's end took away would let the writer use our snapshot's pages. */
	assert_int_equal(data_rewrite(in.path, 6), 0);
	rc = data_check(in.txn, 0);
	inherited_close(&in);
	return rc;
}

static void parent_keeps_its_snapshot_when_a_child_ends(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < 2; kind++) {
		assert_int_equal(parent_txn_after_child(child_reads, kinds[kind]), 0);
		room_remove();
		assert_non_null(room_make());
		assert_int_equal(parent_txn_after_child(child_closes_at_once, kinds[kind]), 0);
		room_remove();
		assert_non_null(room_make());
	}
}

static int child_holds_a_snapshot(void *context)
{
	struct inherited *in = context;
	MDB_txn *txn;
	int rc;

	if (in->txn) {
		mdb_cursor_close(in->cursor);
		mdb_txn_abort(in->txn);
	}
	rc = mdb_txn_begin(in->env, NULL, MDB_RDONLY, &txn);
	if (!rc)
		rc = data_check(txn, 0);
	tell(in->done); /* pinned */
	wait_for(in->go);
	if (!rc)
		rc = data_check(txn, 0);
	return rc;
}

/* The child's own slot must hold whatever the parent does, the end of its environment included. */
static void child_keeps_its_snapshot_when_the_parent_closes(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < 2; kind++) {
		for (int with_txn = 0; with_txn < 2; with_txn++) {
			char name[20];
			struct inherited in;
			struct child child;

			snprintf(name, sizeof(name), "data%u%d", kind, with_txn);
			inherited_open(&in, data_make(name), kinds[kind], with_txn);
			child = child_start(child_holds_a_snapshot, &in);
			wait_for(in.done);
			if (in.txn) {
				mdb_cursor_close(in.cursor);
				mdb_txn_abort(in.txn);
				in.txn = NULL;
				in.cursor = NULL;
			}
			mdb_env_close(in.env);
			assert_int_equal(data_rewrite(in.path, 6), 0);
			tell(in.go);
			assert_int_equal(child_result(&child), 0);
			assert_int_equal(mdb_env_create(&in.env), 0);
			assert_int_equal(mdb_env_open(in.env, in.path, kinds[kind], 0), 0);
			assert_int_equal(data_check_env(in.env, 6), 0);
			inherited_close(&in);
		}
	}
}

struct orphaning {
	const char *path;
	unsigned flags;
	bool with_txn, closes;
	int report[2];
};

static int parent_that_ends_first(void *context)
{
	struct orphaning *orphaning = context;
	struct inherited in;
	int alive[2], rc;
	char byte;

	inherited_open(&in, orphaning->path, orphaning->flags, orphaning->with_txn);
	if (pipe(alive))
		return 1;
	if (!fork()) {
		close(alive[1]);
		rc = read(alive[0], &byte, 1) ? 3 : 0; /* end of file: the parent is gone */
		if (!rc)
			rc = child_reads(&in);
		if (write(orphaning->report[1], &rc, sizeof(rc)) != sizeof(rc))
			abort();
		_exit(0);
	}
	if (orphaning->closes)
		inherited_close(&in);
	return 0; /* the end of `alive` closes with us */
}

static void child_reads_on_when_the_parent_has_ended(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 12; round++) {
		char name[16];
		struct orphaning orphaning = {
			.flags = kinds[round % 3], .with_txn = round / 3 % 2, .closes = round / 6};
		int rc = -1;

		snprintf(name, sizeof(name), "data%u", round);
		orphaning.path = data_make(name);
		assert_non_null(orphaning.path);
		assert_int_equal(pipe(orphaning.report), 0);
		assert_int_equal(child_run(parent_that_ends_first, &orphaning), 0);
		assert_int_equal(read(orphaning.report[0], &rc, sizeof(rc)), sizeof(rc));
		assert_int_equal(rc, 0);
		close(orphaning.report[0]);
		close(orphaning.report[1]);
	}
}

static int child_reads_one(void *context)
{
	struct inherited *in = context;
	MDB_txn *txn;
	int rc = mdb_txn_begin(in->env, NULL, MDB_RDONLY, &txn);

	if (!rc)
		mdb_txn_abort(txn);
	return rc;
}

/* Another data set takes the place of the one that is open, or none does. */
static void child_when_its_file_has_no_name_any_more_then_reads_it(void **state)
{
	const char *names[] = {"old", "older"};

	(void)state;
	for (unsigned removed = 0; removed < 2; removed++) {
		for (int with_txn = 0; with_txn < 2; with_txn++) {
			const char *path = data_make(names[removed]);
			char data[256], other[256];
			struct inherited in;

			inherited_open(&in, path, MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS, with_txn);
			snprintf(data, sizeof(data), "%s/data.mdb", path);
			snprintf(other, sizeof(other), "%s/data.mdb", data_make("new"));
			assert_int_equal(data_rewrite(room_path("new"), 3), 0);
			assert_int_equal(removed ? unlink(data) : rename(other, data), 0);
			assert_int_equal(child_run(child_reads, &in), 0);
			assert_int_equal(child_run(child_reads_and_closes, &in), 0);
			inherited_close(&in);
			room_remove();
			assert_non_null(room_make());
		}
	}
}

/* A loader starts new workers for each epoch, and they leave by _exit(). The table has 126 slots.
 */
static void three_hundred_workers_in_turn_all_get_a_reader_slot(void **state)
{
	struct inherited in;
	int dead, count;

	(void)state;
	inherited_open(&in, data_make("data"), MDB_RDONLY | MDB_NOTLS, true);
	for (int i = 0; i < 300; i++)
		assert_int_equal(child_run(child_reads_one, &in), 0);
	assert_int_equal(mdb_reader_check(in.env, &dead), 0);
	count = readers_count(in.env);
	assert_int_equal(count, 1); /* the parent's */
	assert_int_equal(data_check(in.txn, 0), 0);
	inherited_close(&in);
}

static void eight_workers_at_once_read_right_and_leave_no_slot(void **state)
{
	struct child children[8];
	struct inherited in;
	int dead;

	(void)state;
	inherited_open(&in, data_make("data"), MDB_RDONLY, true);
	for (int i = 0; i < 8; i++)
		children[i] = child_start(i & 1 ? child_reads : child_reads_and_closes, &in);
	assert_int_equal(data_check(in.txn, 0), 0);
	for (int i = 0; i < 8; i++)
		assert_int_equal(child_result(&children[i]), 0);
	assert_int_equal(mdb_reader_check(in.env, &dead), 0);
	assert_int_equal(readers_count(in.env), 1);
	inherited_close(&in);
}

static int grandchild_reads(void *context)
{
	int rc = child_reads_one(context);

	return rc ? rc : child_run(child_reads, context);
}

static void grandchild_reads_right(void **state)
{
	struct inherited in;

	(void)state;
	for (int with_txn = 0; with_txn < 2; with_txn++) {
		inherited_open(&in, data_make(with_txn ? "open" : "idle"), MDB_RDONLY | MDB_NOTLS,
			       with_txn);
		assert_int_equal(child_run(grandchild_reads, &in), 0);
		assert_int_equal(data_check_env(in.env, 0), 0);
		inherited_close(&in);
	}
}

/* The first that the child does with the environment. */
static int child_copies(void *context)
{
	struct inherited *in = context;
	int rc = mdb_env_copy(in->env, room_path("copy")), fd;

	if (rc)
		return rc;
	fd = open(room_path("copy.mdb"), O_WRONLY | O_CREAT | O_TRUNC, 0644);
	rc = mdb_env_copyfd2(in->env, fd, 0);
	close(fd);
	return rc;
}

static int copy_check(const char *path, unsigned flags)
{
	MDB_env *env;
	int rc = mdb_env_create(&env);

	if (!rc)
		rc = mdb_env_open(env, path, flags, 0);
	if (!rc)
		rc = data_check_env(env, 0);
	mdb_env_close(env);
	return rc;
}

static void child_that_copies_gets_right_data(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 6; round++) {
		bool with_txn = round / 3;
		struct inherited in;

		inherited_open(&in, data_make("data"), kinds[round % 3], with_txn);
		assert_int_equal(mkdir(room_path("copy"), 0755), 0);
		assert_int_equal(with_txn ? data_check(in.txn, 0) : data_check_env(in.env, 0), 0);
		assert_int_equal(child_run(child_copies, &in), 0);
		assert_int_equal(with_txn ? data_check(in.txn, 0) : data_check_env(in.env, 0), 0);
		assert_int_equal(copy_check(room_path("copy"), MDB_RDONLY), 0);
		assert_int_equal(copy_check(room_path("copy.mdb"), MDB_RDONLY | MDB_NOSUBDIR), 0);
		inherited_close(&in);
		room_remove();
		assert_non_null(room_make());
	}
}

static int child_copies_into_a_pipe(void *context)
{
	struct inherited *in = context;

	return mdb_env_copyfd2(in->env, in->go[1], 0);
}

/* The pipe holds the child in the middle of its copy. */
static void parent_begins_while_a_child_copies(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < 2; kind++) {
		char name[20], bytes[4096];
		struct inherited in;
		struct child child;
		size_t got = 0;
		int dead, slots;

		snprintf(name, sizeof(name), "data%u", kind);
		inherited_open(&in, data_make(name), kinds[kind], false);
		assert_int_equal(data_check_env(in.env, 0), 0);
		slots = readers_count(in.env);
		child = child_start(child_copies_into_a_pipe, &in);
		/* Past the meta pages, for which it locks writers out. */
		while (got < 100000) {
			ssize_t n = read(in.go[0], bytes, sizeof(bytes));

			assert_true(n > 0);
			got += (size_t)n;
		}
		assert_int_equal(readers_count(in.env), slots + 1);
		assert_int_equal(data_check_env(in.env, 0), 0);
		assert_int_equal(kill(child.pid, SIGKILL), 0);
		assert_int_equal(child_result(&child), 1000 + SIGKILL);
		/* The slot was the child's, so it goes with the child. */
		assert_int_equal(mdb_reader_check(in.env, &dead), 0);
		assert_int_equal(dead, 1);
		assert_int_equal(readers_count(in.env), slots);
		assert_int_equal(data_check_env(in.env, 0), 0);
		inherited_close(&in);
	}
}

/* The first call that the child makes with the transaction; the cursors follow. */
static int child_gets(void *context)
{
	struct inherited *in = context;
	MDB_val key = {10, (void *)(uintptr_t) "00000042_k"}, value;
	int rc = mdb_get(in->txn, 1, &key, &value);

	if (rc || !data_is_record(42, 0, &key, &value))
		return rc ? rc : 2;
	return child_reads(in);
}

static void child_that_gets_first_gets_right_data(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < 3; kind++) {
		char name[20];
		struct inherited in;

		snprintf(name, sizeof(name), "data%u", kind);
		inherited_open(&in, data_make(name), kinds[kind], true);
		assert_int_equal(child_run(child_gets, &in), 0);
		assert_int_equal(data_check(in.txn, 0), 0);
		inherited_close(&in);
	}
}

/* How many calls do not say MDB_BAD_TXN. */
static int child_without_its_snapshot(void *context)
{
	struct inherited *in = context;
	MDB_val key = {10, (void *)(uintptr_t) "00000042_k"}, value;
	MDB_cursor *cursor;
	MDB_stat stat;
	size_t count;
	MDB_dbi dbi;
	int codes[] = {
		mdb_get(in->txn, 1, &key, &value),
		mdb_cursor_get(in->cursor, &key, &value, MDB_NEXT),
		mdb_cursor_open(in->txn, 1, &cursor),
		mdb_cursor_renew(in->txn, in->cursor),
		mdb_cursor_count(in->cursor, &count),
		mdb_stat(in->txn, 1, &stat),
		mdb_dbi_open(in->txn, NULL, 0, &dbi),
		lmdbio_advise(in->txn, 1, LMDBIO_RANDOM, 0),
		lmdbio_prefetch_keys(in->txn, 1, &key, 1),
		lmdbio_prefetch_range(in->txn, 1, NULL, NULL),
		lmdbio_prefetch_records(in->txn, 1, &(uint64_t){0}, 1),
		lmdbio_get_record(in->txn, 1, 0, &key, &value),
	};
	int others = 0;

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		others += codes[i] != MDB_BAD_TXN;
	mdb_cursor_close(in->cursor);
	mdb_txn_abort(in->txn);
	return others ? others : data_check_env(in->env, 3);
}

/* A child has no slot for a snapshot that is no longer the newest: its pages may be reused. */
static void child_that_inherits_an_older_snapshot_gets_nothing_of_it(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < 2; kind++) {
		char name[20];
		struct inherited in;

		snprintf(name, sizeof(name), "data%u", kind);
		inherited_open(&in, data_make(name), kinds[kind], true);
		assert_int_equal(data_rewrite(in.path, 3), 0);
		assert_int_equal(child_run(child_without_its_snapshot, &in), 0);
		assert_int_equal(data_check(in.txn, 0), 0);
		inherited_close(&in);
	}
}

int main(void)
{
#define IN_A_ROOM(test) cmocka_unit_test_setup_teardown(test, room_begin, room_end)
	const struct CMUnitTest tests[] = {
		IN_A_ROOM(child_that_reads_gets_right_data),
		IN_A_ROOM(child_that_reads_and_closes_leaves_the_parent_unhurt),
		IN_A_ROOM(child_that_closes_at_once_leaves_the_parent_unhurt),
		IN_A_ROOM(child_that_does_nothing_leaves_the_parent_unhurt),
		IN_A_ROOM(parent_keeps_its_snapshot_when_a_child_ends),
		IN_A_ROOM(child_keeps_its_snapshot_when_the_parent_closes),
		IN_A_ROOM(child_reads_on_when_the_parent_has_ended),
		IN_A_ROOM(child_when_its_file_has_no_name_any_more_then_reads_it),
		IN_A_ROOM(three_hundred_workers_in_turn_all_get_a_reader_slot),
		IN_A_ROOM(eight_workers_at_once_read_right_and_leave_no_slot),
		IN_A_ROOM(grandchild_reads_right),
		IN_A_ROOM(child_that_copies_gets_right_data),
		IN_A_ROOM(parent_begins_while_a_child_copies),
		IN_A_ROOM(child_that_gets_first_gets_right_data),
		IN_A_ROOM(child_that_inherits_an_older_snapshot_gets_nothing_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
