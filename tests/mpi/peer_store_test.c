/* What only this file knows: that what a rank keeps for its job is what was given, within its room,
 * once, and that its bits say which units are whole. */
#include "mpi/peer_private.h"

#include "loader/loader_ready.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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
	return store_keep(store, record, &key, &data);
}

static bool is_there(struct peer_store *store, uint64_t record)
{
	struct tier_record found;
	uint8_t bytes[SIZE];
	MDB_val key, data;

	if (!store_find(store, record, &found))
		return false;
	record_make(record, bytes, &key, &data);
	assert_null(found.memory);
	assert_int_equal(found.key.mv_size, key.mv_size);
	assert_int_equal(found.data.mv_size, data.mv_size);
	assert_memory_equal(found.key.mv_data, key.mv_data, key.mv_size);
	assert_memory_equal(found.data.mv_data, data.mv_data, data.mv_size);
	/* One run of bytes, as it is sent. */
	assert_ptr_equal(found.key.mv_data, (uint8_t *)found.data.mv_data + data.mv_size);
	return true;
}

static void store_make(struct peer_store *store, uint64_t limit, enum peer_role role)
{
	memset(store, 0, sizeof(*store));
	assert_int_equal(store_open_units(store, RECORDS, UNIT), 0);
	store->limit = limit;
	for (uint64_t unit = 0; unit < store->units; unit++)
		store->at[unit].role = (uint8_t)role;
}

static void store_when_offered_all_then_has_all_right_and_once(void **state)
{
	struct peer_store store;

	(void)state;
	store_make(&store, 1 << 20, ROLE_COPY);
	assert_int_equal(store.units, 11);
	for (uint64_t record = 0; record < RECORDS; record++) {
		assert_false(is_there(&store, record));
		assert_true(keep(&store, record) > 0);
		assert_int_equal(keep(&store, record), 0);
		assert_true(is_there(&store, record));
	}
	assert_int_equal(ready_count(store.ready, store.units), store.units);
	store_close_units(&store);
}

static void store_when_a_unit_lacks_a_record_then_it_is_not_whole(void **state)
{
	struct peer_store store;

	(void)state;
	store_make(&store, 1 << 20, ROLE_HOME);
	for (uint64_t record = 0; record < RECORDS; record++)
		if (record != 35 && record != RECORDS - 1)
			(void)keep(&store, record);
	assert_int_equal(ready_count(store.ready, store.units), store.units - 2);
	assert_false(ready_test(store.ready, 3));
	assert_false(ready_test(store.ready, 10));
	/* The last unit has fewer records than others. */
	(void)keep(&store, RECORDS - 1);
	assert_true(ready_test(store.ready, 10));
	store_close_units(&store);
}

static void store_when_room_is_short_then_keeps_what_fits(void **state)
{
	struct peer_store store;
	unsigned n = 0;

	(void)state;
	store_make(&store, 20 * SIZE, ROLE_HOME);
	for (uint64_t record = 0; record < RECORDS; record++)
		n += keep(&store, record) > 0;
	assert_true(n >= 20 && n < 24);
	assert_true(store.used <= store.limit);
	store_close_units(&store);
}

static void store_when_a_unit_is_nothing_of_its_then_not_kept(void **state)
{
	struct peer_store store;

	(void)state;
	store_make(&store, 1 << 20, ROLE_NONE);
	store.at[1].role = ROLE_COPY;
	for (uint64_t record = 0; record < RECORDS; record++)
		assert_int_equal(keep(&store, record) > 0, record / UNIT == 1);
	store_close_units(&store);
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
	store_make(&store, 1 << 20, ROLE_HOME);
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
	store_close_units(&store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(store_when_offered_all_then_has_all_right_and_once),
		cmocka_unit_test(store_when_a_unit_lacks_a_record_then_it_is_not_whole),
		cmocka_unit_test(store_when_room_is_short_then_keeps_what_fits),
		cmocka_unit_test(store_when_a_unit_is_nothing_of_its_then_not_kept),
		cmocka_unit_test(store_when_threads_give_the_same_then_each_is_kept_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
