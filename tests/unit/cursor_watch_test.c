/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what cursors and lookups report to the look-ahead, step by step, and small rules that all
 * cursors share. */
#include "damaged_tree.h"

#include "cursor/instance.h"
#include "util/at_fork.h"
#include "util/checked.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* A look-ahead that only counts. */
static struct {
	struct cursor_watch watch; /* first: the calls get its address */
	unsigned moved, left, looked_up, lost, missed;
	struct cursor *cursor;
	struct lookup *lookup;
	bool forward;
	int pace; /* for the cursor or lookup that the watch hears of */
} told;

static void moved(struct cursor_watch *watch, struct cursor *cursor, bool forward)
{
	assert_ptr_equal(watch, &told.watch);
	told.moved++;
	told.cursor = cursor;
	told.forward = forward;
	cursor->pace = cursor->paced = told.pace;
}

static void left(struct cursor_watch *watch, struct cursor *cursor)
{
	assert_ptr_equal(watch, &told.watch);
	told.left++;
	told.cursor = cursor;
	cursor->ahead = NULL;
}

static void looked_up(struct cursor_watch *watch, struct snapshot *snapshot, struct tree *tree,
		      const struct comparator *order, const MDB_val *key, struct lookup *lookup)
{
	assert_true(watch == &told.watch && snapshot && tree && order && key);
	told.looked_up++;
	told.lookup = lookup;
	lookup->pace = lookup->paced = told.pace;
}

static void lost(struct cursor_watch *watch, struct lookup *lookup)
{
	assert_ptr_equal(watch, &told.watch);
	told.lost++;
	told.lookup = lookup;
	lookup->ahead = NULL;
}

static void missed(struct cursor_watch *watch, struct snapshot *snapshot, const struct tree *tree,
		   const struct comparator *order, const MDB_val *key)
{
	assert_true(watch == &told.watch && snapshot->view.misses && tree && order && key);
	told.missed++;
}

static void watch_begin(struct fixture *f)
{
	memset(&told, 0, sizeof(told));
	told.watch = (struct cursor_watch){moved, left, looked_up, lost, missed};
	told.pace = 3;
	if (f)
		f->snapshot.watch = &told.watch;
}

/* --- steps ------------------------------------------------------------------------------------- */

enum { MANY = 18 };

/* The keys "a" to "r", so many in a leaf. */
static void tree_of_many(struct fixture *f, size_t per_leaf, struct tree_record record)
{
	static char keys[MANY];
	struct made_entry entries[MANY];

	for (unsigned i = 0; i < MANY; i++) {
		keys[i] = (char)('a' + i);
		entries[i] = (struct made_entry){&keys[i], &keys[i], 1, 1, 0};
	}
	builder_tree(&f->builder, entries, MANY, per_leaf, 8, &record);
	fixture_look(f, &record);
	watch_begin(f);
}

/* Steps until the watch has been told once more; returns their number, at most 30. */
static unsigned steps_until_told(struct fixture *f, MDB_cursor_op op)
{
	unsigned before = told.moved;

	for (unsigned steps = 1; steps <= 30; steps++) {
		assert_int_equal(fixture_get(f, op, NULL, NULL), 0);
		if (told.moved != before)
			return steps;
	}
	return 0;
}

static void moved_when_steps_one_way_then_after_each_pace(void **state)
{
	struct fixture *f = *state;

	tree_of_many(f, 9, (struct tree_record){0});
	assert_int_equal(fixture_get(f, MDB_FIRST, NULL, NULL), 0);
	assert_int_equal(steps_until_told(f, MDB_NEXT), 4);
	assert_true(told.forward && told.cursor == &f->cursor);
	assert_int_equal(steps_until_told(f, MDB_NEXT), 3);
	told.pace = 1;
	assert_int_equal(steps_until_told(f, MDB_NEXT), 3);
	assert_int_equal(steps_until_told(f, MDB_NEXT), 1);
	assert_int_equal(told.left, 0);
	assert_int_equal(f->cursor.paced, 1);
}

/* The step that turns is counted for the new direction from the next step on. */
static void moved_when_turned_then_counts_from_the_beginning(void **state)
{
	struct fixture *f = *state;

	tree_of_many(f, 9, (struct tree_record){0});
	assert_int_equal(fixture_get(f, MDB_FIRST, NULL, NULL), 0);
	assert_int_equal(steps_until_told(f, MDB_NEXT), 4);
	f->cursor.ahead = f;
	f->cursor.seen.at = 99;
	assert_int_equal(fixture_get(f, MDB_NEXT, NULL, NULL), 0);
	assert_int_equal(fixture_get(f, MDB_PREV, NULL, NULL), 0);
	assert_int_equal(told.left, 1);
	assert_int_equal(told.moved, 1);
	assert_int_equal(f->cursor.seen.at, 0);
	assert_true(!f->cursor.forward && f->cursor.pace == CURSOR_PACE_FIRST);
	assert_int_equal(steps_until_told(f, MDB_PREV), 4);
	assert_false(told.forward);
	assert_int_equal(told.left, 1);
	/* The watch hears at once of a turn that comes with the last step of a pace. */
	told.pace = 1;
	assert_int_equal(fixture_get(f, MDB_SET, "m", NULL), 0);
	f->cursor.forward = true;
	f->cursor.pace = 1;
	assert_int_equal(fixture_get(f, MDB_PREV, NULL, NULL), 0);
	assert_int_equal(told.moved, 2);
	assert_int_equal(steps_until_told(f, MDB_PREV), 4);
}

static void moved_when_nothing_lies_ahead_then_never(void **state)
{
	struct fixture *f = *state;

	tree_of_many(f, MANY, (struct tree_record){0});
	assert_int_equal(fixture_get(f, MDB_FIRST, NULL, NULL), 0);
	for (unsigned i = 1; i < MANY; i++)
		assert_int_equal(fixture_get(f, MDB_NEXT, NULL, NULL), 0);
	assert_int_equal(told.moved, 0);
	assert_true(f->cursor.pace > 1000000 && f->cursor.paced == INT_MAX);
}

static void moved_when_one_page_leads_to_values_or_duplicates_then_told(void **state)
{
	struct fixture *f = *state;

	tree_of_many(f, MANY, (struct tree_record){.overflow_pages = 1});
	assert_int_equal(fixture_get(f, MDB_FIRST, NULL, NULL), 0);
	assert_int_equal(steps_until_told(f, MDB_NEXT), 4);
	damaged_teardown(state);
	damaged_setup(state);
	f = *state;
	tree_of_many(f, MANY, (struct tree_record){.flags = MDB_DUPSORT});
	assert_int_equal(fixture_get(f, MDB_FIRST, NULL, NULL), 0);
	assert_int_equal(steps_until_told(f, MDB_NEXT), 4);
}

static void moved_when_there_is_no_watch_then_the_cursor_stops_counting(void **state)
{
	struct fixture *f = *state;

	tree_of_many(f, 9, (struct tree_record){0});
	f->snapshot.watch = NULL;
	assert_int_equal(fixture_get(f, MDB_FIRST, NULL, NULL), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(fixture_get(f, MDB_NEXT, NULL, NULL), 0);
	assert_int_equal(f->cursor.paced, INT_MAX);
	f->cursor.ahead = f;
	cursor_end(&f->cursor); /* the watch that left the mark is gone */
	assert_int_equal(told.moved + told.left, 0);
}

static void left_when_set_elsewhere_or_ended_then_told_once(void **state)
{
	static const MDB_cursor_op away[] = {MDB_FIRST, MDB_LAST, MDB_SET, MDB_SET_RANGE};
	struct fixture *f = *state;

	tree_of_many(f, 9, (struct tree_record){.flags = MDB_DUPSORT});
	for (unsigned i = 0; i < sizeof(away) / sizeof(away[0]); i++) {
		assert_int_equal(fixture_get(f, MDB_SET, "c", NULL), 0);
		f->cursor.ahead = f;
		f->cursor.pace = f->cursor.paced = 77;
		f->cursor.seen.at = 99;
		assert_int_equal(fixture_get(f, away[i], "m", NULL), 0);
		assert_int_equal(told.left, i + 1);
		assert_int_equal(f->cursor.pace, CURSOR_PACE_FIRST);
		assert_int_equal(f->cursor.paced, CURSOR_PACE_FIRST);
		assert_int_equal(f->cursor.seen.at, 0);
	}
	told.left = 0;
	cursor_end(&f->cursor);
	assert_int_equal(told.left, 0);
	f->cursor.ahead = f->duplicates.cursor.ahead = f;
	cursor_end(&f->cursor);
	assert_int_equal(told.left, 2);
	f->duplicates.cursor.pace = 9;
	cursor_end(&f->cursor);
	assert_int_equal(f->duplicates.cursor.pace, CURSOR_PACE_FIRST);
}

static void outer_when_a_cursor_of_duplicates_then_the_one_over_the_keys(void **state)
{
	struct fixture *f = *state;

	tree_of_many(f, 9, (struct tree_record){.flags = MDB_DUPSORT});
	assert_ptr_equal(cursor_outer(&f->duplicates.cursor), &f->cursor);
	assert_null(cursor_outer(&f->cursor));
}

/* --- lookups ------------------------------------------------------------------------------------ */

static struct lookups lookups;
static uint8_t leaves[8], branches[2]; /* their addresses alone count */

static void lookups_begin(struct fixture *f)
{
	tree_of_many(f, 9, (struct tree_record){0});
	memset(&lookups, 0, sizeof(lookups));
	f->snapshot.lookups = &lookups;
	f->tree.record.root = 5;
}

/* A series begins with its third record: the second one may be the first of another series. */
enum { UNTIL_A_STEP = 3 };

/* Ten entries in a leaf, four leaves under a branch; `at` counts over all entries. */
static void look_up(struct fixture *f, unsigned at)
{
	unsigned leaf = at / 10;
	const struct lookup_place place = {
		.leaf = &leaves[leaf],
		.above = &branches[leaf / 4],
		.index = (uint16_t)(at % 10),
		.count = 10,
		.place = (uint16_t)(leaf % 4),
		.places = 4,
	};
	MDB_val key = {1, (char[]){"k"}};

	lookups_take(&f->snapshot, &f->tree, &f->order.key, &key, &place);
}

/* Of the threads that share a transaction only one counts at a time, because the watch frees what
 * `lookups` points to. */
static void looked_up_when_another_thread_counts_then_not_counted(void **state)
{
	struct fixture *f = *state;
	struct lookups before;

	lookups_begin(f);
	lookups.shared = true;
	lookups.busy = fork_generation + 1;
	before = lookups;
	for (unsigned at = 0; at < 20; at++)
		look_up(f, at);
	assert_memory_equal(&lookups, &before, sizeof(lookups));
	lookups.busy = ++fork_generation; /* a thread of the parent, at the fork */
	for (unsigned at = 0; at < 20; at++)
		look_up(f, at);
	fork_generation--;
	assert_true(told.looked_up && !lookups.busy);
}

static void looked_up_when_in_equal_steps_then_after_each_pace(void **state)
{
	static const unsigned steps[] = {1, 3, 7, 10, 13};
	struct fixture *f = *state;

	for (unsigned s = 0; s < sizeof(steps) / sizeof(steps[0]); s++) {
		unsigned at = 0;

		lookups_begin(f);
		look_up(f, 0);
		for (unsigned i = 1; i < UNTIL_A_STEP; i++)
			look_up(f, at += steps[s]);
		for (unsigned i = 0; i < 3; i++)
			look_up(f, at += steps[s]);
		assert_int_equal(told.looked_up, 0);
		look_up(f, at += steps[s]);
		assert_int_equal(told.looked_up, 1);
		assert_int_equal(told.lookup->step, steps[s]);
		if (steps[s] > 7)
			continue;
		for (unsigned i = 0; i < 3; i++)
			look_up(f, at += steps[s]);
		assert_int_equal(told.looked_up, 2);
		assert_int_equal(told.lost, 0);
	}
}

static void looked_up_when_steps_differ_then_counts_anew_and_is_lost(void **state)
{
	struct fixture *f = *state;

	lookups_begin(f);
	for (unsigned i = 0; i < UNTIL_A_STEP + 4; i++)
		look_up(f, 2 * i);
	assert_int_equal(told.looked_up, 1);
	told.lookup->ahead = f;
	look_up(f, 13);
	assert_int_equal(told.lost, 1);
	for (unsigned i = 1; i < 4; i++)
		look_up(f, 13 + i);
	assert_int_equal(told.looked_up, 1);
	look_up(f, 17);
	assert_int_equal(told.looked_up, 2);
	/* A lookup at the same place again is no step. */
	look_up(f, 17);
	look_up(f, 17);
	told.pace = 1;
	look_up(f, 18);
	look_up(f, 19);
	assert_int_equal(told.looked_up, 2);
	assert_int_equal(told.lost, 1);
	look_up(f, 20);
	assert_int_equal(told.looked_up, 3);
	look_up(f, 21);
	assert_int_equal(told.looked_up, 4);
}

/* Two series at the same time, as of pictures and their labels. */
static void looked_up_when_two_series_in_turn_then_both_are_known(void **state)
{
	struct fixture *f = *state;
	unsigned other;

	lookups_begin(f);
	for (unsigned i = 0; i < 6; i++) {
		f->tree.record.root = 5;
		look_up(f, i);
		f->tree.record.root = 6;
		look_up(f, 40 + 2 * i);
	}
	assert_int_equal(told.looked_up, 2);
	assert_true(lookups.each[0].root == 5 && lookups.each[0].step == 1);
	assert_true(lookups.each[1].root == 6 && lookups.each[1].step == 2);
	/* A third one takes the place of the older. */
	f->tree.record.root = 7;
	look_up(f, 77);
	assert_true(lookups.each[0].root == 7 && lookups.each[1].root == 6);
	assert_int_equal(lookups.each[0].step, 0);
	look_up(f, 71);
	assert_true(lookups.each[0].root == 7 && lookups.each[1].root == 7);
	other = told.lost;
	lookups.each[0].ahead = lookups.each[1].ahead = f;
	lookups_end(&lookups, &told.watch);
	assert_int_equal(told.lost, other + 2);
	for (unsigned i = 0; i < LOOKUPS; i++)
		assert_true(!lookups.each[i].root && lookups.each[i].pace == CURSOR_PACE_FIRST &&
			    lookups.each[i].paced == CURSOR_PACE_FIRST);
}

/* Not steps: lookups backwards, across an unknown number of leaves of one branch, and leaps. */
static void looked_up_when_no_step_forward_then_never(void **state)
{
	struct fixture *f = *state;
	struct lookup_place far = {.leaf = leaves, .above = branches, .count = 4000, .places = 9};
	MDB_val key = {1, (char[]){"k"}};

	lookups_begin(f);
	for (unsigned i = 0; i < 30; i++)
		look_up(f, 79 - i);
	assert_int_equal(told.looked_up, 0);
	lookups_begin(f);
	for (unsigned i = 0; i < 8; i++) {
		far.leaf = &leaves[i];
		far.place = (uint16_t)i;
		far.index = (uint16_t)(97 * i); /* 4,097 entries on */
		lookups_take(&f->snapshot, &f->tree, &f->order.key, &key, &far);
	}
	assert_int_equal(told.looked_up, 0);
	lookups_begin(f);
	for (unsigned i = 0; i < UNTIL_A_STEP + 4; i++) {
		far.leaf = &leaves[i];
		far.place = (uint16_t)i;
		far.index = (uint16_t)(96 * i); /* 4,096 are a step */
		lookups_take(&f->snapshot, &f->tree, &f->order.key, &key, &far);
	}
	assert_int_equal(told.looked_up, 1);
}

/* Leaf by leaf backwards under one branch. */
static void looked_up_when_leaves_come_backwards_then_never(void **state)
{
	struct fixture *f = *state;
	struct lookup_place back = {.above = branches, .count = 10, .places = 8};
	MDB_val key = {1, (char[]){"k"}};

	lookups_begin(f);
	for (unsigned i = 0; i < 8; i++) {
		back.leaf = &leaves[7 - i];
		back.place = (uint16_t)(7 - i);
		lookups_take(&f->snapshot, &f->tree, &f->order.key, &key, &back);
	}
	assert_int_equal(told.looked_up, 0);
}

/* A record that is looked up again belongs to no other series. */
static void looked_up_when_at_the_same_place_then_nothing_changes(void **state)
{
	struct fixture *f = *state;
	struct lookups before;

	lookups_begin(f);
	look_up(f, 3);
	look_up(f, 7);
	before = lookups;
	for (unsigned i = 0; i < 3; i++) {
		look_up(f, 7);
		look_up(f, 3);
	}
	assert_memory_equal(&lookups, &before, sizeof(before));
}

static void missed_when_a_lookup_has_waited_then_told_once(void **state)
{
	struct fixture *f = *state;

	lookups_begin(f);
	look_up(f, 1);
	assert_int_equal(told.missed, 0);
	f->snapshot.view.misses = 2;
	look_up(f, 2);
	assert_int_equal(told.missed, 1);
	assert_int_equal(f->snapshot.view.misses, 0);
	look_up(f, 3);
	assert_int_equal(told.missed, 1);
}

/* --- small rules ---------------------------------------------------------------------------------- */

/* Values are counted where they are handed out, beside their keys and in overflow runs. The run begins at the
 * first page behind the meta pages. */
static void served_when_values_are_handed_out_then_their_bytes(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = {0};
	uint8_t run[8], value[600];
	struct made_entry entries[3] = {{"a", "12345", 1, 5, 0},
					{"b", run, 1, sizeof(value), ENTRY_BIG},
					{"c", "1234567", 1, 7, 0}};

	memset(value, 'v', sizeof(value));
	assert_int_equal(builder_run(&f->builder, value, sizeof(value)), 2);
	store64(run, 2);
	builder_tree(&f->builder, entries, 3, 3, 2, &record);
	fixture_look(f, &record);
	assert_int_equal(fixture_get(f, MDB_SET, "a", NULL), 0);
	assert_int_equal(f->snapshot.served, 5);
	assert_int_equal(fixture_get(f, MDB_SET, "b", NULL), 0);
	assert_int_equal(f->snapshot.served, 605);
	assert_int_equal(f->data.mv_size, sizeof(value));
	assert_memory_equal(f->data.mv_data, value, sizeof(value));
	assert_null(f->snapshot.view.reference); /* only LMDB 1.0's holds the run's length */
	assert_int_equal(fixture_get(f, MDB_FIRST, NULL, NULL), 0);
	assert_int_equal(fixture_get(f, MDB_NEXT, NULL, NULL), 0);
	assert_int_equal(f->snapshot.served, 1210);
	assert_int_equal(fixture_get(f, MDB_NEXT, NULL, NULL), 0);
	assert_int_equal(f->snapshot.served, 1217);
	assert_int_equal(fixture_get(f, MDB_PREV, NULL, NULL), 0);
	assert_int_equal(f->snapshot.served, 1817);
	/* A meta page is no value. */
	store64(run, 1);
	builder_tree(&f->builder, entries, 3, 3, 2, &record);
	fixture_look(f, &record);
	assert_int_equal(fixture_get(f, MDB_FIRST, NULL, NULL), 0);
	assert_true(breaks(f, MDB_NEXT, MDB_CORRUPTED));
}

/* All items of a page of duplicates: their bytes are served, and each is a step. */
static void served_when_items_are_handed_out_together_then_all_of_them(void **state)
{
	enum { ITEMS = 40, SIZE_OF_ITEM = 4, A_LEAF = 20 };
	struct fixture *f = *state;
	struct tree_record inner = {.pad = SIZE_OF_ITEM, .flags = MDB_DUPFIXED};
	struct tree_record record = {.flags = MDB_DUPSORT | MDB_DUPFIXED};
	uint8_t items[ITEMS * SIZE_OF_ITEM], bytes[TREE_SIZE];
	struct made_entry entry = {"k", bytes, 1, TREE_SIZE, ENTRY_DUPS | ENTRY_SUBTREE};

	for (unsigned i = 0; i < sizeof(items); i++)
		items[i] = (uint8_t)(i % SIZE_OF_ITEM ? 0 : 1 + i / SIZE_OF_ITEM);
	builder_items(&f->builder, items, ITEMS, A_LEAF, 3, &inner);
	record_write(bytes, &inner);
	builder_tree(&f->builder, &entry, 1, 1, 2, &record);
	fixture_look(f, &record);
	watch_begin(f);
	assert_int_equal(fixture_get(f, MDB_FIRST, NULL, NULL), 0);
	f->duplicates.cursor.pace = 100;
	f->snapshot.served = 0;
	assert_int_equal(fixture_get(f, MDB_GET_MULTIPLE, NULL, NULL), 0);
	assert_int_equal(f->data.mv_size, A_LEAF * SIZE_OF_ITEM);
	assert_memory_equal(f->data.mv_data, items, A_LEAF * SIZE_OF_ITEM);
	assert_int_equal(f->snapshot.served, A_LEAF * SIZE_OF_ITEM);
	assert_int_equal(f->duplicates.cursor.pace, 100 - (A_LEAF - 1));
	/* The move to the next page counts as one step more. */
	assert_int_equal(fixture_get(f, MDB_NEXT_MULTIPLE, NULL, NULL), 0);
	assert_memory_equal(f->data.mv_data, items + A_LEAF * SIZE_OF_ITEM, A_LEAF * SIZE_OF_ITEM);
	assert_int_equal(f->snapshot.served, 2 * A_LEAF * SIZE_OF_ITEM);
	assert_int_equal(f->duplicates.cursor.pace, 100 - 2 * A_LEAF + 1);
	/* The move back counts as a turn. */
	assert_int_equal(fixture_get(f, MDB_PREV_MULTIPLE, NULL, NULL), 0);
	assert_memory_equal(f->data.mv_data, items, A_LEAF * SIZE_OF_ITEM);
	assert_false(f->duplicates.cursor.forward);
	assert_int_equal(f->duplicates.cursor.pace, CURSOR_PACE_FIRST - (A_LEAF - 1));
	assert_int_equal(told.moved, 0);
}

static void assert_fresh(const struct cursor *cursor, const struct snapshot *snapshot)
{
	assert_ptr_equal(cursor->snapshot, snapshot);
	assert_int_equal(cursor->page_size, SIZE);
	assert_int_equal(cursor->depth, 0);
	assert_int_equal(cursor->state, 0);
	assert_int_equal(cursor->serial, 7);
	assert_null(cursor->ahead);
	assert_int_equal(cursor->seen.at, 0);
	assert_true(cursor->forward);
	assert_int_equal(cursor->pace, CURSOR_PACE_FIRST);
	assert_int_equal(cursor->paced, CURSOR_PACE_FIRST);
}

/* A cursor is initialised in memory that was used before. */
static void cursor_init_when_memory_was_used_then_fresh(void **state)
{
	struct fixture *f = *state;

	for (unsigned duplicates = 0; duplicates < 2; duplicates++) {
		tree_of_many(f, 9, (struct tree_record){.flags = duplicates ? MDB_DUPSORT : 0});
		f->snapshot.serial = 7;
		memset(&f->cursor, 0xff, sizeof(f->cursor));
		memset(&f->duplicates, 0xff, sizeof(f->duplicates));
		fixture_rewind(f);
		assert_fresh(&f->cursor, &f->snapshot);
		assert_ptr_equal(f->cursor.tree, &f->tree);
		assert_ptr_equal(f->cursor.order, &f->order.key);
		assert_ptr_equal(f->cursor.data_order, &f->order.data);
		assert_ptr_equal(f->cursor.duplicates, duplicates ? &f->duplicates : NULL);
	}
	assert_fresh(&f->duplicates.cursor, &f->snapshot);
	assert_ptr_equal(f->duplicates.cursor.tree, &f->duplicates.tree);
	assert_ptr_equal(f->duplicates.cursor.order, &f->duplicates.order);
	assert_null(f->duplicates.cursor.data_order);
	assert_null(f->duplicates.cursor.duplicates);
	assert_ptr_equal(f->duplicates.outer, &f->cursor);
	assert_true(f->duplicates.tree.duplicates && f->duplicates.tree.record.root == PAGE_NONE);
	assert_memory_equal(&f->duplicates.order, &f->order.data, sizeof(f->order.data));
	memset(&f->duplicates, 0xff, sizeof(f->duplicates));
	duplicates_init(&f->duplicates, &f->snapshot, &f->order.data);
	assert_null(f->duplicates.outer);
}

#define WATCH_TEST(name) cmocka_unit_test_setup_teardown(name, damaged_setup, damaged_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WATCH_TEST(moved_when_steps_one_way_then_after_each_pace),
		WATCH_TEST(moved_when_turned_then_counts_from_the_beginning),
		WATCH_TEST(moved_when_nothing_lies_ahead_then_never),
		WATCH_TEST(moved_when_one_page_leads_to_values_or_duplicates_then_told),
		WATCH_TEST(moved_when_there_is_no_watch_then_the_cursor_stops_counting),
		WATCH_TEST(left_when_set_elsewhere_or_ended_then_told_once),
		WATCH_TEST(outer_when_a_cursor_of_duplicates_then_the_one_over_the_keys),
		WATCH_TEST(looked_up_when_in_equal_steps_then_after_each_pace),
		WATCH_TEST(looked_up_when_another_thread_counts_then_not_counted),
		WATCH_TEST(looked_up_when_steps_differ_then_counts_anew_and_is_lost),
		WATCH_TEST(looked_up_when_two_series_in_turn_then_both_are_known),
		WATCH_TEST(looked_up_when_no_step_forward_then_never),
		WATCH_TEST(looked_up_when_leaves_come_backwards_then_never),
		WATCH_TEST(looked_up_when_at_the_same_place_then_nothing_changes),
		WATCH_TEST(missed_when_a_lookup_has_waited_then_told_once),
		WATCH_TEST(served_when_values_are_handed_out_then_their_bytes),
		WATCH_TEST(served_when_items_are_handed_out_together_then_all_of_them),
		WATCH_TEST(cursor_init_when_memory_was_used_then_fresh),
	};

	return cmocka_run_group_tests_name("what cursors tell", tests, NULL, NULL);
}
