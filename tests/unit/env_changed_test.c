/* SPDX-License-Identifier: OLDAP-2.8 */
/* A data file whose bytes another file's replace while an environment has it open with an arena: as with
 * `cp -p`, its name, inode, length, time of modification and transaction stay the same. */
#include "env_fixture.h"

#include "arena/arena.h"
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
	uint8_t now; /* what all values are full of */
};

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

/* All values become another byte; the status tells nothing of it but the time of the change. */
static void replace(struct fixture *f)
{
	struct stat before, st;
	uint8_t *bytes;
	int fd = open(f->place.data, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &before), 0);
	bytes = malloc((size_t)before.st_size);
	assert_non_null(bytes);
	assert_int_equal(pread(fd, bytes, (size_t)before.st_size, 0), before.st_size);
	for (off_t at = 0, run; at < before.st_size; at += run + 1) {
		for (run = 0; at + run < before.st_size && bytes[at + run] == f->now; run++)
			;
		if (run >= VALUE)
			memset(bytes + at, f->now + 1, (size_t)run);
	}
	f->now++;
	do {
		const struct timespec times[2] = {before.st_atim, before.st_mtim};

		assert_int_equal(pwrite(fd, bytes, (size_t)before.st_size, 0), before.st_size);
		assert_int_equal(futimens(fd, times), 0);
		assert_int_equal(fstat(fd, &st), 0);
	} while (st.st_ctim.tv_sec == before.st_ctim.tv_sec &&
		 st.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
	close(fd);
	free(bytes);
}

/* Whether all values that a transaction sees are full of one byte. */
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

/* The file is asked for its status once in a tick of the kernel's clock. */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(file_is_overwritten_new_reader_sees_its_bytes, setup,
						teardown),
		cmocka_unit_test_setup_teardown(file_is_overwritten_next_transaction_sees_its_bytes,
						setup, teardown),
		cmocka_unit_test_setup_teardown(file_is_as_it_was_environments_share_its_arena, setup,
						teardown),
	};

	if (setenv("LMDBIO_STORE", "arena", 1))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
