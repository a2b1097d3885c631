/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes a data set of keys with many values each, in order or not, and walks it in various
 * ways. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "stores_db.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { EXIT_USAGE = 2, EXIT_LMDB = 3, VALUE_MOST = 500, PUTS_A_TRANSACTION = 100000 };

static const char usage[] =
	"usage: stores_duplicates make DIRECTORY KEYS VALUES SIZE ordered|shuffled [fixed]\n"
	"       stores_duplicates WAY DIRECTORY\n"
	"Writes KEYS keys of VALUES values each (SIZE bytes, at most 500), with MDB_DUPFIXED if "
	"so\n"
	"said; or goes over them and prints RECORDS BYTES HASH major N.\n"
	"  next, previous  every value\n"
	"  runs            the same, by MDB_NEXT_DUP, and MDB_NEXT_NODUP behind the last one\n"
	"  keys, keys-back the first (last) value of each key\n"
	"  multiple, multiple-back  every value, a page at a time\n"
	"  announced       the first value of each key by mdb_get(), in no order; told by\n"
	"                  lmdbio_prefetch_keys() before, where that is\n"
	"Exit: 0, 3 an LMDB error, 2 usage.\n";

/* Makes value j of a key: values of a key are in the order of j, and no two are alike. */
static MDB_val value_make(unsigned char bytes[VALUE_MOST], size_t size, uint64_t i, uint64_t j)
{
	for (size_t at = 0; at < size; at += 8) {
		uint64_t word = stores_mix((i << 24 ^ j) << 8 | at / 8);

		if (!at)
			word = __builtin_bswap64(j << 24 | (word & 0xffffff));
		memcpy(bytes + at, &word, size - at < 8 ? size - at : 8);
	}
	return (MDB_val){.mv_size = size, .mv_data = bytes};
}

static int put(MDB_txn *txn, MDB_dbi dbi, uint64_t i, uint64_t j, size_t size)
{
	unsigned char bytes[VALUE_MOST];
	struct stores_key text;
	MDB_val key = stores_key(&text, i), value = value_make(bytes, size, i, j);

	return mdb_put(txn, dbi, &key, &value, 0);
}

static int put_all(MDB_env *env, uint64_t keys, uint64_t values, size_t size, bool shuffled,
		   unsigned flags)
{
	const uint64_t step = 7368787; /* a prime: coprime to any smaller number */
	uint64_t n = keys * values;
	MDB_txn *txn = NULL;
	MDB_dbi dbi;
	int rc = 0;

	for (uint64_t k = 0; k < n && !rc; k++) {
		uint64_t at = shuffled ? k * step % n : k;

		if (!txn) {
			rc = mdb_txn_begin(env, NULL, 0, &txn);
			if (!rc)
				rc = mdb_dbi_open(txn, NULL, MDB_DUPSORT | flags, &dbi);
		}
		if (!rc)
			rc = put(txn, dbi, at / values, at % values, size);
		if (!rc && (k + 1 == n || (k + 1) % PUTS_A_TRANSACTION == 0)) {
			rc = mdb_txn_commit(txn);
			txn = NULL;
		}
	}
	if (txn)
		mdb_txn_abort(txn);
	return rc;
}

static int make(char **words)
{
	uint64_t keys = strtoull(words[1], NULL, 0), values = strtoull(words[2], NULL, 0);
	size_t size = strtoull(words[3], NULL, 0);
	MDB_env *env;
	int rc;

	if (size < 8 || size > VALUE_MOST || keys * values >= 7368787)
		return EINVAL;
	rc = mdb_env_create(&env);
	if (rc)
		return rc;
	rc = mdb_env_set_mapsize(env,
				 ((keys * values * (size + 16) * 3) | 0xfffff) + (64 << 20) + 1);
	if (!rc)
		rc = mdb_env_open(env, words[0], MDB_NOSYNC, 0644);
	if (!rc)
		rc = put_all(env, keys, values, size, !strcmp(words[4], "shuffled"),
			     words[5] ? MDB_DUPFIXED : 0);
	mdb_env_close(env);
	return rc;
}

struct way {
	const char *name;
	MDB_cursor_op first, inside, then; /* the first call; inside a key; at a key's end */
	bool pages;                        /* a call returns a page of values */
	int (*call)(struct stores_db *db, const struct way *way, struct stores_sum *sum);
};

static void take_page(struct stores_sum *sum, const MDB_val *key, const MDB_val *page, size_t size)
{
	for (size_t at = 0; at + size <= page->mv_size; at += size) {
		MDB_val value = {.mv_size = size, .mv_data = (char *)page->mv_data + at};

		stores_take(sum, key, &value);
	}
}

/* The cursor has just reached a key: gets the key's first or last page of values. */
static int arrive(struct stores_db *db, const struct way *way, MDB_val *key, MDB_val *value,
		  size_t *size)
{
	*size = value->mv_size;
	return way->pages ? mdb_cursor_get(db->cursor, key, value, MDB_GET_MULTIPLE) : 0;
}

static int walk(struct stores_db *db, const struct way *way, struct stores_sum *sum)
{
	MDB_val key, value;
	size_t size = 0;
	int rc = mdb_cursor_get(db->cursor, &key, &value, way->first);

	if (!rc)
		rc = arrive(db, way, &key, &value, &size);
	while (!rc) {
		MDB_val inside = key;

		if (way->pages)
			take_page(sum, &key, &value, size);
		else
			stores_take(sum, &key, &value);
		rc = mdb_cursor_get(db->cursor, &inside, &value, way->inside);
		if (!rc && way->inside == way->then)
			key = inside;
		if (rc == MDB_NOTFOUND && way->inside != way->then) {
			rc = mdb_cursor_get(db->cursor, &key, &value, way->then);
			if (!rc)
				rc = arrive(db, way, &key, &value, &size);
		}
	}
	return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Announces the n keys, in an order other than the file's. */
static int announce(struct stores_db *db, MDB_val *keys, struct stores_key *texts, uint64_t n)
{
	void *symbol = dlsym(RTLD_DEFAULT, "lmdbio_prefetch_keys");
	int (*call)(MDB_txn * txn, MDB_dbi dbi, const MDB_val *keys, size_t n);

	for (uint64_t i = 0; i < n; i++)
		keys[i] =
			stores_key(&texts[i], i * 7919 % n); /* a prime: each of fewer keys once */
	memcpy(&call, &symbol, sizeof(call));
	return call ? call(db->txn, db->dbi, keys, n) : 0;
}

static int get_all(struct stores_db *db, const struct way *way, struct stores_sum *sum)
{
	struct stores_key *texts;
	MDB_val *keys, last, value;
	uint64_t n;
	int rc = mdb_cursor_get(db->cursor, &last, &value, way->first);

	if (rc)
		return rc;
	n = strtoull((char *)last.mv_data, NULL, 10) + 1;
	texts = calloc(n, sizeof(*texts));
	keys = calloc(n, sizeof(*keys));
	rc = texts && keys ? announce(db, keys, texts, n) : ENOMEM;
	for (uint64_t i = 0; i < n && !rc; i++) {
		rc = mdb_get(db->txn, db->dbi, &keys[i], &value);
		if (!rc)
			stores_take(sum, &keys[i], &value);
	}
	free(keys);
	free(texts);
	return rc;
}

static int go(const struct way *way, const char *path)
{
	struct stores_sum sum = {0};
	struct rusage used;
	struct stores_db db;
	int rc = stores_open(&db, path, 0);

	if (!rc) {
		rc = stores_begin(&db);
		if (!rc)
			rc = (way->call ? way->call : walk)(&db, way, &sum);
		stores_close(&db);
	}
	getrusage(RUSAGE_SELF, &used);
	printf("%llu %llu %016llx major %ld\n", (unsigned long long)sum.records,
	       (unsigned long long)sum.bytes, (unsigned long long)sum.hash, used.ru_majflt);
	return rc;
}

static const struct way ways[] = {
	{"next", MDB_FIRST, MDB_NEXT, MDB_NEXT, false, NULL},
	{"previous", MDB_LAST, MDB_PREV, MDB_PREV, false, NULL},
	{"runs", MDB_FIRST, MDB_NEXT_DUP, MDB_NEXT_NODUP, false, NULL},
	{"keys", MDB_FIRST, MDB_NEXT_NODUP, MDB_NEXT_NODUP, false, NULL},
	{"keys-back", MDB_LAST, MDB_PREV_NODUP, MDB_PREV_NODUP, false, NULL},
	{"multiple", MDB_FIRST, MDB_NEXT_MULTIPLE, MDB_NEXT_NODUP, true, NULL},
	{"multiple-back", MDB_LAST, MDB_PREV_MULTIPLE, MDB_PREV_NODUP, true, NULL},
	{"announced", MDB_LAST, MDB_LAST, MDB_LAST, false, get_all},
};

int main(int argc, char **argv)
{
	int rc = -1;

	if (argc >= 7 && argc <= 8 && !strcmp(argv[1], "make"))
		rc = make(argv + 2);
	for (size_t i = 0; argc == 3 && i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(argv[1], ways[i].name))
			rc = go(&ways[i], argv[2]);
	if (rc == -1) {
		fputs(usage, stderr);
		return EXIT_USAGE;
	}
	if (rc)
		fprintf(stderr, "stores_duplicates: %d, %s\n", rc, mdb_strerror(rc));
	return rc ? EXIT_LMDB : 0;
}
