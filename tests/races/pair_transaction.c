/* SPDX-License-Identifier: OLDAP-2.8 */
/* Does what each thread may do in a transaction of its own, whatever others do in theirs. */
#include "pairs.h"

#include <errno.h>
#include <string.h>

enum { STEPS = 12, LARGEST = 7 };

static MDB_txn *begin(struct actor *actor)
{
	MDB_txn *txn;

	return actor_has(actor, "mdb_txn_begin",
			 mdb_txn_begin(actor->shared->env, NULL, MDB_RDONLY, &txn), 0)
		       ? txn
		       : NULL;
}

static void get(struct actor *actor, MDB_txn *txn)
{
	uint64_t number = actor_random(actor, PAIR_RECORDS);
	char text[9];
	MDB_val key = pair_key(text, number), data;

	if (actor_has(actor, "mdb_get", mdb_get(txn, actor->shared->records, &key, &data), 0) &&
	    !pair_is_record(NULL, &data, number))
		actor_wrong(actor, "bytes of record", (long)number);
}

static void gets(struct actor *actor)
{
	MDB_txn *txn = begin(actor);

	for (unsigned i = 0; txn && i < STEPS; i++)
		get(actor, txn);
	mdb_txn_abort(txn);
}

/* The first thread begins the joint transaction, and the last one ends it. */
static MDB_txn *join(struct actor *actor)
{
	struct shared *shared = actor->shared;

	pthread_mutex_lock(&shared->joint_lock);
	if (!shared->joint_users)
		shared->joint = begin(actor);
	shared->joint_users += shared->joint != NULL;
	pthread_mutex_unlock(&shared->joint_lock);
	return shared->joint;
}

static void leave(struct shared *shared)
{
	pthread_mutex_lock(&shared->joint_lock);
	if (!--shared->joint_users)
		mdb_txn_abort(shared->joint);
	pthread_mutex_unlock(&shared->joint_lock);
}

static void begins_and_ends(struct actor *actor)
{
	MDB_txn *txn = begin(actor);

	if (!txn)
		return;
	if (mdb_txn_env(txn) != actor->shared->env || !mdb_txn_id(txn))
		actor_wrong(actor, "mdb_txn_env, mdb_txn_id", (long)mdb_txn_id(txn));
	actor_has(actor, "mdb_txn_commit", mdb_txn_commit(txn), 0);
}

static void renews(struct actor *actor)
{
	MDB_txn *txn = begin(actor);
	MDB_val key = {1, (void *)(uintptr_t) "x"}, data;

	if (!txn)
		return;
	mdb_txn_reset(txn);
	actor_has(actor, "mdb_get after mdb_txn_reset",
		  mdb_get(txn, actor->shared->records, &key, &data), EINVAL);
	if (actor_has(actor, "mdb_txn_renew", mdb_txn_renew(txn), 0))
		get(actor, txn);
	mdb_txn_abort(txn);
}

static void steps(struct actor *actor, MDB_cursor *cursor, MDB_cursor_op first, MDB_cursor_op next,
		  uint64_t from)
{
	char text[9];
	MDB_val key = pair_key(text, from), data;
	int rc = mdb_cursor_get(cursor, &key, &data, first);

	for (unsigned i = 0; i < STEPS && actor_has(actor, "mdb_cursor_get", rc, 0); i++) {
		if (!pair_is_record(&key, &data, from)) {
			actor_wrong(actor, "record of a cursor", (long)from);
			return;
		}
		rc = mdb_cursor_get(cursor, &key, &data, next);
		from += next == MDB_NEXT ? 1 : UINT64_MAX;
	}
}

static void walks(struct actor *actor)
{
	MDB_txn *txn = begin(actor);
	MDB_cursor *cursor;
	uint64_t from = STEPS + actor_random(actor, PAIR_RECORDS - 2 * STEPS);

	if (txn && actor_has(actor, "mdb_cursor_open",
			     mdb_cursor_open(txn, actor->shared->records, &cursor), 0)) {
		steps(actor, cursor, MDB_SET_KEY, MDB_NEXT, from);
		steps(actor, cursor, MDB_SET_RANGE, MDB_PREV, from);
		steps(actor, cursor, MDB_FIRST, MDB_NEXT, 0);
		if (mdb_cursor_txn(cursor) != txn ||
		    mdb_cursor_dbi(cursor) != actor->shared->records)
			actor_wrong(actor, "mdb_cursor_txn, mdb_cursor_dbi", 0);
		mdb_txn_reset(txn);
		actor_has(actor, "mdb_txn_renew", mdb_txn_renew(txn), 0);
		actor_has(actor, "mdb_cursor_renew", mdb_cursor_renew(txn, cursor), 0);
		steps(actor, cursor, MDB_LAST, MDB_PREV, PAIR_RECORDS - 1);
		mdb_cursor_close(cursor);
	}
	mdb_txn_abort(txn);
}

/* LMDB's rule that one thread uses a transaction is not for transactions that read with MDB_NOTLS. */
static void gets_and_walks_jointly(struct actor *actor)
{
	MDB_txn *txn = actor->shared->flags & MDB_NOTLS ? join(actor) : NULL;
	uint64_t from = STEPS + actor_random(actor, PAIR_RECORDS - 2 * STEPS);
	MDB_cursor *cursor;

	if (!txn)
		return;
	for (unsigned i = 0; i < STEPS; i++)
		get(actor, txn);
	if (actor_has(actor, "mdb_cursor_open",
		      mdb_cursor_open(txn, actor->shared->records, &cursor), 0)) {
		steps(actor, cursor, MDB_SET_KEY, MDB_NEXT, from);
		steps(actor, cursor, MDB_SET_RANGE, MDB_PREV, from);
		mdb_cursor_close(cursor);
	}
	leave(actor->shared);
}

static void walks_duplicates(struct actor *actor)
{
	MDB_txn *txn = begin(actor);
	uint64_t number = actor_random(actor, PAIR_DUPLICATES), value;
	char text[9];
	MDB_val key = pair_key(text, number), data;
	MDB_cursor *cursor;
	size_t count = 0;

	if (txn && actor_has(actor, "mdb_cursor_open",
			     mdb_cursor_open(txn, actor->shared->duplicates, &cursor), 0)) {
		if (actor_has(actor, "MDB_SET", mdb_cursor_get(cursor, &key, &data, MDB_SET), 0)) {
			actor_has(actor, "mdb_cursor_count", mdb_cursor_count(cursor, &count), 0);
			actor_has(actor, "duplicates", (long)count, PAIR_DUPLICATES);
			actor_has(actor, "MDB_FIRST_DUP",
				  mdb_cursor_get(cursor, &key, &data, MDB_FIRST_DUP), 0);
			memcpy(&value, data.mv_data, sizeof(value));
			actor_has(actor, "first duplicate", (long)(value / PAIR_DUPLICATES),
				  (long)number);
		}
		mdb_cursor_close(cursor);
	}
	mdb_txn_abort(txn);
}

static void compares(struct actor *actor)
{
	MDB_val low = {1, (void *)(uintptr_t) "a"}, high = {1, (void *)(uintptr_t) "b"};
	MDB_txn *txn = begin(actor);

	if (txn && (mdb_cmp(txn, actor->shared->records, &low, &high) >= 0 ||
		    mdb_dcmp(txn, actor->shared->duplicates, &high, &low) <= 0))
		actor_wrong(actor, "mdb_cmp, mdb_dcmp", 0);
	mdb_txn_abort(txn);
}

static void asks_of_databases(struct actor *actor)
{
	MDB_txn *txn = begin(actor);
	unsigned flags = 0;
	MDB_stat stat;
	MDB_dbi dbi;

	if (txn) {
		/* The main database has no name, and each thread of many programs opens it. */
		actor_has(actor, "mdb_dbi_open of the main database",
			  mdb_dbi_open(txn, NULL, 0, &dbi), 0);
		actor_has(actor, "mdb_stat", mdb_stat(txn, actor->shared->records, &stat), 0);
		actor_has(actor, "ms_entries", (long)stat.ms_entries, PAIR_RECORDS);
		actor_has(actor, "mdb_dbi_flags",
			  mdb_dbi_flags(txn, actor->shared->duplicates, &flags), 0);
		actor_has(actor, "flags", flags, MDB_DUPSORT);
	}
	mdb_txn_abort(txn);
}

/* Of the handle's own order. */
static int compare_bytes(const MDB_val *a, const MDB_val *b)
{
	size_t size = a->mv_size < b->mv_size ? a->mv_size : b->mv_size;
	int rc = memcmp(a->mv_data, b->mv_data, size);

	return rc ? rc : (a->mv_size > b->mv_size) - (a->mv_size < b->mv_size);
}

static void opens_a_database(struct actor *actor)
{
	struct shared *shared = actor->shared;
	MDB_txn *txn;
	char text[9];
	MDB_val key = pair_key(text, 0), data;
	MDB_dbi dbi;

	pthread_mutex_lock(&shared->handles);
	txn = begin(actor);
	if (txn && actor_has(actor, "mdb_dbi_open", mdb_dbi_open(txn, "other", 0, &dbi), 0)) {
		actor_has(actor, "mdb_set_compare", mdb_set_compare(txn, dbi, compare_bytes), 0);
		actor_has(actor, "mdb_set_dupsort", mdb_set_dupsort(txn, dbi, compare_bytes), 0);
		actor_has(actor, "mdb_set_relfunc", mdb_set_relfunc(txn, dbi, NULL), 0);
		actor_has(actor, "mdb_set_relctx", mdb_set_relctx(txn, dbi, NULL), 0);
		actor_has(actor, "mdb_get", mdb_get(txn, dbi, &key, &data), 0);
		if (actor_random(actor, 2)) {
			actor_has(actor, "mdb_txn_commit", mdb_txn_commit(txn), 0);
			mdb_dbi_close(shared->env, dbi);
			txn = NULL;
		}
	}
	mdb_txn_abort(txn);
	pthread_mutex_unlock(&shared->handles);
}

static void writes(struct actor *actor)
{
	char text[9];
	MDB_val key = pair_key(text, 0), data = {1, text};
	MDB_txn *txn = begin(actor);
	MDB_cursor *cursor;

	if (!txn)
		return;
	actor_has(actor, "mdb_put", mdb_put(txn, actor->shared->records, &key, &data, 0), EACCES);
	actor_has(actor, "mdb_del", mdb_del(txn, actor->shared->records, &key, NULL), EACCES);
	actor_has(actor, "mdb_drop", mdb_drop(txn, actor->shared->records, 0), EACCES);
	if (actor_has(actor, "mdb_cursor_open",
		      mdb_cursor_open(txn, actor->shared->records, &cursor), 0)) {
		actor_has(actor, "mdb_cursor_put", mdb_cursor_put(cursor, &key, &data, 0), EACCES);
		actor_has(actor, "mdb_cursor_del", mdb_cursor_del(cursor, 0), EACCES);
		mdb_cursor_close(cursor);
	}
	mdb_txn_abort(txn);
}

/* --- hints and records by number --------------------------------------------------------------- */

static void announces(struct actor *actor)
{
	MDB_txn *txn = begin(actor);
	uint64_t numbers[STEPS];
	MDB_val keys[STEPS];
	char texts[STEPS][9];

	for (unsigned i = 0; i < STEPS; i++) {
		numbers[i] = actor_random(actor, PAIR_RECORDS);
		keys[i] = pair_key(texts[i], numbers[i]);
	}
	if (txn) {
		MDB_dbi dbi = actor->shared->records;

		actor_has(actor, "lmdbio_prefetch_keys",
			  lmdbio_prefetch_keys(txn, dbi, keys, STEPS), 0);
		actor_has(actor, "lmdbio_prefetch_range",
			  lmdbio_prefetch_range(txn, dbi, &keys[0], &keys[1]), 0);
		actor_has(actor, "lmdbio_prefetch_records",
			  lmdbio_prefetch_records(txn, dbi, numbers, STEPS), 0);
		get(actor, txn);
	}
	mdb_txn_abort(txn);
}

static void advises(struct actor *actor)
{
	static const enum lmdbio_advice advices[] = {LMDBIO_NORMAL, LMDBIO_SEQUENTIAL,
						     LMDBIO_STRIDE};
	MDB_txn *txn = begin(actor);

	if (txn) {
		actor_has(actor, "lmdbio_advise",
			  lmdbio_advise(txn, actor->shared->records,
					advices[actor_random(actor, 3)], LARGEST),
			  0);
		get(actor, txn);
	}
	mdb_txn_abort(txn);
}

static void gets_by_number(struct actor *actor)
{
	uint64_t number = actor_random(actor, PAIR_RECORDS);
	MDB_txn *txn = begin(actor);
	MDB_val key, data;

	if (txn &&
	    actor_has(actor, "lmdbio_get_record",
		      lmdbio_get_record(txn, actor->shared->records, number, &key, &data), 0) &&
	    !pair_is_record(&key, &data, number))
		actor_wrong(actor, "record by number", (long)number);
	mdb_txn_abort(txn);
}

const struct action pair_transaction_actions[] = {
	{.functions = "mdb_txn_begin mdb_txn_env mdb_txn_id mdb_txn_commit mdb_txn_abort",
	 .run = begins_and_ends},
	{.functions = "mdb_txn_reset mdb_txn_renew", .run = renews},
	{.functions = "mdb_get", .run = gets},
	{.functions = "mdb_cursor_open mdb_cursor_get mdb_cursor_renew mdb_cursor_txn "
		      "mdb_cursor_dbi mdb_cursor_close",
	 .run = walks},
	{.functions = "mdb_get mdb_cursor_get", .run = gets_and_walks_jointly},
	{.functions = "mdb_cursor_count", .run = walks_duplicates},
	{.functions = "mdb_cmp mdb_dcmp", .run = compares},
	{.functions = "mdb_stat mdb_dbi_flags", .run = asks_of_databases},
	{.functions = "mdb_dbi_open mdb_set_compare mdb_set_dupsort mdb_set_relfunc mdb_set_relctx "
		      "mdb_dbi_close",
	 .run = opens_a_database},
	{.functions = "mdb_put mdb_del mdb_drop mdb_cursor_put mdb_cursor_del", .run = writes},
	{.functions = "lmdbio_prefetch_keys lmdbio_prefetch_range lmdbio_prefetch_records",
	 .run = announces},
	{.functions = "lmdbio_advise", .run = advises},
	{.functions = "lmdbio_get_record", .run = gets_by_number},
	{0},
};
