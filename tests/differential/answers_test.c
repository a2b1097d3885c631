/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads that releases of LMDB 0.9 answer differently: the original and lmdbio must both give the
 * answer that doc/lmdb-versions.md has for the original's release.
 */
#include "both_libraries.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 100, END = -1, STEPS_MOST = 6, MANY = 600, FIXED_SIZE = 4, TEXT_ROOM = 300,
       LOCK_FRONT = 48 /* bytes: before the first mutex, and it */ };

/* One call on a cursor: a MDB_cursor_op, or COUNT for mdb_cursor_count(). */
struct step {
	int op;
	const char *key;
	bool no_data;
};

/* What one library says, step by step. */
struct answer {
	const struct library *library;
	char text[TEXT_ROOM];
	size_t used;
};

/* The databases: key "a" has one value, "b" has three, or so many that they are a tree. */
static const struct {
	const char *name;
	unsigned flags, values;
} databases[] = {
	{"few", MDB_DUPSORT, 3},
	{"many", MDB_DUPSORT, MANY},
	{"fixed", MDB_DUPSORT | MDB_DUPFIXED, MANY},
};

#define PLAIN(op)		 {op, NULL, false}
#define ON_KEY(op, key)		 {op, key, false}
#define WITHOUT_DATA(op, key)	 {op, key, true}
#define COUNT_VALUES		 PLAIN(COUNT)
#define END_OF_STEPS		 PLAIN(END)

static const struct cursor_case {
	const char *name, *database;
	struct step steps[STEPS_MOST];
	int since; /* the release that changed the answer */
	const char *before, *after;
} cursor_cases[] = {
	{"PREV_DUP of a fresh cursor",
	 "few",
	 {PLAIN(MDB_PREV_DUP),
	  END_OF_STEPS},
	 27,
	 "NOTFOUND",
	 "b=0003"},
	{"PREV_DUP of a fresh cursor",
	 "many",
	 {PLAIN(MDB_PREV_DUP),
	  PLAIN(MDB_GET_CURRENT),
	  END_OF_STEPS},
	 27,
	 "NOTFOUND, NOTFOUND",
	 "b=0600, b=0600"},
	{"PREV_DUP behind the last key",
	 "few",
	 {ON_KEY(MDB_SET, "z"),
	  PLAIN(MDB_PREV_DUP),
	  END_OF_STEPS},
	 27,
	 "NOTFOUND, NOTFOUND",
	 "NOTFOUND, b=0003"},
	{"PREV_DUP behind the last key",
	 "fixed",
	 {ON_KEY(MDB_SET_RANGE, "z"),
	  PLAIN(MDB_PREV_DUP),
	  END_OF_STEPS},
	 27,
	 "NOTFOUND, NOTFOUND",
	 "NOTFOUND, b=0600"},
	{"LAST without data",
	 "few",
	 {WITHOUT_DATA(MDB_LAST, NULL),
	  COUNT_VALUES, PLAIN(MDB_FIRST_DUP),
	  END_OF_STEPS},
	 27,
	 "b=-, EINVAL, EINVAL",
	 "b=-, 3 values, -=0001"},
	{"LAST without data",
	 "many",
	 {WITHOUT_DATA(MDB_LAST, NULL),
	  COUNT_VALUES, PLAIN(MDB_GET_CURRENT),
	  END_OF_STEPS},
	 27,
	 "b=-, EINVAL, EINVAL",
	 "b=-, 600 values, b=0600"},
	{"SET without data",
	 "few",
	 {WITHOUT_DATA(MDB_SET, "b"),
	  COUNT_VALUES, PLAIN(MDB_NEXT),
	  END_OF_STEPS},
	 27,
	 "b=-, 3 values, b=0002",
	 "b=-, 3 values, b=0002"},
	{"SET without data",
	 "many",
	 {WITHOUT_DATA(MDB_SET, "b"),
	  COUNT_VALUES, PLAIN(MDB_GET_CURRENT),
	  END_OF_STEPS},
	 27,
	 "b=-, EINVAL, EINVAL",
	 "b=-, 600 values, b=0001"},
	{"SET_RANGE without data",
	 "fixed",
	 {WITHOUT_DATA(MDB_SET_RANGE, "b"),
	  COUNT_VALUES, PLAIN(MDB_LAST_DUP),
	  END_OF_STEPS},
	 27,
	 "b=-, EINVAL, EINVAL",
	 "b=-, 600 values, -=0600"},
	{"NEXT_NODUP without data",
	 "many",
	 {PLAIN(MDB_FIRST),
	  WITHOUT_DATA(MDB_NEXT_NODUP, NULL),
	  COUNT_VALUES,
	  END_OF_STEPS},
	 27,
	 "a=0000, b=-, EINVAL",
	 "a=0000, b=-, 600 values"},
	{"GET_MULTIPLE after NEXT without data",
	 "fixed",
	 {PLAIN(MDB_FIRST),
	  WITHOUT_DATA(MDB_NEXT, NULL),
	  PLAIN(MDB_GET_MULTIPLE),
	  END_OF_STEPS},
	 27,
	 "a=0000, b=-, -=-",
	 "a=0000, b=-, -=0001"},
	{"PREV_NODUP without data",
	 "few",
	 {WITHOUT_DATA(MDB_PREV_NODUP, NULL),
	  PLAIN(MDB_GET_CURRENT),
	  END_OF_STEPS},
	 27,
	 "b=-, b=0001",
	 "b=-, b=0003"},
	{"FIRST_DUP at the end",
	 "few",
	 {PLAIN(MDB_LAST),
	  PLAIN(MDB_FIRST_DUP),
	  PLAIN(MDB_NEXT),
	  END_OF_STEPS},
	 30,
	 "b=0003, -=0001, NOTFOUND",
	 "b=0003, -=0001, b=0002"},
	{"FIRST_DUP at the end",
	 "fixed",
	 {PLAIN(MDB_LAST),
	  PLAIN(MDB_FIRST_DUP),
	  PLAIN(MDB_NEXT_MULTIPLE),
	  END_OF_STEPS},
	 30,
	 "b=0600, -=0001, NOTFOUND",
	 "b=0600, -=0001, b=0001"},
};

static const struct gone_case {
	const char *name;
	bool others; /* there are other records in the main database */
	int since;
	const char *before, *after;
} gone_cases[] = {
	{"a named database was dropped", true, 33, "NOTFOUND, 0, 0, NOTFOUND, NOTFOUND",
	 "BAD_DBI, 0, 0, BAD_DBI, BAD_DBI"},
	{"the only named database was dropped", false, 33, "NOTFOUND, 0, 0, NOTFOUND, NOTFOUND",
	 "NOTFOUND, 0, 0, NOTFOUND, NOTFOUND"},
};

static void say(struct answer *answer, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
static void say(struct answer *answer, const char *format, ...)
{
	size_t room = sizeof answer->text - answer->used;
	va_list list;
	int n;

	va_start(list, format);
	n = vsnprintf(answer->text + answer->used, room, format, list);
	va_end(list);
	answer->used += n < 0 || (size_t)n >= room ? room - 1 : (size_t)n;
}

static void say_code(struct answer *answer, int rc)
{
	switch (rc) {
	case 0:
		say(answer, "0");
		break;
	case MDB_NOTFOUND:
		say(answer, "NOTFOUND");
		break;
	case MDB_BAD_DBI:
		say(answer, "BAD_DBI");
		break;
	case EINVAL:
		say(answer, "EINVAL");
		break;
	default:
		say(answer, "%d", rc);
		break;
	}
}

static void say_value(struct answer *answer, const MDB_val *value)
{
	if (!value->mv_data)
		say(answer, "-");
	else
		say(answer, "%.*s", value->mv_size > FIXED_SIZE ? FIXED_SIZE : (int)value->mv_size,
		    (const char *)value->mv_data);
}

static void must(int rc, const char *what)
{
	if (rc == 0)
		return;
	printf("%s: %s\n", what, library_original.mdb_strerror(rc));
	exit(2);
}

static MDB_env *open_env(const struct library *library, const char *path, unsigned flags)
{
	MDB_env *env;

	must(library->mdb_env_create(&env), "mdb_env_create");
	must(library->mdb_env_set_maxdbs(env, 8), "mdb_env_set_maxdbs");
	must(library->mdb_env_open(env, path, flags | MDB_NOSUBDIR | MDB_NOLOCK, 0600),
	     "mdb_env_open");
	return env;
}

static void put(MDB_txn *txn, MDB_dbi dbi, const char *key, const char *value)
{
	MDB_val k = {strlen(key), (void *)(uintptr_t)key};
	MDB_val v = {strlen(value), (void *)(uintptr_t)value};

	must(library_original.mdb_put(txn, dbi, &k, &v, 0), "mdb_put");
}

static void make_databases(const char *path)
{
	MDB_env *env = open_env(&library_original, path, MDB_NOSYNC);
	char value[16];
	MDB_txn *txn;
	MDB_dbi dbi;

	must(library_original.mdb_txn_begin(env, NULL, 0, &txn), "mdb_txn_begin");
	for (size_t i = 0; i < sizeof databases / sizeof *databases; i++) {
		must(library_original.mdb_dbi_open(txn, databases[i].name,
						   databases[i].flags | MDB_CREATE, &dbi),
		     "mdb_dbi_open");
		put(txn, dbi, "a", "0000");
		for (unsigned v = 1; v <= databases[i].values; v++) {
			snprintf(value, sizeof value, "%04u", v);
			put(txn, dbi, "b", value);
		}
	}
	must(library_original.mdb_txn_commit(txn), "mdb_txn_commit");
	library_original.mdb_env_close(env);
}

static void run_step(struct answer *answer, MDB_cursor *cursor, const struct step *step)
{
	MDB_val key = {0, NULL}, data = {0, NULL};
	size_t count = 0;
	int rc;

	if (answer->used)
		say(answer, ", ");
	if (step->op == COUNT) {
		rc = answer->library->mdb_cursor_count(cursor, &count);
		if (rc == 0)
			say(answer, "%zu values", count);
		else
			say_code(answer, rc);
		return;
	}
	if (step->key)
		key = (MDB_val){strlen(step->key), (void *)(uintptr_t)step->key};
	rc = answer->library->mdb_cursor_get(cursor, &key, step->no_data ? NULL : &data,
					     (MDB_cursor_op)step->op);
	if (rc != 0) {
		say_code(answer, rc);
		return;
	}
	say_value(answer, &key);
	say(answer, "=");
	say_value(answer, &data);
}

static void ask_cursor(struct answer *answer, const char *path, const struct cursor_case *asked)
{
	MDB_env *env = open_env(answer->library, path, MDB_RDONLY);
	MDB_cursor *cursor;
	MDB_txn *txn;
	MDB_dbi dbi;

	must(answer->library->mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "mdb_txn_begin");
	must(answer->library->mdb_dbi_open(txn, asked->database, 0, &dbi), "mdb_dbi_open");
	must(answer->library->mdb_cursor_open(txn, dbi, &cursor), "mdb_cursor_open");
	for (const struct step *step = asked->steps; step->op != END; step++)
		run_step(answer, cursor, step);
	answer->library->mdb_cursor_close(cursor);
	answer->library->mdb_txn_abort(txn);
	answer->library->mdb_env_close(env);
}

/* Drops the named database, as another process does, while `reader` keeps a handle of it. */
static void drop(const char *path)
{
	MDB_env *env = open_env(&library_original, path, MDB_NOSYNC);
	MDB_txn *txn;
	MDB_dbi dbi;

	must(library_original.mdb_txn_begin(env, NULL, 0, &txn), "mdb_txn_begin");
	must(library_original.mdb_dbi_open(txn, "gone", 0, &dbi), "mdb_dbi_open");
	must(library_original.mdb_drop(txn, dbi, 1), "mdb_drop");
	must(library_original.mdb_txn_commit(txn), "mdb_txn_commit");
	library_original.mdb_env_close(env);
}

static void make_gone(const char *path, bool others)
{
	MDB_env *env = open_env(&library_original, path, MDB_NOSYNC);
	MDB_txn *txn;
	MDB_dbi dbi;

	must(library_original.mdb_txn_begin(env, NULL, 0, &txn), "mdb_txn_begin");
	must(library_original.mdb_dbi_open(txn, "gone", MDB_CREATE, &dbi), "mdb_dbi_open");
	put(txn, dbi, "a", "1");
	if (others) {
		must(library_original.mdb_dbi_open(txn, NULL, 0, &dbi), "mdb_dbi_open");
		put(txn, dbi, "other", "1");
	}
	must(library_original.mdb_txn_commit(txn), "mdb_txn_commit");
	library_original.mdb_env_close(env);
}

static void ask_gone(struct answer *answer, const char *path, bool others)
{
	const struct library *library = answer->library;
	MDB_val key = {1, (char[]){"a"}}, data;
	MDB_cursor *cursor = NULL;
	MDB_env *env;
	MDB_stat stat;
	MDB_txn *txn;
	MDB_dbi dbi;

	make_gone(path, others);
	env = open_env(library, path, MDB_RDONLY);
	must(library->mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "mdb_txn_begin");
	must(library->mdb_dbi_open(txn, "gone", 0, &dbi), "mdb_dbi_open");
	must(library->mdb_txn_commit(txn), "mdb_txn_commit");
	drop(path);
	must(library->mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "mdb_txn_begin");
	say_code(answer, library->mdb_get(txn, dbi, &key, &data));
	say(answer, ", ");
	say_code(answer, library->mdb_stat(txn, dbi, &stat));
	say(answer, ", ");
	say_code(answer, library->mdb_cursor_open(txn, dbi, &cursor));
	for (int op = 0; cursor && op < 2; op++) {
		say(answer, ", ");
		say_code(answer, library->mdb_cursor_get(cursor, &key, &data,
							 op == 0 ? MDB_FIRST : MDB_SET));
	}
	library->mdb_cursor_close(cursor);
	library->mdb_txn_abort(txn);
	library->mdb_env_close(env);
	unlink(path);
}

/* Returns whether both answers are the one that this original's release is known for. */
static bool judge(const char *name, int since, const char *before, const char *after,
		  const struct answer answers[2])
{
	int major, minor, patch;
	const char *expected;
	bool right;

	library_original.mdb_version(&major, &minor, &patch);
	expected = patch < since ? before : after;
	right = !strcmp(answers[0].text, expected) && !strcmp(answers[1].text, expected);
	printf("%s %s: %s\n", right ? "ok" : "NOT OK", name, answers[1].text);
	if (!right)
		printf("    the original (0.9.%d): %s\n    expected: %s\n", patch, answers[0].text,
		       expected);
	return right;
}

static bool judge_words(void)
{
	struct answer answers[2] = {{.library = &library_original}, {.library = &library_ours}};

	for (int side = 0; side < 2; side++)
		say(&answers[side], "%s", answers[side].library->mdb_strerror(-1));
	return judge("mdb_strerror(-1)", 30, "Unknown error -1", "Invalid error code", answers);
}

/* The front of the lock file: the mutexes of readers and writers, which the next process uses. */
static bool read_lock_file(const char *path, char front[LOCK_FRONT])
{
	char name[1100];
	FILE *file;
	bool whole;

	snprintf(name, sizeof name, "%s-lock", path);
	file = fopen(name, "rb");
	whole = file && fread(front, 1, LOCK_FRONT, file) == LOCK_FRONT;
	if (file)
		fclose(file);
	return whole;
}

/* LMDB 0.9.26 to 0.9.31 destroy the mutexes when the last process closes, below one that is opening. */
static bool judge_mutexes(const char *path)
{
	const struct library *library = &library_ours;
	char before[LOCK_FRONT], after[LOCK_FRONT], name[1100];
	MDB_env *env;
	MDB_txn *txn;
	bool right;

	must(library->mdb_env_create(&env), "mdb_env_create");
	must(library->mdb_env_open(env, path, MDB_NOSUBDIR | MDB_RDONLY, 0600), "mdb_env_open");
	must(library->mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), "mdb_txn_begin");
	library->mdb_txn_abort(txn);
	right = read_lock_file(path, before);
	library->mdb_env_close(env);
	right = right && read_lock_file(path, after) && !memcmp(before, after, LOCK_FRONT);
	printf("%s the mutexes of a lock file that the last process has closed\n",
	       right ? "ok" : "NOT OK");
	snprintf(name, sizeof name, "%s-lock", path);
	unlink(name);
	return right;
}

int main(void)
{
	const char *temporary = getenv("TMPDIR");
	char directory[900], path[1000];
	bool right = true;

	snprintf(directory, sizeof directory, "%.800s/lmdbio-answers.XXXXXX",
		 temporary ? temporary : "/tmp");
	if (!mkdtemp(directory)) {
		perror(directory);
		return 2;
	}
	snprintf(path, sizeof path, "%s/db", directory);
	make_databases(path);
	for (size_t i = 0; i < sizeof cursor_cases / sizeof *cursor_cases; i++) {
		const struct cursor_case *asked = &cursor_cases[i];
		struct answer answers[2] = {{.library = &library_original},
					    {.library = &library_ours}};

		for (int side = 0; side < 2; side++)
			ask_cursor(&answers[side], path, asked);
		right &= judge(asked->name, asked->since, asked->before, asked->after, answers);
	}
	right &= judge_mutexes(path);
	unlink(path);
	for (size_t i = 0; i < sizeof gone_cases / sizeof *gone_cases; i++) {
		const struct gone_case *asked = &gone_cases[i];
		struct answer answers[2] = {{.library = &library_original},
					    {.library = &library_ours}};

		for (int side = 0; side < 2; side++)
			ask_gone(&answers[side], path, asked->others);
		right &= judge(asked->name, asked->since, asked->before, asked->after, answers);
	}
	right &= judge_words();
	if (rmdir(directory) != 0)
		printf("%s is left behind\n", directory);
	return right ? 0 : 1;
}
