/* SPDX-License-Identifier: OLDAP-2.8 */
/* Uses the memory of large samples again.
 *
 * Memory that has just come from the system costs a fault and the clearing of each page, which is
 * more than reading a value into it. So large blocks are kept when their batch is given back, and
 * the next values come into them: those freed last first, which a cache may still hold.
 */
#include "loader/loader_private.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum {
	MEMORY_PAGE = 4096,
	MEMORY_SPARE = 4, /* a block may be larger than asked for by one part in so many */
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

/* Frees those given back first, until so many bytes are gone. */
static void give_up(struct sample_memory *memory, uint64_t size)
{
	uint64_t gone = 0;

	while (gone < size && memory->count) {
		void *block = take(memory, 0);

		gone += malloc_usable_size(block);
		free(block);
	}
}

/* One that fits, or NULL; then as much goes as will come, so that the two are never more. */
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

	/* Others' blocks are not aligned to pages. */
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
