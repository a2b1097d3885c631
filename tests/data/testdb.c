/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lmdbio-testdb's command line: it makes one test database. */
#include "db_make.h"
#include "later_make.h"
#include "origin/origin.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static void usage(FILE *out)
{
	fprintf(out,
		"usage: lmdbio-testdb [--seed=N] [--number=N] [--flags=WORDS] [--later [--sums] |\n"
		"                      --larger] DIRECTORY\n"
		"       lmdbio-testdb --later=FILE [--sums] DIRECTORY\n"
		"       lmdbio-testdb --larger=FILE DIRECTORY\n"
		"Makes DIRECTORY/data.mdb, a random LMDB environment, and tells what is in it.\n"
		"  --seed=N       of the run (1)\n"
		"  --number=N     of the database in that run (0)\n"
		"  --flags=WORDS  one database of this kind instead, for example\n"
		"                 "
		"dupsort,dupfixed,integerkey8,page512,named,keys3000,longest,mixed\n"
		"  --later        in the format of LMDB 1.0, in pages twice as large\n"
		"  --sums         ... which end with the 64-bit FNV-1a of their bytes\n"
		"  --larger       in pages twice as large of LMDB 0.9\n"
		"  --later=FILE, --larger=FILE  the same, with the content of a data file of LMDB 0.9\n");
}

static int print_tables(const struct db_plan *plan, const char *directory)
{
	MDB_env *env = NULL;
	MDB_txn *txn = NULL;
	MDB_dbi dbi;
	MDB_stat stat;
	int rc = lmdbio_orig_mdb_env_create(&env);

	if (rc != 0)
		return rc;
	rc = lmdbio_orig_mdb_env_set_maxdbs(env, DB_TABLES_MAX);
	if (rc == 0)
		rc = lmdbio_orig_mdb_env_open(env, directory, MDB_RDONLY | MDB_NOLOCK, 0);
	if (rc == 0)
		rc = lmdbio_orig_mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
	for (unsigned t = 0; t < plan->table_count && rc == 0; t++) {
		const struct db_table *table = &plan->table[t];

		rc = lmdbio_orig_mdb_dbi_open(txn, NULL, 0, &dbi);
		if (rc == 0 && plan->table[0].custom_keys)
			rc = lmdbio_orig_mdb_set_compare(txn, dbi, db_compare_keys);
		if (rc == 0 && !table->is_main)
			rc = lmdbio_orig_mdb_dbi_open(txn, table->name, 0, &dbi);
		if (rc == 0)
			rc = lmdbio_orig_mdb_stat(txn, dbi, &stat);
		if (rc == 0)
			printf("%s: %zu entries, depth %u, %zu branch, %zu leaf, %zu overflow "
			       "pages of %u\n",
			       table->is_main ? "(main)" : table->name, stat.ms_entries,
			       stat.ms_depth, stat.ms_branch_pages, stat.ms_leaf_pages,
			       stat.ms_overflow_pages, stat.ms_psize);
	}
	if (txn)
		lmdbio_orig_mdb_txn_abort(txn);
	lmdbio_orig_mdb_env_close(env);
	return rc;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"seed", required_argument, NULL, 's'},  {"number", required_argument, NULL, 'n'},
		{"flags", required_argument, NULL, 'f'}, {"later", optional_argument, NULL, 'l'},
		{"sums", no_argument, NULL, 'c'},        {"larger", optional_argument, NULL, 'e'},
		{"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0},
	};
	static struct db_plan plan;
	static char line[4096];
	const char *flags = NULL, *content = NULL, *bad;
	uint64_t seed = 1, number = 0;
	struct later_how how = {.sums = false};
	char file[1100];
	bool later = false;
	int option, rc;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (option == 'n')
			number = strtoull(optarg, NULL, 0);
		else if (option == 'f')
			flags = optarg;
		else if (option == 'l')
			later = true, content = optarg;
		else if (option == 'c')
			later = how.sums = true;
		else if (option == 'e')
			later = how.earlier = true, content = optarg;
		else {
			usage(option == 'h' ? stdout : stderr);
			return option == 'h' ? 0 : 2;
		}
	}
	if (optind + 1 != argc || (how.sums && how.earlier)) {
		usage(stderr);
		return 2;
	}
	db_plan_make(&plan, seed, number);
	if (flags && db_plan_restrict(&plan, flags, &bad) != 0) {
		fprintf(stderr, "lmdbio-testdb: %s: not a word of --flags\n", bad);
		return 2;
	}
	mkdir(argv[optind], 0755); /* db_make tells if there is none */
	snprintf(file, sizeof file, "%.1000s/data.mdb", argv[optind]);
	rc = content ? later_make_as(content, file, how) : db_make(&plan, argv[optind]);
	if (rc == 0 && !content) {
		db_plan_describe(&plan, line, sizeof line);
		printf("%s\n", line);
		rc = print_tables(&plan, argv[optind]);
	}
	if (rc == 0 && later && !content)
		rc = later_make_as(file, file, how);
	if (rc != 0)
		fprintf(stderr, "lmdbio-testdb: %s: %s\n", argv[optind],
			lmdbio_orig_mdb_strerror(rc));
	return rc == 0 ? 0 : 1;
}
