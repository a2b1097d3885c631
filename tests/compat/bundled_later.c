/* SPDX-License-Identifier: OLDAP-2.8 */
/* What an LMDB 1.0 inside an extension does in its own way: its commit calls a function that it
 * exports by name, so the call goes through the dynamic loader. */
#include "origin/origin.h"

__attribute__((noinline)) int mdb_env_sync0(MDB_env *env, int force, size_t pages)
{
	(void)pages;
	return lmdbio_orig_mdb_env_sync(env, force);
}

int mdb_txn_commit(MDB_txn *txn)
{
	MDB_env *env = lmdbio_orig_mdb_txn_env(txn);
	int rc = lmdbio_orig_mdb_txn_commit(txn);

	return rc ? rc : mdb_env_sync0(env, 0, 1);
}
