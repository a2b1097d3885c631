/* SPDX-License-Identifier: OLDAP-2.8 */
/* What an LMDB inside an extension does in its own way: it has another version than the system's,
 * py-lmdb's two copying functions, and public functions that call each other by name.
 *
 * Where the names are visible such calls go through the dynamic loader, so they arrive at a
 * preloaded library, with handles of this LMDB. The answer is right only if they come back here.
 */
#include "origin/origin.h"

#include <errno.h>

#ifndef BUNDLED_MAJOR
#define BUNDLED_MAJOR 0
#define BUNDLED_MINOR 9
#define BUNDLED_PATCH 35
#endif
#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

/* How often its functions have been called, by whichever way. */
unsigned bundled_opens, bundled_copies, bundled_puts;

int mdb_env_copy3(MDB_env *env, const char *path, unsigned flags, MDB_txn *txn);
int mdb_env_copyfd3(MDB_env *env, mdb_filehandle_t fd, unsigned flags, MDB_txn *txn);

char *mdb_version(int *major, int *minor, int *patch)
{
	static char text[] = "LMDB " TEXT(BUNDLED_MAJOR) "." TEXT(BUNDLED_MINOR) "." TEXT(
		BUNDLED_PATCH) ": (bundled)";

	if (major)
		*major = BUNDLED_MAJOR;
	if (minor)
		*minor = BUNDLED_MINOR;
	if (patch)
		*patch = BUNDLED_PATCH;
	return text;
}

int mdb_env_open(MDB_env *env, const char *path, unsigned flags, mdb_mode_t mode)
{
	bundled_opens++;
	return lmdbio_orig_mdb_env_open(env, path, flags, mode);
}

/* LMDB's own mdb_put() makes a cursor as well, and writes through that. */
int mdb_put(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data, unsigned flags)
{
	MDB_cursor *cursor;
	int rc = mdb_cursor_open(txn, dbi, &cursor);

	if (rc)
		return rc;
	rc = mdb_cursor_put(cursor, key, data, flags);
	mdb_cursor_close(cursor);
	bundled_puts++;
	return rc;
}

/* The newest LMDBs begin and end a transaction by name when they copy; the older functions end in a
 * jump to the newer ones. */
int mdb_env_copyfd3(MDB_env *env, mdb_filehandle_t fd, unsigned flags, MDB_txn *txn)
{
	MDB_txn *begun = NULL;
	int rc = 0;

	if (txn && !(flags & MDB_CP_COMPACT))
		return EINVAL;
	if (!txn)
		rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &begun);
	if (!rc && mdb_txn_env(txn ? txn : begun) != env)
		rc = EINVAL;
	if (begun)
		mdb_txn_abort(begun);
	bundled_copies++;
	return rc ? rc : lmdbio_orig_mdb_env_copyfd2(env, fd, flags);
}

int mdb_env_copy3(MDB_env *env, const char *path, unsigned flags, MDB_txn *txn)
{
	if (txn && (!(flags & MDB_CP_COMPACT) || mdb_txn_env(txn) != env))
		return EINVAL;
	bundled_copies++;
	return lmdbio_orig_mdb_env_copy2(env, path, flags);
}

int mdb_env_copy2(MDB_env *env, const char *path, unsigned flags)
{
	return mdb_env_copy3(env, path, flags, NULL);
}

int mdb_env_copy(MDB_env *env, const char *path)
{
	return mdb_env_copy2(env, path, 0);
}

int mdb_env_copyfd2(MDB_env *env, mdb_filehandle_t fd, unsigned flags)
{
	return mdb_env_copyfd3(env, fd, flags, NULL);
}
