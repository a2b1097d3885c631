/* SPDX-License-Identifier: OLDAP-2.8 */
/* Uses the memory of large samples again, and reads values from storage straight to it.
 *
 * Memory that has just come from the system costs a fault and the clearing of each page, which is
 * more than reading a value into it. So the loader keeps large blocks when their batch is given
 * back, and reads the next values into them: blocks freed last come first, because a cache may
 * still hold them. */
#include "loader/loader_private.h"

#include "util/clock.h"
#include "window/store.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum {
	MEMORY_PAGE = 4096,
	MEMORY_SPARE = 4, /* a block may be larger than asked for by 1 / this */
};

static void *take(struct sample_memory *memory, unsigned i)
{
	void *block = memory->blocks[i];

	memory->bytes -= malloc_usable_size(block);
	memory->count--;
	memmove(memory->blocks + i, memory->blocks + i + 1,
		(memory->count - i) * sizeof(*memory->blocks));
	return block;
}

/* Frees the blocks that were given back first, until `size` bytes are gone. */
static void give_up(struct sample_memory *memory, uint64_t size)
{
	uint64_t gone = 0;

	while (gone < size && memory->count) {
		void *block = take(memory, 0);

		gone += malloc_usable_size(block);
		free(block);
	}
}

/* Takes a block that fits. If none does, returns NULL, and frees as many bytes as will come, so
 * that spare and held blocks together do not grow. */
static void *take_fitting(struct sample_memory *memory, size_t size)
{
	for (unsigned i = memory->count; i-- > 0;) {
		size_t usable = malloc_usable_size(memory->blocks[i]);

		if (usable >= size && usable <= size + size / MEMORY_SPARE)
			return take(memory, i);
	}
	give_up(memory, size);
	return NULL;
}

static void *from_system(size_t size)
{
	return size < SAMPLE_LARGE ? malloc(size)
				   : aligned_alloc(MEMORY_PAGE, round_up(size, MEMORY_PAGE));
}

void sample_memory_give_up(struct lmdbio_loader *loader)
{
	struct sample_memory *memory = &loader->memory.blocks;

	pthread_mutex_lock(&memory->lock);
	give_up(memory, UINT64_MAX);
	pthread_mutex_unlock(&memory->lock);
}

void *sample_memory_new(struct lmdbio_loader *loader, size_t size)
{
	struct sample_memory *memory = &loader->memory.blocks;
	void *block;

	if (size >= SAMPLE_LARGE) {
		pthread_mutex_lock(&memory->lock);
		block = take_fitting(memory, size);
		pthread_mutex_unlock(&memory->lock);
		if (block)
			return block;
	}
	block = from_system(size);
	if (block)
		return block;
	sample_memory_give_up(loader);
	return from_system(size);
}

uint64_t sample_memory_size(void *block, uint64_t size)
{
	size_t usable = malloc_usable_size(block);

	return usable < SAMPLE_LARGE ? size : usable;
}

void sample_memory_fit(struct lmdbio_loader *loader, uint64_t size)
{
	struct sample_memory *memory = &loader->memory.blocks;
	uint64_t all;

	pthread_mutex_lock(&memory->lock);
	all = loader->memory.held + memory->bytes;
	if (all > loader->memory.most)
		give_up(memory,
			all - loader->memory.most < size ? all - loader->memory.most : size);
	pthread_mutex_unlock(&memory->lock);
}

void sample_memory_free(struct lmdbio_loader *loader, void *block)
{
	struct sample_memory *memory = &loader->memory.blocks;
	size_t usable = malloc_usable_size(block);

	/* Blocks of other allocations are not aligned to pages. */
	if (loader_is_here(loader) && usable >= SAMPLE_LARGE &&
	    (uintptr_t)block % MEMORY_PAGE == 0) {
		pthread_mutex_lock(&memory->lock);
		if (memory->count < SAMPLE_BLOCKS &&
		    loader->memory.held + memory->bytes + usable <= loader->memory.most) {
			memory->blocks[memory->count++] = block;
			memory->bytes += usable;
			block = NULL;
		}
		pthread_mutex_unlock(&memory->lock);
	}
	free(block);
}

void sample_memory_end(struct lmdbio_loader *loader)
{
	struct sample_memory *memory = &loader->memory.blocks;

	while (memory->count)
		free(memory->blocks[--memory->count]);
	pthread_mutex_destroy(&memory->lock);
}

/* --- values that are read straight to where a batch has them ------------------------------------ */

/* A large value is read into the memory that its sample will have. Smaller values that come with
 * one read are copied out of its memory. Their leaves, and values in leaves, come through the
 * window. */
/* Small blocks are aligned as well, because a direct read takes nothing else. */
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
	/* Memory that samples are copied out of counts as held. A sample's own counts when it has
	 * come. */
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
		crew_wake_all(&loader->readers); /* readers that wait for memory */
	}
	sample_memory_free(loader, direct->memory);
	pthread_mutex_unlock(&loader->lock);
	direct->memory = NULL;
}
