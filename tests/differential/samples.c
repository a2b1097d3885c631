/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how the samples are collected, and where the files lie. */
#include "samples.h"
#include "later_make.h"
#include "origin/origin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const file_names[] = {"data.mdb.zst", "data.mdb", "lock.mdb", "data.mdb-lock"};

static MDB_val keep(struct database *database, const MDB_val *value)
{
	MDB_val kept = {value->mv_size, NULL};

	if (value->mv_size > 1024 || database->bytes_used + value->mv_size > database->bytes_room)
		return (MDB_val){0, NULL};
	kept.mv_data =
		memcpy(database->bytes + database->bytes_used, value->mv_data, value->mv_size);
	database->bytes_used += value->mv_size;
	return kept;
}

static int collect(struct database *database, MDB_txn *txn, MDB_dbi dbi, struct sample_set *set)
{
	MDB_cursor *cursor;
	MDB_stat stat;
	MDB_val key, data;
	size_t step, at = 0;
	int rc = lmdbio_orig_mdb_stat(txn, dbi, &stat);

	if (rc == 0)
		rc = lmdbio_orig_mdb_cursor_open(txn, dbi, &cursor);
	if (rc != 0)
		return rc;
	step = stat.ms_entries / SAMPLES_MAX + 1;
	while ((rc = lmdbio_orig_mdb_cursor_get(cursor, &key, &data, MDB_NEXT)) == 0) {
		if (at++ % step != 0 || set->count == SAMPLES_MAX)
			continue;
		set->sample[set->count].key = keep(database, &key);
		set->sample[set->count].item = keep(database, &data);
		set->count += set->sample[set->count].key.mv_data != NULL;
	}
	lmdbio_orig_mdb_cursor_close(cursor);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int collect_all(struct database *database)
{
	const struct db_plan *plan = &database->plan;
	MDB_env *env = NULL;
	MDB_txn *txn = NULL;
	MDB_dbi dbi;
	int rc = lmdbio_orig_mdb_env_create(&env);

	if (rc != 0)
		return rc;
	rc = lmdbio_orig_mdb_env_set_maxdbs(env, DB_TABLES_MAX);
	if (rc == 0)
		rc = lmdbio_orig_mdb_env_open(env, database->directory[0], MDB_RDONLY | MDB_NOLOCK,
					      0);
	if (rc == 0)
		rc = lmdbio_orig_mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
	for (unsigned t = 0; t < plan->table_count && rc == 0; t++) {
		rc = lmdbio_orig_mdb_dbi_open(
			txn, plan->table[t].is_main ? NULL : plan->table[t].name, 0, &dbi);
		/* names are looked up by the main database's own order */
		if (rc == 0 && plan->table[t].is_main && plan->table[t].custom_keys)
			rc = lmdbio_orig_mdb_set_compare(txn, dbi, db_compare_keys);
		if (rc == 0)
			rc = collect(database, txn, dbi, &database->set[t]);
	}
	if (rc == 0)
		rc = collect(database, txn, 0, &database->set[plan->table_count]);
	if (txn)
		lmdbio_orig_mdb_txn_abort(txn);
	lmdbio_orig_mdb_env_close(env);
	return rc;
}

int database_make(struct database *database, const struct db_plan *plan, const char *scratch)
{
	char path[2][1100];
	struct stat file;
	int rc;

	memset(database, 0, sizeof *database);
	database->plan = *plan;
	for (int side = 0; side < 2; side++) {
		snprintf(database->directory[side], sizeof database->directory[side],
			 "%.900s/%c%llu", scratch, "ab"[side], (unsigned long long)plan -> number);
		snprintf(path[side], sizeof path[side], "%s/data.mdb", database->directory[side]);
		if (mkdir(database->directory[side], 0755) != 0)
			return errno;
	}
	rc = db_make(plan, database->directory[0]);
	if (rc != 0)
		return rc;
	/* the same file under a second name: the lock files differ, the data is shared */
	if (link(path[0], path[1]) != 0 || stat(path[0], &file) != 0)
		return errno;
	database->file_size = (size_t)file.st_size;
	database->bytes_room = 16 << 20;
	database->bytes = malloc(database->bytes_room);
	return database->bytes ? collect_all(database) : ENOMEM;
}

int database_convert(struct database *database, const char *command)
{
	/* Small chunks, so that a database has many of them; every other way to lay them out. */
	static const char *const sizes[] = {"64K", "1M", "4M"};
	uint64_t number = database->plan.number;
	char line[4096], path[1100];
	int rc;

	snprintf(line, sizeof line,
		 "%s -q --no-progress --chunk-size=%s '%s/data.mdb' '%s/data.mdb.zst'", command,
		 sizes[number % 3], database->directory[1], database->directory[1]);
	rc = system(line);
	snprintf(path, sizeof path, "%s/data.mdb", database->directory[1]);
	unlink(path);
	database->container = true;
	return rc;
}

int database_make_later(struct database *database)
{
	const struct db_plan *plan = &database->plan;
	char path[2][1100];

	/* A name's key is one byte longer in LMDB 1.0: its place among records depends on it where
	 * keys are compared by length or from the end. */
	if (plan->table_count > 1 && plan->table[0].is_main &&
	    (plan->table[0].custom_keys || plan->table[0].flags & MDB_REVERSEKEY))
		return 0;
	for (int side = 0; side < 2; side++)
		snprintf(path[side], sizeof path[side], "%s/data.mdb", database->directory[side]);
	database->later = true;
	return later_make(path[0], path[1]);
}

void database_free(struct database *database)
{
	char path[1100];

	for (int side = 0; side < 2 && database->directory[side][0] != '\0'; side++) {
		for (size_t i = 0; i < sizeof file_names / sizeof *file_names; i++) {
			snprintf(path, sizeof path, "%s/%s", database->directory[side],
				 file_names[i]);
			unlink(path);
		}
		rmdir(database->directory[side]);
	}
	free(database->bytes);
	database->bytes = NULL;
}
