/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what a rank keeps for its job: the bytes that it was given, within its limit, once, in
 * memory or on its disk. The store's bits say which units are whole. */
#include "mpi/peer_private.h"

#include "loader/loader_ready.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { RECORDS = 103, UNIT = 10, SIZE = 200 };

static void record_make(uint64_t record, uint8_t *bytes, MDB_val *key, MDB_val *data)
{
	for (unsigned i = 0; i < SIZE; i++)
		bytes[i] = (uint8_t)(record * 7 + i);
	*key = (MDB_val){record % 9, bytes};
	*data = (MDB_val){SIZE - 10, bytes + 10};
}

static uint64_t keep(struct peer_store *store, uint64_t record)
{
	uint8_t bytes[SIZE];
	MDB_val key, data;

	record_make(record, bytes, &key, &data);
	return peer_store_keep(store, record, &key, &data);
}

static bool is_there(struct peer_store *store, uint64_t record)
{
	bool stays = store->at[record / UNIT].role == ROLE_HOME;
	struct tier_record found;
	uint8_t bytes[SIZE];
	MDB_val key, data;

	bool held = peer_store_holds(store, record);

	assert_int_equal(peer_store_take(store, record, &found), held ? 0 : ENOENT);
	if (!held)
		assert_int_equal(peer_store_read(store, record, &found),
				 peer_store_has(store, record) ? 0 : ENOENT);
	if (!peer_store_has(store, record))
		return false;
	record_make(record, bytes, &key, &data);
	/* A record that may go is returned as a copy. */
	assert_int_equal(found.memory != NULL, !stays || !held);
	assert_int_equal(found.key.mv_size, key.mv_size);
	assert_int_equal(found.data.mv_size, data.mv_size);
	assert_memory_equal(found.key.mv_data, key.mv_data, key.mv_size);
	assert_memory_equal(found.data.mv_data, data.mv_data, data.mv_size);
	/* The copy is one run of bytes, as it is sent. */
	assert_ptr_equal(found.key.mv_data, (uint8_t *)found.data.mv_data + data.mv_size);
	free(found.memory);
	return true;
}

static void peer_store_make(struct peer_store *store, uint64_t limit, enum peer_role role)
{
	memset(store, 0, sizeof(*store));
	assert_int_equal(peer_store_open_units(store, RECORDS, UNIT), 0);
	store->limit = limit;
	for (uint64_t unit = 0; unit < store->units; unit++)
		store->at[unit].role = (uint8_t)role;
}

static void store_when_offered_all_then_has_all_right_and_once(void **state)
{
	struct peer_store store;

	(void)state;
	peer_store_make(&store, 1 << 20, ROLE_COPY);
	assert_int_equal(store.units, 11);
	for (uint64_t record = 0; record < RECORDS; record++) {
		assert_false(is_there(&store, record));
		assert_true(keep(&store, record) > 0);
		assert_int_equal(keep(&store, record), 0);
		assert_true(is_there(&store, record));
	}
	assert_int_equal(ready_count(store.ready, store.units), store.units);
	peer_store_close_units(&store);
}

static void store_when_a_unit_lacks_a_record_then_it_is_not_whole(void **state)
{
	struct peer_store store;

	(void)state;
	peer_store_make(&store, 1 << 20, ROLE_HOME);
	for (uint64_t record = 0; record < RECORDS; record++)
		if (record != 35 && record != RECORDS - 1)
			(void)keep(&store, record);
	assert_int_equal(ready_count(store.ready, store.units), store.units - 2);
	assert_false(ready_test(store.ready, 3));
	assert_false(ready_test(store.ready, 10));
	/* The last unit has fewer records than the others. */
	(void)keep(&store, RECORDS - 1);
	assert_true(ready_test(store.ready, 10));
	peer_store_close_units(&store);
}

static void store_when_room_is_short_then_keeps_what_fits(void **state)
{
	struct peer_store store;
	unsigned n = 0;

	(void)state;
	peer_store_make(&store, 20 * SIZE, ROLE_HOME);
	for (uint64_t record = 0; record < RECORDS; record++)
		n += keep(&store, record) > 0;
	assert_true(n >= 20 && n < 24);
	assert_true(store.used <= store.limit);
	peer_store_close_units(&store);
}

static void store_when_a_unit_is_nothing_of_its_then_not_kept(void **state)
{
	struct peer_store store;

	(void)state;
	peer_store_make(&store, 1 << 20, ROLE_NONE);
	store.at[1].role = ROLE_COPY;
	for (uint64_t record = 0; record < RECORDS; record++)
		assert_int_equal(keep(&store, record) > 0, record / UNIT == 1);
	peer_store_close_units(&store);
}

static uint64_t keep_unit(struct peer_store *store, uint64_t unit)
{
	uint64_t n = 0;

	for (uint64_t record = unit * UNIT; record < (unit + 1) * UNIT; record++)
		n += keep(store, record) > 0;
	return n;
}

/* Room for five units: one has its home here, four are copies of the first plan. */
static void store_when_a_new_plan_wants_room_then_the_first_of_the_stale_go(void **state)
{
	uint64_t *stale = calloc(3, sizeof(*stale));
	struct peer_store store;

	(void)state;
	peer_store_make(&store, 5 * UNIT * SIZE, ROLE_NONE);
	store.at[0].role = ROLE_HOME;
	store.at[1].role = store.at[2].role = store.at[3].role = store.at[4].role = ROLE_COPY;
	for (uint64_t unit = 0; unit < 5; unit++)
		assert_int_equal(keep_unit(&store, unit), UNIT);
	store.at[1].role = store.at[2].role = store.at[3].role = ROLE_NONE;
	store.at[5].role = store.at[6].role = store.at[7].role = store.at[8].role = ROLE_COPY;
	memcpy(stale, (uint64_t[]){3, 1, 2}, 3 * sizeof(*stale));
	peer_store_let_go(&store, stale, 3);
	/* Stale units stay while there is room for them. */
	assert_true(is_there(&store, 30) && is_there(&store, 10) && is_there(&store, 20));
	assert_int_equal(keep_unit(&store, 5), UNIT);
	assert_false(is_there(&store, 30));
	assert_false(ready_test(store.ready, 3));
	assert_true(is_there(&store, 10) && is_there(&store, 20));
	/* The new plan has unit 1 here again: it does not go, wherever it is in the list. */
	store.at[1].role = ROLE_COPY;
	assert_int_equal(keep_unit(&store, 6), UNIT);
	assert_true(is_there(&store, 10) && !is_there(&store, 20));
	assert_true(keep_unit(&store, 7) < UNIT);
	assert_true(is_there(&store, 0) && is_there(&store, 40));
	assert_true(store.used <= store.limit);
	assert_int_equal(ready_count(store.ready, store.units), 5);
	/* A unit that has gone may come again. */
	store.at[3].role = ROLE_COPY;
	store.limit += 2 * UNIT * SIZE;
	assert_int_equal(keep_unit(&store, 3), UNIT);
	assert_true(is_there(&store, 35) && ready_test(store.ready, 3));
	peer_store_close_units(&store);
}

struct giver {
	pthread_t thread;
	struct peer_store *store;
	uint64_t kept;
};

static void *give_all(void *argument)
{
	struct giver *giver = argument;

	for (uint64_t record = 0; record < RECORDS; record++)
		giver->kept += keep(giver->store, record) > 0;
	return NULL;
}

static void store_when_threads_give_the_same_then_each_is_kept_once(void **state)
{
	struct giver givers[4];
	struct peer_store store;
	uint64_t kept = 0;

	(void)state;
	peer_store_make(&store, 1 << 20, ROLE_HOME);
	for (unsigned i = 0; i < 4; i++) {
		givers[i] = (struct giver){.store = &store};
		assert_int_equal(pthread_create(&givers[i].thread, NULL, give_all, &givers[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(givers[i].thread, NULL);
		kept += givers[i].kept;
	}
	assert_int_equal(kept, RECORDS);
	assert_int_equal(ready_count(store.ready, store.units), store.units);
	for (uint64_t record = 0; record < RECORDS; record++)
		assert_true(is_there(&store, record));
	peer_store_close_units(&store);
}

/* --- a disk ----------------------------------------------------------------------------------- */

static char directory[200];

/* The last three units of a store have their place on this disk. */
enum { DISK_UNIT = 8 };

static void *disk_open(uint64_t limit)
{
	struct tier_setup setup = {.identity = {.inode = 1, .size = 2, .snapshot = 3},
				   .root = 4,
				   .records = RECORDS,
				   .directory = directory,
				   .limit = limit};
	void *disk = NULL;

	assert_int_equal(tier_disk.open(&disk, &setup), 0);
	return disk;
}

static void peer_store_make_on_disk(struct peer_store *store, void *disk, enum peer_role role)
{
	peer_store_make(store, 1 << 20, role);
	store->disk = &tier_disk;
	store->disk_state = disk;
	for (uint64_t unit = DISK_UNIT; unit < store->units; unit++)
		peer_store_place_on_disk(store, unit);
}

static void store_when_a_units_place_is_the_disk_then_it_is_there_and_not_in_memory(void **state)
{
	void *disk = disk_open(0);
	struct peer_store store;
	uint64_t kept = 0, used;

	(void)state;
	peer_store_make_on_disk(&store, disk, ROLE_HOME);
	for (uint64_t record = 0; record < DISK_UNIT * UNIT; record++)
		assert_true(keep(&store, record) > 0);
	used = store.used;
	for (uint64_t record = DISK_UNIT * UNIT; record < RECORDS; record++) {
		assert_false(is_there(&store, record));
		assert_false(ready_test(store.ready, record / UNIT));
		kept += keep(&store, record);
		assert_int_equal(keep(&store, record), 0);
		assert_false(peer_store_holds(&store, record));
		assert_true(is_there(&store, record));
	}
	assert_int_equal(store.used, used);
	assert_int_equal(tier_disk.space(disk).written, kept);
	assert_int_equal(ready_count(store.ready, store.units), store.units);
	peer_store_close_units(&store);
	tier_disk.close(disk);
}

/* The store takes only records of units that have their place on this disk, but finds all that the
 * disk has. */
static void store_when_another_process_uses_the_disk_then_what_it_has_put_there_counts(void **state)
{
	void *disk = disk_open(0), *other = disk_open(0);
	struct peer_store store;
	uint8_t bytes[SIZE];
	MDB_val key, data;

	(void)state;
	for (uint64_t record = DISK_UNIT * UNIT - 5; record < DISK_UNIT * UNIT + 15; record++) {
		record_make(record, bytes, &key, &data);
		assert_true(tier_disk.offer(other, record, &key, &data) > 0);
	}
	peer_store_make_on_disk(&store, disk, ROLE_COPY);
	assert_true(ready_test(store.ready, DISK_UNIT));
	assert_false(ready_test(store.ready, DISK_UNIT + 1));
	assert_true(is_there(&store, DISK_UNIT * UNIT - 1));
	for (uint64_t record = (DISK_UNIT + 1) * UNIT; record < RECORDS; record++)
		assert_int_equal(keep(&store, record) > 0, record >= DISK_UNIT * UNIT + 15);
	assert_int_equal(ready_count(store.ready, store.units), 3);
	/* The unit has no place here any more: its records stay, and no more come. */
	store.at[DISK_UNIT].role = ROLE_NONE;
	assert_true(is_there(&store, DISK_UNIT * UNIT));
	peer_store_close_units(&store);
	tier_disk.close(disk);
	tier_disk.close(other);
}

static void store_when_the_disk_is_full_then_no_unit_is_whole_that_is_not(void **state)
{
	void *disk = disk_open(15 * SIZE);
	struct peer_store store;

	(void)state;
	peer_store_make_on_disk(&store, disk, ROLE_HOME);
	assert_true(peer_store_takes(&store, DISK_UNIT));
	for (uint64_t record = 0; record < RECORDS; record++)
		(void)keep(&store, record);
	assert_false(peer_store_takes(&store, DISK_UNIT));
	assert_true(peer_store_takes(&store, 0));
	assert_int_equal(ready_count(store.ready, store.units), DISK_UNIT + 1);
	assert_true(is_there(&store, DISK_UNIT * UNIT));
	assert_false(is_there(&store, RECORDS - 1));
	peer_store_close_units(&store);
	tier_disk.close(disk);
}

static void store_when_threads_give_the_same_to_the_disk_then_units_are_whole(void **state)
{
	void *disk = disk_open(0);
	struct giver givers[4];
	struct peer_store store;

	(void)state;
	peer_store_make_on_disk(&store, disk, ROLE_HOME);
	for (unsigned i = 0; i < 4; i++) {
		givers[i] = (struct giver){.store = &store};
		assert_int_equal(pthread_create(&givers[i].thread, NULL, give_all, &givers[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(givers[i].thread, NULL);
	assert_int_equal(ready_count(store.ready, store.units), store.units);
	for (uint64_t record = 0; record < RECORDS; record++)
		assert_true(is_there(&store, record));
	peer_store_close_units(&store);
	tier_disk.close(disk);
}

static int directory_make(void **state)
{
	const char *top = getenv("TMPDIR");

	(void)state;
	snprintf(directory, sizeof(directory), "%s/lmdbio-store.XXXXXX", top ? top : "/tmp");
	return mkdtemp(directory) ? 0 : -1;
}

static int directory_remove(void **state)
{
	(void)state;
	return rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(store_when_offered_all_then_has_all_right_and_once),
		cmocka_unit_test(store_when_a_unit_lacks_a_record_then_it_is_not_whole),
		cmocka_unit_test(store_when_room_is_short_then_keeps_what_fits),
		cmocka_unit_test(store_when_a_unit_is_nothing_of_its_then_not_kept),
		cmocka_unit_test(store_when_a_new_plan_wants_room_then_the_first_of_the_stale_go),
		cmocka_unit_test(store_when_threads_give_the_same_then_each_is_kept_once),
		cmocka_unit_test(
			store_when_a_units_place_is_the_disk_then_it_is_there_and_not_in_memory),
		cmocka_unit_test(
			store_when_another_process_uses_the_disk_then_what_it_has_put_there_counts),
		cmocka_unit_test(store_when_the_disk_is_full_then_no_unit_is_whole_that_is_not),
		cmocka_unit_test(store_when_threads_give_the_same_to_the_disk_then_units_are_whole),
	};

	return cmocka_run_group_tests(tests, directory_make, directory_remove);
}
