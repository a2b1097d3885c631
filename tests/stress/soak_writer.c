/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes a data set of the soak with the system's LMDB: makes it, or commits at each line of
 * standard input. */
#include "soak_data.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAP_BYTES = 1 << 30 };

struct writing {
	struct soak_data data;
	uint64_t generation;
	MDB_env *env;
	MDB_dbi dbi;
};

static int put(struct writing *writing, MDB_txn *txn, uint32_t record)
{
	static uint64_t room[SOAK_VALUE_MOST / sizeof(uint64_t)];
	struct soak_key text;
	MDB_val key = soak_key(&text, record);
	MDB_val value =
		soak_value(&writing->data, record, writing->generation, mdb_txn_id(txn), room);

	return mdb_put(txn, writing->dbi, &key, &value, 0);
}

/* One commit; *id: its number. */
static int commit(struct writing *writing, uint64_t *id)
{
	MDB_txn *txn;
	int rc = mdb_txn_begin(writing->env, NULL, 0, &txn);

	if (rc)
		return rc;
	*id = mdb_txn_id(txn);
	rc = mdb_dbi_open(txn, NULL, 0, &writing->dbi);
	for (uint32_t i = 0; i < writing->data.records && !rc; i++)
		if (soak_is_written(i, *id))
			rc = put(writing, txn, i);
	if (!rc)
		return mdb_txn_commit(txn);
	mdb_txn_abort(txn);
	return rc;
}

/* Commits at each line, and says the number of each commit. The slots of killed readers are freed
 * first, or their snapshots would be kept. */
static int serve(struct writing *writing)
{
	char line[16];
	uint64_t id;
	int rc = 0, dead;

	while (!rc && fgets(line, sizeof(line), stdin)) {
		rc = mdb_reader_check(writing->env, &dead);
		if (!rc)
			rc = commit(writing, &id);
		if (!rc)
			printf("%llu\n", (unsigned long long)id);
		fflush(stdout);
	}
	return rc;
}

int main(int argc, char **argv)
{
	struct writing writing = {.env = NULL};
	uint64_t id;
	MDB_stat stat;
	int rc;

	if (argc != 5) {
		fprintf(stderr, "usage: soak_writer DIRECTORY RECORDS SEED GENERATION\n"
				"GENERATION 0 goes on: commits at each line of standard input.\n");
		return 2;
	}
	writing.data = (struct soak_data){.records = (uint32_t)strtoul(argv[2], NULL, 0),
					  .seed = strtoull(argv[3], NULL, 0)};
	writing.generation = strtoull(argv[4], NULL, 0);
	rc = mdb_env_create(&writing.env);
	if (!rc)
		rc = mdb_env_set_mapsize(writing.env, MAP_BYTES);
	if (!rc)
		rc = mdb_env_open(writing.env, argv[1], MDB_NOSYNC, 0644);
	if (!rc)
		rc = mdb_env_stat(writing.env, &stat);
	if (!rc && !stat.ms_entries)
		rc = commit(&writing, &id);
	if (!rc && writing.generation)
		rc = mdb_env_sync(writing.env, 1); /* its pages can be given up */
	if (!rc && !writing.generation) {
		printf("ready\n");
		fflush(stdout);
		rc = serve(&writing);
	}
	mdb_env_close(writing.env);
	if (rc)
		fprintf(stderr, "soak_writer: %s: %s\n", argv[1], mdb_strerror(rc));
	return rc != 0;
}
