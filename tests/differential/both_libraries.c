/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which function of which library stands behind each name. */
#include "both_libraries.h"
#include "origin/origin.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* lmdb.h does not declare the exported internals. */
#define F(result, name, parameters, arguments) result name parameters;
#define P(name, parameters, arguments)	       void name parameters;
#pragma GCC diagnostic ignored "-Wredundant-decls"
#include "origin/origin_functions.def"
#undef F
#undef P

#define F(result, name, parameters, arguments) .name = lmdbio_orig_##name,
#define P(name, parameters, arguments)	       .name = lmdbio_orig_##name,
const struct library library_original = {
	.title = "original",
#include "origin/origin_functions.def"
};
#undef F
#undef P

#define F(result, name, parameters, arguments) .name = name,
#define P(name, parameters, arguments)	       .name = name,
const struct library library_ours = {
	.title = "lmdbio",
#include "origin/origin_functions.def"
};
#undef F
#undef P

int library_load(struct library *library, const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		printf("%s\n", dlerror());
		return EINVAL;
	}
	library->title = "loaded";
#define F(result, name, parameters, arguments) *(void **)&library->name = dlsym(handle, #name);
#define P(name, parameters, arguments)	       *(void **)&library->name = dlsym(handle, #name);
#include "origin/origin_functions.def"
#undef F
#undef P
	return library->mdb_env_open ? 0 : EINVAL;
}

static int next_skips_an_item(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op)
{
	static unsigned calls;
	int rc = lmdbio_orig_mdb_cursor_get(cursor, key, data, op);

	if (op == MDB_NEXT && rc == 0 && ++calls % 40 == 0)
		rc = lmdbio_orig_mdb_cursor_get(cursor, key, data, op);
	return rc;
}

static int range_means_exact(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op)
{
	if (op == MDB_SET_RANGE)
		op = MDB_SET_KEY;
	return lmdbio_orig_mdb_cursor_get(cursor, key, data, op);
}

static int key_is_not_filled(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op)
{
	MDB_val before = key ? *key : (MDB_val){0, NULL};
	int rc = lmdbio_orig_mdb_cursor_get(cursor, key, data, op);

	if (op == MDB_PREV_DUP && key)
		*key = before;
	return rc;
}

static int miss_moves_back(MDB_cursor *cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op)
{
	MDB_val k, d;
	int rc = lmdbio_orig_mdb_cursor_get(cursor, key, data, op);

	if (op == MDB_SET && rc == MDB_NOTFOUND)
		lmdbio_orig_mdb_cursor_get(cursor, &k, &d, MDB_FIRST);
	return rc;
}

static int last_byte_is_wrong(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data)
{
	static char copy[8192];
	int rc = lmdbio_orig_mdb_get(txn, dbi, key, data);

	if (rc == 0 && data->mv_size > 1000 && data->mv_size < sizeof copy) {
		memcpy(copy, data->mv_data, data->mv_size);
		copy[data->mv_size - 1] ^= 1;
		data->mv_data = copy;
	}
	return rc;
}

/* As if a page buffer were used again for the next value of its transaction. */
static int value_does_not_stay(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *data)
{
	static char copy[1 << 16] __attribute__((aligned(16)));
	int rc = lmdbio_orig_mdb_get(txn, dbi, key, data);
	size_t shift;

	if (rc != 0 || data->mv_size > 60000)
		return rc;
	shift = (size_t)data->mv_data % 16;
	memcpy(copy + shift, data->mv_data, data->mv_size);
	data->mv_data = copy + shift;
	return rc;
}

static int count_is_one_more(MDB_cursor *cursor, size_t *count)
{
	int rc = lmdbio_orig_mdb_cursor_count(cursor, count);

	if (rc == 0)
		*count += *count > 5;
	return rc;
}

static int stat_forgets_overflow(MDB_txn *txn, MDB_dbi dbi, MDB_stat *stat)
{
	int rc = lmdbio_orig_mdb_stat(txn, dbi, stat);

	if (rc == 0)
		stat->ms_overflow_pages = 0;
	return rc;
}

/* The root page is the last one of a compacted copy, and its last node ends the page. */
static int copy_ends_wrong(MDB_env *env, const char *path, unsigned flags)
{
	int rc = lmdbio_orig_mdb_env_copy2(env, path, flags);
	char file[1200];
	FILE *stream;

	snprintf(file, sizeof file, "%s%s", path, strstr(path, "data.mdb") ? "" : "/data.mdb");
	stream = rc == 0 ? fopen(file, "r+e") : NULL;
	if (!stream)
		return rc;
	fseek(stream, -1, SEEK_END);
	fputc('!', stream);
	fclose(stream);
	return rc;
}

struct library library_with_fault(int fault)
{
	struct library library = library_original;

	library.title = "with a fault";
	switch (fault) {
	case 1:
		library.mdb_cursor_get = next_skips_an_item;
		break;
	case 2:
		library.mdb_cursor_get = range_means_exact;
		break;
	case 3:
		library.mdb_cursor_get = key_is_not_filled;
		break;
	case 4:
		library.mdb_cursor_get = miss_moves_back;
		break;
	case 5:
		library.mdb_get = last_byte_is_wrong;
		break;
	case 6:
		library.mdb_get = value_does_not_stay;
		break;
	case 7:
		library.mdb_cursor_count = count_is_one_more;
		break;
	case 8:
		library.mdb_env_copy2 = copy_ends_wrong;
		break;
	default:
		library.mdb_stat = stat_forgets_overflow;
		break;
	}
	return library;
}
