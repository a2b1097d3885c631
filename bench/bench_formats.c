/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a warm data set in each way, for bench_formats.sh, which counts the instructions.
 *
 *   bench_formats make DIRECTORY     writes a set: plain, duplicate, large and very large values
 *   bench_formats read DIRECTORY     reads all of it once, then each way in a function of its own,
 *                                    and prints the function's name and its number of reads
 *
 * It is linked to the system's liblmdb.so.0, as any program is.
 */
#include "bench_keys.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	PLAIN = 20000,
	PLAIN_BYTES = 100,
	FEW_KEYS = 2000, /* the values lie in the key's entry */
	FEW = 8,
	MANY_KEYS = 20, /* the values are a tree */
	MANY = 1000,
	DUP_BYTES = 16,
	LARGE = 400,
	LARGE_BYTES = 6000,
	HUGE = 100,
	HUGE_BYTES = 50000,
	DATABASES = 5,
	BEGINS = 2000,
	SEED = 3,
};

struct set {
	const char *name;
	unsigned flags, records, values, bytes;
};

static const struct set sets[DATABASES] = {
	{"plain", 0, PLAIN, 1, PLAIN_BYTES},
	{"few", MDB_DUPSORT, FEW_KEYS, FEW, DUP_BYTES},
	{"many", MDB_DUPSORT, MANY_KEYS, MANY, DUP_BYTES},
	{"large", 0, LARGE, 1, LARGE_BYTES},
	{"huge", 0, HUGE, 1, HUGE_BYTES},
};

/* The state of a walk or of lookups. */
struct reading {
	MDB_env *env;
	MDB_txn *txn;
	MDB_cursor *cursor;
	MDB_dbi dbi;
	struct bench_key *keys; /* in random order */
	unsigned records;
	unsigned long reads;
	int rc;
};

static int set_make(MDB_txn *txn, const struct set *set)
{
	static unsigned char bytes[HUGE_BYTES];
	struct bench_key text;
	MDB_dbi dbi;
	int rc = mdb_dbi_open(txn, set->name, set->flags | MDB_CREATE, &dbi);

	bench_key_init(&text, "");
	for (unsigned i = 0; i < set->records && !rc; i++) {
		for (unsigned n = 0; n < set->values && !rc; n++) {
			MDB_val key = bench_key_set(&text, i), data = {set->bytes, bytes};

			snprintf((char *)bytes, set->bytes, "%08u %u", n, i);
			rc = mdb_put(txn, dbi, &key, &data, 0);
		}
	}
	return rc;
}

static int make(const char *path)
{
	MDB_env *env;
	MDB_txn *txn = NULL;
	int rc = mdb_env_create(&env);

	if (rc)
		return rc;
	rc = mdb_env_set_mapsize(env, (size_t)256 << 20);
	if (!rc)
		rc = mdb_env_set_maxdbs(env, DATABASES);
	if (!rc)
		rc = mdb_env_open(env, path, MDB_NOSYNC, 0644);
	if (!rc)
		rc = mdb_txn_begin(env, NULL, 0, &txn);
	for (unsigned i = 0; i < DATABASES && !rc; i++)
		rc = set_make(txn, &sets[i]);
	if (!rc)
		rc = mdb_txn_commit(txn);
	mdb_env_close(env);
	return rc;
}

/* --- each way ------------------------------------------------------------------------------ */

/* Lookups of keys in random order. */
static inline void look_up(struct reading *reading, bool by_cursor)
{
	for (unsigned i = 0; i < reading->records && !reading->rc; i++) {
		MDB_val key = {reading->keys[i].length, reading->keys[i].text}, data;

		reading->rc = by_cursor ? mdb_cursor_get(reading->cursor, &key, &data, MDB_SET_KEY)
					: mdb_get(reading->txn, reading->dbi, &key, &data);
		reading->reads++;
	}
}

static inline void walk(struct reading *reading, MDB_cursor_op first, MDB_cursor_op next)
{
	MDB_val key, data;
	int rc = mdb_cursor_get(reading->cursor, &key, &data, first);

	for (; !rc; reading->reads++)
		rc = mdb_cursor_get(reading->cursor, &key, &data, next);
	reading->rc = rc == MDB_NOTFOUND ? 0 : rc;
}

/* Each way has a function of its own, so that the profile can tell them apart. */
#define WAY(name, ...)                                                                             \
	static __attribute__((noinline)) void measured_##name(struct reading *reading)             \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}

WAY(get, look_up(reading, false))
WAY(set_key, look_up(reading, true))
WAY(next, walk(reading, MDB_FIRST, MDB_NEXT))
WAY(prev, walk(reading, MDB_LAST, MDB_PREV))
WAY(get_few, look_up(reading, false))
WAY(next_few, walk(reading, MDB_FIRST, MDB_NEXT))
WAY(nodup_few, walk(reading, MDB_FIRST, MDB_NEXT_NODUP))
WAY(get_many, look_up(reading, false))
WAY(next_many, walk(reading, MDB_FIRST, MDB_NEXT))
WAY(get_large, look_up(reading, false))
WAY(next_large, walk(reading, MDB_FIRST, MDB_NEXT))
WAY(get_huge, look_up(reading, false))
WAY(next_huge, walk(reading, MDB_FIRST, MDB_NEXT))

/* Renews the transaction for each read. */
static __attribute__((noinline)) void measured_renew(struct reading *reading)
{
	for (unsigned i = 0; i < BEGINS && !reading->rc; i++) {
		mdb_txn_reset(reading->txn);
		reading->rc = mdb_txn_renew(reading->txn);
		reading->reads++;
	}
}

static const struct way {
	const char *name, *set;
	void (*run)(struct reading *reading);
} ways[] = {
	{"get", "plain", measured_get},
	{"set_key", "plain", measured_set_key},
	{"next", "plain", measured_next},
	{"prev", "plain", measured_prev},
	{"get_few", "few", measured_get_few},
	{"next_few", "few", measured_next_few},
	{"nodup_few", "few", measured_nodup_few},
	{"get_many", "many", measured_get_many},
	{"next_many", "many", measured_next_many},
	{"get_large", "large", measured_get_large},
	{"next_large", "large", measured_next_large},
	{"get_huge", "huge", measured_get_huge},
	{"next_huge", "huge", measured_next_huge},
	{"renew", "plain", measured_renew},
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

static unsigned records_of(const char *name)
{
	for (unsigned i = 0; i < DATABASES; i++)
		if (!strcmp(sets[i].name, name))
			return sets[i].records;
	return 0;
}

/* Reads all once, so that the pages are in memory and the library has seen that. */
static void warm(struct reading *reading)
{
	walk(reading, MDB_FIRST, MDB_NEXT);
	if (!reading->rc)
		look_up(reading, false);
}

static int way_run(MDB_env *env, const struct way *way)
{
	struct reading reading = {.env = env, .records = records_of(way->set)};
	int rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &reading.txn);

	if (rc)
		return rc;
	reading.keys = calloc(reading.records, sizeof(*reading.keys));
	for (unsigned i = 0; i < reading.records && reading.keys; i++) {
		bench_key_init(&reading.keys[i], "");
		bench_key_set(&reading.keys[i], bench_permute(i, reading.records, SEED));
	}
	rc = reading.keys ? 0 : ENOMEM;
	if (!rc)
		rc = mdb_dbi_open(reading.txn, way->set, 0, &reading.dbi);
	if (!rc)
		rc = mdb_cursor_open(reading.txn, reading.dbi, &reading.cursor);
	if (!rc) {
		warm(&reading);
		reading.reads = 0;
		if (!reading.rc)
			way->run(&reading);
		rc = reading.rc;
		mdb_cursor_close(reading.cursor);
	}
	mdb_txn_commit(reading.txn);
	free(reading.keys);
	printf("%s %lu\n", way->name, reading.reads);
	return rc;
}

static int read_all(const char *path)
{
	MDB_env *env;
	int rc = mdb_env_create(&env);

	if (rc)
		return rc;
	rc = mdb_env_set_maxdbs(env, DATABASES);
	if (!rc)
		rc = mdb_env_open(env, path, MDB_RDONLY, 0);
	for (unsigned i = 0; i < WAYS && !rc; i++)
		rc = way_run(env, &ways[i]);
	mdb_env_close(env);
	return rc;
}

int main(int argc, char **argv)
{
	bool makes = argc == 3 && !strcmp(argv[1], "make");
	int rc;

	if (!makes && (argc != 3 || strcmp(argv[1], "read") != 0)) {
		fprintf(stderr, "usage: bench_formats make|read DIRECTORY\n");
		return 2;
	}
	rc = makes ? make(argv[2]) : read_all(argv[2]);
	if (rc)
		fprintf(stderr, "bench_formats: %s: %s\n", argv[2], mdb_strerror(rc));
	return rc ? 1 : 0;
}
