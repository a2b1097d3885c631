/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps a rank's records for its job.
 *
 * Records whose place is the disk belong to the disk tier (loader/disk_tier.c), which says what is
 * there. This file only counts them. */
#include "config.h"
#include "mpi/peer_private.h"

#include "loader/loader_ready.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int peer_store_open_units(struct peer_store *store, uint64_t records, uint64_t unit_records)
{
	store->records = records;
	store->unit_records = unit_records;
	store->units = records / unit_records + !!(records % unit_records);
	store->at = calloc(store->units + 1, sizeof(*store->at));
	store->ready = calloc(ready_words(store->units) + 1, sizeof(*store->ready));
	pthread_mutex_init(&store->lock, NULL);
	return store->at && store->ready ? 0 : ENOMEM;
}

void peer_store_close_units(struct peer_store *store)
{
	for (uint64_t unit = 0; store->at && unit < store->units; unit++) {
		struct peer_kept *records = store->at[unit].records;

		for (uint64_t i = 0; records && i < store->unit_records; i++)
			free(records[i].memory);
		free(records);
	}
	free(store->at);
	free(store->ready);
	free(store->stale);
	if (store->units)
		pthread_mutex_destroy(&store->lock);
}

/* Returns the record's place in its unit, or NULL. The place stays for good; only its memory may
 * go. */
static struct peer_kept *kept_of(const struct peer_store *store, uint64_t record)
{
	const struct peer_unit *unit = &store->at[peer_store_unit(store, record)];
	struct peer_kept *records = atomic_load_explicit(&unit->records, memory_order_acquire);

	return records ? records + record % store->unit_records : NULL;
}

bool peer_store_holds(const struct peer_store *store, uint64_t record)
{
	const struct peer_kept *at = kept_of(store, record);

	return at && atomic_load_explicit(&at->memory, memory_order_acquire);
}

static bool disk_has(const struct peer_store *store, uint64_t record)
{
	return store->disk && store->disk->has(store->disk_state, record);
}

bool peer_store_has(const struct peer_store *store, uint64_t record)
{
	return peer_store_holds(store, record) || disk_has(store, record);
}

int peer_store_take(struct peer_store *store, uint64_t record, struct tier_record *found)
{
	bool stays = store->at[peer_store_unit(store, record)].role == ROLE_HOME;
	struct peer_kept *at = kept_of(store, record);
	uint8_t *memory;
	int rc = ENOENT;

	if (!at)
		return ENOENT;
	if (!stays)
		pthread_mutex_lock(&store->lock);
	memory = atomic_load_explicit(&at->memory, memory_order_acquire);
	if (memory) {
		*found = (struct tier_record){.data = {at->data, memory},
					      .key = {at->key, memory + at->data}};
		rc = stays || tier_copy(found, &found->key, &found->data) ? 0 : ENOMEM;
	}
	if (!stays)
		pthread_mutex_unlock(&store->lock);
	return rc;
}

int peer_store_read(struct peer_store *store, uint64_t record, struct tier_record *found)
{
	return disk_has(store, record) ? store->disk->fetch(store->disk_state, record, found)
				       : ENOENT;
}

uint64_t peer_store_unit_count(const struct peer_store *store, uint64_t unit)
{
	uint64_t first = unit * store->unit_records;

	return store->records - first < store->unit_records ? store->records - first
							    : store->unit_records;
}

/* Frees all records of a unit. Under the peer_store lock. */
static void unit_free(struct peer_store *store, uint64_t number)
{
	struct peer_unit *unit = &store->at[number];
	struct peer_kept *records = unit->records;

	(void)ready_clear(store->ready, number);
	for (uint64_t i = 0; records && i < store->unit_records; i++) {
		uint8_t *memory = atomic_exchange(&records[i].memory, NULL);

		if (!memory)
			continue;
		store->used -= (uint64_t)records[i].data + records[i].key;
		unit->kept--;
		free(memory);
	}
}

/* Makes room for `size` more bytes, if need be of units that no plan has here. Under the peer_store
 * lock. */
static bool make_room(struct peer_store *store, uint64_t size)
{
	while (store->used + size > store->limit && store->stale_next < store->stale_count) {
		uint64_t number = store->stale[store->stale_next++];

		if (store->at[number].role == ROLE_NONE)
			unit_free(store, number);
	}
	return store->used + size <= store->limit;
}

void peer_store_let_go(struct peer_store *store, uint64_t *units, uint64_t n)
{
	pthread_mutex_lock(&store->lock);
	free(store->stale);
	store->stale = units;
	store->stale_count = n;
	store->stale_next = 0;
	pthread_mutex_unlock(&store->lock);
}

static uint64_t unit_on_disk(const struct peer_store *store, uint64_t unit)
{
	uint64_t first = unit * store->unit_records, n = 0;

	for (uint64_t i = 0; i < peer_store_unit_count(store, unit); i++)
		n += disk_has(store, first + i);
	return n;
}

/* Two threads may offer a record at once and count it twice, so the count alone says nothing. */
static void count_on_disk(struct peer_store *store, uint64_t unit, uint32_t n)
{
	uint64_t all = peer_store_unit_count(store, unit);

	if (atomic_fetch_add(&store->at[unit].kept, n) + n >= all &&
	    unit_on_disk(store, unit) == all)
		(void)ready_set(store->ready, unit);
}

void peer_store_place_on_disk(struct peer_store *store, uint64_t unit)
{
	store->at[unit].on_disk = true;
	count_on_disk(store, unit, (uint32_t)unit_on_disk(store, unit));
}

bool peer_store_takes(const struct peer_store *store, uint64_t unit)
{
	return !store->at[unit].on_disk || store->disk->health(store->disk_state) == TIER_GOOD;
}

/* Without the peer_store lock, so that a thread that wants a record in memory does not wait for the
 * disk. */
static uint64_t keep_on_disk(struct peer_store *store, uint64_t record, const MDB_val *key,
			     const MDB_val *data)
{
	uint64_t size = store->disk->offer(store->disk_state, record, key, data);

	if (disk_has(store, record))
		count_on_disk(store, peer_store_unit(store, record), 1);
	return size;
}

uint64_t peer_store_keep(struct peer_store *store, uint64_t record, const MDB_val *key,
			 const MDB_val *data)
{
	uint64_t number = peer_store_unit(store, record), size = key->mv_size + data->mv_size;
	struct peer_unit *unit = &store->at[number];
	struct peer_kept *records, *at;
	struct tier_record copy;

	if (unit->role == ROLE_NONE || data->mv_size > UINT32_MAX || peer_store_has(store, record))
		return 0;
	if (unit->on_disk)
		return keep_on_disk(store, record, key, data);
	if (!tier_copy(&copy, key, data))
		return 0;
	pthread_mutex_lock(&store->lock);
	records = unit->records;
	if (!records) {
		records = calloc(store->unit_records, sizeof(*records));
		atomic_store_explicit(&unit->records, records, memory_order_release);
	}
	at = records ? records + record % store->unit_records : NULL;
	if (!at || at->memory || !make_room(store, size)) {
		pthread_mutex_unlock(&store->lock);
		free(copy.memory);
		return 0;
	}
	store->used += size;
	at->data = (uint32_t)data->mv_size;
	at->key = (uint32_t)key->mv_size;
	atomic_store_explicit(&at->memory, copy.memory, memory_order_release);
	if (++unit->kept == peer_store_unit_count(store, number))
		(void)ready_set(store->ready, number);
	pthread_mutex_unlock(&store->lock);
	return size;
}
