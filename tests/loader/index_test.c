/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that the record index finds what a cursor finds, record for record, in
 * every kind of database, however its leaves are dealt out. */
#include "index_fixture.h"

#include "index/record_index.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static bool same(const MDB_val *a, const MDB_val *b)
{
	return a->mv_size == b->mv_size && !memcmp(a->mv_data, b->mv_data, a->mv_size);
}

/* Steps through a database with a cursor, and asks the index for the same records by number. */
static void assert_as_cursor(MDB_txn *txn, MDB_dbi dbi, const struct record_index *index)
{
	struct tree *tree = &txn->trees[dbi];
	struct duplicates duplicates;
	struct cursor cursor;
	struct index_place place;
	uint64_t number = 0;
	MDB_val key, data, found_key, found_data;
	int rc;

	cursor_init(&cursor, &txn->snapshot, tree, &txn->env->slots[dbi].order, &duplicates);
	while (!(rc = cursor_get(&cursor, &key, &data, number ? MDB_NEXT : MDB_FIRST))) {
		assert_int_equal(index_find(index, number, &place), 0);
		assert_int_equal(index_get(&txn->snapshot, tree, &place, &found_key, &found_data),
				 0);
		assert_true(same(&key, &found_key));
		assert_true(same(&data, &found_data));
		/* The same bytes, not a copy. */
		assert_ptr_equal(data.mv_data, found_data.mv_data);
		number++;
	}
	assert_int_equal(rc, MDB_NOTFOUND);
	assert_int_equal(number, index_records(index));
	assert_int_equal(index_find(index, number, &place), MDB_NOTFOUND);
	assert_int_equal(index_find(index, UINT64_MAX, &place), MDB_NOTFOUND);
	cursor_end(&cursor);
}

static void record_when_of_any_kind_then_the_cursors_own(void **state)
{
	struct opened opened;
	MDB_dbi dbi;

	(void)state;
	opened_begin(&opened);
	for (unsigned i = 0; i < KINDS + 1; i++) {
		struct tree *tree = tree_of(opened.txn, i < KINDS ? kinds[i].name : NULL, &dbi);
		struct record_index *index;

		assert_int_equal(index_build(&index, &opened.txn->snapshot, tree, 0), 0);
		assert_as_cursor(opened.txn, dbi, index);
		index_free(index);
	}
	opened_end(&opened);
}

/* As ranks do it: every one has the list of leaves, counts its share, and all shares are joined. */
static void index_when_counted_in_parts_then_the_same(void **state)
{
	struct opened opened;
	MDB_dbi dbi;

	(void)state;
	opened_begin(&opened);
	for (unsigned i = 0; i < KINDS; i++) {
		struct tree *tree = tree_of(opened.txn, kinds[i].name, &dbi);

		for (size_t parts = 1; parts <= 7; parts += 3) {
			struct index_part part[7];
			struct record_index *index;
			uint64_t *pages;
			size_t n;

			assert_int_equal(index_leaves(&opened.txn->snapshot, tree, 3, &pages, &n),
					 0);
			assert_int_equal(n, tree->record.leaf_pages);
			for (size_t j = 0; j < parts; j++)
				assert_int_equal(index_count(&opened.txn->snapshot, tree, 2,
							     pages + n * j / parts,
							     n * (j + 1) / parts - n * j / parts,
							     NULL, &part[j]),
						 0);
			assert_int_equal(index_join(&index, tree, part, parts), 0);
			assert_as_cursor(opened.txn, dbi, index);
			index_free(index);
			for (size_t j = 0; j < parts; j++)
				index_part_free(&part[j]);
			free(pages);
		}
	}
	opened_end(&opened);
}

/* Counts all leaves of a tree with a shelf of so many bytes, or with the one given. */
static void shelf_fill(const struct snapshot *snapshot, const struct tree *tree, uint64_t most,
		       struct page_shelf **shelf, struct index_part *part)
{
	uint64_t *pages;
	size_t n;

	if (!*shelf)
		assert_int_equal(shelf_open(shelf, &snapshot->view, most), 0);
	assert_int_equal(index_leaves(snapshot, tree, 3, &pages, &n), 0);
	assert_int_equal(index_count(snapshot, tree, 2, pages, n, *shelf, part), 0);
	free(pages);
}

static void shelf_when_filled_by_counting_then_the_same_records_come_from_it(void **state)
{
	struct opened opened;
	MDB_dbi dbi;

	(void)state;
	opened_begin(&opened);
	for (unsigned i = 0; i < KINDS; i++) {
		struct tree *tree = tree_of(opened.txn, kinds[i].name, &dbi);
		struct snapshot *snapshot = &opened.txn->snapshot, shown;
		uint64_t bytes = 0, weights = 0, number, pages;
		struct record_index *index;
		struct page_shelf *shelf = NULL;
		struct index_place place;
		struct index_part part;
		MDB_val keys[2], data[2];

		shelf_fill(snapshot, tree, UINT64_MAX / 2, &shelf, &part);
		assert_int_equal(index_join(&index, tree, &part, 1), 0);
		shown = shelf_snapshot(shelf, snapshot);
		for (size_t j = 0; j < part.count; j++)
			weights += part.weights[j].all;
		for (uint64_t j = 0; j < index_records(index); j++) {
			assert_int_equal(index_find(index, j, &place), 0);
			assert_true(shelf_has(shelf, place.page));
			assert_int_equal(index_get(snapshot, tree, &place, &keys[0], &data[0]), 0);
			assert_int_equal(
				index_get_apart(&shown, snapshot, tree, &place, &keys[1], &data[1]),
				0);
			assert_int_equal(keys[0].mv_size, keys[1].mv_size);
			assert_memory_equal(keys[0].mv_data, keys[1].mv_data, keys[0].mv_size);
			assert_ptr_not_equal(keys[0].mv_data, keys[1].mv_data);
			assert_int_equal(data[0].mv_size, data[1].mv_size);
			assert_memory_equal(data[0].mv_data, data[1].mv_data, data[0].mv_size);
			assert_int_equal(index_run(&shown, tree, &place, &number, &pages), 0);
			assert_int_equal(data[0].mv_data == data[1].mv_data, pages > 0);
			bytes += keys[0].mv_size + data[0].mv_size;
		}
		if (!(kinds[i].flags & MDB_DUPSORT))
			assert_int_equal(weights, bytes);
		index_free(index);
		index_part_free(&part);
		shelf_close(shelf);
	}
	opened_end(&opened);
}

static void shelf_when_it_is_full_then_no_more_is_kept_until_some_goes(void **state)
{
	enum { PAGES = 7, PAGE = 4096 };
	uint64_t here = 0, kept = 0, first = 0;
	struct page_shelf *shelf = NULL;
	struct index_part part;
	struct opened opened;
	struct tree *tree;
	const uint8_t *page;
	unsigned count;
	MDB_dbi dbi;

	(void)state;
	opened_begin(&opened);
	tree = tree_of(opened.txn, "plain", &dbi);
	shelf_fill(&opened.txn->snapshot, tree, PAGES * PAGE + PAGE - 1, &shelf, &part);
	assert_true(part.count > PAGES);
	for (size_t i = 0; i < part.count; i++) {
		assert_int_equal(part.weights[i].kept,
				 shelf_has(shelf, part.leaves[i].page) ? PAGE : 0);
		here += shelf_has(shelf, part.leaves[i].page);
		kept += part.weights[i].kept;
		if (shelf_has(shelf, part.leaves[i].page))
			first = part.leaves[i].page;
	}
	assert_int_equal(here, PAGES);
	assert_int_equal(kept, PAGES * PAGE);
	assert_int_equal(tree_page(&opened.txn->snapshot, first, &page, &count), 0);
	shelf_drop(shelf, first);
	assert_false(shelf_has(shelf, first));
	assert_true(shelf_put(shelf, first, page));
	assert_true(shelf_has(shelf, first));
	assert_false(shelf_put(shelf, opened.txn->snapshot.view.limit, page));
	index_part_free(&part);
	shelf_close(shelf);
	opened_end(&opened);
}

/* Memory for some pages, a file for some more. */
static void shelf_when_it_has_a_file_then_pages_come_from_there(void **state)
{
	enum { MEMORY = 3, FILED = 5, PAGE = 4096 };
	struct page_shelf *shelf = NULL;
	uint64_t filed[FILED], n = 0;
	struct snapshot *snapshot, shown;
	struct index_part part;
	struct opened opened;
	const uint8_t *page;
	struct tree *tree;
	unsigned count;
	MDB_dbi dbi;

	(void)state;
	opened_begin(&opened);
	tree = tree_of(opened.txn, "plain", &dbi);
	snapshot = &opened.txn->snapshot;
	assert_int_equal(shelf_open(&shelf, &snapshot->view, MEMORY * PAGE), 0);
	shelf_extend(shelf, opened.place.directory, FILED * PAGE);
	if (!shelf_file_room(shelf)) { /* this file system has no files without a name */
		shelf_close(shelf);
		opened_end(&opened);
		skip();
	}
	shelf_fill(snapshot, tree, 0, &shelf, &part);
	assert_int_equal(shelf_file_used(shelf), FILED * PAGE);
	for (size_t i = 0; i < part.count; i++)
		if (part.weights[i].kept && !shelf_has(shelf, part.leaves[i].page))
			filed[n++] = part.leaves[i].page;
	assert_int_equal(n, FILED);
	shown = shelf_snapshot(shelf, snapshot);
	for (unsigned i = 0; i < FILED; i++) {
		assert_int_equal(tree_page(snapshot, filed[i], &page, &count), 0);
		assert_true(shelf_bring(shelf, filed[i]) && shelf_has(shelf, filed[i]));
		assert_memory_equal(shown.view.base + filed[i] * PAGE, page, PAGE);
		/* It rests, and comes again. */
		shelf_rest(shelf, filed[i]);
		assert_false(shelf_has(shelf, filed[i]));
		assert_true(shelf_bring(shelf, filed[i]));
		assert_memory_equal(shown.view.base + filed[i] * PAGE, page, PAGE);
		shelf_drop(shelf, filed[i]);
		assert_false(shelf_bring(shelf, filed[i]));
		assert_int_equal(shelf_file_used(shelf), (FILED - 1 - i) * PAGE);
	}
	/* What was in memory alone does not rest. */
	for (size_t i = n = 0; i < part.count; i++) {
		shelf_rest(shelf, part.leaves[i].page);
		n += shelf_has(shelf, part.leaves[i].page);
	}
	assert_int_equal(n, MEMORY);
	index_part_free(&part);
	shelf_close(shelf);
	/* No directory, no file. */
	assert_int_equal(shelf_open(&shelf, &snapshot->view, PAGE), 0);
	shelf_extend(shelf, "/no/such/directory", FILED * PAGE);
	assert_int_equal(shelf_file_room(shelf), 0);
	assert_true(shelf_put(shelf, filed[0], page));
	assert_false(shelf_put(shelf, filed[1], page));
	shelf_close(shelf);
	/* Other users may write there. */
	assert_int_equal(chmod(opened.place.directory, 0777), 0);
	assert_int_equal(shelf_open(&shelf, &snapshot->view, PAGE), 0);
	shelf_extend(shelf, opened.place.directory, FILED * PAGE);
	assert_int_equal(shelf_file_room(shelf), 0);
	shelf_close(shelf);
	opened_end(&opened);
}

static void run_when_the_value_overflows_then_where_it_stands(void **state)
{
	struct record_index *index;
	struct index_place place;
	struct opened opened;
	uint64_t number, pages;
	struct tree *tree;
	unsigned runs = 0;
	MDB_val data;
	MDB_dbi dbi;

	(void)state;
	opened_begin(&opened);
	tree = tree_of(opened.txn, "overflow", &dbi);
	assert_int_equal(index_build(&index, &opened.txn->snapshot, tree, 1), 0);
	for (uint64_t i = 0; i < index_records(index); i++) {
		assert_int_equal(index_find(index, i, &place), 0);
		assert_int_equal(index_get(&opened.txn->snapshot, tree, &place, NULL, &data), 0);
		assert_int_equal(index_run(&opened.txn->snapshot, tree, &place, &number, &pages),
				 0);
		assert_int_equal(pages, data.mv_size > 2030 ? (15 + data.mv_size) / 4096 + 1 : 0);
		if (pages)
			assert_ptr_equal(data.mv_data,
					 opened.env->window.base + number * 4096 + 16);
		runs += pages > 0;
	}
	assert_true(runs > 200);
	index_free(index);
	opened_end(&opened);
}

/* --- damage ----------------------------------------------------------------------------------- */

static void index_when_the_tree_says_other_than_its_leaves_then_corrupted(void **state)
{
	struct record_index *index;
	struct opened opened;
	struct tree tree;
	MDB_dbi dbi;

	(void)state;
	opened_begin(&opened);
	tree = *tree_of(opened.txn, "plain", &dbi);
	tree.record.entries++;
	assert_int_equal(index_build(&index, &opened.txn->snapshot, &tree, 0), MDB_CORRUPTED);
	tree.record.entries--;
	tree.record.depth++;
	assert_int_equal(index_build(&index, &opened.txn->snapshot, &tree, 0), MDB_CORRUPTED);
	tree.record.depth = 200;
	assert_int_equal(index_build(&index, &opened.txn->snapshot, &tree, 0), MDB_CORRUPTED);
	opened_end(&opened);
}

/* Any page overwritten with any other's bytes, or noise, is an error or changes nothing. */
static void index_when_pages_are_damaged_then_an_error_and_no_signal(void **state)
{
	struct record_index *index;
	struct opened opened;
	struct tree trees[KINDS];
	unsigned errors = 0;
	uint8_t page[4096];
	uint32_t size;
	uint64_t id;
	MDB_dbi dbi;

	(void)state;
	opened_begin(&opened);
	place_newest(&opened.place, &size, &id);
	assert_int_equal(size, 4096);
	for (unsigned i = 0; i < KINDS; i++)
		trees[i] = *tree_of(opened.txn, kinds[i].name, &dbi);
	for (uint64_t number = 2; number < opened.txn->snapshot.view.limit; number += 5) {
		int fd = open(opened.place.data, O_RDONLY | O_CLOEXEC);

		assert_int_equal(pread(fd, page, 4096, (off_t)number * 4096), 4096);
		close(fd);
		for (unsigned i = 0; i < 3; i++) {
			uint8_t noise[64];

			for (unsigned j = 0; j < sizeof(noise); j++)
				noise[j] = (uint8_t)(number * 31 + j * 7 + i * 101);
			place_patch(&opened.place, number * 4096 + (i == 0 ? 10 : i * 700), noise,
				    i == 0 ? 6 : sizeof(noise));
		}
		for (unsigned i = 0; i < KINDS; i++) {
			struct snapshot snapshot = opened.txn->snapshot;
			int rc = index_build(&index, &snapshot, &trees[i], 0);

			if (!rc)
				index_free(index);
			errors += rc != 0;
			assert_true(!rc || rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND);
		}
		place_patch(&opened.place, number * 4096, page, 4096);
	}
	assert_true(errors > 20);
	opened_end(&opened);
}

/* --- the environment's own ------------------------------------------------------------------- */

static void records_when_asked_again_then_the_same_index(void **state)
{
	struct record_index *first, *again, *other;
	struct opened opened;
	MDB_dbi dbi, second;

	(void)state;
	opened_begin(&opened);
	tree_of(opened.txn, "plain", &dbi);
	tree_of(opened.txn, "dups", &second);
	assert_int_equal(records_take(opened.txn, dbi, &first), 0);
	assert_int_equal(records_take(opened.txn, dbi, &again), 0);
	assert_int_equal(records_take(opened.txn, second, &other), 0);
	assert_ptr_equal(first, again);
	assert_ptr_not_equal(first, other);
	records_give(opened.env, first);
	records_give(opened.env, again);
	records_give(opened.env, other);
	opened_end(&opened);
}

static void records_when_built_elsewhere_then_that_index(void **state)
{
	struct record_index *built, *found, *twice;
	struct opened opened;
	struct tree *tree;
	MDB_dbi dbi;

	(void)state;
	opened_begin(&opened);
	tree = tree_of(opened.txn, "plain", &dbi);
	assert_int_equal(index_build(&built, &opened.txn->snapshot, tree, 2), 0);
	assert_int_equal(index_build(&twice, &opened.txn->snapshot, tree, 2), 0);
	assert_int_equal(records_put(opened.txn, tree, built), 0);
	assert_int_equal(records_put(opened.txn, tree, twice), EEXIST);
	index_free(twice);
	assert_int_equal(records_take(opened.txn, dbi, &found), 0);
	assert_ptr_equal(found, built);
	records_give(opened.env, found);
	opened_end(&opened);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(record_when_of_any_kind_then_the_cursors_own),
		cmocka_unit_test(index_when_counted_in_parts_then_the_same),
		cmocka_unit_test(shelf_when_filled_by_counting_then_the_same_records_come_from_it),
		cmocka_unit_test(shelf_when_it_is_full_then_no_more_is_kept_until_some_goes),
		cmocka_unit_test(shelf_when_it_has_a_file_then_pages_come_from_there),
		cmocka_unit_test(run_when_the_value_overflows_then_where_it_stands),
		cmocka_unit_test(index_when_the_tree_says_other_than_its_leaves_then_corrupted),
		cmocka_unit_test(index_when_pages_are_damaged_then_an_error_and_no_signal),
		cmocka_unit_test(records_when_asked_again_then_the_same_index),
		cmocka_unit_test(records_when_built_elsewhere_then_that_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
