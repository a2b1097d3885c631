/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs every sequence of three cursor operations on small databases of each kind, and every one of four operations
 * that are given no key, with the original and with lmdbio.
 *
 * Both must answer each operation alike: the code, and key and data or that they are left alone. What the original
 * answers from leftovers of memory (original_state.h) is not asked.
 */
#include "both_libraries.h"
#include "original_state.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	COUNT = 100,
	LENGTH = 3,
	LENGTH_WITHOUT_KEYS = 4,
	WORDS = 8,
	ACTIONS_MOST = 100,
	SHOWN = 12,
	MAP_SIZE = 4 << 20,
	VALUE_ROOM = 70000,
	GIVEN_ROOM = 512
};

/* A value is its text, followed by dots up to the size. */
struct record {
	const char *key, *value;
	size_t size; /* bytes */
	size_t more; /* values that follow, each with another last letter of the text */
};

/* A kind of database: its records, and the keys and values to ask for. */
static const struct kind {
	const char *name;
	unsigned flags;
	struct record records[WORDS];
	const char *keys[WORDS];
	struct record values[WORDS];
} kinds[] = {
	{"one leaf",
	 0,
	 {{"b", "1", 1500, 0},
	  {"d", "2", 1200, 0},
	  {"f", "3", 2500, 0},
	  {"h", "4", 70000, 0},
	  {"j", "5", 1, 0}},
	 {"a", "b", "c", "f", "j", "k"},
	 {{"", "1", 1, 0}}},
	{"leaves",
	 0,
	 {{"b", "1", 1300, 0},
	  {"d", "2", 1300, 0},
	  {"f", "3", 1300, 0},
	  {"h", "4", 1300, 0},
	  {"j", "5", 1300, 0},
	  {"l", "6", 1300, 0},
	  {"n", "7", 1300, 0}},
	 {"a", "b", "g", "h", "k", "n", "o"},
	 {{"", "1", 1, 0}}},
	{"empty", 0, {{0}}, {"a"}, {{"", "1", 1, 0}}},
	{"few duplicates",
	 MDB_DUPSORT,
	 {{"b", "1", 1, 0}, {"d", "a", 1, 2}, {"f", "a", 1, 1}, {"h", "1", 1, 0}},
	 {"a", "b", "d", "e", "f", "i"},
	 {{"", "1", 1, 0}, {"", "b", 1, 0}, {"", "bb", 2, 0}}},
	{"many duplicates",
	 MDB_DUPSORT,
	 {{"b", "a", 300, 2},
	  {"d", "a", 450, 15},
	  {"f", "1", 500, 0},
	  {"h", "a", 300, 3},
	  {"j", "a", 400, 3},
	  {"l", "a", 450, 11}},
	 {"a", "b", "d", "g", "h", "l", "m"},
	 {{"", "a", 450, 0}, {"", "f", 1, 0}, {"", "z", 1, 0}}},
	{"duplicates of one size",
	 MDB_DUPSORT | MDB_DUPFIXED,
	 {{"b", "1", 200, 0}, {"d", "a", 200, 2}, {"f", "a", 200, 25}, {"h", "1", 200, 0}},
	 {"a", "b", "d", "f", "i"},
	 {{"", "a", 200, 0}, {"", "c", 200, 0}, {"", "z", 200, 0}}},
	{"duplicates in reverse",
	 MDB_DUPSORT | MDB_REVERSEDUP | MDB_REVERSEKEY,
	 {{"b", "a", 8, 2}, {"ab", "a", 400, 7}, {"d", "1", 8, 0}},
	 {"b", "ab", "c", "d", "e"},
	 {{"", "a", 8, 0}, {"", "c", 400, 0}}},
	{"duplicates as long as numbers",
	 MDB_DUPSORT | MDB_DUPFIXED,
	 {{"b", "ab", 8, 0},
	  {"d", "ab", 8, 0},
	  {"d", "ba", 8, 0},
	  {"f", "ab", 8, 25},
	  {"f", "ba", 8, 25}},
	 {"b", "c", "d", "f"},
	 {{"", "ab", 8, 0}, {"", "ba", 8, 0}, {"", "b", 8, 0}}},
	{"duplicates that are numbers",
	 MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP,
	 {{"b", "a", 8, 0}, {"d", "a", 8, 2}, {"f", "a", 8, 25}},
	 {"b", "c", "d", "f"},
	 {{"", "a", 8, 0}, {"", "c", 8, 0}, {"", "z", 8, 0}}},
};

/* One call: a MDB_cursor_op or COUNT, with what it is given. */
struct action {
	int op;
	const char *key;
	MDB_val value;
	bool no_data;
};

struct side {
	const struct library *library;
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	MDB_cursor *cursor;
	MDB_val key, data;
	size_t count;
};

static struct side sides[2] = {{.library = &library_original}, {.library = &library_ours}};
static struct action actions[ACTIONS_MOST];
static char given[ACTIONS_MOST][GIVEN_ROOM]; /* the values of actions */
static unsigned action_count, differences;
static unsigned long long asked, left_out;

static void must(int rc, const char *what)
{
	if (rc == 0)
		return;
	printf("%s: %d\n", what, rc);
	exit(2);
}

static MDB_val value_of(const struct record *record, size_t nth)
{
	static char bytes[VALUE_ROOM];
	size_t length = strlen(record->value);

	memset(bytes, '.', sizeof bytes);
	memcpy(bytes, record->value, length);
	bytes[length - 1] = (char)(bytes[length - 1] + (char)nth);
	return (MDB_val){record->size, bytes};
}

static MDB_env *open_env(const struct library *library, const char *path, unsigned flags)
{
	MDB_env *env;

	must(library->mdb_env_create(&env), "mdb_env_create");
	must(library->mdb_env_set_maxdbs(env, 16), "mdb_env_set_maxdbs");
	if (!(flags & MDB_RDONLY))
		must(library->mdb_env_set_mapsize(env, MAP_SIZE), "mdb_env_set_mapsize");
	must(library->mdb_env_open(env, path, flags | MDB_NOSUBDIR | MDB_NOLOCK, 0600),
	     "mdb_env_open");
	return env;
}

static void make(const char *path)
{
	MDB_env *env = open_env(&library_original, path, MDB_NOSYNC);
	MDB_txn *txn;
	MDB_dbi dbi;

	must(library_original.mdb_txn_begin(env, NULL, 0, &txn), "mdb_txn_begin");
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		must(library_original.mdb_dbi_open(txn, kinds[k].name, kinds[k].flags | MDB_CREATE,
						   &dbi),
		     "mdb_dbi_open");
		for (const struct record *record = kinds[k].records; record->key; record++)
			for (size_t i = 0; i <= record->more; i++) {
				MDB_val key = {strlen(record->key), (void *)(uintptr_t)record->key};
				MDB_val value = value_of(record, i);

				must(library_original.mdb_put(txn, dbi, &key, &value, 0),
				     "mdb_put");
			}
	}
	must(library_original.mdb_txn_commit(txn), "mdb_txn_commit");
	library_original.mdb_env_close(env);
}

static void add(int op, const char *key, const struct record *value, bool no_data)
{
	struct action *action = &actions[action_count];

	if (action_count == ACTIONS_MOST) {
		printf("too many actions\n");
		exit(2);
	}
	*action = (struct action){op, key, {0}, no_data};
	if (value)
		action->value =
			(MDB_val){value->size, memcpy(given[action_count],
						      value_of(value, 0).mv_data, value->size)};
	action_count++;
}

/* All that may be asked of a database of this kind. */
static void make_actions(const struct kind *kind)
{
	static const MDB_cursor_op seeks[] = {MDB_SET, MDB_SET_KEY, MDB_SET_RANGE};
	static const MDB_cursor_op blind[] = {MDB_FIRST,    MDB_LAST,       MDB_NEXT,
					      MDB_PREV,     MDB_NEXT_NODUP, MDB_PREV_NODUP,
					      MDB_NEXT_DUP, MDB_PREV_DUP,   MDB_GET_CURRENT};

	action_count = 0;
	add(COUNT, NULL, NULL, false);
	for (int op = MDB_FIRST; op <= MDB_PREV_MULTIPLE; op++)
		if (op < MDB_SET && op != MDB_GET_BOTH && op != MDB_GET_BOTH_RANGE)
			add(op, NULL, NULL, false);
	add(MDB_PREV_MULTIPLE, NULL, NULL, false);
	for (size_t i = 0; i < sizeof blind / sizeof *blind; i++)
		add(blind[i], NULL, NULL, true);
	for (size_t k = 0; k < WORDS && kind->keys[k]; k++) {
		for (size_t i = 0; i < sizeof seeks / sizeof *seeks; i++)
			add(seeks[i], kind->keys[k], NULL, false);
		add(MDB_SET, kind->keys[k], NULL, true);
		for (size_t v = 0; v < WORDS && kind->values[v].key; v++) {
			add(MDB_GET_BOTH, kind->keys[k], &kind->values[v], false);
			add(MDB_GET_BOTH_RANGE, kind->keys[k], &kind->values[v], false);
		}
	}
}

static int act(struct side *side, const struct action *action)
{
	side->key =
		(MDB_val){action->key ? strlen(action->key) : 0, (void *)(uintptr_t)action->key};
	side->data = action->value;
	side->count = 0;
	if (action->op == COUNT)
		return side->library->mdb_cursor_count(side->cursor, &side->count);
	return side->library->mdb_cursor_get(side->cursor, &side->key,
					     action->no_data ? NULL : &side->data,
					     (MDB_cursor_op)action->op);
}

/* Values are of two maps of one file: the same bytes elsewhere. What was not filled is the caller's still. */
static bool same(const MDB_val *a, const MDB_val *b, const void *caller)
{
	return a->mv_size == b->mv_size && (a->mv_data == caller) == (b->mv_data == caller) &&
	       (!a->mv_size || !memcmp(a->mv_data, b->mv_data, a->mv_size));
}

static void show(const struct kind *kind, const struct action *const sequence[], unsigned length,
		 const int rc[2])
{
	if (differences++ >= SHOWN)
		return;
	printf("%s:", kind->name);
	for (unsigned i = 0; i < length; i++)
		printf(" op %d%s%s%s%s%s", sequence[i]->op, sequence[i]->key ? " key " : "",
		       sequence[i]->key ?: "", sequence[i]->value.mv_data ? " value " : "",
		       sequence[i]->value.mv_data ? (char[]){*(char *)sequence[i]->value.mv_data, 0}
						  : "",
		       sequence[i]->no_data ? " without data" : "");
	printf(": the original answers %d", rc[0]);
	for (int i = 0; i < 2; i++)
		printf("%s %d \"%.*s\" \"%.*s\" (%zu bytes), %zu values", i ? ", lmdbio" : "",
		       rc[i], (int)(rc[i] || sides[i].key.mv_size > 9 ? 0 : sides[i].key.mv_size),
		       (char *)sides[i].key.mv_data,
		       (int)(rc[i]                       ? 0
			     : sides[i].data.mv_size > 4 ? 4
							 : sides[i].data.mv_size),
		       (char *)sides[i].data.mv_data, sides[i].data.mv_size, sides[i].count);
	printf("\n");
}

/* Runs a sequence on fresh cursors. Returns at which operation it ended: one that is left out, or one that differs. */
static unsigned run(const struct kind *kind, const struct action *const sequence[], unsigned length)
{
	bool prepared = false;
	unsigned at;

	for (int i = 0; i < 2; i++)
		must(sides[i].library->mdb_cursor_open(sides[i].txn, sides[i].dbi,
						       &sides[i].cursor),
		     "mdb_cursor_open");
	for (at = 0; at < length; at++) {
		const struct action *action = sequence[at];
		bool fresh = !original_state_positioned(sides[0].cursor), agree;
		int rc[2];

		if (action->op == COUNT
			    ? original_state_forbids_count(sides[0].cursor)
			    : original_state_forbids(sides[0].cursor, (MDB_cursor_op)action->op,
						     action->no_data, prepared)) {
			left_out++;
			break;
		}
		for (int i = 0; i < 2; i++)
			rc[i] = act(&sides[i], action);
		asked++;
		agree = rc[0] == rc[1] && sides[0].count == sides[1].count &&
			(rc[0] || (same(&sides[0].key, &sides[1].key, action->key) &&
				   same(&sides[0].data, &sides[1].data, action->value.mv_data)));
		if (!agree) {
			show(kind, sequence, at + 1, rc);
			break;
		}
		if (action->op != COUNT)
			prepared = original_state_prepared(prepared, (MDB_cursor_op)action->op,
							   fresh, action->no_data, false, rc[0]);
	}
	for (int i = 0; i < 2; i++)
		sides[i].library->mdb_cursor_close(sides[i].cursor);
	return at;
}

/* Every sequence of the first `count` actions. The array is the odometer of the sequence's places. */
static void run_all(const struct kind *kind, unsigned length, unsigned count)
{
	unsigned at[LENGTH_WITHOUT_KEYS] = {0};

	while (at[0] < count) {
		const struct action *sequence[LENGTH_WITHOUT_KEYS];
		unsigned done;

		for (unsigned i = 0; i < length; i++)
			sequence[i] = &actions[at[i]];
		/* Where one ends early, all that begin as it does end there. */
		done = run(kind, sequence, length);
		if (done >= length)
			done = length - 1;
		memset(&at[done + 1], 0, (length - done - 1) * sizeof *at);
		while (++at[done] == count && done > 0)
			at[done--] = 0;
	}
}

static void compare_kind(const struct kind *kind)
{
	unsigned without_keys = 0;

	make_actions(kind);
	while (without_keys < action_count && !actions[without_keys].key &&
	       !actions[without_keys].no_data)
		without_keys++;
	for (int i = 0; i < 2; i++)
		must(sides[i].library->mdb_dbi_open(sides[i].txn, kind->name, 0, &sides[i].dbi),
		     "mdb_dbi_open");
	run_all(kind, LENGTH, action_count);
	run_all(kind, LENGTH_WITHOUT_KEYS, without_keys);
}

int main(void)
{
	const char *temporary = getenv("TMPDIR"), *wrong;
	char directory[900], path[1000];

	snprintf(directory, sizeof directory, "%.800s/lmdbio-states.XXXXXX",
		 temporary ? temporary : "/tmp");
	if (!mkdtemp(directory)) {
		perror(directory);
		return 2;
	}
	wrong = original_state_check(directory);
	if (wrong) {
		printf("this original keeps its state in another way: %s\n", wrong);
		return 2;
	}
	snprintf(path, sizeof path, "%s/db", directory);
	make(path);
	for (int i = 0; i < 2; i++) {
		sides[i].env = open_env(sides[i].library, path, MDB_RDONLY);
		must(sides[i].library->mdb_txn_begin(sides[i].env, NULL, MDB_RDONLY, &sides[i].txn),
		     "mdb_txn_begin");
	}
	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
		compare_kind(&kinds[k]);
	for (int i = 0; i < 2; i++) {
		sides[i].library->mdb_txn_abort(sides[i].txn);
		sides[i].library->mdb_env_close(sides[i].env);
	}
	unlink(path);
	rmdir(directory);
	printf("%llu operations, %llu left out, %u differences\n", asked, left_out, differences);
	return differences != 0;
}
