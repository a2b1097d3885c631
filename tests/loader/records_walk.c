/* SPDX-License-Identifier: OLDAP-2.8 */
/* A program that steps through every database of an environment and asks
 * for each record by its number as well, when it has announced some of the numbers, also such as
 * are not there. It says how many it has compared. */
#include <lmdb.h>
#include <lmdbio.h>

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATABASES = 64, ANNOUNCED = 500 };

static int differs(const MDB_val *a, const MDB_val *b)
{
	return a->mv_size != b->mv_size || memcmp(a->mv_data, b->mv_data, a->mv_size) != 0;
}

/* Every third of the first ones, backward, and some behind the last. */
static int announce(MDB_txn *txn, MDB_dbi dbi)
{
	uint64_t numbers[ANNOUNCED];

	for (uint64_t i = 0; i < ANNOUNCED; i++)
		numbers[i] = i % 10 ? (ANNOUNCED - i) * 3 : UINT64_MAX / (i + 1);
	if (lmdbio_prefetch_records(txn, dbi, NULL, 1) != EINVAL ||
	    lmdbio_prefetch_records(txn, dbi, NULL, 0) ||
	    lmdbio_prefetch_records(NULL, dbi, numbers, 1) != EINVAL)
		return MDB_PANIC;
	return lmdbio_prefetch_records(txn, dbi, numbers, ANNOUNCED);
}

static int compare(MDB_txn *txn, MDB_dbi dbi, const char *name)
{
	MDB_val key, data, numbered_key, numbered_data;
	MDB_cursor *cursor;
	uint64_t number = 0;
	int rc = mdb_cursor_open(txn, dbi, &cursor);

	if (!rc)
		rc = announce(txn, dbi);
	while (!rc && !(rc = mdb_cursor_get(cursor, &key, &data, number ? MDB_NEXT : MDB_FIRST))) {
		rc = lmdbio_get_record(txn, dbi, number, &numbered_key, &numbered_data);
		if (!rc && (differs(&key, &numbered_key) || differs(&data, &numbered_data)))
			rc = MDB_PANIC;
		if (rc)
			break;
		number++;
	}
	if (rc == MDB_NOTFOUND)
		rc = lmdbio_get_record(txn, dbi, number, &key, &data);
	mdb_cursor_close(cursor);
	printf("%s: %llu records\n", name, (unsigned long long)number);
	if (rc != MDB_NOTFOUND)
		fprintf(stderr, "%s: record %llu: %s\n", name, (unsigned long long)number,
			mdb_strerror(rc));
	return rc == MDB_NOTFOUND ? 0 : rc;
}

/* The names that the main database holds; what is no database is passed over. */
static int compare_named(MDB_txn *txn, MDB_dbi main_dbi)
{
	MDB_cursor *cursor;
	MDB_val key, data;
	MDB_dbi dbi;
	int rc = mdb_cursor_open(txn, main_dbi, &cursor), bad = 0;

	while (!rc && !(rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT_NODUP))) {
		char name[512];

		if (key.mv_size >= sizeof(name) || memchr(key.mv_data, 0, key.mv_size))
			continue;
		memcpy(name, key.mv_data, key.mv_size);
		name[key.mv_size] = '\0';
		if (!mdb_dbi_open(txn, name, 0, &dbi))
			bad |= compare(txn, dbi, name);
	}
	mdb_cursor_close(cursor);
	return bad;
}

int main(int argc, char **argv)
{
	MDB_env *env = NULL;
	MDB_txn *txn = NULL;
	MDB_dbi dbi;
	int rc = argc == 2 ? mdb_env_create(&env) : 1;

	if (!rc)
		rc = mdb_env_set_maxdbs(env, DATABASES);
	if (!rc)
		rc = mdb_env_open(env, argv[1], MDB_RDONLY | MDB_NOLOCK, 0);
	if (!rc)
		rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
	if (!rc)
		rc = mdb_dbi_open(txn, NULL, 0, &dbi);
	if (!rc)
		rc = compare(txn, dbi, "(main)") | compare_named(txn, dbi);
	if (txn)
		mdb_txn_abort(txn);
	if (env)
		mdb_env_close(env);
	return rc != 0;
}
