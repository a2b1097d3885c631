/* SPDX-License-Identifier: OLDAP-2.8 */
/* Stands for an LMDB 1.0 that is installed: LMDB 0.9 in truth, with the functions that 1.0 has besides
 * (later_names.c). */
#include "origin/origin.h"

#include <stdio.h>

/* The environment that was created last. */
static MDB_env *created;

int mdb_env_create(MDB_env **env)
{
	int rc = lmdbio_orig_mdb_env_create(env);

	created = *env;
	return rc;
}

static int called(const char *name)
{
	fprintf(stderr, "the original's %s\n", name);
	return 0;
}

/* So that a test sees whether all arguments are passed on, and the code is passed back. */
static int called_with(const char *name, const MDB_env *env, unsigned long one, unsigned long other,
		       int rc)
{
	fprintf(stderr, "the original's %s of %s: %lu %lu\n", name,
		env == created ? "its environment" : "another's", one, other);
	return rc;
}

int mdb_env_set_pagesize(MDB_env *env, int size)
{
	return called_with("mdb_env_set_pagesize", env, (unsigned long)size, 0, 0);
}

int mdb_env_set_encrypt(MDB_env *env, MDB_enc_func *func, const MDB_val *key, unsigned int size)
{
	fputs("key", stderr);
	for (size_t i = 0; i < key->mv_size; i++)
		fprintf(stderr, " %02x", ((unsigned char *)key->mv_data)[i]);
	fputs("\n", stderr);
	return called_with("mdb_env_set_encrypt", env, func != NULL, size, 0);
}

int mdb_env_set_checksum(MDB_env *env, MDB_sum_func *func, unsigned int size)
{
	return called_with("mdb_env_set_checksum", env, func != NULL, size, 0);
}

int mdb_env_incr_dumpfd(MDB_env *env, mdb_filehandle_t fd, size_t txnid)
{
	return called_with("mdb_env_incr_dumpfd", env, (unsigned long)fd, txnid, MDB_SHORT_WRITE);
}

/* As LMDB 1.0 does, through the loader. */
int mdb_env_incr_dump(MDB_env *env, const char *path, size_t txnid)
{
	called(path);
	return mdb_env_incr_dumpfd(env, 5, txnid);
}

int mdb_env_incr_loadfd(MDB_env *env, mdb_filehandle_t fd)
{
	return called_with("mdb_env_incr_loadfd", env, (unsigned long)fd, 0, MDB_PROBLEM);
}

int mdb_env_rollback(MDB_env *env, mdb_size_t txnid)
{
	return called_with("mdb_env_rollback", env, txnid, 0, MDB_CANT_ROLLBACK);
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
	return called_with("mdb_env_sync0", env, (unsigned long)force, pages, 0);
}

int mdb_env_sync(MDB_env *env, int force)
{
	return mdb_env_sync0(env, force, 1);
}

int mdb_txn_flags(MDB_txn *txn, unsigned int *flags)
{
	(void)txn;
	*flags = 0x4000;
	return called("mdb_txn_flags");
}
