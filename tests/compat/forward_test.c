/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that what writes goes through lmdbio to the original unchanged. */
#include "habit_data.h"

#include "origin/origin.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdbio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static MDB_env *env;

static int room_setup(void **state)
{
	(void)state;
	if (!room_make() || mkdir(room_path("data"), 0755) || mdb_env_create(&env))
		return -1;
	return mdb_env_set_maxdbs(env, 4) || mdb_env_open(env, room_path("data"), 0, 0644);
}

static int room_teardown(void **state)
{
	(void)state;
	mdb_env_close(env);
	env = NULL;
	room_remove();
	return 0;
}

static MDB_val text(const char *string)
{
	return (MDB_val){strlen(string), (void *)(uintptr_t)string};
}

static bool is_text(const MDB_val *value, const char *string)
{
	return value->mv_size == strlen(string) && !memcmp(value->mv_data, string, value->mv_size);
}

static int put(MDB_txn *txn, MDB_dbi dbi, const char *key, const char *value)
{
	MDB_val k = text(key), v = text(value);

	return mdb_put(txn, dbi, &k, &v, 0);
}

static int get(MDB_txn *txn, MDB_dbi dbi, const char *key)
{
	MDB_val k = text(key), v;

	return mdb_get(txn, dbi, &k, &v);
}

static MDB_txn *begin(MDB_txn *parent, const char *name, unsigned flags, MDB_dbi *dbi)
{
	MDB_txn *txn;

	assert_int_equal(mdb_txn_begin(env, parent, 0, &txn), 0);
	assert_int_equal(mdb_dbi_open(txn, name, flags, dbi), 0);
	return txn;
}

static void nested_transactions_commit_into_their_parent_or_vanish(void **state)
{
	MDB_txn *outer, *inner, *innermost;
	MDB_dbi dbi;

	(void)state;
	outer = begin(NULL, NULL, 0, &dbi);
	assert_int_equal(put(outer, dbi, "outer", "1"), 0);
	inner = begin(outer, NULL, 0, &dbi);
	assert_int_equal(put(inner, dbi, "inner", "2"), 0);
	assert_int_equal(get(inner, dbi, "outer"), 0);
	/* The parent is not to be used meanwhile. */
	assert_int_equal(put(outer, dbi, "between", "-"), MDB_BAD_TXN);
	innermost = begin(inner, NULL, 0, &dbi);
	assert_int_equal(put(innermost, dbi, "innermost", "3"), 0);
	mdb_txn_abort(innermost);
	assert_int_equal(get(inner, dbi, "innermost"), MDB_NOTFOUND);
	assert_int_equal(mdb_txn_commit(inner), 0);
	assert_int_equal(get(outer, dbi, "inner"), 0);
	/* What the parent's end ends as well. */
	inner = begin(outer, NULL, 0, &dbi);
	assert_int_equal(put(inner, dbi, "later", "4"), 0);
	mdb_txn_abort(outer);
	outer = begin(NULL, NULL, 0, &dbi);
	assert_int_equal(get(outer, dbi, "outer"), MDB_NOTFOUND);
	inner = begin(outer, NULL, 0, &dbi);
	assert_int_equal(put(inner, dbi, "later", "4"), 0);
	assert_int_equal(mdb_txn_commit(outer), 0); /* commits the child first */
	outer = begin(NULL, NULL, 0, &dbi);
	assert_int_equal(get(outer, dbi, "later"), 0);
	mdb_txn_abort(outer);
}

static void cursor_of_a_writer_puts_gets_and_deletes(void **state)
{
	MDB_val key = text("b"), value = text("two"), other = text("a");
	MDB_cursor *cursor;
	size_t count;
	MDB_txn *txn;
	MDB_dbi dbi;

	(void)state;
	txn = begin(NULL, "names", MDB_CREATE | MDB_DUPSORT, &dbi);
	assert_int_equal(mdb_cursor_open(txn, dbi, &cursor), 0);
	assert_ptr_equal(mdb_cursor_txn(cursor), txn);
	assert_int_equal(mdb_cursor_dbi(cursor), dbi);
	assert_int_equal(mdb_cursor_put(cursor, &key, &value, 0), 0);
	assert_int_equal(mdb_cursor_put(cursor, &key, &value, MDB_NODUPDATA), MDB_KEYEXIST);
	assert_int_equal(put(txn, dbi, "b", "one"), 0);
	assert_int_equal(put(txn, dbi, "a", "zero"), 0);
	assert_int_equal(mdb_cursor_get(cursor, &other, &value, MDB_SET_KEY), 0);
	assert_true(is_text(&value, "zero"));
	assert_int_equal(mdb_cursor_get(cursor, &key, &value, MDB_NEXT), 0);
	assert_true(is_text(&key, "b") && is_text(&value, "one"));
	assert_int_equal(mdb_cursor_count(cursor, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(mdb_cursor_del(cursor, 0), 0);
	assert_int_equal(mdb_cursor_get(cursor, &key, &value, MDB_GET_CURRENT), 0);
	assert_true(is_text(&key, "b") && is_text(&value, "two"));
	assert_int_equal(mdb_cursor_del(cursor, MDB_NODUPDATA), 0);
	assert_int_equal(get(txn, dbi, "b"), MDB_NOTFOUND);
	mdb_cursor_close(cursor);
	assert_int_equal(mdb_txn_commit(txn), 0);
}

static int reversed(const MDB_val *one, const MDB_val *other)
{
	return memcmp(other->mv_data, one->mv_data, 1);
}

static void compare_functions_of_a_writer_give_the_order(void **state)
{
	static const char *const expected[][2] = {
		{"c", "1"}, {"b", "2"}, {"a", "9"}, {"a", "4"}, {"a", "1"}};
	MDB_val key, value, one = text("a"), other = text("b");
	MDB_cursor *cursor;
	MDB_txn *txn;
	MDB_dbi dbi;

	(void)state;
	for (int round = 0; round < 2; round++) {
		txn = begin(NULL, "ordered", MDB_CREATE | MDB_DUPSORT, &dbi);
		assert_int_equal(mdb_set_compare(txn, dbi, reversed), 0);
		assert_int_equal(mdb_set_dupsort(txn, dbi, reversed), 0);
		assert_true(mdb_cmp(txn, dbi, &one, &other) > 0);
		assert_true(mdb_dcmp(txn, dbi, &one, &other) > 0);
		for (size_t i = 0; i < 5 && !round; i++)
			assert_int_equal(put(txn, dbi, expected[4 - i][0], expected[4 - i][1]), 0);
		assert_int_equal(mdb_cursor_open(txn, dbi, &cursor), 0);
		for (size_t i = 0; i < 5; i++) {
			assert_int_equal(mdb_cursor_get(cursor, &key, &value, MDB_NEXT), 0);
			assert_true(is_text(&key, expected[i][0]) &&
				    is_text(&value, expected[i][1]));
		}
		assert_int_equal(mdb_cursor_get(cursor, &key, &value, MDB_NEXT), MDB_NOTFOUND);
		mdb_cursor_close(cursor);
		assert_int_equal(mdb_txn_commit(txn), 0);
	}
}

/* Of a reader: its transaction may end before the cursor does, which another one then takes. */
static void cursor_of_a_reader_is_renewed(void **state)
{
	MDB_val key = text("key"), value = text("one");
	MDB_cursor *cursor;
	MDB_txn *txn, *other;
	MDB_dbi dbi;

	(void)state;
	txn = begin(NULL, NULL, 0, &dbi);
	assert_int_equal(put(txn, dbi, "key", "one"), 0);
	assert_int_equal(mdb_txn_commit(txn), 0);
	assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
	assert_int_equal(mdb_cursor_open(txn, dbi, &cursor), 0);
	assert_ptr_equal(mdb_cursor_txn(cursor), txn);
	mdb_txn_abort(txn);
	assert_ptr_equal(mdb_cursor_txn(cursor), txn);
	txn = begin(NULL, NULL, 0, &dbi);
	assert_int_equal(put(txn, dbi, "key", "two"), 0);
	assert_int_equal(mdb_txn_commit(txn), 0);
	assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &other), 0);
	assert_int_equal(mdb_cursor_renew(other, cursor), 0);
	assert_ptr_equal(mdb_cursor_txn(cursor), other);
	assert_int_equal(mdb_cursor_get(cursor, &key, &value, MDB_FIRST), 0);
	assert_true(is_text(&key, "key") && is_text(&value, "two"));
	mdb_cursor_close(cursor);
	mdb_txn_abort(other);
}

static void cursor_is_lent_to_the_nested_transaction(void **state)
{
	MDB_txn *outer, *inner, *innermost;
	MDB_cursor *cursor;
	MDB_dbi dbi;

	(void)state;
	outer = begin(NULL, NULL, 0, &dbi);
	assert_int_equal(mdb_cursor_open(outer, dbi, &cursor), 0);
	inner = begin(outer, NULL, 0, &dbi);
	assert_ptr_equal(mdb_cursor_txn(cursor), inner);
	innermost = begin(inner, NULL, 0, &dbi);
	assert_ptr_equal(mdb_cursor_txn(cursor), innermost);
	mdb_txn_abort(innermost);
	assert_ptr_equal(mdb_cursor_txn(cursor), inner);
	assert_int_equal(mdb_txn_commit(inner), 0);
	assert_ptr_equal(mdb_cursor_txn(cursor), outer);
	mdb_txn_abort(outer);
}

static void wrong_handles_say_what_the_original_says(void **state)
{
	MDB_cursor *cursor, *forwarded;
	MDB_txn *txn, *own;
	MDB_val key, value;
	MDB_env *reader;
	MDB_dbi dbi;

	(void)state;
	txn = begin(NULL, NULL, 0, &dbi);
	assert_int_equal(mdb_cursor_open(txn, 99, &cursor), EINVAL);
	assert_int_equal(mdb_set_relfunc(txn, dbi, NULL), 0);
	assert_int_equal(mdb_set_relfunc(txn, 99, NULL), EINVAL);
	assert_int_equal(mdb_set_relctx(txn, dbi, NULL), 0);
	assert_int_equal(mdb_set_relctx(txn, 99, NULL), EINVAL);
	assert_int_equal(lmdbio_get_record(txn, dbi, 0, &key, &value), ENOTSUP);
	assert_int_equal(lmdbio_advise(txn, dbi, LMDBIO_RANDOM, 0), 0);
	assert_int_equal(lmdbio_advise(txn, 99, LMDBIO_RANDOM, 0), EINVAL);
	mdb_txn_abort(txn);
	/* One that the original reads, and one that lmdbio reads. */
	assert_int_equal(mdb_env_create(&reader), 0);
	assert_int_equal(mdb_env_open(reader, data_make("read"), MDB_RDONLY, 0), 0);
	assert_int_equal(mdb_txn_begin(reader, NULL, MDB_RDONLY, &own), 0);
	assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
	assert_int_equal(mdb_cursor_open(own, dbi, &cursor), 0);
	assert_int_equal(mdb_cursor_open(txn, dbi, &forwarded), 0);
	if (lmdbio_serves(reader) == LMDBIO_READS) {
		assert_int_equal(mdb_cursor_renew(txn, cursor), EINVAL);
		assert_int_equal(mdb_cursor_renew(own, forwarded), EINVAL);
	}
	assert_int_equal(mdb_cursor_renew(txn, NULL), EINVAL);
	assert_int_equal(mdb_cursor_renew(NULL, cursor), EINVAL);
	mdb_cursor_close(cursor);
	mdb_cursor_close(forwarded);
	mdb_txn_abort(own);
	mdb_txn_abort(txn);
	mdb_env_close(reader);
}

static void assertion_failed(MDB_env *failed, const char *message)
{
	(void)failed, (void)message;
	abort();
}

static void assert_function_is_taken_and_taken_back(void **state)
{
	MDB_txn *txn;
	MDB_dbi dbi;

	(void)state;
	assert_int_equal(mdb_env_set_assert(env, assertion_failed), 0);
	txn = begin(NULL, NULL, 0, &dbi);
	assert_int_equal(put(txn, dbi, "key", "value"), 0);
	assert_int_equal(mdb_txn_commit(txn), 0);
	assert_int_equal(mdb_env_set_assert(env, NULL), 0);
	assert_int_equal(mdb_env_set_assert(NULL, assertion_failed),
			 lmdbio_orig_mdb_env_set_assert(NULL, assertion_failed));
}

static void version_is_the_originals(void **state)
{
	int ours[3], theirs[3];

	(void)state;
	assert_string_equal(mdb_version(&ours[0], &ours[1], &ours[2]),
			    lmdbio_orig_mdb_version(&theirs[0], &theirs[1], &theirs[2]));
	assert_memory_equal(ours, theirs, sizeof(ours));
	assert_string_equal(mdb_version(NULL, NULL, NULL),
			    lmdbio_orig_mdb_version(NULL, NULL, NULL));
}

/* Of a writable environment and of one that lmdbio reads, plain and compacted. */
static void copies_by_descriptor_hold_the_data(void **state)
{
	const char *path = data_make("records"), *to = room_path("copy.mdb");
	MDB_env *from, *copy;

	(void)state;
	assert_non_null(path);
	for (int round = 0; round < 4; round++) {
		int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0644);

		assert_int_equal(mdb_env_create(&from), 0);
		assert_int_equal(mdb_env_open(from, path, round & 1 ? MDB_RDONLY : 0, 0644), 0);
		assert_int_equal(round & 2 ? mdb_env_copyfd2(from, fd, MDB_CP_COMPACT)
					   : mdb_env_copyfd(from, fd),
				 0);
		mdb_env_close(from);
		close(fd);
		assert_int_equal(mdb_env_create(&copy), 0);
		assert_int_equal(mdb_env_open(copy, to, MDB_RDONLY | MDB_NOSUBDIR, 0), 0);
		assert_int_equal(data_check_env(copy, 0), 0);
		mdb_env_close(copy);
	}
}

/* An open file description's lock, which a process's own fcntl(2) locks exclude. */
static bool is_locked(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	assert_int_equal(fcntl(fd, F_OFD_GETLK, &lock), 0);
	return lock.l_type != F_UNLCK;
}

static int lock_data(const char *path)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	int fd = open(path, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
	return fd;
}

/* The second round has a file that is not a number of whole pages, as one with smaller pages. */
static void locks_of_the_program_on_the_data_file_stay(void **state)
{
	enum { MORE = 512 };
	const char *path = room_path("data/data.mdb");
	struct stat st;
	MDB_dbi dbi;

	(void)state;
	for (int round = 0; round < 2; round++) {
		int fd;

		mdb_env_close(env);
		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(truncate(path, st.st_size + round * MORE), 0);
		fd = lock_data(path);
		assert_int_equal(mdb_env_create(&env), 0);
		assert_int_equal(mdb_env_open(env, room_path("data"), 0, 0644), 0);
		assert_true(is_locked(fd));
		assert_int_equal(mdb_txn_commit(begin(NULL, NULL, 0, &dbi)), 0);
		assert_true(is_locked(fd));
		close(fd);
	}
}

/* The rest of the next case, in a process with LMDBIO_VERBOSE=1. */
static int open_without_lock_file(const char *path)
{
	char data[256];
	int fd, rc;

	snprintf(data, sizeof(data), "%s/data.mdb", path);
	fd = lock_data(data);
	rc = mdb_env_create(&env);
	if (!rc && !mdb_env_open(env, path, 0, 0644))
		rc = EEXIST;
	if (!rc && !is_locked(fd))
		rc = ENOLCK;
	mdb_env_close(env);
	close(fd);
	return rc;
}

/* The original does not open the data file if it cannot use the lock file. */
static void message_about_the_lock_file_leaves_locks_on_the_data_file(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	mdb_env_close(env);
	env = NULL;
	assert_int_equal(unlink(room_path("data/lock.mdb")), 0);
	assert_int_equal(mkdir(room_path("data/lock.mdb"), 0755), 0);
	pid = fork();
	if (!pid) {
		setenv("LMDBIO_VERBOSE", "1", 1);
		execl("/proc/self/exe", "forward_test", room_path("data"), (char *)NULL);
		_exit(errno);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void container_of_any_size_is_refused(void **state)
{
	static const char start[] = "\x5c\x2a\x4d\x18....lmdbio";
	const char *path = room_path("container");
	int fd;

	(void)state;
	if (getenv("LMDBIO_DISABLE"))
		skip(); /* the original knows of no containers */
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, start, sizeof(start) - 1), sizeof(start) - 1);
	for (off_t size = 8191; size <= 8192; size++) {
		mdb_env_close(env);
		assert_int_equal(ftruncate(fd, size), 0);
		assert_int_equal(mdb_env_create(&env), 0);
		assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR, 0644), EACCES);
	}
	close(fd);
}

static void pipe_in_place_of_the_data_file_is_an_error(void **state)
{
	enum { HANG = 300 }; /* seconds */
	const char *path = room_path("pipe");
	MDB_env *orig;
	int rc;

	(void)state;
	mdb_env_close(env);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(lmdbio_orig_mdb_env_create(&orig), 0);
	rc = lmdbio_orig_mdb_env_open(orig, path, MDB_NOSUBDIR, 0644);
	lmdbio_orig_mdb_env_close(orig);
	assert_int_not_equal(rc, 0);
	assert_int_equal(mdb_env_create(&env), 0);
	alarm(HANG);
	assert_int_equal(mdb_env_open(env, path, MDB_NOSUBDIR, 0644), rc);
	alarm(0);
}

int main(int argc, char **argv)
{
#define IN_A_ROOM(test) cmocka_unit_test_setup_teardown(test, room_setup, room_teardown)
	const struct CMUnitTest tests[] = {
		IN_A_ROOM(nested_transactions_commit_into_their_parent_or_vanish),
		IN_A_ROOM(cursor_of_a_writer_puts_gets_and_deletes),
		IN_A_ROOM(compare_functions_of_a_writer_give_the_order),
		IN_A_ROOM(cursor_of_a_reader_is_renewed),
		IN_A_ROOM(cursor_is_lent_to_the_nested_transaction),
		IN_A_ROOM(wrong_handles_say_what_the_original_says),
		IN_A_ROOM(assert_function_is_taken_and_taken_back),
		IN_A_ROOM(version_is_the_originals),
		IN_A_ROOM(copies_by_descriptor_hold_the_data),
		IN_A_ROOM(locks_of_the_program_on_the_data_file_stay),
		IN_A_ROOM(message_about_the_lock_file_leaves_locks_on_the_data_file),
		IN_A_ROOM(container_of_any_size_is_refused),
		IN_A_ROOM(pipe_in_place_of_the_data_file_is_an_error),
	};

	if (argc == 2)
		return open_without_lock_file(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
