/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads values from storage straight to where a batch has them.
 *
 * A large value is read into the memory that its sample will have. Smaller ones that come with one
 * read are copied out of it. Their leaves, and values that stand in leaves, come through the
 * window.
 */
#include "loader/loader_private.h"

#include "util/clock.h"
#include "window/store.h"

#include <stdlib.h>
#include <string.h>

/* Small ones are aligned as well: a direct read takes nothing else. */
static void *memory_new(struct lmdbio_loader *loader, size_t size)
{
	return size < SAMPLE_LARGE ? aligned_alloc(ARENA_BLOCK, size)
				   : sample_memory_new(loader, size);
}

bool direct_read(struct lmdbio_loader *loader, uint64_t from, uint64_t end, bool alone,
		 struct direct_bytes *direct, uint64_t *ns)
{
	struct store *store = loader->data.txn->snapshot.view.runs;
	size_t key = loader->data.txn->snapshot.page_size; /* no key is longer */
	uint64_t began = clock_now();
	bool served = false;
	int rc = 0;

	*direct = (struct direct_bytes){0};
	if (!loader->reads.past || from >= end)
		return false;
	direct->from = from & ~(uint64_t)(ARENA_BLOCK - 1);
	direct->length = round_up(end, ARENA_BLOCK) - direct->from;
	direct->alone = alone && direct->length >= SAMPLE_LARGE;
	direct->memory = memory_new(loader, direct->length + (direct->alone ? key : 0));
	/* What is copied out of is memory, too; a sample's own is counted when it has come. */
	if (direct->memory && !direct->alone) {
		pthread_mutex_lock(&loader->lock);
		loader->memory.held += direct->length;
		pthread_mutex_unlock(&loader->lock);
	}
	if (direct->memory)
		rc = store_read(store, direct->memory, direct->from, direct->length, &served);
	if (!served || rc) {
		direct_end(loader, direct);
		return false;
	}
	*ns = clock_now() - began;
	loader_note(loader, direct->length, *ns);
	return true;
}

bool direct_get(const struct lmdbio_loader *loader, const struct direct_bytes *direct,
		struct snapshot *leaves, const struct index_place *place, MDB_val *key,
		MDB_val *data)
{
	struct snapshot values = *leaves;
	uintptr_t memory = (uintptr_t)direct->memory, at;
	uint64_t limit;

	if (!direct->memory)
		return false;
	values.view.base = (const uint8_t *)(memory - direct->from);
	limit = (direct->from + direct->length) >> values.view.page_shift;
	if (values.view.limit > limit)
		values.view.limit = limit;
	values.view.store = values.view.runs = NULL;
	values.view.sure = NULL;
	if (index_get_apart(leaves, &values, &loader->data.tree, place, key, data))
		return false;
	at = (uintptr_t)data->mv_data;
	return at >= memory && at - memory <= direct->length &&
	       data->mv_size <= direct->length - (at - memory);
}

void direct_give(struct direct_bytes *direct, struct tier_record *record)
{
	uint8_t *behind = direct->memory + direct->length;

	memcpy(behind, record->key.mv_data, record->key.mv_size);
	record->key.mv_data = behind;
	record->memory = direct->memory;
	direct->memory = NULL;
}

void direct_end(struct lmdbio_loader *loader, struct direct_bytes *direct)
{
	if (!direct->memory)
		return;
	pthread_mutex_lock(&loader->lock);
	if (!direct->alone) {
		loader->memory.held -= direct->length;
		crew_wake_all(&loader->readers); /* threads that wait for memory */
	}
	sample_memory_free(loader, direct->memory);
	pthread_mutex_unlock(&loader->lock);
	direct->memory = NULL;
}
