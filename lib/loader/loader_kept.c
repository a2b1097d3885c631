/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps records of an opportunistic order in this process's memory.
 *
 * It keeps records that the order calls resident, as they are read, until the memory for them is
 * used. It gives up no record for another (CoorDL's rule: an epoch hits exactly what is kept). */
#include "loader/loader_tier.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct kept_record {
	_Atomic(void *) memory; /* value, then key; NULL: not here */
	uint32_t data, key;     /* bytes */
};

struct kept_records {
	struct order_epoch order;
	uint64_t limit;
	_Atomic uint64_t used;
	pthread_mutex_t lock;
	uint64_t records;
	struct kept_record at[];
};

static int kept_open(void **state, const struct tier_setup *setup)
{
	struct kept_records *kept;

	if (setup->order->spec.policy != ORDER_OPPORTUNISTIC || !setup->keep)
		return 0;
	kept = calloc(1, sizeof(*kept) + setup->records * sizeof(kept->at[0]));
	if (!kept)
		return ENOMEM;
	order_begin(&kept->order, setup->order, 0);
	kept->limit = setup->keep;
	kept->records = setup->records;
	pthread_mutex_init(&kept->lock, NULL);
	*state = kept;
	return 0;
}

static bool kept_has(void *state, uint64_t record)
{
	struct kept_records *kept = state;

	return atomic_load_explicit(&kept->at[record].memory, memory_order_acquire) != NULL;
}

static int kept_fetch(void *state, uint64_t record, struct tier_record *to)
{
	struct kept_record *at = &((struct kept_records *)state)->at[record];
	uint8_t *memory = atomic_load_explicit(&at->memory, memory_order_acquire);

	if (!memory)
		return ENOENT;
	*to = (struct tier_record){.data = {at->data, memory}, .key = {at->key, memory + at->data}};
	return 0;
}

static uint64_t kept_offer(void *state, uint64_t record, const MDB_val *key, const MDB_val *data)
{
	struct kept_records *kept = state;
	struct kept_record *at = &kept->at[record];
	uint64_t size = key->mv_size + data->mv_size;
	struct tier_record copy;

	if (kept_has(state, record) || !order_is_resident(&kept->order, record))
		return 0;
	if (atomic_fetch_add(&kept->used, size) + size > kept->limit ||
	    !tier_copy(&copy, key, data)) {
		atomic_fetch_sub(&kept->used, size);
		return 0;
	}
	pthread_mutex_lock(&kept->lock);
	if (!kept_has(state, record)) {
		at->data = (uint32_t)data->mv_size;
		at->key = (uint32_t)key->mv_size;
		atomic_store_explicit(&at->memory, copy.memory, memory_order_release);
		copy.memory = NULL;
	}
	pthread_mutex_unlock(&kept->lock);
	if (copy.memory) {
		free(copy.memory);
		atomic_fetch_sub(&kept->used, size);
		return 0;
	}
	return size;
}

static void kept_close(void *state)
{
	struct kept_records *kept = state;

	for (uint64_t i = 0; i < kept->records; i++)
		free(kept->at[i].memory);
	pthread_mutex_destroy(&kept->lock);
	free(kept);
}

const struct tier_ops tier_kept = {
	.name = "memory",
	.open = kept_open,
	.has = kept_has,
	.fetch = kept_fetch,
	.offer = kept_offer,
	.close = kept_close,
};
