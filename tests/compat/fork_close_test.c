/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a forked child that closes its parent's environment, or checks its reader table, keeps
 * the locks and the reader slot of an environment that it has opened itself on the same data set.
 */
#include "habit_data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

struct both {
	const char *path;
	MDB_env *parents;
	MDB_txn *txn; /* the parent's, or NULL */
	unsigned flags;
	int pinned[2], go[2];
};

static int child_closes_its_parents(void *context)
{
	struct both *both = context;
	MDB_env *own;
	MDB_txn *txn;
	char byte;
	int rc = mdb_env_create(&own);

	close(both->go[1]); /* so that the child ends if its parent fails */
	if (!rc)
		rc = mdb_env_open(own, both->path, both->flags, 0);
	if (!rc)
		rc = mdb_txn_begin(own, NULL, MDB_RDONLY, &txn);
	if (rc)
		return rc;
	if (both->txn)
		mdb_txn_abort(both->txn);
	mdb_env_close(both->parents);
	if (write(both->pinned[1], "", 1) != 1 || read(both->go[0], &byte, 1) != 1)
		abort();
	rc = data_check(txn, 0);
	mdb_txn_abort(txn);
	mdb_env_close(own);
	return rc;
}

static void child_keeps_its_snapshot_when_it_closes_its_parents_environment(void **state)
{
	static const unsigned kinds[] = {MDB_RDONLY, MDB_RDONLY | MDB_NOTLS};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct both both = {.path = data_make(i & 1 ? i & 2 ? "a" : "b"
							    : i & 2 ? "c" : "d"),
				    .flags = kinds[i & 1]};
		struct child child;
		char byte;
		int dead;

		assert_int_equal(mdb_env_create(&both.parents), 0);
		assert_int_equal(mdb_env_open(both.parents, both.path, both.flags, 0), 0);
		if (i & 2)
			assert_int_equal(mdb_txn_begin(both.parents, NULL, MDB_RDONLY, &both.txn),
					 0);
		assert_int_equal(pipe(both.pinned) || pipe(both.go), 0);
		child = child_start(child_closes_its_parents, &both);
		assert_int_equal(read(both.pinned[0], &byte, 1), 1);
		/* A slot whose process has no lock counts as a dead process's. */
		assert_int_equal(mdb_reader_check(both.parents, &dead), 0);
		assert_int_equal(dead, 0);
		assert_int_equal(readers_count(both.parents), i & 2 ? 2 : 1);
		assert_int_equal(data_rewrite(both.path, 6), 0);
		assert_int_equal(write(both.go[1], "", 1), 1);
		assert_int_equal(child_result(&child), 0);
		if (both.txn) {
			assert_int_equal(data_check(both.txn, 0), 0);
			mdb_txn_abort(both.txn);
		}
		mdb_env_close(both.parents);
		for (unsigned end = 0; end < 2; end++) {
			close(both.pinned[end]);
			close(both.go[end]);
		}
	}
}

static int child_checks_its_parents(void *context)
{
	MDB_env *own;
	MDB_txn *txn;
	struct both *both = context;
	int dead, rc = mdb_env_create(&own);

	if (!rc)
		rc = mdb_env_open(own, both->path, both->flags, 0);
	if (!rc)
		rc = mdb_txn_begin(own, NULL, MDB_RDONLY, &txn);
	if (!rc)
		rc = mdb_reader_check(both->parents, &dead);
	if (rc || dead || readers_count(both->parents) != 2)
		return rc ? rc : 1;
	mdb_txn_abort(txn);
	mdb_env_close(own);
	mdb_env_close(both->parents);
	return 0;
}

static void child_keeps_its_slot_when_it_checks_its_parents_environment(void **state)
{
	struct both both = {.path = data_make("data"), .flags = MDB_RDONLY};

	(void)state;
	assert_int_equal(mdb_env_create(&both.parents), 0);
	assert_int_equal(mdb_env_open(both.parents, both.path, both.flags, 0), 0);
	assert_int_equal(mdb_txn_begin(both.parents, NULL, MDB_RDONLY, &both.txn), 0);
	assert_int_equal(child_run(child_checks_its_parents, &both), 0);
	mdb_txn_abort(both.txn);
	mdb_env_close(both.parents);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			child_keeps_its_slot_when_it_checks_its_parents_environment, room_begin,
			room_end),
		cmocka_unit_test_setup_teardown(
			child_keeps_its_snapshot_when_it_closes_its_parents_environment, room_begin,
			room_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
