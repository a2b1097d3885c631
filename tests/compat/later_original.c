/* SPDX-License-Identifier: OLDAP-2.8 */
/* Stands for an LMDB 1.0 that is installed: LMDB 0.9 in truth, with the functions that 1.0 has besides
 * (later_names.c). */
#include "origin/lmdb_later.h"

#include <stdio.h>

static int called(const char *name)
{
	fprintf(stderr, "the original's %s\n", name);
	return 0;
}

int mdb_txn_prepare(MDB_txn *txn)
{
	static MDB_txn *prepared;

	if (prepared == txn)
		return MDB_TXN_PENDING;
	prepared = txn;
	return called("mdb_txn_prepare");
}

/* As LMDB 1.0's mdb_env_sync() does, through the loader. */
int mdb_env_sync0(MDB_env *env, int force, size_t pages)
{
	(void)env, (void)force, (void)pages;
	return called("mdb_env_sync0");
}

int mdb_env_sync(MDB_env *env, int force)
{
	return mdb_env_sync0(env, force, 1);
}

int mdb_txn_flags(MDB_txn *txn, unsigned int *flags)
{
	(void)txn;
	*flags = 0;
	return called("mdb_txn_flags");
}
