/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what a random test database can be made of.
 *
 * A plan follows from (seed, number) alone, and the file from the plan: nothing is committed but
 * the recipe. The original LMDB writes the file.
 */
#ifndef TESTS_DB_MAKE_H
#define TESTS_DB_MAKE_H

#include <lmdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DB_TABLES_MAX = 8,	/* databases in one environment, the main one included */
	DB_NAME_SIZE = 512,	/* a name is a key: up to 511 bytes, and the NUL */
	DB_ITEM_SIZE = 5 << 20, /* no key or value is larger */
	DB_KEY_KINDS = 5,
	DB_DUP_KINDS = 9,
};

/* Which keys a table has. */
enum db_key_style { DB_KEYS_DECIMAL, DB_KEYS_BYTES, DB_KEYS_PREFIXED, DB_KEYS_LONGEST };

/* Which values a table without duplicates has. */
enum db_value_style { DB_VALUES_TINY, DB_VALUES_MIXED, DB_VALUES_HUGE };

struct db_table {
	bool is_main;
	bool custom_keys;   /* db_compare_keys instead of LMDB's own order */
	bool custom_items;  /* db_compare_items for the duplicates */
	bool emptied;	    /* filled, then mdb_drop(.., 0) */
	unsigned flags;	    /* MDB_DUPSORT ...: what stays in the file */
	unsigned key_bytes; /* 4 or 8 under MDB_INTEGERKEY, else 0 */
	unsigned
		dup_bytes; /* the size of every item under MDB_DUPFIXED or MDB_INTEGERDUP, else 0 */
	unsigned keys;
	unsigned most_dups; /* items of the one key that has most */
	enum db_key_style key_style;
	enum db_value_style value_style;
	uint64_t seed;
	char name[DB_NAME_SIZE]; /* "" for the main database */
};

struct db_plan {
	uint64_t seed, number;
	unsigned page_size; /* 512 .. 32768 */
	unsigned max_key;   /* the longest key and duplicate that this page size can hold */
	unsigned rounds;    /* of deletions and rewrites after the first filling */
	unsigned table_count;
	struct db_table table[DB_TABLES_MAX]; /* the main database first, if it has records */
};

/* The two orders of our own, for both libraries. They take items of any size. */
int db_compare_keys(const MDB_val *a, const MDB_val *b);
int db_compare_items(const MDB_val *a, const MDB_val *b);

/* The plan of database `number` of a run. Numbers 0 .. 314 go through every pair of a key kind and
 * a duplicate kind on every page size; the rest is drawn from the seed. */
void db_plan_make(struct db_plan *plan, uint64_t seed, uint64_t number);

/* Turns the plan into one with a single configuration: words like "dupsort,dupfixed,integerkey8,
 * customkeys,page512,named,keys3000,longest". Returns 0, or EINVAL and the word in *bad. */
int db_plan_restrict(struct db_plan *plan, const char *words, const char **bad);

/* One line about the plan. */
void db_plan_describe(const struct db_plan *plan, char *text, size_t room);

/* Key number k, item j of key k, value of key k in round `version`. Each writes at most
 * DB_ITEM_SIZE bytes to `bytes` and returns the size. */
size_t db_item_key(const struct db_plan *plan, const struct db_table *table, uint64_t k,
		   char *bytes);
size_t db_item_dup(const struct db_plan *plan, const struct db_table *table, uint64_t k, uint64_t j,
		   char *bytes);
size_t db_item_value(const struct db_plan *plan, const struct db_table *table, uint64_t k,
		     unsigned version, char *bytes);
/* How many items key k has in a table of duplicates: at least 1. */
unsigned db_item_dups(const struct db_table *table, uint64_t k);

/* Writes an environment without records and with pages of page_size bytes: the two meta pages that
 * the original would write on a machine with such pages. It takes the size over from the file.
 * Returns 0 or an errno. */
int db_make_empty(const char *directory, unsigned page_size, size_t map_size);

/* Makes directory/data.mdb (the directory exists, the file does not). Returns 0, an errno or the
 * original's code. */
int db_make(const struct db_plan *plan, const char *directory);

#endif
