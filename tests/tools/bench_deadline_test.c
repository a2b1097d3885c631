/* SPDX-License-Identifier: OLDAP-2.8 */
/* Judges what a run of lmdbio-bench notes when its time is over. */
#include "bench_workloads_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

/* ---- a data set without an end ---- */

int mdb_cursor_open(MDB_txn *txn, MDB_dbi dbi, MDB_cursor **cursor)
{
	(void)txn;
	(void)dbi;
	*cursor = NULL;
	return 0;
}

int mdb_cursor_get(MDB_cursor *cursor, MDB_val *key, MDB_val *value, MDB_cursor_op op)
{
	static char bytes[] = "value";

	(void)cursor;
	(void)op;
	*key = *value = (MDB_val){sizeof(bytes), bytes};
	return 0;
}

void mdb_cursor_close(MDB_cursor *cursor)
{
	(void)cursor;
}

int mdb_get(MDB_txn *txn, MDB_dbi dbi, MDB_val *key, MDB_val *value)
{
	(void)txn;
	(void)dbi;
	(void)key;
	(void)value;
	return MDB_NOTFOUND;
}

int prefetch_find(struct bench_state *state)
{
	(void)state;
	return 0;
}

/* ---- what is noted ---- */

/* The end of a run is told without the time of closing, and rates take the difference of both. */
static void first_quarter_ends_without_the_time_of_closing(void **unused)
{
	const struct bench_job job = {.count = UINT64_MAX, .deadline = 4000};
	struct bench_state state = {.job = &job};
	struct bench_result result = {0};
	uint64_t before = clock_now(), after;

	(void)unused;
	result.closing = before / 2;
	state.until = before + job.deadline;
	assert_int_equal(work_part(&state, &result), 0);
	after = clock_now();
	assert_int_equal(result.stopped, 1);
	assert_in_range(result.settled + result.closing, before, after);
	assert_in_range(result.early_records, 1, result.records);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_quarter_ends_without_the_time_of_closing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
