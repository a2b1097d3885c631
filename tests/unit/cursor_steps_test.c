/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what look-ahead, renewed transactions, stale databases and the answers of LMDB's releases
 * ask of a tree, on sound and on damaged pages. */
#include "damaged_tree.h"

#include "cursor/cursor_private.h"
#include "util/checked.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

enum { VALUES = 6 };

static MDB_val text(const char *key)
{
	return (MDB_val){strlen(key), (void *)(uintptr_t)key};
}

/* --- steps of a search --------------------------------------------------------------------------- */

struct found {
	uint64_t number, pages;
	enum tree_step step;
};

static int step(struct fixture *f, const char *key, uint64_t from, struct found *found)
{
	MDB_val wanted = text(key);

	*found = (struct found){.number = from, .step = (enum tree_step) - 1};
	return tree_step(&f->snapshot, &f->order.key, &wanted, &found->number, &found->pages, &found->step);
}

static bool steps_to(struct fixture *f, const char *key, uint64_t from, enum tree_step kind, uint64_t number)
{
	struct found found;

	return !step(f, key, from, &found) && found.step == kind && found.number == number;
}

static void step_when_in_a_branch_then_the_child_of_the_key(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	fixture_look(f, &record);
	assert_true(steps_to(f, "a", 8, TREE_CHILD, 6) && steps_to(f, "d", 8, TREE_CHILD, 6));
	assert_true(steps_to(f, "e", 8, TREE_CHILD, 7) && steps_to(f, "z", 8, TREE_CHILD, 7));
	assert_true(steps_to(f, "d", 6, TREE_CHILD, 3) && steps_to(f, "A", 6, TREE_CHILD, 2));
	/* A leaf ends the search, whether or not it has the key. */
	assert_true(steps_to(f, "d", 3, TREE_END, 3) && steps_to(f, "dd", 3, TREE_END, 3));
	assert_false(f->snapshot.blocked);
}

static void step_when_pages_are_damaged_then_an_error(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);
	struct found found;

	fixture_look(f, &record);
	assert_int_equal(step(f, "a", 9, &found), MDB_PAGE_NOTFOUND);
	fixture_look(f, &record);
	store16(node_of(f, 2, 0) + ENTRY_KEY_SIZE, SIZE);
	assert_int_equal(step(f, "a", 2, &found), MDB_CORRUPTED);
	store16(node_of(f, 8, 1) + ENTRY_KEY_SIZE, SIZE);
	assert_int_equal(step(f, "a", 8, &found), MDB_CORRUPTED);
	store16(page_of(f, 3) + PAGE_FLAGS, PAGE_LEAF | PAGE_LEAF2);
	assert_int_equal(step(f, "c", 3, &found), MDB_CORRUPTED);
}

/* The search ends at a key whose entry leaves the page: the reader meets the damage. */
static void step_when_the_value_leaves_the_page_then_ends(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	store16(node_of(f, 2, 0) + ENTRY_LOW, SIZE);
	fixture_look(f, &record);
	assert_true(steps_to(f, "a", 2, TREE_END, 2));
}

/* The nodes of a, b, c: an overflow run, a sub-page, a sub-tree of VALUES duplicates in leaves of 2. */
static struct tree_record tree_of_kinds(struct fixture *f, struct tree_record *inner)
{
	static char values[VALUES][2];
	struct made_entry duplicates[VALUES], entries[3];
	struct tree_record record = {.flags = MDB_DUPSORT};
	uint8_t page[SUB_SIZE], bytes[TREE_SIZE], run[8], long_value[2 * SIZE];

	memset(long_value, 'v', sizeof(long_value));
	store64(run, builder_run(&f->builder, long_value, sizeof(long_value)));
	page_format(page, SUB_SIZE, 7, PAGE_LEAF | PAGE_SUB | 0x10);
	page_add_entry(page, &(struct made_entry){"1", NULL, 1, 0, 0});
	page_add_entry(page, &(struct made_entry){"2", NULL, 1, 0, 0});
	for (unsigned i = 0; i < VALUES; i++) {
		values[i][0] = (char)('3' + i);
		duplicates[i] = (struct made_entry){values[i], NULL, 1, 0, 0};
	}
	*inner = (struct tree_record){0};
	builder_tree(&f->builder, duplicates, VALUES, 2, 2, inner);
	record_write(bytes, inner);
	entries[0] = (struct made_entry){"a", run, 1, sizeof(long_value), ENTRY_BIG};
	entries[1] = (struct made_entry){"b", page, 1, SUB_SIZE, ENTRY_DUPS};
	entries[2] = (struct made_entry){"c", bytes, 1, TREE_SIZE, ENTRY_DUPS | ENTRY_SUBTREE};
	builder_tree(&f->builder, entries, 3, 3, 2, &record);
	fixture_look(f, &record);
	return record;
}

static void step_when_at_the_key_then_its_run_or_its_duplicates(void **state)
{
	struct fixture *f = *state;
	struct tree_record inner, record = tree_of_kinds(f, &inner);
	struct found found;

	assert_int_equal(step(f, "a", record.root, &found), 0);
	assert_int_equal(found.step, TREE_RUN);
	assert_int_equal(found.number, 2);
	assert_int_equal(found.pages, 3);
	assert_true(steps_to(f, "b", record.root, TREE_END, record.root));
	assert_true(steps_to(f, "c", record.root, TREE_FIRST, inner.root));
	/* For a missing key the search does not take a neighbour. */
	assert_true(steps_to(f, "A", record.root, TREE_END, record.root));
	/* A record of another length is no tree's; without duplicates, a database's. */
	store16(node_of(f, record.root, 2) + ENTRY_LOW, TREE_SIZE - 1);
	assert_true(steps_to(f, "c", record.root, TREE_END, record.root));
	store16(node_of(f, record.root, 2) + ENTRY_LOW, TREE_SIZE);
	store16(node_of(f, record.root, 2) + ENTRY_FLAGS, ENTRY_SUBTREE);
	assert_true(steps_to(f, "c", record.root, TREE_END, record.root));
	/* A sub-page is not a record, even if it has a record's length. */
	store16(node_of(f, record.root, 2) + ENTRY_FLAGS, ENTRY_DUPS);
	assert_true(steps_to(f, "c", record.root, TREE_END, record.root));
}

static void first_step_when_repeated_then_the_first_leaf(void **state)
{
	struct fixture *f = *state;
	struct tree_record inner;
	uint64_t number;
	enum tree_step kind = TREE_FIRST;
	unsigned levels = 0;

	tree_of_kinds(f, &inner);
	assert_int_equal(inner.depth, 3);
	for (number = inner.root; kind == TREE_FIRST; levels++)
		assert_int_equal(tree_step_first(&f->snapshot, &number, &kind), 0);
	assert_int_equal(kind, TREE_END);
	assert_int_equal(levels, inner.depth);
	assert_memory_equal(node_of(f, number, 0) + ENTRY_KEY, "3", 1);
	number = 63;
	assert_int_equal(tree_step_first(&f->snapshot, &number, &kind), MDB_PAGE_NOTFOUND);
	f->snapshot.blocked = 0;
	number = inner.root;
	store16(page_of(f, number) + PAGE_HEADER, SIZE);
	assert_int_equal(tree_step_first(&f->snapshot, &number, &kind), MDB_CORRUPTED);
}

/* --- renewed transactions -------------------------------------------------------------------------- */

static void renew(struct fixture *f)
{
	f->snapshot.serial++;
}

static void cursor_when_its_transaction_is_renewed_then_goes_on(void **state)
{
	struct fixture *f = *state;
	struct tree_record inner;
	size_t count = 0;

	tree_of_kinds(f, &inner);
	assert_true(moves(f, MDB_FIRST, "a", NULL));
	renew(f);
	assert_true(moves(f, MDB_NEXT, "b", "1"));
	renew(f);
	assert_true(moves(f, MDB_NEXT, "b", "2") && moves(f, MDB_NEXT, "c", "3"));
	renew(f);
	assert_int_equal(cursor_count(&f->cursor, &count), 0);
	assert_int_equal(count, VALUES);
	renew(f);
	assert_true(moves(f, MDB_NEXT_DUP, "c", "4"));
}

/* Takes the last pages off what the snapshot has, as a file that was made anew has fewer. */
static void cut(struct fixture *f, uint64_t pages)
{
	uint64_t size = pages * SIZE;

	assert_int_equal(window_look(&f->window, pages, size, &f->snapshot.view), 0);
	renew(f);
}

static void cursor_when_its_pages_are_gone_then_it_is_not_set(void **state)
{
	struct fixture *f = *state;
	struct tree_record inner;
	size_t count;

	tree_of_kinds(f, &inner);
	assert_true(moves(f, MDB_FIRST, "a", NULL));
	cut(f, f->builder.next - 1);
	assert_int_equal(fixture_get(f, MDB_GET_CURRENT, NULL, NULL), EINVAL);
	assert_false(f->snapshot.blocked);
	renew(f);
	assert_int_equal(cursor_count(&f->cursor, &count), EINVAL);
}

/* --- stale databases --------------------------------------------------------------------------------- */

struct named {
	struct tree home, tree;
	struct tree_record record; /* as it is written */
	struct comparators order;
	MDB_val name;
};

/* A home with a database "n" of letters, a value "v" and a damaged record "w"; the fixture looks at the home. */
static void home_make(struct fixture *f, struct named *named)
{
	struct tree_record record = tree_of_letters(f), home = {0};
	uint8_t bytes[TREE_SIZE];
	struct made_entry entries[3];

	record.pad = record.overflow_pages = 3;
	record_write(bytes, &record);
	entries[0] = (struct made_entry){"n", bytes, 1, TREE_SIZE, ENTRY_SUBTREE};
	entries[1] = (struct made_entry){"v", "1", 1, 1, 0};
	entries[2] = (struct made_entry){"w", bytes, 1, TREE_SIZE - 1, ENTRY_SUBTREE};
	builder_tree(&f->builder, entries, 3, 3, 2, &home);
	fixture_look(f, &home);
	memset(named, 0, sizeof(*named));
	comparators_default(&named->order, 0);
	named->home = f->tree;
	named->record = record;
	named->name = text("n");
	named->tree = (struct tree){.stale = true, .name = &named->name, .home = &named->home,
				    .home_order = &named->order.key};
}

static void stale_when_its_record_is_there_then_read_once(void **state)
{
	struct fixture *f = *state;
	struct named named;
	MDB_val key = text("d"), data;

	home_make(f, &named);
	assert_int_equal(tree_get(&f->snapshot, &named.tree, &named.order, &key, &data), 0);
	assert_memory_equal(data.mv_data, "4", 1);
	assert_false(named.tree.stale);
	assert_memory_equal(&named.tree.record, &named.record, sizeof(named.record));
	fixture_close(f);
	fixture_open(f, SIZE, 64);
	home_make(f, &named);
	cursor_init(&f->cursor, &f->snapshot, &named.tree, &named.order, NULL);
	assert_false(named.tree.stale);
	assert_true(moves(f, MDB_LAST, "h", "8"));
}

static struct named *waited; /* sched_yield() makes its tree known */

/* Replaces the C library's function: another thread of the transaction finishes its change. */
int sched_yield(void)
{
	waited->tree.record.root = 8;
	waited->tree.stale = TREE_KNOWN;
	return 0;
}

/* Other threads of the transaction find the record at the same time; one of them writes it. */
static void stale_when_another_thread_writes_the_record_then_waited_for(void **state)
{
	struct fixture *f = *state;
	struct named named;

	home_make(f, &named);
	waited = &named;
	named.tree.stale = TREE_CHANGING;
	named.tree.record.depth = 77;
	assert_int_equal(tree_refresh(&f->snapshot, &named.tree), 0);
	assert_int_equal(named.tree.stale, TREE_KNOWN);
	assert_int_equal(named.tree.record.root, 8);
	assert_int_equal(named.tree.record.depth, 77); /* the other thread's to write */
}

static void stale_when_its_name_is_gone_then_as_the_release_says(void **state)
{
	static const struct {
		unsigned answers;
		int rc;
	} releases[] = {{0, MDB_NOTFOUND}, {ANSWERS_GONE_IS_BAD_DBI, MDB_BAD_DBI}};
	struct fixture *f = *state;
	struct named named;
	MDB_val key = text("d"), data;

	for (size_t i = 0; i < 2; i++) {
		home_make(f, &named);
		named.name = text("x");
		f->snapshot.answers = releases[i].answers;
		assert_int_equal(tree_get(&f->snapshot, &named.tree, &named.order, &key, &data), releases[i].rc);
		assert_true(named.tree.stale);
		cursor_init(&f->cursor, &f->snapshot, &named.tree, &named.order, NULL);
		assert_int_equal(fixture_get(f, MDB_FIRST, NULL, NULL), releases[i].rc);
		/* A home with an empty tree has no names. */
		named.home.record.root = PAGE_NONE;
		assert_int_equal(tree_refresh(&f->snapshot, &named.tree), MDB_NOTFOUND);
		fixture_close(f);
		fixture_open(f, SIZE, 64);
	}
}

static void stale_when_no_database_or_another_one_then_incompatible(void **state)
{
	struct fixture *f = *state;
	struct named named;

	home_make(f, &named);
	named.tree.record.flags = MDB_DUPSORT;
	assert_int_equal(tree_refresh(&f->snapshot, &named.tree), MDB_INCOMPATIBLE);
	named.tree.record.flags = 0x8000; /* a flag that no file has */
	assert_int_equal(tree_refresh(&f->snapshot, &named.tree), 0);
	named.name = text("v");
	assert_int_equal(tree_refresh(&f->snapshot, &named.tree), MDB_INCOMPATIBLE);
	named.name = text(""); /* its handle has been closed */
	assert_int_equal(tree_refresh(&f->snapshot, &named.tree), MDB_NOTFOUND);
	assert_false(f->snapshot.blocked);
	named.name = text("w");
	assert_int_equal(tree_refresh(&f->snapshot, &named.tree), MDB_CORRUPTED);
	assert_true(f->snapshot.blocked);
}

static void cursor_when_at_a_database_then_tells_its_name(void **state)
{
	struct fixture *f = *state;
	struct named named;
	MDB_val name = {0};

	home_make(f, &named);
	assert_false(cursor_at_database(&f->cursor, &name));
	assert_int_equal(fixture_get(f, MDB_SET, "n", NULL), 0);
	assert_true(cursor_at_database(&f->cursor, &name));
	assert_int_equal(name.mv_size, 1);
	assert_memory_equal(name.mv_data, "n", 1);
	assert_true(cursor_at_database(&f->cursor, NULL));
	renew(f);
	assert_false(cursor_at_database(&f->cursor, &name));
	assert_int_equal(fixture_get(f, MDB_SET, "v", NULL), 0);
	assert_false(cursor_at_database(&f->cursor, &name));
	assert_int_equal(fixture_get(f, MDB_SET, "n", NULL), 0);
	f->snapshot.blocked = SNAPSHOT_FINISHED;
	assert_false(cursor_at_database(&f->cursor, &name));
}

/* --- answers ------------------------------------------------------------------------------------------ */

static void answers_when_of_a_release_then_those_of_all_before(void **state)
{
	static const unsigned both = ANSWERS_ENTER_WITHOUT_DATA | ANSWERS_BACK_FROM_BEHIND;

	(void)state;
	assert_int_equal(answers_of_release(0), 0);
	assert_int_equal(answers_of_release(26), 0);
	assert_int_equal(answers_of_release(27), both);
	assert_int_equal(answers_of_release(29), both);
	assert_int_equal(answers_of_release(30), both | ANSWERS_EDGE_ENDS_END);
	assert_int_equal(answers_of_release(32), both | ANSWERS_EDGE_ENDS_END);
	assert_int_equal(answers_of_release(33), both | ANSWERS_EDGE_ENDS_END | ANSWERS_GONE_IS_BAD_DBI);
	assert_int_equal(answers_of_release(99), both | ANSWERS_EDGE_ENDS_END | ANSWERS_GONE_IS_BAD_DBI);
}

/* Without data a step to a key enters its duplicates since 0.9.27, so that a step among them is one. */
static void last_when_data_is_not_wanted_then_enters_as_the_release_does(void **state)
{
	struct fixture *f = *state;
	struct tree_record inner;

	for (unsigned enters = 0; enters < 2; enters++) {
		tree_of_kinds(f, &inner);
		f->snapshot.answers = enters ? ANSWERS_ENTER_WITHOUT_DATA : 0;
		f->key = (MDB_val){0};
		assert_int_equal(cursor_get(&f->cursor, &f->key, NULL, MDB_LAST), 0);
		assert_true(at(f, "c", NULL));
		assert_int_equal(fixture_get(f, MDB_LAST_DUP, NULL, NULL), enters ? 0 : EINVAL);
		fixture_close(f);
		fixture_open(f, SIZE, 64);
	}
}

static void edge_of_duplicates_when_at_the_end_then_ends_it_as_the_release_does(void **state)
{
	struct fixture *f = *state;
	struct tree_record inner;

	for (unsigned ends = 0; ends < 2; ends++) {
		tree_of_kinds(f, &inner);
		f->snapshot.answers = ends ? ANSWERS_EDGE_ENDS_END : 0;
		assert_int_equal(fixture_get(f, MDB_FIRST_DUP, NULL, NULL), EINVAL);
		assert_true(moves(f, MDB_LAST, "c", "8"));
		assert_true(moves(f, MDB_FIRST_DUP, NULL, "3"));
		assert_int_equal(f->cursor.state & CURSOR_AT_END, ends ? 0 : CURSOR_AT_END);
		assert_int_equal(fixture_get(f, MDB_NEXT, NULL, NULL), ends ? 0 : MDB_NOTFOUND);
		fixture_close(f);
		fixture_open(f, SIZE, 64);
	}
}

/* --- damage under a cursor ------------------------------------------------------------------------------ */

static void entry_when_it_is_damaged_under_a_cursor_then_every_look_is_corrupted(void **state)
{
	static const MDB_cursor_op ops[] = {MDB_GET_CURRENT, MDB_FIRST_DUP, MDB_LAST_DUP};
	struct fixture *f = *state;
	struct tree_record inner, record;
	size_t count;

	for (size_t i = 0; i <= sizeof(ops) / sizeof(ops[0]); i++) {
		record = tree_of_kinds(f, &inner);
		assert_int_equal(fixture_get(f, MDB_SET_KEY, "b", NULL), 0);
		store16(node_of(f, record.root, 1) + ENTRY_LOW, SIZE);
		if (i < sizeof(ops) / sizeof(ops[0]))
			assert_int_equal(fixture_get(f, ops[i], NULL, NULL), MDB_CORRUPTED);
		else
			assert_int_equal(cursor_count(&f->cursor, &count), MDB_CORRUPTED);
		assert_true(f->snapshot.blocked & SNAPSHOT_DAMAGED);
		fixture_close(f);
		fixture_open(f, SIZE, 64);
	}
}

static void key_when_it_is_damaged_under_a_cursor_then_the_next_search_is_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record inner, record = tree_of_kinds(f, &inner);

	assert_int_equal(fixture_get(f, MDB_SET_KEY, "b", NULL), 0);
	store16(node_of(f, record.root, 1) + ENTRY_KEY_SIZE, SIZE);
	assert_int_equal(fixture_get(f, MDB_SET, "bb", NULL), MDB_CORRUPTED);
}

/* The offsets fill the page, so no further offset fits behind the last one. */
static void step_back_when_from_behind_a_page_of_offsets_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record inner, record = tree_of_kinds(f, &inner);
	uint8_t *page = page_of(f, record.root);

	store16(page + PAGE_LOWER, SIZE);
	store16(page + PAGE_UPPER, SIZE);
	for (unsigned at = PAGE_HEADER; at < SIZE; at += 2)
		store16(page + at, PAGE_HEADER + 4);
	fixture_look(f, &record);
	assert_int_equal(fixture_get(f, MDB_SET_RANGE, "\xff", NULL), MDB_NOTFOUND);
	assert_int_equal(fixture_get(f, MDB_PREV, NULL, NULL), MDB_CORRUPTED);
}

/* b's sub-page is not of the kind that duplicates of a fixed size have. */
static void items_when_their_page_is_of_another_kind_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record inner, record = tree_of_kinds(f, &inner);

	record.flags |= MDB_DUPFIXED;
	fixture_look(f, &record);
	assert_int_equal(fixture_get(f, MDB_SET_KEY, "b", NULL), 0);
	assert_int_equal(fixture_get(f, MDB_GET_MULTIPLE, NULL, NULL), MDB_CORRUPTED);
	assert_true(f->snapshot.blocked & SNAPSHOT_DAMAGED);
}

static void step_when_a_miss_has_left_the_end_then_goes_on(void **state)
{
	struct fixture *f = *state;
	struct tree_record inner;

	tree_of_kinds(f, &inner);
	assert_true(moves(f, MDB_LAST, "c", "8"));
	assert_int_equal(fixture_get(f, MDB_SET, "A", NULL), MDB_NOTFOUND);
	assert_true(moves(f, MDB_NEXT, "b", "1"));
	assert_false(f->cursor.state & CURSOR_AT_END);
}

static void descent_when_the_snapshot_is_over_then_bad_txn(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	fixture_look(f, &record);
	f->snapshot.blocked = SNAPSHOT_FINISHED;
	assert_int_equal(cursor_descend(&f->cursor, DESCEND_FIRST, NULL), MDB_BAD_TXN);
	assert_false(f->cursor.state & CURSOR_PLACED);
}

/* A quick step, too, must check that the reference to a run lies inside the page. */
static void quick_step_when_the_way_to_a_run_leaves_the_page_then_corrupted(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = {0};
	uint8_t run[8], value[SIZE] = {0};
	struct made_entry entries[3] = {
		{"aa", run, 2, SIZE, ENTRY_BIG}, {"b", "2", 1, 1, 0}, {"c", "3", 1, 1, 0}};

	store64(run, builder_run(&f->builder, value, SIZE));
	builder_tree(&f->builder, entries, 3, 3, 2, &record);
	/* The bytes behind the page would lead to the run, too. */
	store64(page_of(f, builder_take(&f->builder, 1)), load64(run));
	fixture_look(f, &record);
	assert_true(moves(f, MDB_LAST, "c", "3") && moves(f, MDB_PREV, "b", "2") &&
		    moves(f, MDB_PREV, "aa", NULL));
	/* The first entry ends with the page: its key takes the place of the number behind it. */
	store16(node_of(f, record.root, 0) + ENTRY_KEY_SIZE, 2 + sizeof(run));
	fixture_look(f, &record);
	assert_true(moves(f, MDB_LAST, "c", "3") && moves(f, MDB_PREV, "b", "2"));
	assert_int_equal(fixture_get(f, MDB_PREV, NULL, NULL), MDB_CORRUPTED);
}

/* The count of bytes handed out has each value once, and for items all of the page. */
static void served_when_values_are_handed_out_then_their_bytes(void **state)
{
	struct fixture *f = *state;
	struct tree_record inner;

	tree_of_kinds(f, &inner);
	assert_true(moves(f, MDB_FIRST, "a", NULL));
	assert_int_equal(f->snapshot.served, 2 * SIZE);
	assert_true(moves(f, MDB_NEXT, "b", "1") && moves(f, MDB_NEXT, "b", "2"));
	assert_int_equal(f->snapshot.served, 2 * SIZE + 2);
	assert_true(moves(f, MDB_GET_CURRENT, "b", "2"));
	assert_int_equal(f->snapshot.served, 2 * SIZE + 3);
}

/* The value of the key, in a run that does not exist, is read only when it is compared. */
static void both_when_the_run_is_damaged_then_an_error(void **state)
{
	struct fixture *f = *state;
	struct tree_record inner, record = tree_of_kinds(f, &inner);

	store64(node_of(f, record.root, 0) + ENTRY_KEY + 1, 1);
	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "a", "v"), MDB_CORRUPTED);
}

static int by_length(const MDB_val *a, const MDB_val *b)
{
	return a->mv_size < b->mv_size ? -1 : a->mv_size > b->mv_size;
}

static void both_when_the_program_compares_then_by_its_function(void **state)
{
	struct fixture *f = *state;
	struct tree_record record = tree_of_letters(f);

	record.flags = MDB_DUPSORT;
	fixture_look(f, &record);
	f->order.data = (struct comparator){COMPARE_CUSTOM, by_length};
	fixture_rewind(f);
	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "d", "x"), 0);
	assert_true(at(f, NULL, "4"));
	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "d", "xx"), MDB_NOTFOUND);
	assert_int_equal(fixture_get(f, MDB_GET_BOTH_RANGE, "d", "xx"), MDB_NOTFOUND);
	assert_int_equal(fixture_get(f, MDB_GET_BOTH_RANGE, "d", ""), 0);
	assert_int_equal(fixture_get(f, MDB_GET_BOTH, "d", ""), MDB_NOTFOUND);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, damaged_setup, damaged_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(step_when_in_a_branch_then_the_child_of_the_key),
		CASE(step_when_pages_are_damaged_then_an_error),
		CASE(step_when_the_value_leaves_the_page_then_ends),
		CASE(step_when_at_the_key_then_its_run_or_its_duplicates),
		CASE(first_step_when_repeated_then_the_first_leaf),
		CASE(cursor_when_its_transaction_is_renewed_then_goes_on),
		CASE(cursor_when_its_pages_are_gone_then_it_is_not_set),
		CASE(stale_when_its_record_is_there_then_read_once),
		CASE(stale_when_another_thread_writes_the_record_then_waited_for),
		CASE(stale_when_its_name_is_gone_then_as_the_release_says),
		CASE(stale_when_no_database_or_another_one_then_incompatible),
		CASE(cursor_when_at_a_database_then_tells_its_name),
		cmocka_unit_test(answers_when_of_a_release_then_those_of_all_before),
		CASE(last_when_data_is_not_wanted_then_enters_as_the_release_does),
		CASE(edge_of_duplicates_when_at_the_end_then_ends_it_as_the_release_does),
		CASE(entry_when_it_is_damaged_under_a_cursor_then_every_look_is_corrupted),
		CASE(key_when_it_is_damaged_under_a_cursor_then_the_next_search_is_corrupted),
		CASE(step_back_when_from_behind_a_page_of_offsets_then_corrupted),
		CASE(items_when_their_page_is_of_another_kind_then_corrupted),
		CASE(step_when_a_miss_has_left_the_end_then_goes_on),
		CASE(descent_when_the_snapshot_is_over_then_bad_txn),
		CASE(quick_step_when_the_way_to_a_run_leaves_the_page_then_corrupted),
		CASE(served_when_values_are_handed_out_then_their_bytes),
		CASE(both_when_the_run_is_damaged_then_an_error),
		CASE(both_when_the_program_compares_then_by_its_function),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
