/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how long a database handle is valid, and in which order its keys are read. */
#include "env_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct fixture {
	struct place place;
	struct writer writer;
	MDB_env *env;
};

/* a: drops and makes "changing" with other flags. d: drops it. m: makes it again. */
static void change(MDB_env *orig, char what)
{
	MDB_txn *txn;
	MDB_dbi dbi;

	if (what != 'm') {
		assert_int_equal(lmdbio_orig_mdb_txn_begin(orig, NULL, 0, &txn), 0);
		assert_int_equal(lmdbio_orig_mdb_dbi_open(txn, "changing", 0, &dbi), 0);
		assert_int_equal(lmdbio_orig_mdb_drop(txn, dbi, 1), 0);
		assert_int_equal(lmdbio_orig_mdb_txn_commit(txn), 0);
	}
	if (what != 'd')
		origin_put_text(orig, "changing", what == 'a' ? MDB_DUPSORT : 0, "key", "again");
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
	origin_put_text(orig, NULL, 0, "plain", "value");
	origin_put_text(orig, "one", 0, "key", "of one");
	origin_put_text(orig, "two", MDB_REVERSEKEY, "key", "of two");
	origin_put_text(orig, "three", MDB_DUPSORT | MDB_DUPFIXED, "key", "of three");
	origin_put_text(orig, "changing", 0, "key", "at first");
	lmdbio_orig_mdb_env_close(orig);
	writer_start(&f->writer, &f->place, change);
	f->env = own_open(&f->place, 3, 0);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	env_close(f->env);
	writer_stop(&f->writer);
	place_remove(&f->place);
	free(f);
	return 0;
}

static MDB_txn *begin(struct fixture *f)
{
	MDB_txn *txn;

	assert_int_equal(txn_begin(f->env, NULL, MDB_RDONLY, &txn), 0);
	return txn;
}

static void handle_when_committed_then_valid_in_later_transactions(void **state)
{
	struct fixture *f = *state;
	MDB_txn *txn = begin(f);
	MDB_dbi one, two;

	assert_int_equal(dbi_open(txn, "one", 0, &one), 0);
	assert_int_equal(dbi_open(txn, "two", 0, &two), 0);
	assert_int_equal(one, DBI_CORE);
	assert_int_equal(two, DBI_CORE + 1);
	assert_true(txn_has(txn, one, "key", "of one"));
	assert_int_equal(txn_commit(txn), 0);
	txn = begin(f);
	assert_true(dbi_exists(txn, one, TXN_DBI_USER));
	assert_true(txn_has(txn, one, "key", "of one"));
	assert_true(txn_has(txn, two, "key", "of two"));
	assert_int_equal(txn->trees[two].record.flags, MDB_REVERSEKEY);
	txn_abort(txn);
	txn = begin(f); /* an abort ends new handles alone */
	assert_true(txn_has(txn, two, "key", "of two"));
	txn_abort(txn);
}

static void handle_when_aborted_then_gone_and_its_slot_free(void **state)
{
	struct fixture *f = *state;
	MDB_txn *txn = begin(f);
	MDB_dbi one, two;

	assert_int_equal(dbi_open(txn, "one", 0, &one), 0);
	txn_abort(txn);
	txn = begin(f);
	assert_false(dbi_exists(txn, one, TXN_DBI_VALID));
	assert_int_equal(dbi_open(txn, "two", 0, &two), 0);
	assert_int_equal(two, one);
	assert_true(txn_has(txn, two, "key", "of two"));
	txn_abort(txn);
}

static void handle_when_reset_then_gone_also_after_renew(void **state)
{
	struct fixture *f = *state;
	MDB_txn *txn = begin(f);
	MDB_dbi one;

	assert_int_equal(dbi_open(txn, "one", 0, &one), 0);
	txn_reset(txn);
	assert_false(dbi_exists(txn, one, TXN_DBI_VALID));
	assert_false(dbi_exists(txn, DBI_MAIN, TXN_DBI_VALID));
	assert_int_equal(txn_renew(txn), 0);
	assert_false(dbi_exists(txn, one, TXN_DBI_VALID));
	assert_true(dbi_exists(txn, DBI_MAIN, TXN_DBI_USER));
	assert_int_equal(dbi_open(txn, "one", 0, &one), 0);
	assert_int_equal(txn_commit(txn), 0);
}

static void handle_when_name_is_open_then_the_same(void **state)
{
	struct fixture *f = *state;
	MDB_txn *txn = begin(f);
	MDB_dbi first, again;

	assert_int_equal(dbi_open(txn, "one", 0, &first), 0);
	assert_int_equal(dbi_open(txn, "one", 0, &again), 0);
	assert_int_equal(first, again);
	assert_int_equal(txn_commit(txn), 0);
	txn = begin(f);
	assert_int_equal(dbi_open(txn, "one", 0, &again), 0);
	assert_int_equal(first, again);
	txn_abort(txn); /* it was not new here */
	txn = begin(f);
	assert_true(txn_has(txn, first, "key", "of one"));
	txn_abort(txn);
}

static void handle_when_all_slots_are_taken_then_dbs_full(void **state)
{
	struct fixture *f = *state;
	MDB_txn *txn = begin(f);
	MDB_dbi dbi[4];

	assert_int_equal(dbi_open(txn, "one", 0, &dbi[0]), 0);
	assert_int_equal(dbi_open(txn, "two", 0, &dbi[1]), 0);
	assert_int_equal(dbi_open(txn, "three", 0, &dbi[2]), 0);
	assert_int_equal(dbi_open(txn, "changing", 0, &dbi[3]), MDB_DBS_FULL);
	assert_int_equal(dbi_open(txn, "two", 0, &dbi[3]), 0);
	assert_int_equal(dbi_open(txn, NULL, 0, &dbi[3]), 0);
	assert_int_equal(dbi[3], DBI_MAIN);
	assert_int_equal(txn_commit(txn), 0);
	dbi_close(f->env, dbi[1]);
	txn = begin(f);
	assert_false(dbi_exists(txn, dbi[1], TXN_DBI_VALID));
	assert_int_equal(dbi_open(txn, "changing", 0, &dbi[3]), 0);
	assert_int_equal(dbi[3], dbi[1]);
	assert_int_equal(txn_commit(txn), 0);
}

static void close_when_handle_is_wild_then_nothing_happens(void **state)
{
	static const MDB_dbi wild[] = {DBI_FREE, DBI_MAIN, 3,	       4,	  5,
				       6,	 1000,	   0x7fffffff, 0xffffffff};
	struct fixture *f = *state;
	MDB_txn *txn = begin(f);
	MDB_dbi one;

	assert_int_equal(dbi_open(txn, "one", 0, &one), 0);
	assert_int_equal(txn_commit(txn), 0);
	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++)
		dbi_close(f->env, wild[i]);
	txn = begin(f);
	assert_true(txn_has(txn, one, "key", "of one"));
	assert_true(txn_has(txn, DBI_MAIN, "plain", "value"));
	txn_abort(txn);
	dbi_close(f->env, one);
	dbi_close(f->env, one);
}

static void open_when_refused_then_lmdb_code(void **state)
{
	struct fixture *f = *state;
	MDB_txn *txn = begin(f);
	MDB_dbi dbi = 77;

	assert_int_equal(dbi_open(txn, "missing", 0, &dbi), MDB_NOTFOUND);
	assert_int_equal(dbi_open(txn, "missing", MDB_CREATE, &dbi), EACCES);
	assert_int_equal(dbi_open(txn, "plain", 0, &dbi), MDB_INCOMPATIBLE);
	assert_int_equal(dbi_open(txn, "plain", MDB_CREATE, &dbi), MDB_INCOMPATIBLE);
	assert_int_equal(dbi_open(txn, "", 0, &dbi), MDB_BAD_VALSIZE);
	assert_int_equal(dbi_open(txn, "one", 0x01, &dbi), EINVAL);
	assert_int_equal(dbi_open(txn, "one", 0x80000000, &dbi), EINVAL);
	assert_int_equal(dbi, 77);
	assert_int_equal(dbi_open(txn, "one", MDB_CREATE | MDB_DUPSORT, &dbi), 0);
	assert_int_equal(txn->trees[dbi].record.flags, 0); /* as it was made */
	txn->snapshot.blocked = SNAPSHOT_DAMAGED;
	assert_int_equal(dbi_open(txn, NULL, 0, &dbi), MDB_BAD_TXN);
	txn_abort(txn);
}

static void open_when_main_has_duplicates_or_integer_keys_then_no_names(void **state)
{
	static const unsigned flags[] = {MDB_DUPSORT, MDB_INTEGERKEY};
	struct fixture *f = *state;

	for (size_t i = 0; i < 2; i++) {
		MDB_txn *txn = begin(f);
		MDB_dbi dbi;

		assert_int_equal(dbi_open(txn, NULL, flags[i], &dbi), 0);
		assert_int_equal(dbi_open(txn, "one", 0, &dbi), MDB_NOTFOUND);
		assert_int_equal(dbi_open(txn, "one", MDB_CREATE, &dbi), MDB_INCOMPATIBLE);
		txn_abort(txn);
	}
}

static int custom(const MDB_val *a, const MDB_val *b)
{
	return (int)a->mv_size - (int)b->mv_size;
}

static void order_when_set_then_the_slot_keeps_it_until_closed(void **state)
{
	struct fixture *f = *state;
	MDB_txn *txn = begin(f);
	struct dbi_slot *slot;
	MDB_dbi two, again;

	assert_int_equal(dbi_open(txn, "two", 0, &two), 0);
	slot = &f->env->slots[two];
	assert_int_equal(slot->order.key.kind, COMPARE_REVERSE);
	slot->order.key = (struct comparator){COMPARE_CUSTOM, custom};
	assert_int_equal(txn_commit(txn), 0);
	txn = begin(f);
	assert_int_equal(dbi_open(txn, "two", 0, &again), 0);
	assert_int_equal(slot->order.key.kind, COMPARE_CUSTOM);
	assert_true(txn_has(txn, two, "k?y", "of two")); /* by its length alone */
	txn_abort(txn);
	dbi_close(f->env, two);
	txn = begin(f);
	assert_int_equal(dbi_open(txn, "two", 0, &again), 0);
	assert_int_equal(again, two);
	assert_int_equal(slot->order.key.kind, COMPARE_REVERSE);
	txn_abort(txn);
}

static void order_when_databases_differ_then_each_slot_has_its_own(void **state)
{
	struct fixture *f = *state;
	MDB_txn *txn = begin(f);
	MDB_dbi one, two, three;

	assert_int_equal(dbi_open(txn, "one", 0, &one), 0);
	assert_int_equal(dbi_open(txn, "two", 0, &two), 0);
	assert_int_equal(dbi_open(txn, "three", 0, &three), 0);
	assert_int_equal(f->env->slots[DBI_FREE].order.key.kind, COMPARE_INTEGER);
	assert_int_equal(f->env->slots[DBI_MAIN].order.key.kind, COMPARE_BYTES);
	assert_int_equal(f->env->slots[one].order.key.kind, COMPARE_BYTES);
	assert_int_equal(f->env->slots[two].order.key.kind, COMPARE_REVERSE);
	assert_int_equal(f->env->slots[three].order.data.kind, COMPARE_BYTES);
	/* Opening the main database sets its order anew, as in LMDB. */
	f->env->slots[DBI_MAIN].order.key = (struct comparator){COMPARE_CUSTOM, custom};
	assert_int_equal(dbi_open(txn, NULL, 0, &one), 0);
	assert_int_equal(f->env->slots[DBI_MAIN].order.key.kind, COMPARE_BYTES);
	txn_abort(txn);
}

static void handle_when_database_changes_flags_then_incompatible(void **state)
{
	struct fixture *f = *state;
	MDB_txn *txn = begin(f), *old;
	MDB_val key = {3, (char[]){"key"}}, data;
	MDB_dbi dbi;

	assert_int_equal(dbi_open(txn, "changing", 0, &dbi), 0);
	assert_int_equal(txn_commit(txn), 0);
	old = begin(f);
	writer_ask(&f->writer, 'a');
	assert_true(txn_has(old, dbi, "key", "at first")); /* the old transaction's database */
	txn_abort(old);
	txn = begin(f);
	assert_int_equal(
		tree_get(&txn->snapshot, &txn->trees[dbi], &f->env->slots[dbi].order, &key, &data),
		MDB_INCOMPATIBLE);
	assert_int_equal(txn->snapshot.blocked, 0);
	txn_abort(txn);
}

static void handle_when_database_is_dropped_then_notfound_and_back_again(void **state)
{
	struct fixture *f = *state;
	MDB_txn *txn = begin(f);
	MDB_val key = {3, (char[]){"key"}}, data;
	MDB_dbi dbi;

	assert_int_equal(dbi_open(txn, "changing", 0, &dbi), 0);
	assert_int_equal(txn_commit(txn), 0);
	writer_ask(&f->writer, 'd');
	txn = begin(f);
	assert_int_equal(
		tree_get(&txn->snapshot, &txn->trees[dbi], &f->env->slots[dbi].order, &key, &data),
		MDB_NOTFOUND);
	txn_reset(txn);
	writer_ask(&f->writer, 'm');
	assert_int_equal(txn_renew(txn), 0);
	assert_true(txn_has(txn, dbi, "key", "again"));
	txn_abort(txn);
}

/* In the two tests below ThreadSanitizer looks for races; without it they check the answers
 * alone. */

enum { THREADS = 4, ROUNDS = 20 };

struct crowd {
	struct fixture *fixture;
	pthread_barrier_t together;
	atomic_uint wrong;
	atomic_bool over;
};

static void *begin_first(void *argument)
{
	struct crowd *crowd = argument;
	MDB_txn *txn;

	pthread_barrier_wait(&crowd->together);
	if (txn_begin(crowd->fixture->env, NULL, MDB_RDONLY, &txn))
		return NULL;
	atomic_fetch_add(&crowd->wrong, !txn_has(txn, DBI_MAIN, "plain", "value"));
	txn_abort(txn);
	return crowd; /* it has begun */
}

static void main_handle_when_never_opened_and_threads_begin_at_once_then_ordered(void **state)
{
	struct crowd crowd = {.fixture = *state};
	pthread_t threads[THREADS];
	void *begun;

	pthread_barrier_init(&crowd.together, NULL, THREADS);
	for (unsigned round = 0; round < ROUNDS; round++) {
		env_close(crowd.fixture->env);
		crowd.fixture->env = own_open(&crowd.fixture->place, 3, MDB_NOTLS);
		for (unsigned i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, begin_first, &crowd), 0);
		for (unsigned i = 0; i < THREADS; i++) {
			assert_int_equal(pthread_join(threads[i], &begun), 0);
			assert_non_null(begun);
		}
	}
	assert_int_equal(crowd.wrong, 0);
	pthread_barrier_destroy(&crowd.together);
}

static void *begin_on_and_on(void *argument)
{
	struct crowd *crowd = argument;
	MDB_txn *txn;

	while (!atomic_load(&crowd->over)) {
		if (txn_begin(crowd->fixture->env, NULL, MDB_RDONLY, &txn)) {
			atomic_fetch_add(&crowd->wrong, 1);
			break;
		}
		atomic_fetch_add(&crowd->wrong, !txn_has(txn, DBI_MAIN, "plain", "value"));
		txn_abort(txn);
	}
	return NULL;
}

static void handle_when_committed_while_others_begin_then_valid(void **state)
{
	static const char *const names[] = {"one", "two", "three"};
	struct crowd crowd = {.fixture = *state};
	pthread_t threads[THREADS];
	MDB_dbi dbi;
	MDB_txn *txn;

	env_close(crowd.fixture->env);
	crowd.fixture->env = own_open(&crowd.fixture->place, 3, MDB_NOTLS);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, begin_on_and_on, &crowd), 0);
	for (unsigned i = 0; i < 3; i++) {
		txn = begin(crowd.fixture);
		assert_int_equal(dbi_open(txn, names[i], 0, &dbi), 0);
		assert_int_equal(txn_commit(txn), 0);
		txn = begin(crowd.fixture);
		assert_true(dbi_exists(txn, dbi, TXN_DBI_USER));
		txn_abort(txn);
	}
	atomic_store(&crowd.over, true);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(crowd.wrong, 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(handle_when_committed_then_valid_in_later_transactions),
		TEST(handle_when_aborted_then_gone_and_its_slot_free),
		TEST(handle_when_reset_then_gone_also_after_renew),
		TEST(handle_when_name_is_open_then_the_same),
		TEST(handle_when_all_slots_are_taken_then_dbs_full),
		TEST(close_when_handle_is_wild_then_nothing_happens),
		TEST(open_when_refused_then_lmdb_code),
		TEST(open_when_main_has_duplicates_or_integer_keys_then_no_names),
		TEST(order_when_set_then_the_slot_keeps_it_until_closed),
		TEST(order_when_databases_differ_then_each_slot_has_its_own),
		TEST(handle_when_database_changes_flags_then_incompatible),
		TEST(handle_when_database_is_dropped_then_notfound_and_back_again),
		TEST(main_handle_when_never_opened_and_threads_begin_at_once_then_ordered),
		TEST(handle_when_committed_while_others_begin_then_valid),
	};

	return cmocka_run_group_tests_name("database handles", tests, NULL, NULL);
}
