/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which databases a seed stands for. */
#include "db_make.h"
#include "random_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const unsigned page_sizes[] = {512, 1024, 2048, 4096, 8192, 16384, 32768};
static const unsigned fixed_sizes[] = {1, 2, 3, 4, 8, 16, 33, 100};

/* A node must leave room for a second one, and a key with many duplicates carries a 48-byte
 * record: LMDB's own limit of 511 bytes is made for pages of 4 KiB. */
static unsigned longest_key(unsigned page_size)
{
	unsigned node_max = (((page_size - 16) / 2) & ~1u) - 2;
	unsigned limit = node_max - 8 - 48;

	return limit < 511 ? limit : 511;
}

static void table_keys(struct db_table *table, unsigned kind)
{
	static const struct {
		unsigned flags, bytes;
		bool custom;
	} kinds[DB_KEY_KINDS] = {
		{0, 0, false},
		{MDB_REVERSEKEY, 0, false},
		{MDB_INTEGERKEY, 4, false},
		{MDB_INTEGERKEY, 8, false},
		{0, 0, true},
	};

	table->flags |= kinds[kind].flags;
	table->key_bytes = kinds[kind].bytes;
	table->custom_keys = kinds[kind].custom;
}

static void table_dups(struct db_table *table, unsigned kind, struct random_stream *random)
{
	static const struct {
		unsigned flags, bytes;
		bool custom;
	} kinds[DB_DUP_KINDS] = {
		{0, 0, false},
		{MDB_DUPSORT, 0, false},
		{MDB_DUPSORT | MDB_REVERSEDUP, 0, false},
		{MDB_DUPSORT | MDB_DUPFIXED, 1, false},
		{MDB_DUPSORT | MDB_DUPFIXED | MDB_REVERSEDUP, 1, false},
		{MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, 4, false},
		{MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, 8, false},
		{MDB_DUPSORT | MDB_INTEGERDUP, 8, false},
		{MDB_DUPSORT, 0, true},
	};

	table->flags |= kinds[kind].flags;
	table->dup_bytes = kinds[kind].bytes;
	table->custom_items = kinds[kind].custom;
	if (table->dup_bytes == 1)
		table->dup_bytes = fixed_sizes[random_below(random, 8)];
	if (kind == 7 && random_percent(random, 50))
		table->dup_bytes = 4;
}

/* How much goes into a table: enough for several levels, little enough for many databases. */
static void table_size(const struct db_plan *plan, struct db_table *table,
		       struct random_stream *random)
{
	unsigned roll = (unsigned)random_below(random, 100);
	unsigned by_page = 2000000 / plan->page_size;

	table->key_style = (enum db_key_style)random_below(random, 4);
	table->value_style = roll < 55	 ? DB_VALUES_TINY
			     : roll < 93 ? DB_VALUES_MIXED
					 : DB_VALUES_HUGE;
	table->keys = (unsigned)random_between(random, 100, 2500);
	if (roll % 11 == 0)
		table->keys = (unsigned)random_below(random, 4);
	if (table->value_style == DB_VALUES_MIXED && table->keys > by_page / 2 + 20)
		table->keys = by_page / 2 + 20;
	if (table->value_style == DB_VALUES_MIXED && table->keys > 700)
		table->keys = 700;
	if (table->value_style == DB_VALUES_HUGE)
		table->keys = (unsigned)random_between(random, 1, 12);
	if (table->flags & MDB_DUPSORT) {
		table->keys = table->keys > 250 ? 250 : table->keys;
		table->most_dups = (unsigned)random_between(random, 10, 3000);
	}
	table->emptied = random_percent(random, 4);
	table->seed = random_next(random);
}

static void table_name(const struct db_plan *plan, struct db_table *table, unsigned number,
		       struct random_stream *random)
{
	size_t length = (size_t)snprintf(table->name, sizeof table->name, "db%u", number);
	size_t wanted = length;

	if (random_percent(random, 25))
		wanted = plan->max_key;
	else if (random_percent(random, 40))
		wanted = length + random_below(random, 30);
	while (length < wanted)
		table->name[length++] = (char)('a' + random_below(random, 26));
	table->name[length] = '\0';
}

void db_plan_make(struct db_plan *plan, uint64_t seed, uint64_t number)
{
	struct random_stream random = random_start(seed, number);
	unsigned shape = (unsigned)random_below(&random, 100);
	unsigned named = (unsigned)random_between(&random, 1, DB_TABLES_MAX - 2);
	struct db_table *table = plan->table;

	memset(plan, 0, sizeof *plan);
	plan->seed = seed;
	plan->number = number;
	plan->page_size = page_sizes[number % 7];
	plan->max_key = longest_key(plan->page_size);
	plan->rounds = (unsigned)random_below(&random, 5);
	if (shape < 2) /* nothing but the meta pages */
		return;

	/* the main database: alone with every kind of flag, or plain beside named ones */
	table->is_main = true;
	if (shape < 45) {
		table_keys(table, (unsigned)(number % DB_KEY_KINDS));
		table_dups(table, (unsigned)(number / DB_KEY_KINDS % DB_DUP_KINDS), &random);
		named = 0;
	} else if (shape < 60) {
		table_keys(table, random_percent(&random, 50) ? 1 : 4);
	}
	table_size(plan, table, &random);
	if (shape < 5)
		table->keys = 1;
	if (named && random_percent(&random, 50))
		table->keys = (unsigned)random_below(&random, 20);
	if (named) /* a drop would take the named ones along */
		table->emptied = false;
	plan->table_count = 1;

	for (unsigned i = 0; i < named; i++) {
		table = &plan->table[plan->table_count++];
		table_keys(table, (unsigned)((number + i) % DB_KEY_KINDS));
		table_dups(table, (unsigned)(((number + i) / DB_KEY_KINDS + i) % DB_DUP_KINDS),
			   &random);
		table_size(plan, table, &random);
		table_name(plan, table, i, &random);
		if (random_percent(&random, 8))
			table->keys = 0;
	}
}

static const struct {
	const char *word;
	unsigned flag, key_bytes, dup_bytes;
} flag_words[] = {
	{"reversekey", MDB_REVERSEKEY, 0, 0},
	{"integerkey4", MDB_INTEGERKEY, 4, 0},
	{"integerkey8", MDB_INTEGERKEY, 8, 0},
	{"dupsort", MDB_DUPSORT, 0, 0},
	{"dupfixed", MDB_DUPSORT | MDB_DUPFIXED, 0, 16},
	{"integerdup4", MDB_DUPSORT | MDB_INTEGERDUP, 0, 4},
	{"integerdup8", MDB_DUPSORT | MDB_INTEGERDUP, 0, 8},
	{"reversedup", MDB_DUPSORT | MDB_REVERSEDUP, 0, 0},
};

/* 1: the word was one of the flags. */
static int restrict_flag(struct db_table *table, const char *word)
{
	for (size_t i = 0; i < sizeof flag_words / sizeof *flag_words; i++) {
		if (strcmp(word, flag_words[i].word) != 0)
			continue;
		table->flags |= flag_words[i].flag;
		if (flag_words[i].key_bytes)
			table->key_bytes = flag_words[i].key_bytes;
		if (flag_words[i].dup_bytes)
			table->dup_bytes = flag_words[i].dup_bytes;
		return 1;
	}
	return 0;
}

static int restrict_word(struct db_plan *plan, struct db_table *table, const char *word)
{
	char *end;

	if (restrict_flag(table, word))
		return 0;
	if (strcmp(word, "plain") == 0)
		return 0;
	if (strcmp(word, "customkeys") == 0)
		table->custom_keys = true;
	else if (strcmp(word, "customitems") == 0)
		table->custom_items = true;
	else if (strcmp(word, "longest") == 0)
		table->key_style = DB_KEYS_LONGEST;
	else if (strcmp(word, "mixed") == 0)
		table->value_style = DB_VALUES_MIXED;
	else if (strcmp(word, "huge") == 0)
		table->value_style = DB_VALUES_HUGE;
	else if (strcmp(word, "named") == 0)
		table->is_main = false;
	else if (strncmp(word, "page", 4) == 0)
		plan->page_size = (unsigned)strtoul(word + 4, &end, 10);
	else if (strncmp(word, "keys", 4) == 0)
		table->keys = (unsigned)strtoul(word + 4, &end, 10);
	else if (strncmp(word, "dups", 4) == 0)
		table->most_dups = (unsigned)strtoul(word + 4, &end, 10);
	else if (strncmp(word, "rounds", 6) == 0)
		plan->rounds = (unsigned)strtoul(word + 6, &end, 10);
	else
		return EINVAL;
	return plan->page_size >= 512 && plan->page_size <= 32768 ? 0 : EINVAL;
}

int db_plan_restrict(struct db_plan *plan, const char *words, const char **bad)
{
	static char copy[512];
	struct db_table *table = plan->table;
	char *rest = copy, *word;

	memset(table, 0, sizeof *table);
	plan->table_count = 1;
	plan->page_size = 4096;
	table->is_main = true;
	table->keys = 1000;
	table->most_dups = 1000;
	table->seed = random_mix(plan->seed);
	snprintf(copy, sizeof copy, "%s", words);
	while ((word = strsep(&rest, ",")) != NULL) {
		*bad = word;
		if (restrict_word(plan, table, word) != 0)
			return EINVAL;
	}
	plan->max_key = longest_key(plan->page_size);
	if (!table->is_main) {
		snprintf(table->name, sizeof table->name, "named");
		plan->table[1] = *table;
		memset(table, 0, sizeof *table);
		table->is_main = true;
		plan->table_count = 2;
	}
	return 0;
}

void db_plan_describe(const struct db_plan *plan, char *text, size_t room)
{
	size_t used =
		(size_t)snprintf(text, room, "seed %llu number %llu: pages of %u, %u rounds",
				 (unsigned long long)plan->seed, (unsigned long long)plan->number,
				 plan->page_size, plan->rounds);

	for (unsigned i = 0; i < plan->table_count && used < room; i++) {
		const struct db_table *table = &plan->table[i];

		used += (size_t)snprintf(text + used, room - used, "; %s%.12s",
					 table->is_main ? "main" : "", table->name);
		for (size_t f = 0; f < sizeof flag_words / sizeof *flag_words && used < room; f++) {
			bool sized = flag_words[f].key_bytes != 0 ||
				     (flag_words[f].flag & MDB_INTEGERDUP);
			unsigned bytes =
				flag_words[f].key_bytes ? table->key_bytes : table->dup_bytes;
			unsigned wanted = flag_words[f].key_bytes + flag_words[f].dup_bytes;

			if ((table->flags & flag_words[f].flag) == flag_words[f].flag &&
			    (!sized || bytes == wanted))
				used += (size_t)snprintf(text + used, room - used, " %s",
							 flag_words[f].word);
		}
		if (used < room)
			used += (size_t)snprintf(text + used, room - used, "%s%s %u keys%s",
						 table->custom_keys ? " customkeys" : "",
						 table->custom_items ? " customitems" : "",
						 table->keys, table->emptied ? " emptied" : "");
	}
}
