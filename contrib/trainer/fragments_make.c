/* SPDX-License-Identifier: OLDAP-2.8 */
/* Turns files into a data set of fragments with a class each.
 *
 * Standard input has a line for each file: its class (a number), a blank, its path. The program
 * takes up to 16 fragments of 4096 bytes of each file, evenly spread, and up to MOST of each class.
 * A key is the class (two digits), a slash and a running number (eight digits). So the data set is
 * sorted by class, as many data sets are. Every TENTH fragment goes to a second data set, for
 * testing.
 */
#include <errno.h>
#include <lmdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FRAGMENT = 4096, FROM_A_FILE = 16, CLASSES = 100, TENTH = 10 };

struct set {
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
};

static void check(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "fragments_make: %s: %s\n", what, mdb_strerror(rc));
	exit(1);
}

static void set_open(struct set *set, const char *path)
{
	check(mkdir(path, 0777) ? errno : 0, path);
	check(mdb_env_create(&set->env), path);
	check(mdb_env_set_mapsize(set->env, (size_t)4 << 30), path);
	check(mdb_env_open(set->env, path, MDB_NOSYNC, 0666), path);
	check(mdb_txn_begin(set->env, NULL, 0, &set->txn), path);
	check(mdb_dbi_open(set->txn, NULL, 0, &set->dbi), path);
}

static void set_close(struct set *set)
{
	check(mdb_txn_commit(set->txn), "commit");
	check(mdb_env_sync(set->env, 1), "sync");
	mdb_env_close(set->env);
}

static void put(struct set *set, unsigned class, unsigned number, uint8_t *bytes)
{
	char name[24];
	MDB_val key = {.mv_data = name}, data = {FRAGMENT, bytes};

	key.mv_size = (size_t)snprintf(name, sizeof(name), "%02u/%08u", class, number);
	check(mdb_put(set->txn, set->dbi, &key, &data, 0), "mdb_put");
}

int main(int argc, char **argv)
{
	unsigned counts[CLASSES] = {0}, class, most;
	uint8_t bytes[FRAGMENT];
	char path[4096];
	struct set sets[2];

	if (argc != 4 || !(most = (unsigned)strtoul(argv[1], NULL, 10))) {
		fprintf(stderr, "usage: fragments_make MOST TRAIN TEST < list\n");
		return 2;
	}
	set_open(&sets[0], argv[2]);
	set_open(&sets[1], argv[3]);
	while (scanf("%u %4095[^\n]", &class, path) == 2) {
		FILE *file = class < CLASSES && counts[class] < most ? fopen(path, "rb") : NULL;
		long size = file && !fseek(file, 0, SEEK_END) ? ftell(file) / FRAGMENT : 0;
		long step = size / FROM_A_FILE + 1;

		for (long i = 0; i < size && counts[class] < most; i += step)
			if (!fseek(file, i * FRAGMENT, SEEK_SET) &&
			    fread(bytes, FRAGMENT, 1, file) == 1) {
				unsigned number = counts[class]++;

				put(&sets[number % TENTH == 0], class, number, bytes);
			}
		if (file)
			fclose(file);
	}
	set_close(&sets[0]);
	set_close(&sets[1]);
	return 0;
}
