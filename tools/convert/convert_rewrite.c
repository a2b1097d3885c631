/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes the records of a data set anew, with the original.
 *
 * They are read by lmdbio's cursors, in the order in which the source has them, and appended in that
 * order: the comparison that the original is given takes each new key for the greatest, so that also
 * data in an order of the program's own comes out as it was. The original looks a key up in two places
 * all the same, and finds it because it is the last there: a key that gets one more value, and at the
 * end of a transaction the name of a database that was written to. So a database is written as a whole
 * when its name's turn among the records of the main database has come.
 */
#include "convert_rewrite.h"
#include "import_records.h"
#include "tool_env.h"

#include "format/page.h"
#include "origin/origin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAP_LEAST = 16 << 20, /* bytes */
	MAP_STEP = 1 << 30,   /* bytes; up to here the map doubles, then it grows by steps */
	NAME_TEXT = TOOL_ESCAPED_TEXT + 16, /* of a database in a message */
};

struct record {
	MDB_val key, value; /* in the source, whose transaction lasts */
};

/* One that is being written, or compared. */
struct database {
	MDB_dbi dbi;
	unsigned flags;
	char label[NAME_TEXT]; /* in a message */
	MDB_val last;          /* the key that was written last ... */
	bool begun;            /* ... if there is one */
	MDB_txn *txn;          /* comparing: its own */
	MDB_cursor *cursor;
};

struct rewrite {
	struct convert *convert;
	MDB_txn *from;
	const char *path; /* by which a person knows the target */
	bool comparing;
	MDB_env *env;
	size_t map;      /* bytes */
	size_t key_most; /* bytes */
	struct database *at;
	/* Records of it that are not written yet: */
	uint64_t bytes;
	size_t count;
	struct record batch[IMPORT_BATCH_RECORDS];
};

static bool is_same(const MDB_val *a, const MDB_val *b)
{
	return a->mv_size == b->mv_size &&
	       (!a->mv_size || !memcmp(a->mv_data, b->mv_data, a->mv_size));
}

static int compare_as_last(const MDB_val *a, const MDB_val *b)
{
	return is_same(a, b) ? 0 : 1;
}

static int rewrite_fail(const struct rewrite *rewrite, int rc)
{
	return convert_fail(rewrite->path, import_write_error(rewrite->env, rewrite->bytes, rc));
}

static int source_failed(const struct rewrite *rewrite, int rc)
{
	convert_fail(rewrite->convert->sources[0], rc);
	return tool_read_status(rc);
}

/* ---- writing ---- */

static int map_grow(struct rewrite *rewrite)
{
	size_t more = rewrite->map < MAP_STEP ? rewrite->map : MAP_STEP;

	/* A batch and its copy-on-write must fit however large a value is. */
	if (more < 2 * rewrite->bytes)
		more = 2 * rewrite->bytes;
	rewrite->map += more;
	return lmdbio_orig_mdb_env_set_mapsize(rewrite->env, rewrite->map);
}

/* In a transaction of its own: a handle ends with one that is given up. */
static int database_try(struct rewrite *rewrite, const char *name)
{
	struct database *at = rewrite->at;
	MDB_txn *txn;
	int rc = lmdbio_orig_mdb_txn_begin(rewrite->env, NULL, 0, &txn);

	if (rc)
		return rc;
	rc = lmdbio_orig_mdb_dbi_open(txn, name, at->flags | MDB_CREATE, &at->dbi);
	if (!rc)
		rc = lmdbio_orig_mdb_set_compare(txn, at->dbi, compare_as_last);
	if (!rc && at->flags & MDB_DUPSORT)
		rc = lmdbio_orig_mdb_set_dupsort(txn, at->dbi, compare_as_last);
	if (!rc)
		return lmdbio_orig_mdb_txn_commit(txn);
	lmdbio_orig_mdb_txn_abort(txn);
	return rc;
}

static int database_create(struct rewrite *rewrite, const char *name)
{
	int rc = database_try(rewrite, name);

	while (rc == MDB_MAP_FULL && !(rc = map_grow(rewrite)))
		rc = database_try(rewrite, name);
	if (rc == MDB_INCOMPATIBLE && name)
		return convert_refuse(rewrite->convert->sources[0],
				      "LMDB 0.9 cannot hold the %s beside a record of that key, or "
				      "where the main database has MDB_DUPSORT or MDB_INTEGERKEY",
				      rewrite->at->label);
	return rc ? rewrite_fail(rewrite, rc) : 0;
}

static int batch_try(struct rewrite *rewrite)
{
	const struct database *at = rewrite->at;
	MDB_val last = at->last;
	bool begun = at->begun;
	MDB_txn *txn;
	int rc = lmdbio_orig_mdb_txn_begin(rewrite->env, NULL, 0, &txn);

	if (rc)
		return rc;
	for (size_t i = 0; i < rewrite->count && !rc; i++) {
		struct record *record = &rewrite->batch[i];
		bool again = begun && at->flags & MDB_DUPSORT && is_same(&record->key, &last);

		rc = lmdbio_orig_mdb_put(txn, at->dbi, &record->key, &record->value,
					 again ? MDB_APPENDDUP : MDB_APPEND);
		last = record->key;
		begun = true;
	}
	if (!rc)
		return lmdbio_orig_mdb_txn_commit(txn);
	lmdbio_orig_mdb_txn_abort(txn);
	return rc;
}

static int batch_write(struct rewrite *rewrite)
{
	int rc;

	if (!rewrite->count)
		return 0;
	rc = batch_try(rewrite);
	while (rc == MDB_MAP_FULL && !(rc = map_grow(rewrite)))
		rc = batch_try(rewrite);
	if (rc)
		return rewrite_fail(rewrite, rc);
	rewrite->at->last = rewrite->batch[rewrite->count - 1].key;
	rewrite->at->begun = true;
	rewrite->count = 0;
	rewrite->bytes = 0;
	return convert_interrupted();
}

/* ---- comparing ---- */

static int tell_difference(struct rewrite *rewrite, const char *what)
{
	rewrite->convert->damaged++;
	progress_clear(&rewrite->convert->progress);
	convert_refuse(rewrite->path, "the %s %s", rewrite->at->label, what);
	return TOOL_PROBLEM;
}

static int compare_begin(struct rewrite *rewrite, const char *name)
{
	struct database *at = rewrite->at;
	unsigned flags = 0;
	int rc = lmdbio_orig_mdb_txn_begin(rewrite->env, NULL, MDB_RDONLY, &at->txn);

	if (!rc)
		rc = lmdbio_orig_mdb_dbi_open(at->txn, name, 0, &at->dbi);
	if (rc == MDB_NOTFOUND || rc == MDB_INCOMPATIBLE)
		return tell_difference(rewrite, "is missing");
	if (!rc)
		rc = lmdbio_orig_mdb_dbi_flags(at->txn, at->dbi, &flags);
	if (!rc && flags != at->flags)
		return tell_difference(rewrite, "has other flags than in its source");
	if (!rc)
		rc = lmdbio_orig_mdb_cursor_open(at->txn, at->dbi, &at->cursor);
	return rc ? convert_fail(rewrite->path, rc) : 0;
}

/* The next key must be this one, with this value unless that is NULL. */
static int compare_next(struct rewrite *rewrite, const MDB_val *key, const MDB_val *value)
{
	MDB_val its_key, its_value;
	int rc = lmdbio_orig_mdb_cursor_get(rewrite->at->cursor, &its_key, &its_value, MDB_NEXT);

	if (rc && rc != MDB_NOTFOUND)
		return convert_fail(rewrite->path, rc);
	if (rc || !is_same(key, &its_key) || (value && !is_same(value, &its_value)))
		return tell_difference(rewrite, "has other records than in its source");
	return convert_interrupted();
}

static int compare_last(struct rewrite *rewrite)
{
	MDB_val key, value;
	int rc = lmdbio_orig_mdb_cursor_get(rewrite->at->cursor, &key, &value, MDB_NEXT);

	if (rc && rc != MDB_NOTFOUND)
		return convert_fail(rewrite->path, rc);
	return rc ? 0 : tell_difference(rewrite, "has more records than in its source");
}

/* ---- both ---- */

static int database_begin(struct rewrite *rewrite, struct database *database, const char *name)
{
	rewrite->at = database;
	return rewrite->comparing ? compare_begin(rewrite, name) : database_create(rewrite, name);
}

static int database_finish(struct rewrite *rewrite)
{
	return rewrite->comparing ? compare_last(rewrite) : batch_write(rewrite);
}

static void database_leave(struct rewrite *rewrite, struct database *database, bool named)
{
	if (database->cursor)
		lmdbio_orig_mdb_cursor_close(database->cursor);
	if (database->txn)
		lmdbio_orig_mdb_txn_abort(database->txn); /* closes the handle as well */
	else if (named)
		lmdbio_orig_mdb_dbi_close(rewrite->env, database->dbi);
}

/* What LMDB 0.9 cannot hold. */
static int record_judge(const struct rewrite *rewrite, const MDB_val *key, const MDB_val *value)
{
	const struct database *at = rewrite->at;
	size_t most = rewrite->key_most;

	if (key->mv_size > most)
		return convert_refuse(rewrite->convert->sources[0],
				      "the %s has a key of %zu bytes, LMDB 0.9 holds at most %zu",
				      at->label, key->mv_size, most);
	if (at->flags & MDB_DUPSORT && value->mv_size > most)
		return convert_refuse(rewrite->convert->sources[0],
				      "the %s has MDB_DUPSORT and a value of %zu bytes, LMDB 0.9 "
				      "holds at most %zu there",
				      at->label, value->mv_size, most);
	return 0;
}

static int record_put(struct rewrite *rewrite, const MDB_val *key, const MDB_val *value)
{
	uint64_t bytes = (uint64_t)key->mv_size + value->mv_size;
	int rc = record_judge(rewrite, key, value);

	if (rc)
		return rc;
	progress_count(&rewrite->convert->progress, bytes, bytes);
	progress_show(&rewrite->convert->progress);
	rewrite->convert->records++;
	if (rewrite->comparing)
		return compare_next(rewrite, key, value);
	if (rewrite->count == IMPORT_BATCH_RECORDS ||
	    (rewrite->count && rewrite->bytes + bytes > IMPORT_BATCH_BYTES))
		rc = batch_write(rewrite);
	if (rc)
		return rc;
	rewrite->batch[rewrite->count++] = (struct record){*key, *value};
	rewrite->bytes += bytes;
	return 0;
}

/* All records of the database that has this tree. */
static int named_records(struct rewrite *rewrite, const struct tree_record *record)
{
	struct tree tree = {.record = *record};
	struct duplicates duplicates;
	struct comparators order;
	struct cursor cursor;
	MDB_val key, value;
	int rc = 0, found = 0;

	comparators_default(&order, record->flags);
	cursor_init(&cursor, &rewrite->from->snapshot, &tree, &order, &duplicates);
	while (!rc && !(found = cursor_get(&cursor, &key, &value, MDB_NEXT)))
		rc = record_put(rewrite, &key, &value);
	cursor_end(&cursor);
	if (rc)
		return rc;
	return found == MDB_NOTFOUND ? database_finish(rewrite) : source_failed(rewrite, found);
}

/* A database whose turn among the main one's records it is. */
static int named_run(struct rewrite *rewrite, const struct entry *entry)
{
	struct database *outer = rewrite->at, named = {.dbi = 0};
	const char *file = rewrite->convert->sources[0];
	char escaped[TOOL_ESCAPED_TEXT], *name;
	struct tree_record record;
	int rc;

	tool_escape(entry->key, entry->key_size, escaped, sizeof(escaped));
	snprintf(named.label, sizeof(named.label), "database '%s'", escaped);
	if (entry->key_size > rewrite->key_most)
		return convert_refuse(file,
				      "the %s has a name of %u bytes, LMDB 0.9 holds at most %zu",
				      named.label, entry->key_size, rewrite->key_most);
	if (entry->data_size != TREE_SIZE || memchr(entry->key, 0, entry->key_size))
		return source_failed(rewrite, MDB_CORRUPTED);
	name = strndup((const char *)entry->key, entry->key_size);
	if (!name)
		return convert_fail(file, ENOMEM);
	tree_record_parse(&record, entry->data);
	named.flags = record.flags & DBI_PERSISTENT;
	rc = database_begin(rewrite, &named, name);
	if (!rc)
		rc = named_records(rewrite, &record);
	database_leave(rewrite, &named, true);
	rewrite->at = outer;
	free(name);
	return rc;
}

/* Of what a cursor of the main database stands on: whether it is a database, and its entry. */
static bool is_database(const struct cursor *cursor, struct entry *entry)
{
	const struct level *level = &cursor->levels[cursor->depth - 1];

	return page_leaf_entry(snapshot_layout(cursor->snapshot), level->page, cursor->page_size,
			       level->index, entry) &&
	       entry_is_database(entry->flags);
}

/* One with a database before it: what is collected comes in front of that. */
static int main_entry(struct rewrite *rewrite, const struct cursor *cursor, const MDB_val *key,
		      const MDB_val *value)
{
	struct entry entry;
	int rc;

	if (!is_database(cursor, &entry))
		return record_put(rewrite, key, value);
	rc = rewrite->comparing ? compare_next(rewrite, key, NULL) : batch_write(rewrite);
	return rc ? rc : named_run(rewrite, &entry);
}

static int main_run(struct rewrite *rewrite)
{
	struct database database = {.label = "main database"};
	struct tool_cursor cursor;
	MDB_val key, value;
	int rc, found = 0;

	database.flags = rewrite->from->trees[DBI_MAIN].record.flags & DBI_PERSISTENT;
	rc = database_begin(rewrite, &database, NULL);
	tool_cursor_open(&cursor, rewrite->from, DBI_MAIN);
	while (!rc && !(found = cursor_get(&cursor.cursor, &key, &value, MDB_NEXT)))
		rc = main_entry(rewrite, &cursor.cursor, &key, &value);
	tool_cursor_close(&cursor);
	if (!rc)
		rc = found == MDB_NOTFOUND ? database_finish(rewrite)
					   : source_failed(rewrite, found);
	database_leave(rewrite, &database, false);
	return rc;
}

static int env_begin(struct rewrite *rewrite, const char *path)
{
	unsigned flags = MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC;
	MDB_envinfo info;
	int rc = tool_env_info(rewrite->from->env, &info);

	if (rc)
		return source_failed(rewrite, rc);
	/* What the source's program has chosen holds for its next one. */
	rewrite->map = info.me_mapsize < MAP_LEAST ? MAP_LEAST : info.me_mapsize;
	rc = lmdbio_orig_mdb_env_create(&rewrite->env);
	if (!rc)
		rc = lmdbio_orig_mdb_env_set_maxdbs(rewrite->env, 1);
	if (!rc && !rewrite->comparing)
		rc = lmdbio_orig_mdb_env_set_mapsize(rewrite->env, rewrite->map);
	/* No other process knows of the file yet, and it is synced before any does. */
	if (!rc)
		rc = lmdbio_orig_mdb_env_open(rewrite->env, path,
					      flags | (rewrite->comparing ? MDB_RDONLY : 0u), 0600);
	if (rc)
		return convert_fail(rewrite->path, rc);
	rewrite->key_most = (size_t)lmdbio_orig_mdb_env_get_maxkeysize(rewrite->env);
	return 0;
}

int rewrite_run(struct convert *convert, struct source *source, const char *path, const char *name,
		bool comparing)
{
	struct rewrite *rewrite = calloc(1, sizeof(*rewrite));
	int rc;

	if (!rewrite)
		return convert_fail(name, ENOMEM);
	rewrite->convert = convert;
	rewrite->path = name;
	rewrite->comparing = comparing;
	convert->records = 0;
	progress_begin(&convert->progress, comparing ? "verifying" : "converting", source->size);
	rc = source_tree(source, &rewrite->from);
	if (!rc)
		rc = env_begin(rewrite, path);
	if (!rc)
		rc = main_run(rewrite);
	if (!rc && !comparing) {
		rc = lmdbio_orig_mdb_env_sync(rewrite->env, 1);
		rc = rc ? rewrite_fail(rewrite, rc) : 0;
	}
	if (rewrite->env)
		lmdbio_orig_mdb_env_close(rewrite->env);
	free(rewrite);
	progress_clear(&convert->progress);
	return rc;
}
