/* SPDX-License-Identifier: OLDAP-2.8 */
/* Collects records in batches, and puts each batch into the environment as one transaction. */
#include "import_records.h"
#include "import_datum.h"
#include "import_files.h"

#include "origin/origin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

enum {
	MAP_FIRST = 16 << 20, /* bytes */
	MAP_STEP = 1 << 30,   /* bytes; the map doubles up to this size, then grows by it */
	KEY_TEXT = 128,       /* of a key in a message */
};

struct import_entry {
	struct import_file file; /* the value, also if there is no file to read */
	char *key;
	size_t key_size;
	bool labelled;
	int32_t label;
};

struct import {
	struct convert *convert;
	const char *path; /* the environment's name for the user */
	bool comparing;
	uint64_t different; /* records that differ */
	MDB_env *env;
	MDB_dbi dbi;
	size_t map;      /* bytes */
	size_t key_most; /* bytes */
	bool last_known;
	char *last; /* the greatest key in the environment; key_most bytes */
	size_t last_size;
	size_t count;
	uint64_t bytes; /* of the batch */
	struct import_entry *batch[IMPORT_BATCH_RECORDS];
};

static void entry_free(struct import_entry *entry)
{
	if (!entry)
		return;
	free(entry->key);
	free(entry->file.path);
	free(entry->file.value);
	free(entry);
}

static void batch_drop(struct import *import)
{
	while (import->count)
		entry_free(import->batch[--import->count]);
	import->bytes = 0;
}

/* Makes a key text for a message: bytes that are not printable become question marks. */
static const char *key_text(const char *key, size_t size, char text[KEY_TEXT])
{
	size_t n = size < KEY_TEXT - 4 ? size : KEY_TEXT - 4;

	for (size_t i = 0; i < n; i++)
		text[i] = (unsigned char)key[i] < ' ' || key[i] == 0x7f ? '?' : key[i];
	strcpy(text + n, n < size ? "..." : "");
	return text;
}

static int compare_bytes(const char *a, size_t a_size, const char *b, size_t b_size)
{
	size_t both = a_size < b_size ? a_size : b_size;
	int order = both ? memcmp(a, b, both) : 0;

	return order ? order : (a_size > b_size) - (a_size < b_size);
}

static int compare_entries(const void *a, const void *b)
{
	const struct import_entry *x = *(struct import_entry *const *)a,
				  *y = *(struct import_entry *const *)b;

	return compare_bytes(x->key, x->key_size, y->key, y->key_size);
}

/* Returns whether a write has stopped at the file length limit (ulimit -f). */
static bool is_at_limit(const struct stat *st)
{
	struct rlimit limit;

	return !getrlimit(RLIMIT_FSIZE, &limit) && (rlim_t)st->st_size >= limit.rlim_cur;
}

int import_open(struct import **result, struct convert *convert, const char *path, const char *name,
		bool comparing)
{
	struct import *import = calloc(1, sizeof(*import));
	MDB_txn *txn = NULL;
	struct stat st;
	int rc = import ? 0 : ENOMEM;

	*result = NULL;
	if (rc)
		return convert_fail(name, rc);
	import->convert = convert;
	import->path = name;
	import->comparing = comparing;
	import->map = MAP_FIRST;
	rc = lmdbio_orig_mdb_env_create(&import->env);
	if (!rc)
		rc = lmdbio_orig_mdb_env_set_mapsize(import->env, import->map);
	/* No other process knows the file yet. It is synced before one does. */
	if (!rc)
		rc = lmdbio_orig_mdb_env_open(import->env, path,
					      MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC |
						      (comparing ? MDB_RDONLY : 0u),
					      0600);
	if (!rc)
		rc = lmdbio_orig_mdb_txn_begin(import->env, NULL, comparing ? MDB_RDONLY : 0, &txn);
	if (!rc && (rc = lmdbio_orig_mdb_dbi_open(txn, NULL, 0, &import->dbi)))
		lmdbio_orig_mdb_txn_abort(txn);
	else if (!rc)
		rc = lmdbio_orig_mdb_txn_commit(txn);
	if (!rc) {
		import->key_most = (size_t)lmdbio_orig_mdb_env_get_maxkeysize(import->env);
		import->last = malloc(import->key_most);
		rc = import->last ? 0 : ENOMEM;
	}
	if (rc) {
		import_close(import);
		/* The original returns ENOSPC when the file takes only a part of its first two
		 * pages. */
		if (rc == ENOSPC && !stat(path, &st) && is_at_limit(&st))
			rc = EFBIG;
		return convert_fail(name, rc);
	}
	*result = import;
	return 0;
}

static int map_grow(struct import *import)
{
	size_t more = import->map < MAP_STEP ? import->map : MAP_STEP;

	/* The map must hold a batch and its copy-on-write, however large a value is. */
	if (more < 2 * import->bytes)
		more = 2 * import->bytes;
	import->map += more;
	return lmdbio_orig_mdb_env_set_mapsize(import->env, import->map);
}

/* Makes one attempt. For MDB_KEYEXIST, *twice is the entry whose key existed before. */
static int batch_write(struct import *import, size_t *twice)
{
	MDB_txn *txn;
	int rc = lmdbio_orig_mdb_txn_begin(import->env, NULL, 0, &txn);

	if (rc)
		return rc;
	for (size_t i = 0; i < import->count; i++) {
		struct import_entry *entry = import->batch[i];
		MDB_val key = {entry->key_size, entry->key};
		MDB_val value = {entry->file.size, entry->file.value};
		unsigned flags = MDB_NOOVERWRITE;

		if (!import->last_known ||
		    compare_bytes(entry->key, entry->key_size, import->last, import->last_size) > 0)
			flags |= MDB_APPEND;
		*twice = i;
		rc = lmdbio_orig_mdb_put(txn, import->dbi, &key, &value, flags);
		if (rc) {
			lmdbio_orig_mdb_txn_abort(txn);
			return rc;
		}
	}
	return lmdbio_orig_mdb_txn_commit(txn);
}

/* Checks, instead of writing, whether the environment has these records. */
static int batch_compare(struct import *import)
{
	char text[KEY_TEXT];
	MDB_txn *txn;
	int rc = lmdbio_orig_mdb_txn_begin(import->env, NULL, MDB_RDONLY, &txn);

	if (rc)
		return rc;
	for (size_t i = 0; i < import->count && !rc; i++) {
		const struct import_entry *entry = import->batch[i];
		MDB_val key = {entry->key_size, entry->key}, value;

		rc = lmdbio_orig_mdb_get(txn, import->dbi, &key, &value);
		if (rc && rc != MDB_NOTFOUND)
			break;
		if (!rc && value.mv_size == entry->file.size &&
		    (!value.mv_size || !memcmp(value.mv_data, entry->file.value, value.mv_size)))
			continue;
		import->different++;
		convert_refuse(key_text(entry->key, entry->key_size, text),
			       rc ? "this record is missing" : "this record differs");
		rc = 0;
	}
	lmdbio_orig_mdb_txn_abort(txn);
	return rc;
}

int import_too_large(const struct convert *convert, const char *name, uint64_t size)
{
	char text[TOOL_SIZE_TEXT];

	if (size > IMPORT_VALUE_MOST)
		return convert_refuse(name, "more than 2 GiB, which no value may be");
	return convert_refuse(name, "more than %s; --max-value=SIZE allows larger values",
			      tool_size_text(convert->limits.value, text));
}

/* Converts an entry's value to its stored form. */
static int entry_complete(struct convert *convert, struct import_entry *entry)
{
	struct import_file *file = &entry->file;
	char text[KEY_TEXT];
	void *datum;
	size_t size;
	int rc = file->error;

	if (file->too_large)
		return import_too_large(convert, file->path, convert->limits.value + 1);
	if (file->outside)
		return convert_refuse(file->path, "it leads out of %s; --outside allows that",
				      convert->limits.inside);
	if (file->sizeless)
		return convert_refuse(file->path,
				      "it has content, but its file system says that its size is "
				      "0: copy the file to another file system");
	if (rc)
		return convert_fail(file->path, rc);
	if (!entry->labelled)
		return 0;
	rc = datum_encode(file->value, file->size, entry->label, &datum, &size);
	if (rc)
		return convert_fail(key_text(entry->key, entry->key_size, text), rc);
	free(file->value);
	file->value = datum;
	file->size = size;
	return 0;
}

static int batch_fill(struct import *import)
{
	const struct convert_limits *limits = &import->convert->limits;
	const struct import_allowed allowed = {limits->value, limits->inside};
	struct import_file *files[IMPORT_BATCH_RECORDS];
	int rc = 0;

	for (size_t i = 0; i < import->count; i++)
		files[i] = &import->batch[i]->file;
	import_files_read(files, import->count, import->convert->threads, &allowed);
	for (size_t i = 0; i < import->count && !rc; i++)
		rc = entry_complete(import->convert, import->batch[i]);
	return rc;
}

int import_write_error(MDB_env *env, uint64_t bytes, int rc)
{
	struct statvfs room;
	struct stat st;
	int fd;

	/* The original returns EIO when a file system takes only a part of a write, as a full one
	 * does. */
	if (rc != EIO || lmdbio_orig_mdb_env_get_fd(env, &fd) || fstatvfs(fd, &room))
		return rc;
	if (!fstat(fd, &st) && is_at_limit(&st))
		return EFBIG;
	return (uint64_t)room.f_bavail * room.f_frsize < bytes ? ENOSPC : rc;
}

static int batch_commit(struct import *import)
{
	struct import_entry *greatest;
	char text[KEY_TEXT];
	uint64_t bytes = 0;
	size_t twice = 0;
	int rc;

	if (!import->count)
		return 0;
	rc = batch_fill(import);
	if (!rc)
		rc = convert_interrupted();
	if (rc)
		return rc;
	for (size_t i = 0; i < import->count; i++)
		bytes += import->batch[i]->file.size;
	import->bytes = bytes;
	qsort(import->batch, import->count, sizeof(import->batch[0]), compare_entries);
	rc = import->comparing ? batch_compare(import) : batch_write(import, &twice);
	while (rc == MDB_MAP_FULL && !(rc = map_grow(import)))
		rc = batch_write(import, &twice);
	if (rc == MDB_KEYEXIST)
		return convert_refuse(
			key_text(import->batch[twice]->key, import->batch[twice]->key_size, text),
			"this key is there twice");
	if (rc)
		return convert_fail(import->path,
				    import_write_error(import->env, import->bytes, rc));
	greatest = import->batch[import->count - 1];
	if (!import->last_known ||
	    compare_bytes(greatest->key, greatest->key_size, import->last, import->last_size) > 0) {
		memcpy(import->last, greatest->key, greatest->key_size);
		import->last_size = greatest->key_size;
		import->last_known = true;
	}
	import->convert->records += import->count;
	progress_count(&import->convert->progress, bytes, 0);
	progress_show(&import->convert->progress);
	batch_drop(import);
	return 0;
}

/* Judges a record before its file is read. */
static int record_judge(const struct import *import, const struct import_record *record)
{
	char text[KEY_TEXT];

	if (!record->key_size)
		return convert_refuse(record->path ? record->path : import->path,
				      "an empty key, which LMDB cannot hold");
	key_text(record->key, record->key_size, text);
	if (record->key_size > import->key_most)
		return convert_refuse(text, "a key of %zu bytes; LMDB holds at most %zu",
				      record->key_size, import->key_most);
	if (record->size > import->convert->limits.value)
		return import_too_large(import->convert, text, record->size);
	return 0;
}

int import_put(struct import *import, const struct import_record *record)
{
	struct import_entry *entry = calloc(1, sizeof(*entry));
	int rc = entry ? record_judge(import, record) : convert_fail(import->path, ENOMEM);

	if (!rc && (import->count == IMPORT_BATCH_RECORDS ||
		    (import->count && import->bytes + record->size > IMPORT_BATCH_BYTES)))
		rc = batch_commit(import);
	if (rc) {
		free(record->value);
		free(entry);
		return rc;
	}
	*entry = (struct import_entry){
		.key = malloc(record->key_size),
		.key_size = record->key_size,
		.labelled = record->labelled,
		.label = record->label,
		.file = {.value = record->value, .size = (size_t)record->size},
	};
	if (record->path)
		entry->file.path = strdup(record->path);
	if (!entry->key || (record->path && !entry->file.path)) {
		entry_free(entry);
		return convert_fail(import->path, ENOMEM);
	}
	memcpy(entry->key, record->key, record->key_size);
	import->batch[import->count++] = entry;
	import->bytes += record->size + record->key_size;
	return 0;
}

int import_get(struct import *import, const char *key, size_t key_size, void **value, size_t *size)
{
	MDB_val wanted = {key_size, (void *)(uintptr_t)key}, found;
	MDB_txn *txn;
	int rc = batch_commit(import);

	*value = NULL;
	if (rc)
		return rc;
	if (!key_size || key_size > import->key_most)
		return 0;
	rc = lmdbio_orig_mdb_txn_begin(import->env, NULL, MDB_RDONLY, &txn);
	if (rc)
		return convert_fail(import->path, rc);
	rc = lmdbio_orig_mdb_get(txn, import->dbi, &wanted, &found);
	if (!rc) {
		*size = found.mv_size;
		*value = malloc(found.mv_size + 1);
		if (*value)
			memcpy(*value, found.mv_data, found.mv_size);
		else
			rc = ENOMEM;
	}
	lmdbio_orig_mdb_txn_abort(txn);
	return !rc || rc == MDB_NOTFOUND ? 0 : convert_fail(import->path, rc);
}

static int compare_finish(const struct import *import)
{
	MDB_stat stat;
	int rc = lmdbio_orig_mdb_env_stat(import->env, &stat);

	if (rc)
		return convert_fail(import->path, rc);
	import->convert->damaged += import->different;
	if (stat.ms_entries == import->convert->records)
		return import->different ? TOOL_PROBLEM : 0;
	convert_refuse(import->path, "it has %zu records and its source %llu", stat.ms_entries,
		       (unsigned long long)import->convert->records);
	return TOOL_PROBLEM;
}

int import_finish(struct import *import)
{
	int rc = batch_commit(import);

	if (rc)
		return rc;
	if (import->comparing)
		return compare_finish(import);
	rc = lmdbio_orig_mdb_env_sync(import->env, 1);
	return rc ? convert_fail(import->path, rc) : 0;
}

void import_close(struct import *import)
{
	if (!import)
		return;
	batch_drop(import);
	if (import->env)
		lmdbio_orig_mdb_env_close(import->env);
	free(import->last);
	free(import);
}
