/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes the records of a data set anew, with the original.
 *
 * lmdbio's cursors read them in the source's order, and the original appends them in that order. It
 * gets a comparison that takes each new key for the greatest, so data in an order of the program's
 * own keeps that order. The original still looks a key up in two places, and finds it because it is
 * the last: a key that gets one more value, and at the end of a transaction the name of a changed
 * database. So a database is written whole when the walk over the main database comes to its name.
 *
 * One order differs between the formats. LMDB 1.0 keeps a name with a NUL, which MDB_REVERSEKEY
 * compares first. A main database in that order is sorted by the original's own comparison.
 *
 * lmdbio's cursors also read the target for comparison. It may be any file, and they distrust it.
 */
#include "convert_rewrite.h"
#include "convert_twins.h"
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
	MAP_STEP = 1 << 30,   /* bytes; the map doubles up to this size, then grows by it */
	NAME_TEXT = TOOL_ESCAPED_TEXT + 16, /* of a database in a message */
};

struct record {
	MDB_val key, value; /* in the source; valid during its transaction */
};

/* A walk over one database of the source or the target, in its order. */
struct walk {
	struct tree tree;
	struct comparators order;
	struct duplicates duplicates;
	struct cursor cursor;
};

/* A database during its writing or comparison. */
struct database {
	MDB_dbi dbi;
	unsigned flags;
	bool sorted;           /* in its flags' order, in which the formats may differ */
	char label[NAME_TEXT]; /* for messages */
	MDB_val last;          /* the last written key ... */
	bool begun;            /* ... if there is one */
	struct walk walk;      /* comparing: of the target */
	uint64_t looked_up;    /* records of a sorted database */
};

struct rewrite {
	struct convert *convert;
	MDB_txn *from;
	const char *path; /* the target's name for the user */
	bool comparing;
	MDB_env *env;    /* the target: the original's, or lmdbio's while comparing */
	MDB_txn *target; /* comparing */
	size_t map;      /* bytes */
	size_t key_most; /* bytes */
	struct database *at;
	/* Its records that are not written yet: */
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

static int target_failed(const struct rewrite *rewrite, int rc)
{
	int status = tool_read_status(rc);

	rewrite->convert->damaged += status == TOOL_PROBLEM;
	progress_clear(&rewrite->convert->progress);
	convert_fail(rewrite->path, rc);
	return status;
}

/* ---- walks ---- */

static void walk_begin(struct walk *walk, MDB_txn *txn, const struct tree_record *record)
{
	*walk = (struct walk){.tree.record = *record};
	comparators_default(&walk->order, record->flags);
	cursor_init(&walk->cursor, &txn->snapshot, &walk->tree, &walk->order, &walk->duplicates);
}

/* Finds the entry under a cursor of the main database, with the key as it is in the file. */
static bool entry_here(const struct cursor *cursor, struct entry *entry)
{
	const struct level *level = &cursor->levels[cursor->depth - 1];

	return page_whole_entry(snapshot_layout(cursor->snapshot), level->page, cursor->page_size,
				level->index, entry);
}

/* Returns whether the entry under a cursor of the main database is a database, and the entry. */
static bool is_database(const struct cursor *cursor, struct entry *entry)
{
	return entry_here(cursor, entry) && entry_is_database(entry->flags);
}

/* ---- writing ---- */

static int map_grow(struct rewrite *rewrite)
{
	size_t more = rewrite->map < MAP_STEP ? rewrite->map : MAP_STEP;

	/* The map must hold a batch and its copy-on-write, however large a value is. */
	if (more < 2 * rewrite->bytes)
		more = 2 * rewrite->bytes;
	rewrite->map += more;
	return lmdbio_orig_mdb_env_set_mapsize(rewrite->env, rewrite->map);
}

/* Opens a database in a transaction of its own: an aborted transaction would close the handle. */
static int database_try(struct rewrite *rewrite, const char *name)
{
	struct database *at = rewrite->at;
	MDB_txn *txn;
	int rc = lmdbio_orig_mdb_txn_begin(rewrite->env, NULL, 0, &txn);

	if (rc)
		return rc;
	rc = lmdbio_orig_mdb_dbi_open(txn, name, at->flags | MDB_CREATE, &at->dbi);
	if (!rc && !at->sorted)
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

/* Writes a record. A key that is not the last one of a sorted database is put in its place. */
static int record_write(const struct database *at, MDB_txn *txn, struct record *record, bool again)
{
	int rc = lmdbio_orig_mdb_put(txn, at->dbi, &record->key, &record->value,
				     again ? MDB_APPENDDUP : MDB_APPEND);

	if (rc == MDB_KEYEXIST && at->sorted)
		rc = lmdbio_orig_mdb_put(txn, at->dbi, &record->key, &record->value,
					 MDB_NOOVERWRITE);
	return rc;
}

/* On failure *at_key is the key of the record that failed. */
static int batch_try(struct rewrite *rewrite, MDB_val *at_key)
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

		rc = record_write(at, txn, record, again);
		last = record->key;
		begun = true;
	}
	if (!rc)
		return lmdbio_orig_mdb_txn_commit(txn);
	lmdbio_orig_mdb_txn_abort(txn);
	*at_key = last;
	return rc;
}

static int batch_write(struct rewrite *rewrite)
{
	MDB_val at_key = {0};
	int rc, status;

	if (!rewrite->count)
		return 0;
	rc = batch_try(rewrite, &at_key);
	while (rc == MDB_MAP_FULL && !(rc = map_grow(rewrite)))
		rc = batch_try(rewrite, &at_key);
	/* The source's keys were seen to rise: only a name can exist already. */
	if (rc == MDB_KEYEXIST && rewrite->at->sorted)
		return twin_refuse(rewrite->convert->sources[0], &at_key);
	if (rc == MDB_KEYEXIST &&
	    (status = twins_refuse(rewrite->convert->sources[0], rewrite->from)))
		return status;
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

/* `outer`: the main database, whose walk is at this one's name; NULL: this is the main database. */
static int compare_begin(struct rewrite *rewrite, const struct database *outer)
{
	struct database *at = rewrite->at;
	struct tree_record record = rewrite->target->trees[DBI_MAIN].record;
	struct entry entry;

	if (outer) {
		if (!is_database(&outer->walk.cursor, &entry))
			return tell_difference(rewrite, "is missing");
		if (entry.data_size != TREE_SIZE)
			return target_failed(rewrite, MDB_CORRUPTED);
		tree_record_parse(&record, entry.data);
	}
	if ((record.flags & DBI_PERSISTENT) != at->flags)
		return tell_difference(rewrite, "has other flags than in its source");
	walk_begin(&at->walk, rewrite->target, &record);
	return 0;
}

/* Checks that the target's next key is this one, with this value unless `value` is NULL. In a
 * sorted database, searches for the key. */
static int compare_next(struct rewrite *rewrite, const MDB_val *key, const MDB_val *value)
{
	struct database *at = rewrite->at;
	MDB_val its_key = *key, its_value;
	int rc = cursor_get(&at->walk.cursor, &its_key, &its_value,
			    at->sorted ? MDB_SET_KEY : MDB_NEXT);

	if (rc && rc != MDB_NOTFOUND)
		return target_failed(rewrite, rc);
	if (rc || !is_same(key, &its_key) || (value && !is_same(value, &its_value)))
		return tell_difference(rewrite, "has other records than in its source");
	at->looked_up += at->sorted;
	return convert_interrupted();
}

/* Checks that the target holds no further record. In a sorted database, whose records were searched
 * for, compares their number. */
static int compare_last(struct rewrite *rewrite)
{
	struct database *at = rewrite->at;
	MDB_cursor_op step = at->sorted ? MDB_FIRST : MDB_NEXT;
	uint64_t found = 0;
	MDB_val key, value;
	int rc = 0;

	while (found <= at->looked_up && !(rc = cursor_get(&at->walk.cursor, &key, &value, step))) {
		step = MDB_NEXT;
		found++;
	}
	if (rc && rc != MDB_NOTFOUND)
		return target_failed(rewrite, rc);
	if (found == at->looked_up)
		return 0;
	return tell_difference(rewrite, found > at->looked_up
						? "has more records than in its source"
						: "has other records than in its source");
}

/* ---- both ---- */

static int database_begin(struct rewrite *rewrite, struct database *database, const char *name)
{
	const struct database *outer = rewrite->at;

	rewrite->at = database;
	return rewrite->comparing ? compare_begin(rewrite, outer) : database_create(rewrite, name);
}

static int database_finish(struct rewrite *rewrite)
{
	return rewrite->comparing ? compare_last(rewrite) : batch_write(rewrite);
}

static void database_leave(struct rewrite *rewrite, struct database *database, bool named)
{
	if (database->walk.cursor.snapshot)
		cursor_end(&database->walk.cursor);
	if (named && !rewrite->comparing)
		lmdbio_orig_mdb_dbi_close(rewrite->env, database->dbi);
}

/* Refuses a record that LMDB 0.9 cannot hold. */
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

/* Takes all records of the database with this tree. */
static int named_records(struct rewrite *rewrite, const struct tree_record *record)
{
	struct walk walk;
	MDB_val key, value;
	int rc = 0, found = 0;

	walk_begin(&walk, rewrite->from, record);
	while (!rc && !(found = cursor_get(&walk.cursor, &key, &value, MDB_NEXT)))
		rc = record_put(rewrite, &key, &value);
	cursor_end(&walk.cursor);
	if (rc)
		return rc;
	return found == MDB_NOTFOUND ? database_finish(rewrite) : source_failed(rewrite, found);
}

/* Writes or compares a named database when the walk over the main database comes to its name,
 * `key`. The records in the batch precede the name, so they are written first. */
static int named_run(struct rewrite *rewrite, const struct entry *entry, const MDB_val *key)
{
	struct database *outer = rewrite->at, named = {.dbi = 0};
	const char *file = rewrite->convert->sources[0];
	char escaped[TOOL_ESCAPED_TEXT], *name;
	struct tree_record record;
	int rc;

	/* No key is empty, so cursors show the NUL of an empty name. */
	if (key->mv_size == entry->key_size && key->mv_size == 1 && !*entry->key)
		return convert_refuse(file, "LMDB 0.9 cannot hold a database without a name");
	tool_escape(key->mv_data, key->mv_size, escaped, sizeof(escaped));
	snprintf(named.label, sizeof(named.label), "database '%s'", escaped);
	if (key->mv_size > rewrite->key_most)
		return convert_refuse(file,
				      "the %s has a name of %zu bytes, LMDB 0.9 holds at most %zu",
				      named.label, key->mv_size, rewrite->key_most);
	if (entry->data_size != TREE_SIZE || memchr(key->mv_data, 0, key->mv_size))
		return source_failed(rewrite, MDB_CORRUPTED);
	name = strndup(key->mv_data, key->mv_size);
	if (!name)
		return convert_fail(file, ENOMEM);
	tree_record_parse(&record, entry->data);
	named.flags = record.flags & DBI_PERSISTENT;
	rc = rewrite->comparing ? compare_next(rewrite, key, NULL) : batch_write(rewrite);
	if (!rc)
		rc = database_begin(rewrite, &named, name);
	if (!rc)
		rc = named_records(rewrite, &record);
	database_leave(rewrite, &named, true);
	rewrite->at = outer;
	free(name);
	return rc;
}

/* Writes or compares the entry on which the cursor of the source's main database stands. */
static int main_entry(struct rewrite *rewrite, const struct cursor *cursor, const MDB_val *key,
		      const MDB_val *value)
{
	struct entry entry, its;
	int rc;

	if (is_database(cursor, &entry))
		return named_run(rewrite, &entry, key);
	rc = record_put(rewrite, key, value);
	if (!rc && rewrite->comparing && is_database(&rewrite->at->walk.cursor, &its))
		rc = tell_difference(rewrite, "has other records than in its source");
	return rc;
}

/* Finds out whether the source's main database is in the order of MDB_REVERSEKEY, with the NULs of
 * its names. The order without flags is the same without the NULs. A main database with MDB_DUPSORT
 * or MDB_INTEGERKEY has no names. */
static int main_sorted(struct rewrite *rewrite, const struct tree_record *record, bool *sorted)
{
	const unsigned kinds = MDB_REVERSEKEY | MDB_DUPSORT | MDB_INTEGERKEY;
	MDB_val key, last = {0};
	struct entry entry;
	struct walk walk;
	int rc = 0, found = 0;

	*sorted = (record->flags & kinds) == MDB_REVERSEKEY;
	if (!*sorted)
		return 0;
	walk_begin(&walk, rewrite->from, record);
	while (!rc && *sorted && !(found = cursor_get(&walk.cursor, &key, NULL, MDB_NEXT))) {
		rc = convert_interrupted();
		if (!entry_here(&walk.cursor, &entry))
			continue;
		key = (MDB_val){.mv_size = entry.key_size, .mv_data = (void *)(uintptr_t)entry.key};
		*sorted = !last.mv_size || compare(&walk.order.key, &last, &key) < 0;
		last = key;
	}
	cursor_end(&walk.cursor);
	return found && found != MDB_NOTFOUND ? source_failed(rewrite, found) : rc;
}

/* Returns whether the key is behind the last one in the order of the flags, names without their
 * NULs. */
static bool main_rises(const struct walk *walk, MDB_val *last, const MDB_val *key)
{
	bool rises = !last->mv_size || compare(&walk->order.key, last, key) < 0;

	*last = *key;
	return rises;
}

static int main_run(struct rewrite *rewrite)
{
	const struct tree_record *record = &rewrite->from->trees[DBI_MAIN].record;
	struct database database = {.label = "main database"};
	struct walk walk;
	MDB_val key, value, last = {0};
	bool own = false;
	int rc, found = 0;

	database.flags = record->flags & DBI_PERSISTENT;
	rc = main_sorted(rewrite, record, &database.sorted);
	if (rc)
		return rc;
	rc = database_begin(rewrite, &database, NULL);
	walk_begin(&walk, rewrite->from, record);
	while (!rc && !(found = cursor_get(&walk.cursor, &key, &value, MDB_NEXT))) {
		own |= !main_rises(&walk, &last, &key);
		rc = main_entry(rewrite, &walk.cursor, &key, &value);
	}
	cursor_end(&walk.cursor);
	if (!rc && own && !rewrite->comparing && !database.sorted && !(record->flags & MDB_DUPSORT))
		rc = twins_refuse(rewrite->convert->sources[0], rewrite->from);
	if (!rc)
		rc = found == MDB_NOTFOUND ? database_finish(rewrite)
					   : source_failed(rewrite, found);
	database_leave(rewrite, &database, false);
	return rc;
}

/* Opens the new file with the original. */
static int file_begin(struct rewrite *rewrite, const char *path)
{
	MDB_envinfo info;
	int rc = tool_env_info(rewrite->from->env, &info);

	if (rc)
		return source_failed(rewrite, rc);
	/* The next program keeps the map size that the source's program chose. */
	rewrite->map = info.me_mapsize < MAP_LEAST ? MAP_LEAST : info.me_mapsize;
	rc = lmdbio_orig_mdb_env_create(&rewrite->env);
	if (!rc)
		rc = lmdbio_orig_mdb_env_set_maxdbs(rewrite->env, 1);
	if (!rc)
		rc = lmdbio_orig_mdb_env_set_mapsize(rewrite->env, rewrite->map);
	/* No other process knows the file yet. It is synced before one does. */
	if (!rc)
		rc = lmdbio_orig_mdb_env_open(rewrite->env, path,
					      MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0600);
	if (rc)
		return convert_fail(rewrite->path, rc);
	rewrite->key_most = (size_t)lmdbio_orig_mdb_env_get_maxkeysize(rewrite->env);
	return 0;
}

/* Opens an existing file with lmdbio. */
static int target_begin(struct rewrite *rewrite, const char *path)
{
	int rc = source_form(path, true) == FORM_LMDB ? 0 : MDB_INVALID;

	if (!rc)
		rc = tool_env_try(path, MDB_NOSUBDIR | MDB_NOLOCK, 0, &rewrite->env);
	if (!rc)
		rc = txn_begin(rewrite->env, NULL, MDB_RDONLY, &rewrite->target);
	if (!rc && rewrite->target->snapshot.format != FORMAT_0_9)
		rc = MDB_INVALID;
	if (rc == MDB_INVALID || rc == MDB_VERSION_MISMATCH)
		return convert_refuse(rewrite->path, "it is no data file of LMDB 0.9");
	if (rc)
		return target_failed(rewrite, rc);
	rewrite->key_most = (size_t)env_get_maxkeysize(rewrite->env);
	return 0;
}

static void rewrite_end(struct rewrite *rewrite)
{
	if (rewrite->target)
		txn_abort(rewrite->target);
	if (rewrite->env && rewrite->comparing)
		env_close(rewrite->env);
	else if (rewrite->env)
		lmdbio_orig_mdb_env_close(rewrite->env);
	free(rewrite);
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
		rc = comparing ? target_begin(rewrite, path) : file_begin(rewrite, path);
	if (!rc)
		rc = main_run(rewrite);
	if (!rc && !comparing) {
		rc = lmdbio_orig_mdb_env_sync(rewrite->env, 1);
		rc = rc ? rewrite_fail(rewrite, rc) : 0;
	}
	rewrite_end(rewrite);
	progress_clear(&convert->progress);
	return rc;
}
