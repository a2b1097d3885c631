/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes the data sets of these tests: eight-digit keys in order by MDB_APPEND, 1,000 records a
 * transaction, values of one size or of several in turn. The values cannot be compressed, and none
 * equals another. */
#include "stores_db.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORDS_A_TRANSACTION = 1000, SIZES_MOST = 8 };

struct sizes {
	size_t each[SIZES_MOST], n, largest;
};

static void sizes_parse(struct sizes *sizes, const char *words)
{
	char *end = NULL;

	for (*sizes = (struct sizes){0}; words && sizes->n < SIZES_MOST; sizes->n++) {
		size_t size = strtoull(words, &end, 0);

		sizes->each[sizes->n] = size;
		sizes->largest = size > sizes->largest ? size : sizes->largest;
		words = *end == ',' ? end + 1 : NULL;
	}
}

static void fill(unsigned char *bytes, size_t size, uint64_t record)
{
	for (size_t at = 0; at < size; at += 8) {
		uint64_t word = stores_mix(record << 32 | at);

		memcpy(bytes + at, &word, size - at < 8 ? size - at : 8);
	}
}

static int put_some(MDB_env *env, uint64_t from, uint64_t end, unsigned char *bytes,
		    const struct sizes *sizes, unsigned percent)
{
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = mdb_txn_begin(env, NULL, 0, &txn);

	if (rc)
		return rc;
	rc = mdb_dbi_open(txn, NULL, 0, &dbi);
	for (uint64_t i = from; i < end && !rc; i++) {
		struct stores_key text;
		size_t size = sizes->each[i % sizes->n], zeroes = size * percent / 100;
		MDB_val key = stores_key(&text, i);
		MDB_val value = {.mv_size = size, .mv_data = bytes};

		fill(bytes, size, i);
		memset(bytes + size - zeroes, 0, zeroes);
		rc = mdb_put(txn, dbi, &key, &value, MDB_APPEND);
	}
	if (!rc)
		return mdb_txn_commit(txn);
	mdb_txn_abort(txn);
	return rc;
}

int main(int argc, char **argv)
{
	uint64_t records, end;
	unsigned char *bytes;
	MDB_env *env = NULL;
	struct sizes sizes;
	unsigned percent;
	int rc;

	if (argc != 4 && argc != 5) {
		fprintf(stderr, "usage: stores_make DIRECTORY RECORDS VALUE-SIZE[,...] "
				"[PERCENT-OF-ZEROES]\n");
		return 2;
	}
	records = strtoull(argv[2], NULL, 0);
	sizes_parse(&sizes, argv[3]);
	percent = argc == 5 ? (unsigned)strtoul(argv[4], NULL, 0) : 0;
	bytes = malloc(sizes.largest + 1);
	rc = bytes ? mdb_env_create(&env) : ENOMEM;
	if (!rc) /* half as much again, plus room for the tree */
		rc = mdb_env_set_mapsize(env, (records * (sizes.largest + 4160) / 2 * 3 | 0xfffff) +
						      ((uint64_t)64 << 20) + 1);
	if (!rc)
		rc = mdb_env_open(env, argv[1], MDB_NOSYNC, 0644);
	for (uint64_t i = 0; i < records && !rc; i = end) {
		end = i + RECORDS_A_TRANSACTION < records ? i + RECORDS_A_TRANSACTION : records;
		rc = put_some(env, i, end, bytes, &sizes, percent);
	}
	if (env)
		mdb_env_close(env);
	free(bytes);
	if (rc)
		fprintf(stderr, "stores_make: %s: %s\n", argv[1], mdb_strerror(rc));
	return rc ? 1 : 0;
}
