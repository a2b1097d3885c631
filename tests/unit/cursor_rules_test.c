/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks rules of cursors that matter in rare states alone: the quick step, duplicates after a
 * miss, leftovers behind a page's entries, and the questions of other layers to a tree. */
#include "damaged_tree.h"

#include "cursor/cursor_private.h"
#include "util/checked.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* --- quick steps: the second one way and those that follow ----------------------------------------- */

static void quick_step_when_behind_the_last_entry_then_the_end(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_entries(f, letters, 3, 0);

	/* Makes a page as a split leaves it. */
	slot_set(f, record.root, 3, slot_of(f, record.root, 0));
	assert_true(moves(f, MDB_FIRST, "a", "1") && moves(f, MDB_NEXT, "b", "2") &&
		    moves(f, MDB_NEXT, "c", "3"));
	assert_true(gives(f, MDB_NEXT, MDB_NOTFOUND));
}

static void quick_step_when_it_turns_then_the_cursor_has_turned(void **state)
{
	struct fixture *f = *state;

	tree_of_entries(f, letters, 3, 0);
	assert_true(moves(f, MDB_LAST, "c", "3") && moves(f, MDB_PREV, "b", "2") &&
		    moves(f, MDB_PREV, "a", "1"));
	assert_false(f->cursor.forward);
	assert_true(moves(f, MDB_NEXT, "b", "2"));
	assert_true(f->cursor.forward);
}

static void quick_step_when_a_value_looks_like_the_way_to_a_run_then_the_value(void **state)
{
	struct fixture *f = *state;
	uint8_t number[8], value[SIZE] = {0};
	struct made_entry entries[3] = {
		{"a", number, 1, 8, 0}, {"b", number, 1, 8, 0}, {"c", number, 1, 8, 0}};

	store64(number, builder_run(&f->builder, value, SIZE));
	tree_of_entries(f, entries, 3, 0);
	assert_true(gives(f, MDB_FIRST, 0) && gives(f, MDB_NEXT, 0) && gives(f, MDB_NEXT, 0));
	assert_int_equal(f->data.mv_size, 8);
	assert_memory_equal(f->data.mv_data, number, 8);
}

/* Keys that begin with the number of another run, and neighbours that end with one. */
static void quick_step_when_other_bytes_look_like_the_way_to_a_run_then_the_own_run(void **state)
{
	enum { KEY = 16, RUNS = 4 };
	struct fixture *f = *state;
	uint8_t numbers[RUNS][8], keys[3][KEY], value[SIZE];
	struct made_entry entries[3];

	for (unsigned i = 0; i < RUNS; i++) {
		memset(value, (int)('0' + i), SIZE);
		store64(numbers[i], builder_run(&f->builder, value, SIZE));
	}
	for (unsigned i = 0; i < 3; i++) {
		memset(keys[i], (int)i, KEY);
		memcpy(keys[i], numbers[3], 8);
		entries[i] = (struct made_entry){keys[i], numbers[i], KEY, SIZE, ENTRY_BIG};
	}
	tree_of_entries(f, entries, 3, 0);
	for (int i = 0; i < 3; i++) {
		assert_true(gives(f, MDB_NEXT, 0));
		assert_int_equal(*(const char *)f->data.mv_data, '0' + i);
	}
	for (int i = 1; i >= 0; i--) {
		assert_true(gives(f, MDB_PREV, 0));
		assert_int_equal(*(const char *)f->data.mv_data, '0' + i);
	}
}

/* The first entry lies at the page's end; its value directly follows a key of four bytes. */
static void quick_step_when_the_value_leaves_the_page_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct made_entry entries[3] = {
		{"aaaa", "1234", 4, 4, 0}, {"b", "2", 1, 1, 0}, {"c", "3", 1, 1, 0}};
	struct tree_record record = tree_of_entries(f, entries, 3, 0);

	for (uint16_t more = 1; more <= 4; more++) {
		store16(node_of(f, record.root, 0) + ENTRY_LOW, (uint16_t)(4 + more));
		fixture_look(f, &record);
		assert_true(moves(f, MDB_LAST, "c", "3") && moves(f, MDB_PREV, "b", "2"));
		assert_true(breaks(f, MDB_PREV, MDB_CORRUPTED));
	}
}

static void quick_step_when_a_run_is_larger_than_64_kb_then_its_size(void **state)
{
	enum { LARGE = 70000 };
	static uint8_t value[LARGE];
	struct fixture *f = *state;
	uint8_t numbers[3][8];
	struct made_entry entries[3];

	fixture_close(f);
	fixture_open(f, SIZE, 1024);
	for (unsigned i = 0; i < 3; i++) {
		store64(numbers[i], builder_run(&f->builder, value, LARGE));
		entries[i] = (struct made_entry){letters[i].key, numbers[i], 1, LARGE, ENTRY_BIG};
	}
	tree_of_entries(f, entries, 3, 0);
	assert_true(gives(f, MDB_FIRST, 0) && gives(f, MDB_NEXT, 0));
	assert_int_equal(f->data.mv_size, LARGE);
}

/* As many bytes as the value has also follow the entry. */
static void quick_step_when_a_run_is_small_then_its_bytes(void **state)
{
	enum { SMALL = 100 };
	struct fixture *f = *state;
	uint8_t run[8], value[SMALL] = {0}, other[SMALL + 20] = {0};
	struct made_entry entries[3] = {{"a", other, 1, sizeof(other), 0},
					{"b", run, 1, SMALL, ENTRY_BIG},
					{"c", "", 1, 0, 0}};
	uint64_t number = builder_run(&f->builder, value, SMALL);

	store64(run, number);
	tree_of_entries(f, entries, 3, 0);
	assert_true(gives(f, MDB_FIRST, 0) && gives(f, MDB_NEXT, 0));
	assert_int_equal(f->data.mv_size, SMALL);
	assert_ptr_equal(f->data.mv_data, page_of(f, number) + PAGE_HEADER);
}

/* Makes a leaf page of LMDB 1.0 with three entries of these flags and value sizes, and keys "a" to
 * "c" that end with a NUL. The fixture uses the page. Returns the first entry, which lies at the
 * page's end. */
static uint8_t *later_leaf(struct fixture *f, uint16_t flags, uint16_t data_size)
{
	const struct page_layout *layout = &page_layouts[FORMAT_1_0];
	uint64_t number = builder_take(&f->builder, 1);
	struct tree_record record = {.root = number};
	uint8_t *page = page_of(f, number), *entry = page + SIZE;

	store64(page + PAGE_NUMBER, number);
	store16(page + layout->shift + PAGE_FLAGS, PAGE_LEAF);
	store16(page + layout->shift + PAGE_LOWER, 3 * 2);
	for (unsigned i = 0; i < 3; i++) {
		entry -= ENTRY_KEY + 2 + data_size;
		store16(page + layout->header + 2 * i, (uint16_t)(entry - page - layout->base));
		store16(entry + ENTRY_LOW, data_size);
		store16(entry + ENTRY_FLAGS, flags);
		store16(entry + ENTRY_KEY_SIZE, 2);
		entry[ENTRY_KEY] = (uint8_t)('a' + i);
	}
	store16(page + layout->shift + PAGE_UPPER, (uint16_t)(entry - page - layout->base));
	fixture_look(f, &record);
	f->snapshot.format = FORMAT_1_0;
	fixture_rewind(f);
	return page + SIZE - (ENTRY_KEY + 2 + data_size);
}

static void name_when_a_step_comes_to_it_then_without_its_nul(void **state)
{
	struct fixture *f = *state;

	later_leaf(f, ENTRY_SUBTREE, TREE_SIZE);
	assert_true(moves(f, MDB_FIRST, "a", NULL) && moves(f, MDB_NEXT, "b", NULL) &&
		    moves(f, MDB_NEXT, "c", NULL));
	assert_true(moves(f, MDB_PREV, "b", NULL) && moves(f, MDB_PREV, "a", NULL));
	assert_int_equal(f->data.mv_size, TREE_SIZE);
}

static void quick_step_when_the_key_leaves_a_later_page_then_corrupted(void **state)
{
	struct fixture *f = *state;
	uint8_t *first = later_leaf(f, 0, 20);

	store16(first + ENTRY_KEY_SIZE, 30);
	assert_true(gives(f, MDB_LAST, 0) && gives(f, MDB_PREV, 0));
	assert_true(breaks(f, MDB_PREV, MDB_CORRUPTED));
}

/* LMDB 1.0 stores the length of a run beside the run's page number. */
static void quick_step_when_to_a_run_of_later_pages_then_the_view_is_told(void **state)
{
	struct fixture *f = *state;
	uint64_t number = builder_take(&f->builder, 1);
	uint8_t *second = later_leaf(f, ENTRY_BIG, 24) - (ENTRY_KEY + 2 + 24);

	for (int i = -1; i <= 1; i++)
		store64(second + i * (ENTRY_KEY + 2 + 24) + ENTRY_KEY + 2, number);
	assert_true(gives(f, MDB_FIRST, 0) && gives(f, MDB_NEXT, 0));
	assert_ptr_equal(f->snapshot.view.reference, second + ENTRY_KEY + 2);
}

/* --- duplicates ------------------------------------------------------------------------------------- */

static void sub_page_when_entered_again_without_data_then_its_first_value(void **state)
{
	struct fixture *f = *state;
	MDB_val key = {1, (char[]){"b"}};

	tree_of_duplicates(f);
	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "b", "2"), 0);
	assert_int_equal(cursor_get(&f->cursor, &key, NULL, MDB_SET), 0);
	assert_true(moves(f, MDB_GET_CURRENT, "b", "1"));
	key = (MDB_val){1, (char[]){"a"}};
	f->snapshot.answers = ANSWERS_ENTER_WITHOUT_DATA;
	assert_int_equal(cursor_get(&f->cursor, &key, NULL, MDB_SET), 0);
}

/* After a miss the second cursor is not set, but keeps the duplicates that it was in. */
static void duplicates_when_a_miss_has_left_them_then_those_entered_last(void **state)
{
	struct fixture *f = *state;

	tree_of_duplicates(f);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(fixture_get(f, MDB_SET, i ? "c" : "b", NULL), 0);
		assert_int_equal(fixture_get(f, MDB_SET, "ab", NULL), MDB_NOTFOUND);
		assert_true(gives(f, MDB_LAST_DUP, EINVAL));
		assert_true(moves(f, MDB_NEXT_DUP, "b", i ? "3" : "1"));
	}
}

/* Right behind the sub-page is the entry of a, which is sound. */
static void sub_page_when_an_entry_leaves_it_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_duplicates(f);

	store16(node_of(f, record.root, 1) + ENTRY_KEY + 1 + PAGE_HEADER, SUB_SIZE + 1);
	fixture_look(f, &record);
	assert_int_equal(fixture_get(f, MDB_SET, "b", NULL), MDB_CORRUPTED);
}

/* With a damaged record of duplicates the second cursor does not stay in the previous key's
 * duplicates. */
static void duplicates_when_the_next_ones_are_damaged_then_none_are_current(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_duplicates(f);

	store16(node_of(f, record.root, 2) + ENTRY_LOW, TREE_SIZE - 1);
	fixture_look(f, &record);
	assert_int_equal(fixture_get(f, MDB_SET, "b", NULL), 0);
	assert_int_equal(fixture_get(f, MDB_NEXT_NODUP, NULL, NULL), MDB_CORRUPTED);
	f->snapshot.blocked = 0;
	f->snapshot.serial++;
	assert_true(gives(f, MDB_GET_CURRENT, EINVAL));
}

static unsigned left_inner;

static void count_left(struct cursor_watch *watch, struct cursor *cursor)
{
	(void)watch;
	left_inner += cursor->tree->duplicates;
	cursor->ahead = NULL;
}

static void duplicates_when_others_are_entered_then_the_watch_is_told(void **state)
{
	static struct cursor_watch watch = {.left = count_left};
	struct fixture *f = *state;

	left_inner = 0;
	tree_of_duplicates(f);
	f->snapshot.watch = &watch;
	assert_int_equal(fixture_get(f, MDB_SET, "b", NULL), 0);
	f->duplicates.cursor.ahead = f;
	f->key = (MDB_val){1, (char[]){"c"}};
	assert_int_equal(cursor_get(&f->cursor, &f->key, NULL, MDB_SET), 0);
	assert_int_equal(left_inner, 1);
}

static void edge_of_duplicates_when_behind_the_last_key_then_the_end_stays(void **state)
{
	struct fixture *f = *state;

	tree_of_duplicates(f);
	f->snapshot.answers = ANSWERS_EDGE_ENDS_END;
	assert_int_equal(fixture_get(f, MDB_SET_RANGE, "z", NULL), MDB_NOTFOUND);
	assert_true(f->cursor.state & CURSOR_AT_END);
	assert_true(gives(f, MDB_LAST_DUP, MDB_NOTFOUND));
	assert_true(f->cursor.state & CURSOR_AT_END);
}

static void step_when_the_end_was_left_on_a_page_of_two_then_goes_on(void **state)
{
	struct fixture *f = *state;

	tree_of_entries(f, letters, 2, 0);
	assert_true(moves(f, MDB_LAST, "b", "2"));
	assert_int_equal(fixture_get(f, MDB_SET, "A", NULL), MDB_NOTFOUND);
	assert_true(f->cursor.state & CURSOR_AT_END);
	assert_true(moves(f, MDB_NEXT, "b", "2"));
}

/* --- what lies behind the last entry of a page of an MDB_DUPSORT database -------------------------- */

/* Steps back from behind the page, after the cursor has entered b's duplicates. */
static int back_from_behind(struct fixture *f, uint64_t root, uint16_t leftover, unsigned answers)
{
	slot_set(f, root, 3, leftover);
	fixture_rewind(f);
	f->snapshot.answers = answers;
	assert_int_equal(fixture_get(f, MDB_SET, "b", NULL), 0);
	assert_int_equal(fixture_get(f, MDB_SET, "z", NULL), MDB_NOTFOUND);
	return fixture_get(f, MDB_PREV, NULL, NULL);
}

static void step_back_when_from_behind_then_looks_there_as_the_release_does(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_duplicates(f);
	uint16_t with_duplicates = slot_of(f, record.root, 1);

	assert_int_equal(back_from_behind(f, record.root, with_duplicates, 0), 0);
	assert_true(at(f, "b", "2"));
	assert_int_equal(
		back_from_behind(f, record.root, with_duplicates, ANSWERS_BACK_FROM_BEHIND), 0);
	assert_true(at(f, "c", "8"));
	/* The slot names no entry, then an entry without duplicates. */
	assert_int_equal(back_from_behind(f, record.root, 0, 0), 0);
	assert_true(at(f, "c", "8"));
	assert_int_equal(back_from_behind(f, record.root, slot_of(f, record.root, 0), 0), 0);
	assert_true(at(f, "c", "8"));
}

/* The slot behind the last entry is the page's last one, or lies behind the page. It names an entry
 * with duplicates. */
static void step_when_offsets_fill_the_page_then_looks_inside_of_it_alone(void **state)
{
	enum { SLOTS = (SIZE - PAGE_HEADER) / 2 };
	struct fixture *f = *state;

	for (unsigned slot = SLOTS - 1; slot <= SLOTS; slot++) {
		struct tree_record record = tree_of_duplicates(f);

		builder_take(&f->builder, 1);
		store16(page_of(f, record.root) + PAGE_LOWER, (uint16_t)(PAGE_HEADER + 2 * slot));
		store16(page_of(f, record.root) + PAGE_UPPER, SIZE);
		fixture_look(f, &record);
		assert_int_equal(cursor_get(&f->cursor, &f->key, NULL, MDB_FIRST), 0);
		assert_true(moves(f, MDB_NEXT_NODUP, "b", "1"));
		slot_set(f, record.root, slot, slot_of(f, record.root, 1));
		f->cursor.levels[0].index = (uint16_t)slot;
		assert_true(slot < SLOTS ? moves(f, MDB_NEXT_DUP, "b", "2")
					 : gives(f, MDB_NEXT_DUP, MDB_NOTFOUND));
		fixture_close(f);
		fixture_open(f, SIZE, 64);
	}
}

/* --- what other layers ask --------------------------------------------------------------------------- */

static void database_when_the_cursor_is_not_at_an_entry_then_none(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[TREE_SIZE] = {0};
	struct made_entry entry = {"n", bytes, 1, TREE_SIZE, ENTRY_SUBTREE};
	struct tree_record record = tree_of_entries(f, &entry, 1, 0);
	MDB_val name;

	assert_int_equal(fixture_get(f, MDB_SET, "n", NULL), 0);
	assert_true(cursor_at_database(&f->cursor, &name));
	f->snapshot.serial++;
	assert_true(gives(f, MDB_GET_CURRENT, 0));
	assert_true(cursor_at_database(&f->cursor, &name));
	f->cursor.state = 0;
	assert_false(cursor_at_database(&f->cursor, &name));
	assert_int_equal(fixture_get(f, MDB_SET, "z", NULL), MDB_NOTFOUND);
	slot_set(f, record.root, 1, slot_of(f, record.root, 0));
	assert_false(cursor_at_database(&f->cursor, &name));
}

static void pieces_when_asked_of_a_tree_then_of_its_layout(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);
	struct entry entry = {.data = (const uint8_t *)"1234", .data_size = 4};
	MDB_val key = {1, (char[]){"f"}}, data;
	const uint8_t *page = NULL;
	uint64_t number = 9, pages = 9;
	unsigned count = 0;
	bool exact = false;
	uint8_t run[8];

	fixture_look(f, &record);
	f->cursor.levels[2].index = 1;
	assert_int_equal(cursor_descend(&f->cursor, DESCEND_FIRST, NULL), 0);
	assert_int_equal(cursor_top(&f->cursor)->index, 0);
	assert_int_equal(cursor_sibling(&f->cursor, true), 0);
	assert_ptr_equal(cursor_top(&f->cursor)->page, page_of(f, 3));
	assert_int_equal(cursor_descend(&f->cursor, DESCEND_KEY, &key), 0);
	assert_int_equal(level_search(&f->cursor, cursor_top(&f->cursor), &key, &exact), 0);
	assert_true(exact && cursor_top(&f->cursor)->index == 1);
	assert_int_equal(tree_page(&f->snapshot, 7, &page, &count), 0);
	assert_true(page == page_of(f, 7) && count == 2);
	assert_int_equal(tree_value(&f->snapshot, &entry, &data), 0);
	assert_int_equal(data.mv_size, 4);
	assert_ptr_equal(data.mv_data, entry.data);
	tree_run(&f->snapshot, &entry, &number, &pages);
	assert_true(number == 0 && pages == 0);
	store64(run, 5);
	entry = (struct entry){.data = run, .data_size = 2 * SIZE, .flags = ENTRY_BIG};
	tree_run(&f->snapshot, &entry, &number, &pages);
	assert_true(number == 5 && pages == 3);
}

/* A leaf among branches whose entries' sizes are numbers of sound leaves. */
static void step_when_the_next_branch_is_a_leaf_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	store16(node_of(f, 8, 1) + ENTRY_LOW, 4);
	store16(node_of(f, 4, 0) + ENTRY_LOW, 5);
	fixture_look(f, &record);
	assert_int_equal(fixture_get(f, MDB_SET, "d", NULL), 0);
	assert_true(breaks(f, MDB_NEXT, MDB_CORRUPTED));
}

static int get(struct fixture *f, const char *text)
{
	MDB_val key = {strlen(text), (void *)(uintptr_t)text};

	return tree_get(&f->snapshot, &f->tree, &f->order, &key, &f->data);
}

static void get_when_an_entry_is_damaged_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	store16(node_of(f, 3, 1) + ENTRY_LOW, SIZE);
	fixture_look(f, &record);
	assert_int_equal(get(f, "d"), MDB_CORRUPTED);
	assert_true(f->snapshot.blocked & SNAPSHOT_DAMAGED);
	store16(node_of(f, 7, 1) + ENTRY_KEY_SIZE, SIZE);
	fixture_look(f, &record);
	assert_int_equal(get(f, "g"), MDB_CORRUPTED);
	assert_true(f->snapshot.blocked & SNAPSHOT_DAMAGED);
}

static void get_when_of_duplicates_then_the_first_value_is_served(void **state)
{
	struct fixture *f = *state;

	tree_of_duplicates(f);
	assert_int_equal(get(f, "b"), 0);
	assert_true(at(f, NULL, "1"));
	assert_int_equal(f->snapshot.served, 1);
	assert_int_equal(get(f, "a"), 0);
	assert_int_equal(f->snapshot.served, 2);
}

static bool is_place(const struct lookup_place *place, const uint8_t *leaf, const uint8_t *above,
		     unsigned at, unsigned places)
{
	return place->leaf == leaf && place->above == above && place->index == 1 &&
	       place->count == 2 && place->place == at && place->places == places;
}

/* Checks a lookup and a cursor, in trees of one, two and three levels. */
static void get_when_lookups_are_watched_then_its_place(void **state)
{
	static struct cursor_watch watch;
	struct fixture *f = *state;

	for (unsigned i = 0; i < 6; i++) {
		unsigned depth = 1 + i / 2;
		const char *key = depth == 1 ? "b" : "d";
		struct lookups lookups = {0};
		struct tree_record record = {0};

		builder_tree(&f->builder, letters, (size_t)1 << depth, 2, 2, &record);
		fixture_look(f, &record);
		f->snapshot.watch = &watch;
		f->snapshot.lookups = &lookups;
		f->cursor.seen.faults = UINT64_MAX; /* directly in front of the levels */
		assert_int_equal(record.depth, depth);
		assert_int_equal(i % 2 ? get(f, key) : fixture_get(f, MDB_SET, key, NULL), 0);
		assert_int_equal(lookups.each[0].root, record.root);
		assert_true(depth == 1 ? is_place(&lookups.each[0].last, page_of(f, 2), NULL, 0, 0)
				       : is_place(&lookups.each[0].last, page_of(f, 3),
						  page_of(f, depth == 2 ? 4 : 6), 1, 2));
		fixture_close(f);
		fixture_open(f, SIZE, 64);
	}
}

static void search_when_an_edge_of_the_page_is_damaged_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record record;

	for (unsigned i = 0; i < 3; i++) {
		record = tree_of_entries(f, letters, 3, 0);
		assert_int_equal(fixture_get(f, MDB_SET, "b", NULL), 0);
		store16(node_of(f, record.root, i) + ENTRY_KEY_SIZE, SIZE);
		assert_int_equal(fixture_get(f, MDB_SET, "ab", NULL), MDB_CORRUPTED);
		assert_true(f->snapshot.blocked & SNAPSHOT_DAMAGED);
	}
}

/* A leftover that a split has left behind the last entry is not the cursor's entry. */
static void search_when_a_leftover_names_the_key_then_the_entry(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_entries(f, letters, 3, 0);

	slot_set(f, record.root, 3, slot_of(f, record.root, 1));
	assert_int_equal(fixture_get(f, MDB_SET_RANGE, "z", NULL), MDB_NOTFOUND);
	assert_int_equal(fixture_get(f, MDB_SET, "b", NULL), 0);
	assert_true(moves(f, MDB_NEXT, "c", "3"));
}

/* A miss in the middle ends the state "at the end"; a miss behind the last key does not begin
 * it. */
static void search_when_placed_then_the_end_is_as_lmdb_leaves_it(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	fixture_look(f, &record);
	assert_int_equal(fixture_get(f, MDB_SET, "g", NULL), 0);
	assert_int_equal(fixture_get(f, MDB_SET_RANGE, "z", NULL), MDB_NOTFOUND);
	assert_int_equal(f->cursor.state, CURSOR_PLACED);
	assert_true(moves(f, MDB_LAST, "h", "8"));
	assert_int_equal(fixture_get(f, MDB_SET, "gg", NULL), MDB_NOTFOUND);
	assert_int_equal(f->cursor.state, CURSOR_PLACED);
	assert_true(moves(f, MDB_LAST, "h", "8"));
	assert_int_equal(fixture_get(f, MDB_SET, "g", NULL), 0);
	assert_int_equal(f->cursor.state, CURSOR_PLACED);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, damaged_setup, damaged_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(quick_step_when_behind_the_last_entry_then_the_end),
		CASE(quick_step_when_it_turns_then_the_cursor_has_turned),
		CASE(quick_step_when_a_value_looks_like_the_way_to_a_run_then_the_value),
		CASE(quick_step_when_other_bytes_look_like_the_way_to_a_run_then_the_own_run),
		CASE(quick_step_when_the_value_leaves_the_page_then_corrupted),
		CASE(quick_step_when_a_run_is_larger_than_64_kb_then_its_size),
		CASE(quick_step_when_a_run_is_small_then_its_bytes),
		CASE(name_when_a_step_comes_to_it_then_without_its_nul),
		CASE(quick_step_when_to_a_run_of_later_pages_then_the_view_is_told),
		CASE(quick_step_when_the_key_leaves_a_later_page_then_corrupted),
		CASE(sub_page_when_entered_again_without_data_then_its_first_value),
		CASE(duplicates_when_a_miss_has_left_them_then_those_entered_last),
		CASE(sub_page_when_an_entry_leaves_it_then_corrupted),
		CASE(duplicates_when_the_next_ones_are_damaged_then_none_are_current),
		CASE(duplicates_when_others_are_entered_then_the_watch_is_told),
		CASE(edge_of_duplicates_when_behind_the_last_key_then_the_end_stays),
		CASE(step_when_the_end_was_left_on_a_page_of_two_then_goes_on),
		CASE(step_back_when_from_behind_then_looks_there_as_the_release_does),
		CASE(step_when_offsets_fill_the_page_then_looks_inside_of_it_alone),
		CASE(database_when_the_cursor_is_not_at_an_entry_then_none),
		CASE(pieces_when_asked_of_a_tree_then_of_its_layout),
		CASE(step_when_the_next_branch_is_a_leaf_then_corrupted),
		CASE(get_when_an_entry_is_damaged_then_corrupted),
		CASE(get_when_of_duplicates_then_the_first_value_is_served),
		CASE(get_when_lookups_are_watched_then_its_place),
		CASE(search_when_an_edge_of_the_page_is_damaged_then_corrupted),
		CASE(search_when_a_leftover_names_the_key_then_the_entry),
		CASE(search_when_placed_then_the_end_is_as_lmdb_leaves_it),
	};

	return cmocka_run_group_tests_name("rules of cursors", tests, NULL, NULL);
}
