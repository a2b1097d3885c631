/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks where each MDB_cursor_op leaves a cursor of single values. */
#include "tree_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { KEYS = 12 };

/* Keys k02, k04 ... k24 with values v02 ...: as one leaf, or as four leaves under three branches.
 */
static void plain_tree(struct fixture *f, size_t per_leaf)
{
	char keys[KEYS][4], values[KEYS][4];
	struct made_entry entries[KEYS];
	struct tree_record record = {0};

	for (unsigned i = 0; i < KEYS; i++) {
		snprintf(keys[i], 4, "k%02u", (2 * i + 2) % 100);
		snprintf(values[i], 4, "v%02u", (2 * i + 2) % 100);
		entries[i] = (struct made_entry){keys[i], values[i], 3, 3, 0};
	}
	fixture_open(f, 512, 16);
	builder_tree(&f->builder, entries, KEYS, per_leaf, 2, &record);
	assert_int_equal(record.depth, per_leaf == KEYS ? 1 : 3);
	fixture_look(f, &record);
}

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct fixture));
	return *state ? 0 : -1;
}

static int setup_deep(void **state)
{
	if (setup(state))
		return -1;
	plain_tree(*state, 3);
	return 0;
}

static int setup_flat(void **state)
{
	if (setup(state))
		return -1;
	plain_tree(*state, KEYS);
	return 0;
}

static int teardown(void **state)
{
	fixture_close(*state);
	free(*state);
	return 0;
}

static void next_when_repeated_then_all_keys_in_order(void **state)
{
	struct fixture *f = *state;
	char key[16], value[16];

	for (unsigned i = 2; i <= 2 * KEYS; i += 2) {
		snprintf(key, sizeof(key), "k%02u", i);
		snprintf(value, sizeof(value), "v%02u", i);
		assert_true(moves(f, MDB_NEXT, key, value));
	}
	assert_true(gives(f, MDB_NEXT, MDB_NOTFOUND));
}

static void prev_when_repeated_then_all_keys_in_reverse(void **state)
{
	struct fixture *f = *state;
	char key[16], value[16];

	for (unsigned i = 2 * KEYS; i >= 2; i -= 2) {
		snprintf(key, sizeof(key), "k%02u", i);
		snprintf(value, sizeof(value), "v%02u", i);
		assert_true(moves(f, MDB_PREV, key, value));
	}
	assert_true(gives(f, MDB_PREV, MDB_NOTFOUND));
}

static void next_and_prev_without_duplicates_when_any_kind_then_step_keys(void **state)
{
	struct fixture *f = *state;

	assert_true(moves(f, MDB_NEXT_NODUP, "k02", "v02"));
	assert_true(moves(f, MDB_NEXT_NODUP, "k04", "v04"));
	/* In a database without duplicates LMDB steps to the next key here too. */
	assert_true(moves(f, MDB_NEXT_DUP, "k06", "v06"));
	assert_true(moves(f, MDB_NEXT_DUP, "k08", "v08"));
	assert_true(moves(f, MDB_PREV_DUP, "k06", "v06"));
	assert_true(moves(f, MDB_PREV_NODUP, "k04", "v04"));
}

static void fresh_cursor_when_asked_then_as_lmdb_says(void **state)
{
	struct fixture *f = *state;

	assert_true(gives(f, MDB_GET_CURRENT, EINVAL));
	assert_true(gives(f, MDB_FIRST_DUP, EINVAL));
	assert_true(gives(f, MDB_LAST_DUP, EINVAL));
	assert_true(gives(f, MDB_GET_MULTIPLE, EINVAL));
	assert_true(gives(f, MDB_NEXT_MULTIPLE, MDB_INCOMPATIBLE));
	assert_true(gives(f, MDB_PREV_MULTIPLE, MDB_INCOMPATIBLE));
	assert_true(gives(f, MDB_GET_BOTH, MDB_INCOMPATIBLE));
	assert_true(gives(f, MDB_GET_BOTH_RANGE, MDB_INCOMPATIBLE));
	assert_true(gives(f, (MDB_cursor_op)(MDB_PREV_MULTIPLE + 1), EINVAL));
	assert_true(gives(f, (MDB_cursor_op)1000, EINVAL));
	assert_true(moves(f, MDB_FIRST, "k02", "v02"));
	assert_true(gives(f, MDB_FIRST_DUP, MDB_INCOMPATIBLE));
	assert_true(gives(f, MDB_LAST_DUP, MDB_INCOMPATIBLE));
	assert_true(gives(f, MDB_GET_MULTIPLE, MDB_INCOMPATIBLE));
}

static void first_and_last_when_asked_then_edges(void **state)
{
	struct fixture *f = *state;

	assert_true(moves(f, MDB_LAST, "k24", "v24"));
	assert_true(moves(f, MDB_GET_CURRENT, "k24", "v24"));
	assert_true(gives(f, MDB_NEXT, MDB_NOTFOUND));
	assert_true(moves(f, MDB_FIRST, "k02", "v02"));
	assert_true(moves(f, MDB_GET_CURRENT, "k02", "v02"));
	assert_true(gives(f, MDB_PREV, MDB_NOTFOUND));
}

static void past_the_end_when_asked_then_last_stays_current(void **state)
{
	struct fixture *f = *state;

	assert_true(moves(f, MDB_LAST, "k24", "v24"));
	assert_true(gives(f, MDB_NEXT, MDB_NOTFOUND));
	assert_true(gives(f, MDB_NEXT, MDB_NOTFOUND));
	assert_true(moves(f, MDB_GET_CURRENT, "k24", "v24"));
	assert_true(moves(f, MDB_PREV, "k22", "v22"));
	assert_true(moves(f, MDB_NEXT, "k24", "v24"));
}

static void before_the_start_when_asked_then_first_stays_current(void **state)
{
	struct fixture *f = *state;

	assert_true(moves(f, MDB_FIRST, "k02", "v02"));
	assert_true(gives(f, MDB_PREV, MDB_NOTFOUND));
	assert_true(moves(f, MDB_GET_CURRENT, "k02", "v02"));
	assert_true(moves(f, MDB_NEXT, "k04", "v04"));
}

static void set_when_found_then_key_is_kept_or_replaced(void **state)
{
	struct fixture *f = *state;
	char mine[] = "k10";

	assert_int_equal(fixture_get(f, MDB_SET, mine, NULL), 0);
	assert_ptr_equal(f->key.mv_data, mine);
	assert_true(at(f, "k10", "v10"));
	assert_int_equal(fixture_get(f, MDB_SET_KEY, mine, NULL), 0);
	assert_ptr_not_equal(f->key.mv_data, mine);
	assert_true(at(f, "k10", "v10"));
	assert_int_equal(fixture_get(f, MDB_SET_RANGE, mine, NULL), 0);
	assert_ptr_not_equal(f->key.mv_data, mine);
	assert_true(at(f, "k10", "v10"));
	assert_true(moves(f, MDB_NEXT, "k12", "v12"));
}

static void set_when_every_key_from_every_key_then_found(void **state)
{
	struct fixture *f = *state;
	char from[16], to[16], value[16];

	for (unsigned i = 2; i <= 2 * KEYS; i += 2)
		for (unsigned j = 2; j <= 2 * KEYS; j += 2) {
			snprintf(from, sizeof(from), "k%02u", i);
			snprintf(to, sizeof(to), "k%02u", j);
			snprintf(value, sizeof(value), "v%02u", j);
			assert_int_equal(fixture_get(f, MDB_SET_KEY, from, NULL), 0);
			assert_int_equal(fixture_get(f, MDB_SET, to, NULL), 0);
			assert_true(at(f, to, value));
			assert_true(moves(f, MDB_GET_CURRENT, to, value));
		}
}

static void set_range_when_every_gap_from_every_key_then_next_greater(void **state)
{
	struct fixture *f = *state;
	char from[16], gap[16], to[16];

	for (unsigned i = 2; i <= 2 * KEYS; i += 2)
		for (unsigned j = 1; j < 2 * KEYS; j += 2) {
			snprintf(from, sizeof(from), "k%02u", i);
			snprintf(gap, sizeof(gap), "k%02u", j);
			snprintf(to, sizeof(to), "k%02u", j + 1);
			assert_int_equal(fixture_get(f, MDB_SET_KEY, from, NULL), 0);
			assert_int_equal(fixture_get(f, MDB_SET_RANGE, gap, NULL), 0);
			assert_true(at(f, to, NULL));
			assert_true(moves(f, MDB_GET_CURRENT, to, NULL));
		}
}

static void set_when_missed_then_current_is_the_next_greater(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fixture_get(f, MDB_SET, "k09", NULL), MDB_NOTFOUND);
	assert_true(moves(f, MDB_GET_CURRENT, "k10", "v10"));
	assert_true(moves(f, MDB_NEXT, "k12", "v12"));
	assert_int_equal(fixture_get(f, MDB_SET_KEY, "k11", NULL), MDB_NOTFOUND);
	assert_true(moves(f, MDB_GET_CURRENT, "k12", "v12"));
}

static void set_when_past_the_last_key_then_nothing_is_current_and_prev_is_last(void **state)
{
	static const MDB_cursor_op ops[] = {MDB_SET, MDB_SET_KEY, MDB_SET_RANGE};
	struct fixture *f = *state;

	for (size_t i = 0; i < 3; i++)
		for (int placed = 0; placed < 2; placed++) {
			fixture_rewind(f);
			if (placed)
				assert_true(gives(f, MDB_LAST, 0));
			assert_int_equal(fixture_get(f, ops[i], "k99", NULL), MDB_NOTFOUND);
			assert_true(gives(f, MDB_GET_CURRENT, MDB_NOTFOUND));
			assert_true(gives(f, MDB_NEXT, MDB_NOTFOUND));
			assert_true(moves(f, MDB_PREV, "k24", "v24"));
		}
}

static void set_when_before_the_first_key_then_missed_or_first(void **state)
{
	struct fixture *f = *state;

	for (int placed = 0; placed < 2; placed++) {
		fixture_rewind(f);
		if (placed)
			assert_true(gives(f, MDB_LAST, 0));
		assert_int_equal(fixture_get(f, MDB_SET, "a", NULL), MDB_NOTFOUND);
		assert_true(moves(f, MDB_GET_CURRENT, "k02", "v02"));
		assert_int_equal(fixture_get(f, MDB_SET_RANGE, "a", NULL), 0);
		assert_true(at(f, "k02", "v02"));
	}
}

static void set_when_key_is_empty_missing_or_long_then_as_lmdb_says(void **state)
{
	static const MDB_cursor_op ops[] = {MDB_SET, MDB_SET_KEY, MDB_SET_RANGE};
	struct fixture *f = *state;
	char longer[600];

	memset(longer, 'z', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(fixture_get(f, ops[i], "", NULL), MDB_BAD_VALSIZE);
		assert_int_equal(cursor_get(&f->cursor, NULL, &f->data, ops[i]), EINVAL);
		assert_int_equal(fixture_get(f, ops[i], longer, NULL), MDB_NOTFOUND);
	}
	assert_int_equal(f->snapshot.blocked, 0);
}

static void moves_when_key_or_data_are_not_wanted_then_still_move(void **state)
{
	struct fixture *f = *state;
	MDB_val key = {3, (char[]){"k06"}};

	assert_int_equal(cursor_get(&f->cursor, NULL, NULL, MDB_NEXT), 0);
	assert_int_equal(cursor_get(&f->cursor, NULL, NULL, MDB_NEXT), 0);
	assert_true(moves(f, MDB_GET_CURRENT, "k04", "v04"));
	assert_int_equal(cursor_get(&f->cursor, NULL, NULL, MDB_LAST), 0);
	assert_int_equal(cursor_get(&f->cursor, NULL, NULL, MDB_PREV), 0);
	assert_true(moves(f, MDB_GET_CURRENT, "k22", "v22"));
	assert_int_equal(cursor_get(&f->cursor, &key, NULL, MDB_SET), 0);
	assert_int_equal(cursor_get(&f->cursor, NULL, NULL, MDB_GET_CURRENT), 0);
	assert_true(moves(f, MDB_NEXT, "k08", "v08"));
}

static void get_when_present_or_not_then_value_or_notfound(void **state)
{
	struct fixture *f = *state;
	char text[16];

	for (unsigned i = 1; i <= 2 * KEYS + 1; i++) {
		MDB_val key, data;
		int rc;

		snprintf(text, sizeof(text), "k%02u", i);
		key = (MDB_val){3, text};
		rc = tree_get(&f->snapshot, &f->tree, &f->order, &key, &data);
		assert_int_equal(rc, i % 2 ? MDB_NOTFOUND : 0);
		if (!rc) {
			text[0] = 'v';
			assert_int_equal(data.mv_size, 3);
			assert_memory_equal(data.mv_data, text, 3);
		}
	}
	f->key = (MDB_val){0};
	assert_int_equal(tree_get(&f->snapshot, &f->tree, &f->order, &f->key, &f->data),
			 MDB_BAD_VALSIZE);
}

static void count_when_without_duplicates_then_incompatible(void **state)
{
	struct fixture *f = *state;
	size_t count;

	assert_int_equal(cursor_count(&f->cursor, &count), MDB_INCOMPATIBLE);
}

static void every_call_when_snapshot_is_finished_then_bad_txn(void **state)
{
	struct fixture *f = *state;

	assert_true(gives(f, MDB_FIRST, 0));
	f->snapshot.blocked = SNAPSHOT_FINISHED;
	for (int op = MDB_FIRST; op <= MDB_PREV_MULTIPLE; op++)
		assert_true(gives(f, (MDB_cursor_op)op, MDB_BAD_TXN));
	f->snapshot.blocked = 0;
	assert_true(moves(f, MDB_NEXT, "k04", "v04"));
}

static void every_call_when_tree_is_empty_then_notfound(void **state)
{
	static const MDB_cursor_op ops[] = {MDB_FIRST, MDB_LAST,       MDB_NEXT,
					    MDB_PREV,  MDB_NEXT_NODUP, MDB_PREV_NODUP};
	static const MDB_cursor_op seeks[] = {MDB_SET, MDB_SET_KEY, MDB_SET_RANGE};
	struct tree_record record = {.root = PAGE_NONE};
	struct fixture *f = *state;

	fixture_open(f, 256, 2);
	fixture_look(f, &record);
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		assert_true(gives(f, ops[i], MDB_NOTFOUND));
	for (size_t i = 0; i < sizeof(seeks) / sizeof(seeks[0]); i++)
		assert_int_equal(fixture_get(f, seeks[i], "k", NULL), MDB_NOTFOUND);
	assert_true(gives(f, MDB_GET_CURRENT, EINVAL));
	f->key = (MDB_val){1, (char[]){"k"}};
	assert_int_equal(tree_get(&f->snapshot, &f->tree, &f->order, &f->key, &f->data),
			 MDB_NOTFOUND);
	assert_int_equal(f->snapshot.blocked, 0);
}

/* A value in an overflow run of one page, of several, and of exactly full ones. */
static void value_when_in_an_overflow_run_then_whole_and_in_place(void **state)
{
	static const size_t sizes[] = {1, 240, 241, 496, 497, 5000};
	struct tree_record record = {0};
	struct fixture *f = *state;
	uint64_t numbers[6];
	struct made_entry entries[6];
	uint8_t value[5000];

	for (size_t i = 0; i < sizeof(value); i++)
		value[i] = (uint8_t)(i * 7);
	fixture_open(f, 256, 64);
	for (size_t i = 0; i < 6; i++) {
		numbers[i] = builder_run(&f->builder, value, sizes[i]);
		entries[i] = (struct made_entry){"abcdef" + i, &numbers[i], 1, sizes[i], ENTRY_BIG};
	}
	builder_tree(&f->builder, entries, 6, 6, 2, &record);
	fixture_look(f, &record);
	for (size_t i = 0; i < 6; i++) {
		assert_true(gives(f, MDB_NEXT, 0));
		assert_int_equal(f->data.mv_size, sizes[i]);
		assert_memory_equal(f->data.mv_data, value, sizes[i]);
		assert_ptr_equal(f->data.mv_data,
				 builder_page(&f->builder, numbers[i]) + PAGE_HEADER);
	}
}

/* Every page size that a meta page may name. */
static void walk_when_any_page_size_then_all_keys(void **state)
{
	struct fixture *f = *state;

	for (uint32_t size = 256; size <= 32768; size *= 2) {
		struct tree_record record = {0};
		char keys[40][4];
		struct made_entry entries[40];

		for (unsigned i = 0; i < 40; i++) {
			snprintf(keys[i], 4, "%03u", i % 1000);
			entries[i] = (struct made_entry){keys[i], keys[i], 3, 3, 0};
		}
		if (size > 256)
			fixture_close(f);
		fixture_open(f, size, 64);
		builder_tree(&f->builder, entries, 40, 5, 4, &record);
		fixture_look(f, &record);
		for (unsigned i = 0; i < 40; i++) {
			char key[4];

			memcpy(key, keys[i], 4);
			assert_true(moves(f, MDB_NEXT, key, key));
		}
		assert_true(gives(f, MDB_NEXT, MDB_NOTFOUND));
	}
}

#define DEEP(test)                                                                                 \
	{                                                                                          \
		"deep: " #test, test, setup_deep, teardown, NULL                                   \
	}
#define FLAT(test)                                                                                 \
	{                                                                                          \
		"flat: " #test, test, setup_flat, teardown, NULL                                   \
	}
#define OTHER(test)                                                                                \
	{                                                                                          \
#test, test, setup, teardown, NULL                                                 \
	}
#define BOTH(test) DEEP(test), FLAT(test)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(next_when_repeated_then_all_keys_in_order),
		BOTH(prev_when_repeated_then_all_keys_in_reverse),
		BOTH(next_and_prev_without_duplicates_when_any_kind_then_step_keys),
		BOTH(fresh_cursor_when_asked_then_as_lmdb_says),
		BOTH(first_and_last_when_asked_then_edges),
		BOTH(past_the_end_when_asked_then_last_stays_current),
		BOTH(before_the_start_when_asked_then_first_stays_current),
		BOTH(set_when_found_then_key_is_kept_or_replaced),
		BOTH(set_when_every_key_from_every_key_then_found),
		BOTH(set_range_when_every_gap_from_every_key_then_next_greater),
		BOTH(set_when_missed_then_current_is_the_next_greater),
		BOTH(set_when_past_the_last_key_then_nothing_is_current_and_prev_is_last),
		BOTH(set_when_before_the_first_key_then_missed_or_first),
		BOTH(set_when_key_is_empty_missing_or_long_then_as_lmdb_says),
		BOTH(moves_when_key_or_data_are_not_wanted_then_still_move),
		BOTH(get_when_present_or_not_then_value_or_notfound),
		BOTH(count_when_without_duplicates_then_incompatible),
		BOTH(every_call_when_snapshot_is_finished_then_bad_txn),
		OTHER(every_call_when_tree_is_empty_then_notfound),
		OTHER(value_when_in_an_overflow_run_then_whole_and_in_place),
		OTHER(walk_when_any_page_size_then_all_keys),
	};

	return cmocka_run_group_tests_name("cursor", tests, NULL, NULL);
}
