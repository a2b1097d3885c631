/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks whether ranks that open a data set, copies of it, or others of its shape are told the truth
 * about that, all the same, and how much they read for it. The ranks are threads over simulated
 * MPI. */
#include "config.h"
#include "mpi_simulated.h"
#include "simulated_job.h"
#include "simulated_turns.h"

#include "env_fixture.h"

#include "mpi/mpi_same.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	RANKS = 3,
	LAST = RANKS - 1, /* the rank that opens another file */
	PIECE = 4096,
	PIECES = 1024,
	SMALL = 60, /* records */
	LARGE = 2000,
	VALUE = 3000,         /* bytes */
	META_ADDRESS_AT = 24, /* bytes from the file's start: only MDB_FIXEDMAP uses it */
};

static struct {
	struct place one, copy; /* the last rank opens the copy */
	MDB_env *env[RANKS];
	MDB_txn *txn[RANKS];
	int rc[RANKS];
	unsigned reads[RANKS];
	bool fails, cut; /* the last rank's reads fail, or find the file's end */
} test;

/* --- reads ------------------------------------------------------------------------------------ */

static _Thread_local int this_rank = -1;

ssize_t __real_pread(int fd, void *bytes, size_t length, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t length, off_t offset);
ssize_t __wrap___pread_chk(int fd, void *bytes, size_t length, off_t offset, size_t room);

ssize_t __wrap_pread(int fd, void *bytes, size_t length, off_t offset)
{
	if (this_rank >= 0)
		test.reads[this_rank]++;
	if (this_rank == LAST && test.cut)
		return 0;
	if (this_rank == LAST && test.fails) {
		errno = EIO;
		return -1;
	}
	return __real_pread(fd, bytes, length, offset);
}

ssize_t __wrap___pread_chk(int fd, void *bytes, size_t length, off_t offset, size_t room)
{
	assert_true(length <= room);
	return __wrap_pread(fd, bytes, length, offset);
}

/* --- files ------------------------------------------------------------------------------------ */

static size_t value_make(void *bytes, uint64_t i)
{
	memset(bytes, (int)i + 1, VALUE);
	return VALUE;
}

static void records_make(uint64_t records)
{
	char command[600];

	place_make(&test.one);
	place_make(&test.copy);
	place_put_records(&test.one, records, VALUE, value_make);
	snprintf(command, sizeof(command), "cp -p '%s' '%s'", test.one.data, test.copy.data);
	assert_int_equal(system(command), 0);
}

static int setup(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	records_make(SMALL);
	return 0;
}

static int setup_large(void **state)
{
	(void)state;
	memset(&test, 0, sizeof(test));
	records_make(LARGE);
	return 0;
}

static void rank_open(int rank, const struct place *place)
{
	test.env[rank] = own_open(place, 1, MDB_NOLOCK);
	assert_int_equal(txn_begin(test.env[rank], NULL, MDB_RDONLY, &test.txn[rank]), 0);
}

static void ranks_open(const struct place *last)
{
	for (int rank = 0; rank < RANKS; rank++)
		rank_open(rank, rank == LAST ? last : &test.one);
}

static void ranks_close(void)
{
	for (int rank = 0; rank < RANKS; rank++) {
		txn_abort(test.txn[rank]);
		env_close(test.env[rank]);
	}
}

static int teardown(void **state)
{
	(void)state;
	place_remove(&test.one);
	place_remove(&test.copy);
	return 0;
}

static uint64_t size_of(const struct place *place)
{
	struct stat st;

	assert_int_equal(stat(place->data, &st), 0);
	return (uint64_t)st.st_size;
}

/* Changes one byte of a data file. */
static void byte_flip(const struct place *place, uint64_t at)
{
	int fd = open(place->data, O_RDWR);
	uint8_t byte;

	assert_int_equal(__real_pread(fd, &byte, 1, (off_t)at), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	close(fd);
}

/* --- ranks ------------------------------------------------------------------------------------ */

static void rank_compares(void *context, int rank)
{
	(void)context;
	this_rank = rank;
	test.rc[rank] =
		mpi_same_data(sim_comm(rank), test.txn[rank], &test.txn[rank]->trees[DBI_MAIN]);
	this_rank = -1;
}

/* Returns what all ranks are told. */
static int compared(void)
{
	memset(test.reads, 0, sizeof(test.reads));
	sim_begin(RANKS);
	assert_true(sim_run(RANKS, rank_compares, NULL));
	assert_int_equal(sim_handles(), 0);
	sim_end();
	for (int rank = 1; rank < RANKS; rank++)
		assert_int_equal(test.rc[rank], test.rc[0]);
	return test.rc[0];
}

static int compared_with(const struct place *last)
{
	int rc;

	ranks_open(last);
	rc = compared();
	ranks_close();
	return rc;
}

static void assert_reads(unsigned each)
{
	for (int rank = 0; rank < RANKS; rank++)
		assert_int_equal(test.reads[rank], each);
}

static void file_when_it_is_the_same_then_no_rank_reads_more(void **state)
{
	(void)state;
	assert_int_equal(compared_with(&test.one), 0);
	assert_reads(0);
}

static void copy_when_it_is_small_then_all_ranks_read_all(void **state)
{
	(void)state;
	assert_int_equal(compared_with(&test.copy), 0);
	assert_reads((unsigned)(size_of(&test.one) / PIECE) - FORMAT_METAS);
}

static void copy_when_it_is_large_then_all_ranks_read_a_sample(void **state)
{
	(void)state;
	assert_true(size_of(&test.one) / PIECE > 3 * PIECES / 2);
	assert_int_equal(compared_with(&test.copy), 0);
	assert_reads(PIECES);
}

static void file_when_any_page_differs_then_it_is_another(void **state)
{
	(void)state;
	for (uint64_t at = FORMAT_METAS * PIECE + PIECE - 1; at < size_of(&test.copy);
	     at += PIECE) {
		byte_flip(&test.copy, at);
		assert_int_equal(compared_with(&test.copy), ESTALE);
		byte_flip(&test.copy, at);
	}
	assert_int_equal(compared_with(&test.copy), 0);
}

/* One page in 25, as values of 100 KB that differ in their first bytes have them, wherever in them
 * these bytes are. */
static void file_when_one_page_in_25_differs_then_it_is_another(void **state)
{
	enum { EACH = 25 };

	(void)state;
	for (uint64_t from = 0; from < EACH; from++) {
		uint64_t first = (FORMAT_METAS + from) * PIECE + PIECE - 1;

		for (uint64_t at = first; at < size_of(&test.copy); at += (uint64_t)EACH * PIECE)
			byte_flip(&test.copy, at);
		assert_int_equal(compared_with(&test.copy), ESTALE);
		for (uint64_t at = first; at < size_of(&test.copy); at += (uint64_t)EACH * PIECE)
			byte_flip(&test.copy, at);
	}
}

static void file_when_a_meta_page_differs_then_it_is_another(void **state)
{
	(void)state;
	for (uint64_t page = 0; page < FORMAT_METAS; page++) {
		byte_flip(&test.copy, page * PIECE + META_ADDRESS_AT);
		assert_int_equal(compared_with(&test.copy), ESTALE);
		assert_reads(0);
		byte_flip(&test.copy, page * PIECE + META_ADDRESS_AT);
	}
}

/* `cp -p` writes over the file after some ranks have opened it: by then all ranks see the same
 * bytes. */
static void file_when_overwritten_between_two_openings_then_it_has_changed(void **state)
{
	struct stat before, after;

	(void)state;
	for (int rank = 0; rank < LAST; rank++)
		rank_open(rank, &test.one);
	assert_int_equal(stat(test.one.data, &before), 0);
	do { /* the kernel's times advance in ticks */
		byte_flip(&test.one, size_of(&test.one) - 1);
		assert_int_equal(utimensat(AT_FDCWD, test.one.data,
					   (struct timespec[]){before.st_atim, before.st_mtim}, 0),
				 0);
		assert_int_equal(stat(test.one.data, &after), 0);
	} while (after.st_ctim.tv_nsec == before.st_ctim.tv_nsec);
	rank_open(LAST, &test.one);
	assert_int_equal(compared(), ESTALE);
	ranks_close();
}

static void read_when_it_fails_on_a_rank_then_all_are_told(void **state)
{
	(void)state;
	ranks_open(&test.copy);
	test.fails = true;
	assert_int_equal(compared(), EIO);
	test.fails = false;
	test.cut = true;
	assert_int_equal(compared(), ESTALE);
	ranks_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(file_when_it_is_the_same_then_no_rank_reads_more,
						setup, teardown),
		cmocka_unit_test_setup_teardown(copy_when_it_is_small_then_all_ranks_read_all,
						setup, teardown),
		cmocka_unit_test_setup_teardown(copy_when_it_is_large_then_all_ranks_read_a_sample,
						setup_large, teardown),
		cmocka_unit_test_setup_teardown(file_when_any_page_differs_then_it_is_another,
						setup, teardown),
		cmocka_unit_test_setup_teardown(file_when_one_page_in_25_differs_then_it_is_another,
						setup_large, teardown),
		cmocka_unit_test_setup_teardown(file_when_a_meta_page_differs_then_it_is_another,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			file_when_overwritten_between_two_openings_then_it_has_changed, setup,
			teardown),
		cmocka_unit_test_setup_teardown(read_when_it_fails_on_a_rank_then_all_are_told,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
