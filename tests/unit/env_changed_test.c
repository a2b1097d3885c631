/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks an environment with an arena whose data file gets the bytes of another file while it is
 * open. As after `cp -p`, the name, inode, length, time of modification and transaction stay the
 * same. The clock behind the time of change may have been set back meanwhile. */
#include "env_fixture.h"

#include "arena/arena.h"
#include "index/record_index.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { RECORDS = 200, VALUE = 20000 };

struct fixture {
	struct place place;
	uint8_t now; /* the byte that fills all values */
};

/* Shifts the clock from which the file system takes its times. */
static time_t clock_shift;

/* Replaces the C library's function. */
int fstat(int fd, struct stat *st)
{
	int rc = fstatat(fd, "", st, AT_EMPTY_PATH);

	if (!rc && S_ISREG(st->st_mode))
		st->st_ctim.tv_sec += clock_shift;
	return rc;
}

static size_t make_value(void *bytes, uint64_t i)
{
	memset(bytes, 'a', VALUE);
	(void)i;
	return VALUE;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	clock_shift = 0;
	place_make(&f->place);
	place_put_records(&f->place, RECORDS, VALUE, make_value);
	f->now = 'a';
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	place_remove(&f->place);
	free(f);
	return 0;
}

static uint8_t *take_bytes(const struct fixture *f, struct stat *st)
{
	int fd = open(f->place.data, O_RDONLY | O_CLOEXEC);
	uint8_t *bytes;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, st), 0);
	bytes = malloc((size_t)st->st_size);
	assert_non_null(bytes);
	assert_int_equal(pread(fd, bytes, (size_t)st->st_size, 0), st->st_size);
	close(fd);
	return bytes;
}

/* Changes each value that is full of the byte `from` to the byte `to`. */
static void change_values(uint8_t *bytes, off_t size, uint8_t from, uint8_t to)
{
	for (off_t at = 0, run; at < size; at += run + 1) {
		for (run = 0; at + run < size && bytes[at + run] == from; run++)
			;
		if (run >= VALUE)
			memset(bytes + at, to, (size_t)run);
	}
}

/* Overwrites the file from its beginning, and frees the bytes. The time of modification stays; the
 * time of change moves in ticks of the kernel's clock. */
static void put_bytes(const struct fixture *f, uint8_t *bytes, const struct stat *before)
{
	const struct timespec times[2] = {before->st_atim, before->st_mtim};
	int fd = open(f->place.data, O_WRONLY | O_CLOEXEC);
	struct stat st;

	assert_true(fd >= 0);
	do {
		assert_int_equal(pwrite(fd, bytes, (size_t)before->st_size, 0), before->st_size);
		assert_int_equal(futimens(fd, times), 0);
		assert_int_equal(fstat(fd, &st), 0);
	} while (st.st_ctim.tv_sec == before->st_ctim.tv_sec &&
		 st.st_ctim.tv_nsec == before->st_ctim.tv_nsec);
	close(fd);
	free(bytes);
}

/* Fills all values with another byte; in the file's status only the time of change differs. */
static void replace(struct fixture *f)
{
	struct stat before;
	uint8_t *bytes = take_bytes(f, &before);

	change_values(bytes, before.st_size, f->now, f->now + 1);
	f->now++;
	put_bytes(f, bytes, &before);
}
/* Returns whether the transaction sees all values full of `byte`. */
static bool is_all(MDB_env *env, uint8_t byte)
{
	unsigned right = 0;
	MDB_txn *txn;
	char key[9];
	MDB_val data;

	assert_int_equal(txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
	for (unsigned i = 0; i < RECORDS; i++) {
		snprintf(key, sizeof(key), "%08u", i);
		assert_int_equal(tree_get(&txn->snapshot, &txn->trees[DBI_MAIN],
					  &env->slots[DBI_MAIN].order, &(MDB_val){8, key}, &data),
				 0);
		assert_int_equal(data.mv_size, VALUE);
		right += *(uint8_t *)data.mv_data == byte && !memcmp(data.mv_data, (uint8_t *)data.mv_data + 1, VALUE - 1);
	}
	txn_abort(txn);
	return right == RECORDS;
}

/* The library asks for the file's status once in a tick of the kernel's clock. */
static void next_tick(void)
{
	uint64_t now = clock_coarse();

	while (clock_coarse() == now)
		;
}

static void file_is_overwritten_new_reader_sees_its_bytes(void **state)
{
	struct fixture *f = *state;
	MDB_env *holder = own_open(&f->place, 0, 0), *reader;

	assert_true(is_all(holder, 'a'));
	assert_non_null(holder->store.arena);
	replace(f);
	reader = own_open(&f->place, 0, 0);
	assert_true(is_all(reader, 'b'));
	env_close(reader);
	env_close(holder);
}

static void file_is_overwritten_next_transaction_sees_its_bytes(void **state)
{
	struct fixture *f = *state;
	MDB_env *env = own_open(&f->place, 0, 0);

	assert_true(is_all(env, 'a'));
	for (unsigned i = 0; i < 3; i++) {
		replace(f);
		next_tick();
		assert_true(is_all(env, f->now));
	}
	env_close(env);
}

/* In one tick of the clock the library does not ask for the status again: the meta pages show it. */
static void file_is_overwritten_within_a_tick_next_transaction_sees_its_bytes(void **state)
{
	enum { MAP_SIZE_AT = 32 }; /* in a meta page */
	struct fixture *f = *state;
	MDB_env *env = own_open(&f->place, 0, 0);
	struct stat before;
	uint8_t *bytes = take_bytes(f, &before);

	assert_true(is_all(env, 'a'));
	assert_non_null(env->store.arena);
	change_values(bytes, before.st_size, f->now, f->now + 1);
	f->now++;
	bytes[MAP_SIZE_AT + 4]++; /* another data set has other meta pages */
	put_bytes(f, bytes, &before);
	((MDB_txn *)env->spare)->looked_at = clock_coarse();
	assert_true(is_all(env, f->now));
	env_close(env);
}

static void file_is_as_it_was_environments_share_its_arena(void **state)
{
	struct fixture *f = *state;
	struct stat first, second;
	MDB_env *one = own_open(&f->place, 0, 0), *two = own_open(&f->place, 0, 0);

	assert_true(is_all(one, 'a'));
	next_tick();
	assert_true(is_all(two, 'a'));
	next_tick();
	assert_true(is_all(one, 'a'));
	assert_non_null(one->store.arena);
	assert_non_null(two->store.arena);
	assert_int_equal(fstat(arena_fd(one->store.arena), &first), 0);
	assert_int_equal(fstat(arena_fd(two->store.arena), &second), 0);
	assert_int_equal(first.st_ino, second.st_ino);
	env_close(two);
	env_close(one);
}

static void clock_is_set_back_next_transaction_sees_the_bytes_of_a_later_change(void **state)
{
	struct fixture *f = *state;
	MDB_env *env = own_open(&f->place, 0, 0);

	assert_true(is_all(env, 'a'));
	for (unsigned i = 0; i < 3; i++) {
		clock_shift -= 7200;
		replace(f);
		next_tick();
		assert_true(is_all(env, f->now));
	}
	env_close(env);
}

/* A transaction that gives all records other values. */
static void put_again(const struct place *place, uint8_t byte)
{
	MDB_env *orig = origin_open(place);
	void *bytes = malloc(VALUE);
	MDB_txn *txn;
	MDB_dbi dbi;
	char text[9];

	assert_non_null(bytes);
	memset(bytes, byte, VALUE);
	assert_int_equal(lmdbio_orig_mdb_env_set_mapsize(orig, 64 << 20), 0);
	assert_int_equal(lmdbio_orig_mdb_txn_begin(orig, NULL, 0, &txn), 0);
	assert_int_equal(lmdbio_orig_mdb_dbi_open(txn, NULL, 0, &dbi), 0);
	for (unsigned i = 0; i < RECORDS; i++) {
		snprintf(text, sizeof(text), "%08u", i);
		assert_int_equal(lmdbio_orig_mdb_put(txn, dbi, &(MDB_val){8, text},
						     &(MDB_val){VALUE, bytes}, 0),
				 0);
	}
	assert_int_equal(lmdbio_orig_mdb_txn_commit(txn), 0);
	lmdbio_orig_mdb_env_close(orig);
	free(bytes);
}

/* A backup with an older transaction is written over the file, by a program that takes no locks. */
static void clock_is_set_back_next_transaction_sees_a_backup(void **state)
{
	struct fixture *f = *state;
	struct stat before;
	uint8_t *backup = take_bytes(f, &before);
	MDB_env *env;

	put_again(&f->place, 'm');
	env = own_open(&f->place, 0, MDB_NOLOCK);
	assert_true(is_all(env, 'm'));
	assert_non_null(env->store.arena);
	clock_shift = -7200;
	change_values(backup, before.st_size, 'a', 'c');
	put_bytes(f, backup, &before);
	next_tick();
	assert_true(is_all(env, 'c'));
	env_close(env);
}

static struct record_index *take_index(MDB_env *env)
{
	struct record_index *index;
	MDB_txn *txn;

	assert_int_equal(txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
	assert_int_equal(records_take(txn, DBI_MAIN, &index), 0);
	assert_int_equal(index_records(index), RECORDS);
	records_give(env, index);
	txn_abort(txn);
	return index;
}

/* Records of another file may lie in other leaves, under the same root. */
static void file_is_overwritten_its_index_is_made_again(void **state)
{
	struct fixture *f = *state;
	MDB_env *env = own_open(&f->place, 0, 0);
	const struct record_index *first = take_index(env);

	next_tick();
	assert_ptr_equal(take_index(env), first);
	replace(f);
	next_tick();
	assert_ptr_not_equal(take_index(env), first);
	env_close(env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(file_is_overwritten_new_reader_sees_its_bytes,
						setup, teardown),
		cmocka_unit_test_setup_teardown(file_is_overwritten_next_transaction_sees_its_bytes,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			file_is_overwritten_within_a_tick_next_transaction_sees_its_bytes, setup,
			teardown),
		cmocka_unit_test_setup_teardown(file_is_as_it_was_environments_share_its_arena,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			clock_is_set_back_next_transaction_sees_the_bytes_of_a_later_change, setup,
			teardown),
		cmocka_unit_test_setup_teardown(clock_is_set_back_next_transaction_sees_a_backup,
						setup, teardown),
		cmocka_unit_test_setup_teardown(file_is_overwritten_its_index_is_made_again, setup,
						teardown),
	};

	if (setenv("LMDBIO_STORE", "arena", 1))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
