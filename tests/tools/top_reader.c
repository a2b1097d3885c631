/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a data set of its own making for a while, then in rounds that its standard input asks for. */
#include <errno.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RECORDS = 600, VALUE = 20000 };

static void must(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "top_reader: %s: %s\n", what, mdb_strerror(rc));
	exit(1);
}

static void make(const char *path)
{
	static char bytes[VALUE];
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	must(mdb_env_create(&env), "create");
	must(mdb_env_set_mapsize(env, 64 << 20), "map size");
	must(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOSYNC, 0600), path);
	must(mdb_txn_begin(env, NULL, 0, &txn), "begin");
	must(mdb_dbi_open(txn, NULL, 0, &dbi), "database");
	for (unsigned i = 0; i < RECORDS; i++) {
		MDB_val key = {sizeof(i), &i}, value = {sizeof(bytes), bytes};

		memset(bytes, (int)i, sizeof(bytes));
		must(mdb_put(txn, dbi, &key, &value, 0), "put");
	}
	must(mdb_txn_commit(txn), "commit");
	mdb_env_close(env);
}

static unsigned long round_read(MDB_env *env)
{
	MDB_val key, value;
	MDB_cursor *cursor;
	unsigned long sum = 0;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc;

	must(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "begin");
	must(mdb_dbi_open(txn, NULL, 0, &dbi), "database");
	must(mdb_cursor_open(txn, dbi, &cursor), "cursor");
	while (!(rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)))
		sum += ((const unsigned char *)value.mv_data)[value.mv_size - 1];
	if (rc != MDB_NOTFOUND)
		must(rc, "read");
	mdb_cursor_close(cursor);
	mdb_txn_abort(txn);
	return sum;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* A process that finds all in memory is shown from a tenth of a second after its open. */
static unsigned long while_read(MDB_env *env)
{
	const double while_long = 0.2, opened = seconds();
	unsigned long sum = 0;
	double began;

	do {
		began = seconds();
		sum += round_read(env);
	} while (began - opened < while_long);
	return sum;
}

/* Each byte of standard input is a round. */
int main(int argc, char **argv)
{
	unsigned long sum;
	MDB_env *env;
	char word;

	if (argc != 3)
		return 2;
	/* What lmdbio calls this program. */
	program_invocation_short_name = argv[2];
	make(argv[1]);
	must(mdb_env_create(&env), "create");
	must(mdb_env_open(env, argv[1], MDB_NOSUBDIR | MDB_RDONLY, 0), argv[1]);
	sum = while_read(env);
	printf("ready\n");
	fflush(stdout);
	while (read(STDIN_FILENO, &word, 1) == 1) {
		sum += round_read(env);
		printf("round\n");
		fflush(stdout);
	}
	mdb_env_close(env);
	return sum == 1;
}
