/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes a data set of the benchmark: keys in order, by MDB_APPEND, 1,000 records a transaction,
 * as Caffe's convert_imageset does it. */
#include "bench_make.h"

#include "bench_keys.h"

#include <errno.h>
#include <stdlib.h>

enum { RECORDS_A_TRANSACTION = 1000 };

static void value_fill(unsigned char *at, size_t size, uint64_t record)
{
	uint64_t word = record << 32;

	for (; size >= sizeof(word); at += sizeof(word), size -= sizeof(word)) {
		uint64_t bytes = bench_mix(word++);

		memcpy(at, &bytes, sizeof(bytes));
	}
	while (size--)
		*at++ = (unsigned char)bench_mix(word++);
}

static int make_transaction(MDB_env *env, const struct bench_job *job, uint64_t from,
			    unsigned char *bytes)
{
	struct bench_key text;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = mdb_txn_begin(env, NULL, 0, &txn);

	if (rc)
		return rc;
	bench_key_init(&text, job->suffix ? job->suffix : "");
	rc = mdb_dbi_open(txn, NULL, 0, &dbi);
	for (uint64_t i = from; i < from + RECORDS_A_TRANSACTION && i < job->records && !rc; i++) {
		MDB_val key = bench_key_set(&text, i);
		MDB_val value = {.mv_size = job->value_size, .mv_data = bytes};

		value_fill(bytes, job->value_size, i);
		rc = mdb_put(txn, dbi, &key, &value, MDB_APPEND);
	}
	if (!rc)
		return mdb_txn_commit(txn);
	mdb_txn_abort(txn);
	return rc;
}

int bench_make(const struct bench_job *job)
{
	/* In the worst case each record has pages of its own; the half on top is for the tree. */
	uint64_t each = job->value_size + KEY_ROOM + 4096;
	uint64_t mapsize = job->records * (each + each / 2) + ((uint64_t)64 << 20);
	unsigned char *bytes = malloc(job->value_size + 1);
	MDB_env *env;
	int rc;

	if (!bytes)
		return ENOMEM;
	rc = mdb_env_create(&env);
	if (rc) {
		free(bytes);
		return rc;
	}
	rc = mdb_env_set_mapsize(env, (mapsize + 0xfffff) & ~(uint64_t)0xfffff);
	if (!rc)
		rc = mdb_env_open(env, job->path, MDB_NOSYNC, 0644);
	for (uint64_t i = 0; i < job->records && !rc; i += RECORDS_A_TRANSACTION)
		rc = make_transaction(env, job, i, bytes);
	if (!rc)
		rc = mdb_env_sync(env, 1);
	mdb_env_close(env);
	free(bytes);
	return rc;
}
