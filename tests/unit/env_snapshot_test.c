/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which snapshot of a file a transaction must see, whatever the two meta pages contain. */
#include "env_fixture.h"

#include "format/layout.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
	struct place place;
	uint32_t page_size;
	uint64_t id; /* of the last commit */
	MDB_env *env;
	MDB_txn *txn;
};

static void fixture_open(struct fixture *f, unsigned commits)
{
	MDB_env *orig;
	char key[16];

	place_make(&f->place);
	orig = origin_open(&f->place);
	for (unsigned i = 1; i <= commits; i++) {
		snprintf(key, sizeof(key), "key %u", i);
		origin_put_text(orig, NULL, 0, key, key);
	}
	lmdbio_orig_mdb_env_close(orig);
	place_newest(&f->place, &f->page_size, &f->id);
	assert_int_equal(f->id, commits);
	f->env = own_open(&f->place, 2, 0);
	assert_int_equal(txn_begin(f->env, NULL, MDB_RDONLY, &f->txn), 0);
}

static void fixture_close(struct fixture *f)
{
	if (f->txn)
		txn_abort(f->txn);
	env_close(f->env);
	place_remove(&f->place);
}

static int setup(void **state)
{
	*state = calloc(1, sizeof(struct fixture));
	if (*state)
		fixture_open(*state, 3);
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	fixture_close(*state);
	free(*state);
	return 0;
}

/* Return the offset of a field in the last commit's meta page, and in the other meta page. */
static uint64_t ours(const struct fixture *f, unsigned field)
{
	return (f->id & 1) * f->page_size + field;
}

static uint64_t other(const struct fixture *f, unsigned field)
{
	return (~f->id & 1) * f->page_size + field;
}

static void take_when_newest_is_in_either_page_then_that_one(void **state)
{
	(void)state;
	for (unsigned commits = 1; commits <= 6; commits++) {
		struct fixture f = {0};
		char key[16];

		fixture_open(&f, commits);
		assert_int_equal(f.txn->id, commits);
		assert_int_equal(f.txn->trees[DBI_MAIN].record.entries, commits);
		assert_int_equal(f.txn->snapshot.page_size, f.page_size);
		assert_int_equal(f.txn->trees[DBI_FREE].record.pad, 0);
		snprintf(key, sizeof(key), "key %u", commits);
		assert_true(txn_has(f.txn, DBI_MAIN, key, key));
		fixture_close(&f);
	}
}

static void take_when_file_has_no_commit_then_empty(void **state)
{
	struct fixture f = {0};

	(void)state;
	fixture_open(&f, 0);
	assert_int_equal(f.txn->id, 0);
	assert_true(f.txn->trees[DBI_MAIN].record.root == PAGE_NONE);
	fixture_close(&f);
}

/* Leaves the lock file as its maker does when it is killed at once. Runs in a process of its own,
 * because a process that closes a lock file loses its locks on it. Returns how often the id was in
 * the file's head. */
static int lock_file_forget(void *argument)
{
	const struct fixture *f = argument;
	uint64_t head[16], none = 0;
	char name[240];
	int fd, found = 0;

	snprintf(name, sizeof(name), "%s/lock.mdb", f->place.directory);
	fd = open(name, O_RDWR | O_CLOEXEC);
	if (fd < 0 || pread(fd, head, sizeof(head), 0) != sizeof(head))
		return 255;
	for (unsigned i = 0; i < sizeof(head) / sizeof(*head); i++)
		if (head[i] == f->id &&
		    pwrite(fd, &none, sizeof(none), i * sizeof(none)) == sizeof(none))
			found++;
	return found;
}

static void take_when_lock_file_has_no_id_then_the_newest(void **state)
{
	(void)state;
	for (unsigned commits = 3; commits <= 6; commits++) {
		struct fixture f = {0};
		char key[16];

		fixture_open(&f, commits);
		txn_reset(f.txn);
		assert_int_equal(in_process(lock_file_forget, &f), 1);
		assert_int_equal(txn_renew(f.txn), 0);
		assert_int_equal(f.txn->id, commits);
		snprintf(key, sizeof(key), "key %u", commits);
		assert_true(txn_has(f.txn, DBI_MAIN, key, key));
		fixture_close(&f);
	}
}

static void take_when_other_page_has_the_same_id_then_ours(void **state)
{
	struct fixture *f = *state;

	place_patch64(&f->place, other(f, META_TXNID), f->id);
	assert_int_equal(snapshot_take(f->txn), 0);
	assert_int_equal(f->txn->id, f->id);
	assert_int_equal(f->txn->trees[DBI_MAIN].record.entries, 3);
}

/* The lock file's id decides, as with the original. */
static void take_when_other_page_is_newer_at_rest_then_ours(void **state)
{
	struct fixture *f = *state;

	place_patch64(&f->place, other(f, META_TXNID), f->id + 5);
	assert_int_equal(snapshot_take(f->txn), 0);
	assert_int_equal(f->txn->id, f->id);
	assert_int_equal(f->txn->trees[DBI_MAIN].record.entries, 3);
	assert_true(txn_has(f->txn, DBI_MAIN, "key 3", "key 3"));
}

static void take_when_our_page_has_another_id_at_rest_then_ours(void **state)
{
	static const int64_t shifts[] = {-3, -2, -1, 1, 2, 1000};
	struct fixture *f = *state;

	for (size_t i = 0; i < sizeof(shifts) / sizeof(shifts[0]); i++) {
		place_patch64(&f->place, ours(f, META_TXNID), f->id + (uint64_t)shifts[i]);
		assert_int_equal(snapshot_take(f->txn), 0);
		assert_int_equal(f->txn->id, f->id);
		assert_int_equal(f->txn->trees[DBI_MAIN].record.entries, 3);
	}
}

static void take_when_our_page_is_no_meta_page_then_its_error(void **state)
{
	struct fixture *f = *state;

	place_patch(&f->place, ours(f, META_VERSION), "\2", 1);
	assert_int_equal(snapshot_take(f->txn), MDB_VERSION_MISMATCH);
	place_patch(&f->place, ours(f, META_VERSION), "\1", 1);
	place_patch(&f->place, ours(f, META_MAGIC), "X", 1);
	assert_int_equal(snapshot_take(f->txn), MDB_INVALID);
	place_patch(&f->place, ours(f, META_MAGIC), "\xde", 1);
	assert_int_equal(snapshot_take(f->txn), 0);
}

static void take_when_other_page_is_no_meta_page_then_no_matter(void **state)
{
	struct fixture *f = *state;

	place_patch64(&f->place, other(f, META_MAGIC), 0);
	assert_int_equal(snapshot_take(f->txn), 0);
	assert_int_equal(f->txn->trees[DBI_MAIN].record.entries, 3);
}

static void take_when_page_size_changes_then_corrupted_or_invalid(void **state)
{
	struct fixture *f = *state;
	uint32_t size = f->page_size * 2;

	place_patch(&f->place, ours(f, META_FREE_TREE + TREE_PAD), &size, sizeof(size));
	assert_int_equal(snapshot_take(f->txn), MDB_CORRUPTED);
	size = f->page_size + 1;
	place_patch(&f->place, ours(f, META_FREE_TREE + TREE_PAD), &size, sizeof(size));
	assert_int_equal(snapshot_take(f->txn), MDB_INVALID);
}

static void take_when_last_page_is_out_of_reach_then_resized_or_corrupted(void **state)
{
	struct fixture *f = *state;
	uint64_t fit = f->env->window.length / f->page_size;

	place_patch64(&f->place, ours(f, META_LAST_PAGE), fit - 1);
	assert_int_equal(snapshot_take(f->txn), 0);
	place_patch64(&f->place, ours(f, META_LAST_PAGE), fit);
	assert_int_equal(snapshot_take(f->txn), MDB_MAP_RESIZED);
	place_patch64(&f->place, ours(f, META_LAST_PAGE), 1ull << 52);
	assert_int_equal(snapshot_take(f->txn), MDB_MAP_RESIZED);
	place_patch64(&f->place, ours(f, META_LAST_PAGE), UINT64_MAX);
	assert_int_equal(snapshot_take(f->txn), MDB_CORRUPTED);
}

/* Cuts the file, and waits until the library would ask for its status again. */
static void cut(struct fixture *f, uint64_t size)
{
	place_cut(&f->place, size);
	while (clock_coarse() == f->txn->looked_at)
		;
}

/* Takes a snapshot, with a size that no look at the file would find. */
static uint64_t size_after_taking(struct fixture *f, uint64_t other_id)
{
	uint64_t tick;

	do {
		assert_int_equal(snapshot_take(f->txn), 0);
		tick = f->txn->looked_at;
		f->txn->file_size += f->page_size;
		f->txn->identity.snapshot += other_id;
		assert_int_equal(snapshot_take(f->txn), 0);
	} while (clock_coarse() != tick);
	return f->txn->file_size;
}

static void take_when_the_snapshot_was_there_this_tick_then_the_file_is_not_asked(void **state)
{
	struct fixture *f = *state;
	uint64_t size;

	assert_int_equal(snapshot_take(f->txn), 0);
	f->txn->looked_at = 0;
	assert_int_equal(snapshot_take(f->txn), 0);
	size = f->txn->file_size;
	f->txn->looked_at = 0;
	assert_int_equal(size_after_taking(f, 0), size + f->page_size);
	f->txn->looked_at = 0;
	assert_int_equal(size_after_taking(f, 1), size);
}

static void take_when_file_is_cut_then_no_page_behind_its_end(void **state)
{
	struct fixture *f = *state;

	cut(f, 2ull * f->page_size + 10);
	assert_int_equal(snapshot_take(f->txn), 0);
	assert_int_equal(f->txn->snapshot.view.limit, 2);
	f->txn->snapshot.blocked = 0;
	assert_int_equal(tree_get(&f->txn->snapshot, &f->txn->trees[DBI_MAIN],
				  &f->env->slots[DBI_MAIN].order, &(MDB_val){1, (char[]){"k"}},
				  &(MDB_val){0}),
			 MDB_CORRUPTED);
	cut(f, 2ull * f->page_size - 1);
	assert_int_equal(snapshot_take(f->txn), MDB_CORRUPTED);
	cut(f, 0);
	assert_int_equal(snapshot_take(f->txn), MDB_CORRUPTED);
}

/* While a file is copied, its meta pages come first. The last look at the file may be of this tick:
 * a transaction's, or opening's. */
static void take_when_file_has_its_rest_since_the_last_look_then_all_of_it(void **state)
{
	struct fixture *f = *state;
	uint64_t size, pages, tick;

	assert_int_equal(snapshot_take(f->txn), 0);
	size = f->txn->file_size;
	pages = f->txn->snapshot.view.pages;
	do {
		place_cut(&f->place, 2ull * f->page_size);
		f->txn->looked_at = 0;
		f->env->seen.at = 0;
		assert_int_equal(snapshot_take(f->txn), 0);
		assert_int_equal(f->txn->snapshot.view.limit, 2);
		tick = f->txn->looked_at;
		place_cut(&f->place, size);
		assert_int_equal(snapshot_take(f->txn), 0);
		assert_int_equal(f->txn->snapshot.view.limit, pages);
	} while (clock_coarse() != tick);
	do {
		txn_abort(f->txn);
		env_close(f->env);
		place_cut(&f->place, 2ull * f->page_size);
		f->env = own_open(&f->place, 2, 0);
		tick = f->env->seen.at;
		place_cut(&f->place, size);
		assert_int_equal(txn_begin(f->env, NULL, MDB_RDONLY, &f->txn), 0);
		assert_int_equal(f->txn->snapshot.view.limit, pages);
	} while (clock_coarse() != tick);
}

/* A transaction that fails to begin releases its reader slot: there are only 126. */
static void begin_when_it_fails_200_times_then_no_slot_is_lost(void **state)
{
	struct fixture *f = *state;
	unsigned before;

	txn_abort(f->txn);
	f->txn = NULL;
	before = readers_count(f->env);
	place_patch(&f->place, ours(f, META_MAGIC), "X", 1);
	for (unsigned i = 0; i < 200; i++)
		assert_int_equal(txn_begin(f->env, NULL, MDB_RDONLY, &f->txn), MDB_INVALID);
	assert_int_equal(readers_count(f->env), before);
	place_patch(&f->place, ours(f, META_MAGIC), "\xde", 1);
	assert_int_equal(txn_begin(f->env, NULL, MDB_RDONLY, &f->txn), 0);
	assert_true(txn_has(f->txn, DBI_MAIN, "key 1", "key 1"));
}

static void renew_when_it_fails_then_may_be_tried_again(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(txn_renew(f->txn), EINVAL); /* it is active */
	txn_reset(f->txn);
	place_patch(&f->place, ours(f, META_MAGIC), "X", 1);
	assert_int_equal(txn_renew(f->txn), MDB_INVALID);
	assert_true(f->txn->snapshot.blocked & SNAPSHOT_FINISHED);
	place_patch(&f->place, ours(f, META_MAGIC), "\xde", 1);
	assert_int_equal(txn_renew(f->txn), 0);
	assert_int_equal(f->txn->snapshot.blocked, 0);
	assert_true(txn_has(f->txn, DBI_MAIN, "key 2", "key 2"));
}

static void renew_when_snapshot_was_damaged_then_starts_clean(void **state)
{
	struct fixture *f = *state;

	f->txn->snapshot.blocked = SNAPSHOT_DAMAGED;
	txn_reset(f->txn);
	assert_int_equal(txn_renew(f->txn), 0);
	assert_int_equal(f->txn->snapshot.blocked, 0);
}

static void put_next(MDB_env *orig, char what)
{
	char key[] = "new ?";

	key[4] = what;
	origin_put_text(orig, NULL, 0, key, key);
}

/* A foreign writer overwrites our meta page after the original has looked and before lmdbio
 * looks. */
static void take_when_writer_has_passed_then_the_newer_snapshot(void **state)
{
	(void)state;
	for (unsigned commits = 1; commits <= 4; commits++) {
		struct fixture f = {0};
		struct writer writer;

		place_make(&f.place);
		writer_start(&writer, &f.place, put_next);
		writer_ask(&writer, 'a');
		f.env = own_open(&f.place, 2, 0);
		assert_int_equal(txn_begin(f.env, NULL, MDB_RDONLY, &f.txn), 0);
		assert_int_equal(f.txn->id, 1);
		for (unsigned i = 0; i < commits; i++)
			writer_ask(&writer, (char)('b' + i));
		/* The old snapshot stays whole: its pages are not reused. */
		assert_true(txn_has(f.txn, DBI_MAIN, "new a", "new a"));
		assert_int_equal(snapshot_take(f.txn), 0);
		if (commits > 1) {
			assert_int_equal(f.txn->id, commits + 1);
			assert_int_equal(f.txn->trees[DBI_MAIN].record.entries, commits + 1);
		}
		txn_reset(f.txn);
		assert_int_equal(txn_renew(f.txn), 0);
		assert_int_equal(f.txn->id, commits + 1);
		assert_int_equal(f.txn->trees[DBI_MAIN].record.entries, commits + 1);
		fixture_close(&f);
		writer_stop(&writer);
	}
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(take_when_newest_is_in_either_page_then_that_one),
		cmocka_unit_test(take_when_file_has_no_commit_then_empty),
		cmocka_unit_test(take_when_lock_file_has_no_id_then_the_newest),
		TEST(take_when_other_page_has_the_same_id_then_ours),
		TEST(take_when_other_page_is_newer_at_rest_then_ours),
		TEST(take_when_our_page_has_another_id_at_rest_then_ours),
		TEST(take_when_our_page_is_no_meta_page_then_its_error),
		TEST(take_when_other_page_is_no_meta_page_then_no_matter),
		TEST(take_when_page_size_changes_then_corrupted_or_invalid),
		TEST(take_when_last_page_is_out_of_reach_then_resized_or_corrupted),
		TEST(take_when_file_is_cut_then_no_page_behind_its_end),
		TEST(take_when_the_snapshot_was_there_this_tick_then_the_file_is_not_asked),
		TEST(take_when_file_has_its_rest_since_the_last_look_then_all_of_it),
		TEST(begin_when_it_fails_200_times_then_no_slot_is_lost),
		TEST(renew_when_it_fails_then_may_be_tried_again),
		TEST(renew_when_snapshot_was_damaged_then_starts_clean),
		cmocka_unit_test(take_when_writer_has_passed_then_the_newer_snapshot),
	};

	return cmocka_run_group_tests_name("snapshot", tests, NULL, NULL);
}
