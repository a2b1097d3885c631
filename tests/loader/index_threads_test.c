/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that other threads go on while one makes a record index. */
#include "index_fixture.h"

#include "index/record_index.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

/* A thread that makes an index, held where it would read the tree's pages. */
static struct {
	bool held;
	sem_t begun, go_on;
	MDB_txn *txn;
	MDB_dbi dbi;
} making;

int __real_index_build(struct record_index **index, const struct snapshot *snapshot,
		       const struct tree *tree, unsigned threads);
int __wrap_index_build(struct record_index **index, const struct snapshot *snapshot,
		       const struct tree *tree, unsigned threads);

int __wrap_index_build(struct record_index **index, const struct snapshot *snapshot,
		       const struct tree *tree, unsigned threads)
{
	if (making.held) {
		sem_post(&making.begun);
		sem_wait(&making.go_on);
	}
	return __real_index_build(index, snapshot, tree, threads);
}

static void *make_index(void *unused)
{
	struct record_index *index = NULL;

	(void)unused;
	if (records_take(making.txn, making.dbi, &index))
		return NULL;
	records_give(making.txn->env, index);
	return index;
}

/* What needs no new index: opening the main database, and an index that there is. */
struct going {
	MDB_env *env;
	MDB_dbi ready;
	sem_t gone;
	int rc;
};

static void *go_on_meanwhile(void *argument)
{
	struct going *going = argument;
	struct record_index *index;
	MDB_txn *txn;
	MDB_dbi dbi;

	going->rc = txn_begin(going->env, NULL, MDB_RDONLY, &txn);
	if (!going->rc) {
		going->rc = dbi_open(txn, NULL, 0, &dbi);
		if (!going->rc)
			going->rc = records_take(txn, going->ready, &index);
		if (!going->rc)
			records_give(going->env, index);
		txn_abort(txn);
	}
	sem_post(&going->gone);
	return NULL;
}

static void records_when_one_is_being_made_then_other_threads_go_on(void **state)
{
	enum { NEVER_SECONDS = 60 };
	struct record_index *ready;
	struct opened opened;
	struct going going = {0};
	struct timespec until;
	pthread_t maker, other;
	void *made;
	int rc;

	(void)state;
	opened_begin(&opened);
	tree_of(opened.txn, "plain", &making.dbi);
	tree_of(opened.txn, "dups", &going.ready);
	assert_int_equal(txn_commit(opened.txn), 0);
	assert_int_equal(txn_begin(opened.env, NULL, MDB_RDONLY, &opened.txn), 0);
	assert_int_equal(records_take(opened.txn, going.ready, &ready), 0);
	assert_int_equal(sem_init(&making.begun, 0, 0), 0);
	assert_int_equal(sem_init(&making.go_on, 0, 0), 0);
	assert_int_equal(sem_init(&going.gone, 0, 0), 0);
	making.txn = opened.txn;
	making.held = true;
	going.env = opened.env;
	assert_int_equal(pthread_create(&maker, NULL, make_index, NULL), 0);
	assert_int_equal(sem_wait(&making.begun), 0);
	assert_int_equal(pthread_create(&other, NULL, go_on_meanwhile, &going), 0);
	/* The bound is for one that waits for the index. */
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += NEVER_SECONDS;
	rc = sem_timedwait(&going.gone, &until);
	sem_post(&making.go_on);
	assert_int_equal(pthread_join(other, NULL), 0);
	assert_int_equal(pthread_join(maker, &made), 0);
	making.held = false;
	assert_int_equal(rc, 0);
	assert_int_equal(going.rc, 0);
	assert_non_null(made);
	records_give(opened.env, ready);
	opened_end(&opened);
	sem_destroy(&making.begun);
	sem_destroy(&making.go_on);
	sem_destroy(&going.gone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_when_one_is_being_made_then_other_threads_go_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
