/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what calls with wrong arguments and ended handles return, beside what the original returns. */
#include "habit_data.h"

#include "origin/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdbio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAIN = 1 };

/* One data set, open in both libraries, each with a transaction. */
struct both {
	MDB_env *env, *orig_env;
	MDB_txn *txn, *orig;
	MDB_cursor *cursor, *orig_cursor; /* over the main database */
};

static void both_open(struct both *both, const char *path)
{
	const unsigned flags = MDB_RDONLY | MDB_NOLOCK;
	MDB_dbi dbi;

	assert_non_null(path);
	assert_int_equal(mdb_env_create(&both->env), 0);
	assert_int_equal(mdb_env_set_maxdbs(both->env, 4), 0);
	assert_int_equal(mdb_env_open(both->env, path, flags, 0), 0);
	assert_int_equal(lmdbio_serves(both->env), LMDBIO_READS);
	assert_int_equal(mdb_txn_begin(both->env, NULL, MDB_RDONLY, &both->txn), 0);
	assert_int_equal(mdb_dbi_open(both->txn, NULL, 0, &dbi), 0);
	assert_int_equal(mdb_cursor_open(both->txn, MAIN, &both->cursor), 0);
	assert_int_equal(lmdbio_orig_mdb_env_create(&both->orig_env), 0);
	assert_int_equal(lmdbio_orig_mdb_env_set_maxdbs(both->orig_env, 4), 0);
	assert_int_equal(lmdbio_orig_mdb_env_open(both->orig_env, path, flags, 0), 0);
	assert_int_equal(lmdbio_orig_mdb_txn_begin(both->orig_env, NULL, MDB_RDONLY, &both->orig),
			 0);
	assert_int_equal(lmdbio_orig_mdb_dbi_open(both->orig, NULL, 0, &dbi), 0);
	assert_int_equal(lmdbio_orig_mdb_cursor_open(both->orig, MAIN, &both->orig_cursor), 0);
}

static void both_close(struct both *both)
{
	mdb_cursor_close(both->cursor);
	mdb_txn_abort(both->txn);
	mdb_env_close(both->env);
	lmdbio_orig_mdb_cursor_close(both->orig_cursor);
	lmdbio_orig_mdb_txn_abort(both->orig);
	lmdbio_orig_mdb_env_close(both->orig_env);
}

/* The same call of each library returns the same. */
#define BOTH_RETURN(code, name, ...)                                                               \
	do {                                                                                       \
		txn = both.txn, cursor = both.cursor, (void)cursor;                                \
		assert_int_equal(mdb_##name(__VA_ARGS__), code);                                   \
		txn = both.orig, cursor = both.orig_cursor;                                        \
		assert_int_equal(lmdbio_orig_mdb_##name(__VA_ARGS__), code);                       \
	} while (0)

static void handles_of_no_database_say_what_the_original_says(void **state)
{
	static const MDB_dbi wild[] = {99, 2, 0x7fffffff, 0xffffffff};
	MDB_val key = {10, (void *)(uintptr_t) "00000042_k"}, value = key;
	MDB_cursor *cursor, *opened;
	struct both both;
	unsigned flags;
	MDB_txn *txn;
	MDB_stat stat;

	(void)state;
	both_open(&both, data_make("data"));
	for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++) {
		BOTH_RETURN(EINVAL, get, txn, wild[i], &key, &value);
		BOTH_RETURN(EINVAL, put, txn, wild[i], &key, &value, 0);
		BOTH_RETURN(EINVAL, del, txn, wild[i], &key, NULL);
		BOTH_RETURN(EINVAL, drop, txn, wild[i], 0);
		BOTH_RETURN(EINVAL, stat, txn, wild[i], &stat);
		BOTH_RETURN(EINVAL, dbi_flags, txn, wild[i], &flags);
		BOTH_RETURN(EINVAL, set_compare, txn, wild[i], NULL);
		BOTH_RETURN(EINVAL, set_dupsort, txn, wild[i], NULL);
		BOTH_RETURN(EINVAL, set_relfunc, txn, wild[i], NULL);
		BOTH_RETURN(EINVAL, set_relctx, txn, wild[i], NULL);
		BOTH_RETURN(EINVAL, cursor_open, txn, wild[i], &opened);
		assert_int_equal(lmdbio_get_record(both.txn, wild[i], 0, &key, &value), EINVAL);
		assert_int_equal(lmdbio_advise(both.txn, wild[i], LMDBIO_NORMAL, 0), EINVAL);
	}
	BOTH_RETURN(EINVAL, get, txn, MAIN, NULL, &value);
	BOTH_RETURN(EINVAL, get, txn, MAIN, &key, NULL);
	BOTH_RETURN(EINVAL, stat, txn, MAIN, NULL);
	BOTH_RETURN(EINVAL, cursor_open, txn, MAIN, NULL);
	both_close(&both);
}

static void transaction_that_is_reset_says_what_the_original_says(void **state)
{
	MDB_val key = {10, (void *)(uintptr_t) "00000042_k"}, value;
	MDB_cursor *cursor, *opened;
	struct both both;
	MDB_stat stat;
	MDB_txn *txn;

	(void)state;
	both_open(&both, data_make("data"));
	mdb_txn_reset(both.txn);
	lmdbio_orig_mdb_txn_reset(both.orig);
	BOTH_RETURN(EINVAL, get, txn, MAIN, &key, &value);
	BOTH_RETURN(EINVAL, stat, txn, MAIN, &stat);
	BOTH_RETURN(EINVAL, cursor_open, txn, MAIN, &opened);
	BOTH_RETURN(EINVAL, cursor_renew, txn, cursor);
	BOTH_RETURN(MDB_BAD_TXN, cursor_get, cursor, &key, &value, MDB_FIRST);
	assert_int_equal(lmdbio_get_record(both.txn, MAIN, 0, &key, &value), MDB_BAD_TXN);
	assert_int_equal(lmdbio_advise(both.txn, MAIN, LMDBIO_NORMAL, 0), MDB_BAD_TXN);
	assert_int_equal(mdb_txn_renew(both.txn), 0);
	assert_int_equal(mdb_cursor_renew(both.txn, both.cursor), 0);
	assert_int_equal(mdb_cursor_get(both.cursor, &key, &value, MDB_FIRST), 0);
	assert_true(data_is_record(0, 0, &key, &value));
	both_close(&both);
}

static void hints_with_wrong_arguments_are_refused(void **state)
{
	struct both both;
	MDB_val key;

	(void)state;
	both_open(&both, data_make("data"));
	assert_int_equal(lmdbio_advise(NULL, MAIN, LMDBIO_NORMAL, 0), EINVAL);
	assert_int_equal(lmdbio_advise(both.txn, MAIN, LMDBIO_STRIDE, 0), EINVAL);
	assert_int_equal(lmdbio_advise(both.txn, MAIN, (enum lmdbio_advice)77, 1), EINVAL);
	assert_int_equal(lmdbio_advise(both.txn, MAIN, LMDBIO_STRIDE, 3), 0);
	assert_int_equal(lmdbio_prefetch_keys(both.txn, MAIN, NULL, 1), EINVAL);
	assert_int_equal(lmdbio_prefetch_records(both.txn, MAIN, NULL, 1), EINVAL);
	assert_int_equal(lmdbio_get_record(NULL, MAIN, 0, &key, &key), EINVAL);
	both_close(&both);
}

/* The database "named", with these flags and a few values of one key, in place of one that is there. */
struct making {
	const char *path;
	unsigned flags;
	size_t size; /* bytes of a value */
};

static int named_make(void *context)
{
	const struct making *making = context;
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc;

	if (lmdbio_orig_mdb_env_create(&env) || lmdbio_orig_mdb_env_set_maxdbs(env, 4) ||
	    lmdbio_orig_mdb_env_set_mapsize(env, 1 << 28) ||
	    lmdbio_orig_mdb_env_open(env, making->path, 0, 0644) ||
	    lmdbio_orig_mdb_txn_begin(env, NULL, 0, &txn))
		return 1;
	if (!lmdbio_orig_mdb_dbi_open(txn, "named", 0, &dbi))
		lmdbio_orig_mdb_drop(txn, dbi, 1);
	rc = lmdbio_orig_mdb_dbi_open(txn, "named", MDB_CREATE | making->flags, &dbi);
	for (uint64_t i = 0; i < 3 && !rc; i++) {
		uint64_t bytes = i << 32 | (3 - i);
		MDB_val key = {4, (void *)(uintptr_t) "key."}, value = {making->size, &bytes};

		rc = lmdbio_orig_mdb_put(txn, dbi, &key, &value, 0);
	}
	rc = rc ? rc : lmdbio_orig_mdb_txn_commit(txn);
	lmdbio_orig_mdb_env_close(env);
	return rc;
}

/* Where the cursor has no room for duplicates; the original reads beyond its memory there. */
static void cursor_over_a_database_that_has_got_duplicates_is_not_renewed(void **state)
{
	struct making making = {.path = data_make("data"), .size = 8};
	MDB_val key, value;
	MDB_cursor *cursor;
	struct both both;
	size_t count;
	MDB_dbi dbi;

	(void)state;
	assert_int_equal(child_run(named_make, &making), 0);
	both_open(&both, making.path);
	assert_int_equal(mdb_dbi_open(both.txn, "named", 0, &dbi), 0);
	assert_int_equal(mdb_cursor_open(both.txn, dbi, &cursor), 0);
	mdb_txn_reset(both.txn);
	making.flags = MDB_DUPSORT;
	assert_int_equal(child_run(named_make, &making), 0);
	assert_int_equal(mdb_txn_renew(both.txn), 0);
	assert_int_equal(mdb_cursor_renew(both.txn, cursor), EINVAL); /* it is not open any more */
	assert_int_equal(mdb_dbi_open(both.txn, "named", 0, &dbi), 0);
	assert_int_equal(mdb_cursor_renew(both.txn, cursor), MDB_INCOMPATIBLE);
	mdb_cursor_close(cursor);
	assert_int_equal(mdb_cursor_open(both.txn, dbi, &cursor), 0);
	assert_int_equal(mdb_cursor_get(cursor, &key, &value, MDB_FIRST), 0);
	assert_int_equal(mdb_cursor_count(cursor, &count), 0);
	assert_int_equal(count, 3);
	mdb_cursor_close(cursor);
	both_close(&both);
}

/* Makes the database "other", beside "named". */
static int other_make(void *context)
{
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	if (lmdbio_orig_mdb_env_create(&env) || lmdbio_orig_mdb_env_set_maxdbs(env, 4) ||
	    lmdbio_orig_mdb_env_open(env, context, 0, 0644) ||
	    lmdbio_orig_mdb_txn_begin(env, NULL, 0, &txn) ||
	    lmdbio_orig_mdb_dbi_open(txn, "other", MDB_CREATE, &dbi) ||
	    lmdbio_orig_mdb_txn_commit(txn))
		return 1;
	lmdbio_orig_mdb_env_close(env);
	return 0;
}

/* Returns the line of a call that does not return what it should, or 0. */
#define RETURNS(code, call)                                                                        \
	do {                                                                                       \
		if ((call) != (code))                                                              \
			return __LINE__;                                                           \
	} while (0)

#define NUMBER_TAKEN(name, prefix)                                                                 \
	static int name(void *path)                                                                \
	{                                                                                          \
		MDB_val key = {4, (void *)(uintptr_t) "key."}, value;                              \
		MDB_txn *older, *txn;                                                              \
		MDB_dbi named, other;                                                              \
		MDB_env *env;                                                                      \
                                                                                                   \
		RETURNS(0, prefix##mdb_env_create(&env));                                          \
		RETURNS(0, prefix##mdb_env_set_maxdbs(env, 4));                                    \
		RETURNS(0, prefix##mdb_env_open(env, path, MDB_RDONLY | MDB_NOLOCK, 0));           \
		RETURNS(0, prefix##mdb_txn_begin(env, NULL, MDB_RDONLY, &older));                  \
		RETURNS(0, prefix##mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));                    \
		RETURNS(0, prefix##mdb_dbi_open(txn, "named", 0, &named));                         \
		RETURNS(0, prefix##mdb_txn_commit(txn));                                           \
		RETURNS(0, prefix##mdb_dbi_open(older, "other", 0, &other));                       \
		RETURNS(named, other);                                                             \
		RETURNS(0, prefix##mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));                    \
		RETURNS(MDB_NOTFOUND, prefix##mdb_get(txn, named, &key, &value));                  \
		RETURNS(EACCES, prefix##mdb_put(txn, named, &key, &value, 0));                     \
		prefix##mdb_txn_abort(older);                                                      \
		prefix##mdb_txn_abort(txn);                                                        \
		RETURNS(0, prefix##mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));                    \
		RETURNS(EINVAL, prefix##mdb_get(txn, named, &key, &value));                        \
		prefix##mdb_txn_abort(txn);                                                        \
		prefix##mdb_env_close(env);                                                        \
		return 0;                                                                          \
	}

NUMBER_TAKEN(number_taken_orig, lmdbio_orig_)
NUMBER_TAKEN(number_taken, )

/* A transaction that began before a handle was opened knows nothing of it, and gives its number to
 * another name. Later transactions then have the handle still, under that name. The first name's
 * bytes stay allocated, as another thread may read them. */
static void handle_whose_number_an_older_transaction_takes_stays(void **state)
{
	struct making making = {.path = data_make("data"), .size = 8};
	void *path = (void *)(uintptr_t)making.path;

	(void)state;
	assert_int_equal(child_run(named_make, &making), 0);
	assert_int_equal(child_run(other_make, path), 0);
	assert_int_equal(child_run(number_taken_orig, path), 0);
	assert_int_equal(child_run(number_taken, path), 0);
}

/* LMDB puts the main database's order back when a name is opened. */
static void order_that_is_no_function_is_the_databases_own(void **state)
{
	struct making making = {.path = data_make("data"), .size = 8};
	MDB_val key = {10, (void *)(uintptr_t) "00000042_k"}, value;
	MDB_cursor *cursor;
	struct both both;
	MDB_txn *txn;
	MDB_dbi dbi;

	(void)state;
	assert_int_equal(child_run(named_make, &making), 0);
	both_open(&both, making.path);
	BOTH_RETURN(0, set_compare, txn, MAIN, NULL);
	BOTH_RETURN(0, dbi_open, txn, "named", 0, &dbi);
	BOTH_RETURN(0, get, txn, MAIN, &key, &value);
	both_close(&both);
}

static int sign(int order)
{
	return (order > 0) - (order < 0);
}

/* Of eight bytes the upper four decide. */
static void values_that_are_integers_have_the_order_of_the_original(void **state)
{
	static const size_t sizes[] = {4, 8};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		uint64_t one = UINT64_C(5) << 32 | 1, other = UINT64_C(2) << 32 | 9;
		MDB_val a = {sizes[i], &one}, b = {sizes[i], &other};
		struct making making = {.flags = MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP,
					.size = sizes[i]};
		struct both both;
		MDB_dbi dbi, orig;

		making.path = data_make(i ? "eight" : "four");
		assert_int_equal(child_run(named_make, &making), 0);
		both_open(&both, making.path);
		assert_int_equal(mdb_dbi_open(both.txn, "named", 0, &dbi), 0);
		assert_int_equal(lmdbio_orig_mdb_dbi_open(both.orig, "named", 0, &orig), 0);
		assert_int_equal(sign(mdb_dcmp(both.txn, dbi, &a, &b)), sizes[i] == 8 ? 1 : -1);
		assert_int_equal(sign(mdb_dcmp(both.txn, dbi, &a, &b)),
				 sign(lmdbio_orig_mdb_dcmp(both.orig, orig, &a, &b)));
		assert_int_equal(mdb_dcmp(both.txn, dbi, &a, &a), 0);
		both_close(&both);
	}
}

/* Offset of the flags in a page of LMDB 0.9, and the bit of a leaf. */
enum { PAGE = 4096, FLAGS = 10, LEAF = 2 };

static const char *damaged_make(void)
{
	const char *path = data_make("data");
	unsigned char page[PAGE];
	char file[4200];
	int fd;

	snprintf(file, sizeof(file), "%s/data.mdb", path);
	fd = open(file, O_RDWR);
	for (off_t at = 2 * PAGE; pread(fd, page, PAGE, at) == PAGE; at += PAGE) {
		if (page[FLAGS] != LEAF || page[FLAGS + 1])
			continue;
		page[FLAGS] = 0;
		assert_int_equal(pwrite(fd, page, PAGE, at), PAGE);
	}
	close(fd);
	return path;
}

static void transaction_that_has_met_damage_says_what_the_original_says(void **state)
{
	MDB_val key = {10, (void *)(uintptr_t) "00000042_k"}, value;
	MDB_cursor *cursor, *opened;
	struct both both;
	MDB_stat stat;
	MDB_txn *txn;

	(void)state;
	both_open(&both, damaged_make());
	BOTH_RETURN(0, stat, txn, MAIN, &stat);
	BOTH_RETURN(MDB_CORRUPTED, get, txn, MAIN, &key, &value);
	BOTH_RETURN(MDB_BAD_TXN, get, txn, MAIN, &key, &value);
	BOTH_RETURN(MDB_BAD_TXN, stat, txn, MAIN, &stat);
	BOTH_RETURN(MDB_BAD_TXN, cursor_open, txn, MAIN, &opened);
	BOTH_RETURN(MDB_BAD_TXN, cursor_renew, txn, cursor);
	BOTH_RETURN(MDB_BAD_TXN, cursor_get, cursor, &key, &value, MDB_FIRST);
	both_close(&both);
}

static void records_of_a_damaged_tree_are_refused(void **state)
{
	struct both both;
	MDB_val key, value;

	(void)state;
	both_open(&both, damaged_make());
	assert_int_equal(lmdbio_prefetch_records(both.txn, MAIN, &(uint64_t){0}, 1), MDB_CORRUPTED);
	assert_int_equal(lmdbio_get_record(both.txn, MAIN, 0, &key, &value), MDB_CORRUPTED);
	both_close(&both);
}

/* lmdb.h wants the environment closed then, but not all programs do that. */
static void environment_whose_opening_has_failed_keeps_the_flags(void **state)
{
	const unsigned kept = MDB_RDONLY | MDB_NOSUBDIR | MDB_NOTLS | MDB_NORDAHEAD;
	char file[256];
	unsigned flags, orig_flags;
	MDB_env *env, *orig;

	(void)state;
	snprintf(file, sizeof(file), "%s/data.mdb", data_make("data"));
	assert_int_equal(lmdbio_orig_mdb_env_create(&orig), 0);
	assert_int_equal(lmdbio_orig_mdb_env_open(orig, room_path("nowhere"), kept, 0), ENOENT);
	assert_int_equal(lmdbio_orig_mdb_env_open(orig, file, MDB_NOLOCK, 0), 0);
	assert_int_equal(lmdbio_orig_mdb_env_get_flags(orig, &orig_flags), 0);
	lmdbio_orig_mdb_env_close(orig);
	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_open(env, room_path("nowhere"), kept, 0), ENOENT);
	assert_int_equal(mdb_env_open(env, file, MDB_NOLOCK, 0), 0);
	assert_int_equal(mdb_env_get_flags(env, &flags), 0);
	assert_int_equal(flags, orig_flags);
	assert_int_equal(flags, kept | MDB_NOLOCK);
	assert_int_equal(lmdbio_serves(env), LMDBIO_READS);
	/* A file, as the environment is one. */
	assert_int_equal(mdb_env_copy2(env, room_path("copy"), MDB_CP_COMPACT), 0);
	assert_int_equal(data_check_env(env, 0), 0);
	mdb_env_close(env);
}

int main(void)
{
#define IN_A_ROOM(test) cmocka_unit_test_setup_teardown(test, room_begin, room_end)
	const struct CMUnitTest tests[] = {
		IN_A_ROOM(handles_of_no_database_say_what_the_original_says),
		IN_A_ROOM(transaction_that_is_reset_says_what_the_original_says),
		IN_A_ROOM(hints_with_wrong_arguments_are_refused),
		IN_A_ROOM(cursor_over_a_database_that_has_got_duplicates_is_not_renewed),
		IN_A_ROOM(handle_whose_number_an_older_transaction_takes_stays),
		IN_A_ROOM(order_that_is_no_function_is_the_databases_own),
		IN_A_ROOM(values_that_are_integers_have_the_order_of_the_original),
		IN_A_ROOM(transaction_that_has_met_damage_says_what_the_original_says),
		IN_A_ROOM(records_of_a_damaged_tree_are_refused),
		IN_A_ROOM(environment_whose_opening_has_failed_keeps_the_flags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
