/* SPDX-License-Identifier: OLDAP-2.8 */
/* Begins and ends transactions, and frees the objects that end with them. */
#include "env/env.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static MDB_txn *txn_alloc(MDB_env *env, bool own)
{
	size_t dbis = own ? env->maxdbs : 0;
	MDB_txn *txn = calloc(1, sizeof(*txn) + dbis * (sizeof(struct tree) + 1));

	if (txn) {
		txn->env = env;
		atomic_fetch_add(&env->holders, 1);
		txn->kind = !own                        ? HANDLE_FORWARDED
			    : env->format == FORMAT_1_0 ? HANDLE_OWN_1_0
							: HANDLE_OWN;
		txn->snapshot.answers =
			env->for_later.origin
				? ANSWERS_OF_1_0
				: answers_of_release(origin_version(env->origin) & 255);
		txn->dbi_state = (uint8_t *)(txn->trees + dbis);
	}
	return txn;
}

/* Reuses the last transaction that has ended, which knows the file's state: many programs begin a
 * transaction for each record that they read. */
static MDB_txn *txn_alloc_own(MDB_env *env)
{
	MDB_txn *txn = atomic_exchange(&env->spare, NULL);
	struct snapshot fresh = {0};

	if (!txn)
		return txn_alloc(env, true);
	/* So that a cursor of the ended transaction does not take the new one for it. */
	fresh.serial = txn->snapshot.serial;
	fresh.answers = txn->snapshot.answers;
	txn->snapshot = fresh;
	txn->dbis = 0;
	memset(txn->trees, 0, txn->dbis_most * sizeof(struct tree));
	memset(txn->dbi_state, 0, txn->dbis_most);
	txn->dbis_most = 0;
	return txn;
}

void env_drop(MDB_env *env)
{
	if (atomic_fetch_sub(&env->holders, 1) == 1)
		free(env);
}

static void txn_free(MDB_txn *txn)
{
	MDB_env *env = txn->env;

	handle_end(&txn->kind);
	free(txn);
	env_drop(env);
}

void txn_forget(MDB_txn *txn)
{
	if (!txn)
		return;
	env_store_forget(txn);
	txn_free(txn);
}

static void txn_free_own(MDB_txn *txn)
{
	txn_forget(atomic_exchange(&txn->env->spare, txn));
}

/* Begins the rest of a transaction: a slot for LMDB 1.0, the snapshot, the store. */
static int snapshot_begin(MDB_txn *txn)
{
	int rc = later_begin(txn);

	if (!rc)
		rc = snapshot_take(txn);
	return rc ? rc : env_store_begin(txn);
}

static int txn_begin_own(MDB_env *env, MDB_txn *parent, unsigned flags, MDB_txn **ret)
{
	MDB_txn *txn;
	int rc;

	if (env->for_later.origin && !(flags & MDB_RDONLY))
		return MDB_IS_READONLY;
	if (env->generation != fork_generation && (rc = env_adopt(env)))
		return rc;
	txn = txn_alloc_own(env);
	if (!txn)
		return ENOMEM;
	rc = env->origin->call.mdb_txn_begin(env->orig, parent ? parent->orig : NULL, flags, &txn->orig);
	if (!rc) {
		rc = snapshot_begin(txn);
		if (rc) {
			txn->env->origin->call.mdb_txn_abort(txn->orig);
			later_end(txn);
		}
	}
	if (rc) {
		txn_free_own(txn);
		return rc;
	}
	txn->generation = fork_generation;
	dbi_begin(txn);
	*ret = txn;
	return 0;
}

int txn_begin(MDB_env *env, MDB_txn *parent, unsigned flags, MDB_txn **ret)
{
	MDB_txn *txn;
	int rc;

	if (env->mode == ENV_OWN)
		return txn_begin_own(env, parent, flags, ret);
	txn = txn_alloc(env, false);
	if (!txn)
		return ENOMEM;
	rc = env->origin->call.mdb_txn_begin(env->orig, parent ? parent->orig : NULL, flags, &txn->orig);
	if (rc) {
		txn_free(txn);
		return rc;
	}
	txn->writes = !(flags & MDB_RDONLY);
	/* In LMDB 1.0 a writer may have any number of children that read. */
	if (parent && txn->writes) {
		txn->parent = parent;
		parent->child = txn;
	}
	*ret = txn;
	return 0;
}

static void txn_free_forwarded(MDB_txn *txn);

/* The original has freed a transaction's children and all cursors; our wrappers follow. */
static void txn_free_parts(MDB_txn *txn)
{
	MDB_cursor *cursor, *next;

	if (txn->child)
		txn_free_forwarded(txn->child);
	for (cursor = txn->cursors; cursor; cursor = next) {
		next = cursor->next;
		handle_end(&cursor->kind);
		free(cursor);
	}
	txn->cursors = NULL;
}

static void txn_free_forwarded(MDB_txn *txn)
{
	txn_free_parts(txn);
	if (txn->parent)
		txn->parent->child = NULL;
	txn_free(txn);
}

/* Whether the program has closed the environment first, which LMDB forbids. LMDB ends such a
 * transaction without harm if it was reset before; lmdbio does so in each case. The original's
 * transaction object, a few bytes, is not freed. */
static bool txn_is_left(const MDB_txn *txn)
{
	return unlikely(txn->env->mode == ENV_CLOSED);
}

int txn_renew(MDB_txn *txn)
{
	int rc;

	if (txn_is_left(txn))
		return EINVAL;
	if (!txn_is_own(txn))
		return txn->env->origin->call.mdb_txn_renew(txn->orig);
	if (!(txn->snapshot.blocked & SNAPSHOT_FINISHED))
		return EINVAL;
	if (txn->generation == fork_generation) {
		rc = txn->env->origin->call.mdb_txn_renew(txn->orig);
	} else {
		/* The slot of an inherited transaction is the parent's. */
		rc = txn->env->generation == fork_generation ? 0 : env_adopt(txn->env);
		if (!rc)
			rc = txn->env->origin->call.mdb_txn_begin(txn->env->orig, NULL, MDB_RDONLY,
						       &txn->orig);
		if (!rc) {
			txn->generation = fork_generation;
			txn->slot = NULL;
		}
	}
	if (rc) {
		/* After MDB_MAP_RESIZED the original's transaction has another id by now. */
		if (txn->generation == fork_generation && !txn->env->later)
			txn->id = txn->env->origin->call.mdb_txn_id(txn->orig);
		return rc;
	}
	rc = snapshot_begin(txn);
	if (rc) {
		/* snapshot_take() has unblocked the transaction. */
		txn->snapshot.blocked |= SNAPSHOT_FINISHED;
		txn->env->origin->call.mdb_txn_reset(txn->orig);
		later_reset(txn);
		return rc;
	}
	dbi_begin(txn);
	return 0;
}

void txn_reset(MDB_txn *txn)
{
	if (txn_is_left(txn))
		return;
	if (!txn_is_own(txn)) {
		txn->env->origin->call.mdb_txn_reset(txn->orig);
		return;
	}
	dbi_end(txn, false);
	env_store_end(txn);
	txn->snapshot.blocked |= SNAPSHOT_FINISHED;
	if (txn->generation == fork_generation) {
		txn->env->origin->call.mdb_txn_reset(txn->orig);
		later_reset(txn);
	}
}

static void txn_end_own(MDB_txn *txn, bool keep)
{
	if (txn_is_left(txn)) {
		txn_free(txn);
		return;
	}
	dbi_end(txn, keep);
	env_store_end(txn);
	/* An inherited original's is the parent's to end; its few bytes stay until this process
	 * ends. */
	if (txn->generation == fork_generation) {
		txn->env->origin->call.mdb_txn_abort(txn->orig);
		later_end(txn);
	}
	txn->slot = NULL;
	txn_free_own(txn);
}

int txn_commit(MDB_txn *txn)
{
	int rc = txn_is_left(txn) && txn->writes ? EINVAL : 0;

	if (txn_is_own(txn)) {
		txn_end_own(txn, true);
		return 0;
	}
	if (!txn_is_left(txn))
		rc = txn->env->origin->call.mdb_txn_commit(txn->orig);
	txn_free_forwarded(txn);
	return rc;
}

int txn_prepare(MDB_txn *txn)
{
	int rc = txn->env->origin->later->mdb_txn_prepare(txn->orig);

	/* A transaction that fails to prepare is aborted. The program may still abort it, without
	 * effect. */
	if (rc != MDB_TXN_PENDING)
		txn_free_parts(txn);
	return rc;
}

void txn_abort(MDB_txn *txn)
{
	if (txn_is_own(txn)) {
		txn_end_own(txn, false);
		return;
	}
	if (!txn_is_left(txn))
		txn->env->origin->call.mdb_txn_abort(txn->orig);
	txn_free_forwarded(txn);
}
