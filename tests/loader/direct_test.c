/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that large values come right when they are read straight into their
 * samples' memory, and that this memory is used again and bounded.
 */
#include "env_fixture.h"

#include "arena/arena.h"
#include "loader/loader_private.h"
#include "util/stats.h"
#include "window/store.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
	RECORDS = 150,
	BATCH = 10,
	VALUE = 300000,
	MEMORY = 8 << 20, /* a fourth of the values */
	SMALLER = 600,
	INLINE = 15000,
	SMALLER_MEMORY = 6 << 20,
};

static struct place place, smaller;

/* Values of 65 to 300 KB, some small ones among them. */
static size_t size_of(uint64_t i)
{
	return i % 11 == 4 ? 100 + i : VALUE - i * 37 % 40 * 6015;
}

static size_t value_make(void *bytes, uint64_t i)
{
	uint64_t *words = bytes;

	for (unsigned j = 0; j < VALUE / 8; j++)
		words[j] = i << 32 | j;
	return size_of(i);
}

/* Values of 5 to 56 KB. */
static size_t smaller_make(void *bytes, uint64_t i)
{
	(void)value_make(bytes, i);
	return 5000 + i * 37 % 40 * 1300;
}

static int group_setup(void **state)
{
	(void)state;
	place_make(&place);
	place_put_records(&place, RECORDS, VALUE, value_make);
	place_make(&smaller);
	place_put_records(&smaller, SMALLER, VALUE, smaller_make);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	place_remove(&place);
	place_remove(&smaller);
	return 0;
}

static struct lmdbio_loader *loader_in_order(const struct place *there, uint64_t memory,
					     enum lmdbio_order order, uint32_t threads)
{
	struct lmdbio_loader_options options = {
		.size = sizeof(options),
		.seed = 3,
		.batch = BATCH,
		.order = order,
		.threads = threads,
		.memory = memory,
		.skip_errors = 1,
	};
	struct loader_place at = {.path = there->directory, .flags = MDB_NOLOCK};
	struct lmdbio_loader *loader;

	assert_int_equal(loader_open(&loader, &at, &options, NULL), 0);
	assert_true(loader->memory.copies);
	return loader;
}

static struct lmdbio_loader *loader_at(const struct place *there, uint64_t memory)
{
	return loader_in_order(there, memory, LMDBIO_ORDER_SHUFFLE, 0);
}

static struct lmdbio_loader *loader_make(uint64_t memory)
{
	return loader_at(&place, memory);
}

static bool is_made(const struct lmdbio_sample *sample, size_t (*make)(void *bytes, uint64_t i))
{
	static uint64_t words[VALUE / 8 + 1];
	size_t size = make(words, sample->record);
	char text[16];

	snprintf(text, sizeof(text), "%08u", (unsigned)sample->record);
	return !sample->error && sample->key.mv_size == 8 &&
	       !memcmp(sample->key.mv_data, text, 8) && sample->data.mv_size == size &&
	       !memcmp(sample->data.mv_data, words, size);
}

static bool is_right(const struct lmdbio_sample *sample)
{
	return is_made(sample, value_make);
}

/* What is held and what is kept for the next ones. */
static uint64_t memory_of(struct lmdbio_loader *loader)
{
	uint64_t bytes;

	pthread_mutex_lock(&loader->lock);
	pthread_mutex_lock(&loader->memory.blocks.lock);
	bytes = loader->memory.held + loader->memory.blocks.bytes;
	pthread_mutex_unlock(&loader->memory.blocks.lock);
	pthread_mutex_unlock(&loader->lock);
	return bytes;
}

/* Samples that stand in memory into which their pages were read: a value lies behind the page's
 * header there. */
static bool is_straight(struct lmdbio_batch *shown, size_t i)
{
	const struct batch *batch = (const struct batch *)shown;
	uintptr_t memory = (uintptr_t)batch->memory[i];

	return memory && memory % 4096 == 0 &&
	       (uintptr_t)shown->samples[i].data.mv_data % 4096 == 16;
}

struct seen {
	uint64_t right, failed, straight, memory_most;
};

static struct seen epoch_take(struct lmdbio_loader *loader, uint64_t epoch)
{
	struct lmdbio_batch *batch;
	struct seen seen = {0};

	assert_int_equal(loader_epoch(loader, epoch), 0);
	while (!loader_next(loader, &batch)) {
		for (uint32_t i = 0; i < batch->count; i++) {
			seen.right += is_right(&batch->samples[i]);
			seen.failed += batch->samples[i].error != 0;
			seen.straight += is_straight(batch, i);
		}
		loader_done(batch);
		if (memory_of(loader) > seen.memory_most)
			seen.memory_most = memory_of(loader);
	}
	return seen;
}

static void epochs_when_values_are_large_then_straight_to_their_samples(void **state)
{
	struct lmdbio_loader *loader = loader_make(MEMORY);

	(void)state;
	for (uint64_t epoch = 0; epoch < 3; epoch++) {
		struct seen seen = epoch_take(loader, epoch);

		assert_int_equal(seen.right, RECORDS);
		/* Not those that come together, and what finds room in the arena first. */
		assert_in_range(seen.straight, RECORDS / 5, RECORDS);
	}
	/* Readers that come to the last room at once; through the arena each chunk pushes one out.
	 */
	assert_in_range(arena_evictions(loader->data.env->store.arena), 0, RECORDS / 2);
	loader_close(loader);
}

/* Where they come alone, too: a read that is refused would be counted and never made. */
static void epochs_when_values_are_smaller_then_past_the_arena_as_well(void **state)
{
	struct lmdbio_loader *loader = loader_at(&smaller, SMALLER_MEMORY);
	uint64_t asked = stats_get(STATS_STORAGE_REQUESTS);
	uint64_t reads = io_counted(&loader->data.env->reads).reads;
	struct lmdbio_batch *batch;
	unsigned right = 0;

	(void)state;
	for (uint64_t epoch = 0; epoch < 2; epoch++) {
		assert_int_equal(loader_epoch(loader, epoch), 0);
		while (!loader_next(loader, &batch)) {
			for (uint32_t i = 0; i < batch->count; i++)
				right += is_made(&batch->samples[i], smaller_make);
			loader_done(batch);
		}
	}
	assert_int_equal(right, 2 * SMALLER);
	/* What is read ahead of the next epoch is counted later than made. */
	asked = stats_get(STATS_STORAGE_REQUESTS) - asked;
	reads = io_counted(&loader->data.env->reads).reads - reads;
	assert_in_range(asked, 1, reads);
	loader_close(loader);
}

/* A batch that somebody waits for gets its memory in any case. */
static void memory_when_blocks_are_used_again_then_bounded(void **state)
{
	struct lmdbio_loader *loader = loader_make(MEMORY);

	(void)state;
	for (uint64_t epoch = 0; epoch < 2; epoch++)
		assert_in_range(epoch_take(loader, epoch).memory_most, 0, MEMORY + MEMORY / 2);
	loader_close(loader);
}

/* What they are copied out of is memory, too, in each reader's hands. */
static void memory_when_neighbours_come_together_then_bounded(void **state)
{
	struct lmdbio_loader *loader =
		loader_in_order(&smaller, SMALLER_MEMORY, LMDBIO_ORDER_SEQUENTIAL, 16);

	(void)state;
	for (uint64_t epoch = 0; epoch < 3; epoch++)
		assert_in_range(epoch_take(loader, epoch).memory_most, 0,
				SMALLER_MEMORY + SMALLER_MEMORY / 2);
	loader_close(loader);
}

/* A page's header, a key and spare bytes stand there as well. */
static void batch_when_its_values_are_large_then_all_of_their_memory_is_held(void **state)
{
	struct lmdbio_loader *loader = loader_make(MEMORY);
	struct lmdbio_batch *shown;

	(void)state;
	for (uint64_t epoch = 0; epoch < 2; epoch++) {
		assert_int_equal(loader_epoch(loader, epoch), 0);
		while (!loader_next(loader, &shown)) {
			const struct batch *batch = (const struct batch *)shown;
			uint64_t bytes = 0;

			for (uint32_t i = 0; i < shown->count; i++) {
				size_t size = malloc_usable_size(batch->memory[i]);

				bytes += size < SAMPLE_LARGE ? 0 : size;
			}
			assert_in_range(batch->held, bytes, UINT64_MAX);
			loader_done(shown);
		}
	}
	loader_close(loader);
}

/* Values in their leaves. */
static size_t inline_make(void *bytes, uint64_t i)
{
	(void)value_make(bytes, i);
	return 1000;
}

/* What large values have left behind, and small ones that come then. */
static void blocks_when_small_values_take_the_memory_then_they_go(void **state)
{
	struct place leaves;
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch, *kept[INLINE / BATCH];
	unsigned n = 0, blocks = MEMORY / VALUE;
	void *block[MEMORY / VALUE];

	(void)state;
	place_make(&leaves);
	place_put_records(&leaves, INLINE, VALUE, inline_make);
	loader = loader_at(&leaves, MEMORY);
	for (unsigned i = 0; i < blocks; i++)
		block[i] = sample_memory_new(loader, VALUE - 4096);
	for (unsigned i = 0; i < blocks; i++)
		sample_memory_free(loader, block[i]);
	assert_int_equal(loader->memory.blocks.count, blocks);
	assert_int_equal(loader_epoch(loader, 0), 0);
	while (n < MEMORY / 2000 / BATCH && !loader_next(loader, &batch))
		kept[n++] = batch;
	assert_in_range(memory_of(loader), MEMORY / 2, MEMORY + MEMORY / 2);
	while (n)
		loader_done(kept[--n]);
	loader_close(loader);
	place_remove(&leaves);
}

static void block_when_given_back_then_the_next_one_of_its_size(void **state)
{
	struct lmdbio_loader *loader = loader_make(MEMORY);
	void *blocks[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		blocks[i] = sample_memory_new(loader, (i + 1) * 100000);
	for (unsigned i = 0; i < 3; i++) {
		assert_non_null(blocks[i]);
		sample_memory_free(loader, blocks[i]);
	}
	assert_int_equal(loader->memory.blocks.count, 3);
	assert_ptr_equal(sample_memory_new(loader, 195000), blocks[1]);
	assert_int_equal(loader->memory.blocks.count, 2);
	/* One that none fits takes the place of those given back first. */
	blocks[0] = sample_memory_new(loader, 150000);
	assert_int_equal(loader->memory.blocks.count, 0);
	assert_int_equal(loader->memory.blocks.bytes, 0);
	free(blocks[0]);
	free(blocks[1]);
	/* What is not of this kind, and what there is no room for, goes. */
	sample_memory_free(loader, malloc(SAMPLE_LARGE / 2));
	loader->memory.held = MEMORY;
	sample_memory_free(loader, sample_memory_new(loader, 100000));
	loader->memory.held = 0;
	assert_int_equal(loader->memory.blocks.count, 0);
	loader_close(loader);
}

/* The file has been cut: those behind the cut fail, each by itself. */
static void values_when_the_file_is_cut_then_these_fail(void **state)
{
	struct lmdbio_loader *loader = loader_make(MEMORY);
	struct index_place at;
	uint64_t number, pages, cut, behind = 0;
	struct snapshot view = loader_view(loader);
	struct seen seen;

	(void)state;
	assert_int_equal(index_find(loader->data.index, RECORDS * 2 / 3, &at), 0);
	assert_int_equal(index_run(&view, &loader->data.tree, &at, &number, &pages), 0);
	cut = (number + 1) * 4096;
	for (uint64_t i = 0; i < RECORDS; i++) {
		assert_int_equal(index_find(loader->data.index, i, &at), 0);
		assert_int_equal(index_run(&view, &loader->data.tree, &at, &number, &pages), 0);
		/* Its leaf may have gone from memory, too. */
		behind += (number + pages) * 4096 > cut || (at.page + 1) * 4096 > cut;
	}
	place_cut(&place, cut);
	seen = epoch_take(loader, 0);
	assert_int_equal(seen.right + seen.failed, RECORDS);
	assert_in_range(seen.failed, 1, behind);
	loader_close(loader);
}

/* Notes what a rank of a job has room for, and ends the opening. */
static int room_note(void *context, struct lmdbio_loader *loader, struct tiers *tiers,
		     struct order_spec *spec)
{
	(void)tiers, (void)spec;
	*(uint64_t *)context = loader_sizes(loader).room;
	return ECANCELED;
}

/* Returns the bytes that the arena may have when a loader has read an epoch. */
static uint64_t limit_of(struct lmdbio_loader *loader, uint64_t records)
{
	uint64_t limit;

	assert_int_equal(epoch_take(loader, 0).right, records);
	limit = store_limited(&loader->data.env->store);
	loader_close(loader);
	return limit;
}

/* The search for a name reads pages before it is known how large the database is. */
static void arena_when_the_database_has_a_name_then_limited_as_without(void **state)
{
	enum { FEW = 20 };
	struct lmdbio_loader_options options = {
		.size = sizeof(options), .batch = BATCH, .memory = MEMORY};
	struct loader_place at = {.flags = MDB_NOLOCK, .name = "large"};
	struct loader_hooks hooks = {.prepare = room_note, .sharers = 1};
	uint64_t limit = limit_of(loader_make(MEMORY), RECORDS), room = 0;
	struct lmdbio_loader *loader;
	struct place named;

	(void)state;
	place_make(&named);
	place_put_named(&named, "large", RECORDS, VALUE, value_make);
	place_put_named(&named, "small", FEW, VALUE, value_make);
	at.path = named.directory;
	assert_int_equal(loader_open(&loader, &at, &options, NULL), 0);
	assert_int_equal(limit_of(loader, RECORDS), limit);
	hooks.context = &room;
	options.memory = 1 << 20;
	assert_int_equal(loader_open(&loader, &at, &options, &hooks), ECANCELED);
	assert_true(room > 0);
	/* What fits into memory may have all of it. */
	at.name = "small";
	options.memory = MEMORY;
	assert_int_equal(loader_open(&loader, &at, &options, NULL), 0);
	assert_false(loader->memory.copies);
	assert_int_equal(limit_of(loader, FEW), 12 << 20);
	place_remove(&named);
}

/* A program may name all memory that a number can tell, so as not to be limited. */
static void room_when_all_memory_is_for_batches_then_none_is_left_for_records(void **state)
{
	struct loader_hooks hooks = {.prepare = room_note, .sharers = 1};
	struct loader_place at = {.path = place.directory, .flags = MDB_NOLOCK};
	struct lmdbio_loader_options options = {.size = sizeof(options), .batch = BATCH};
	struct lmdbio_loader *loader;
	uint64_t room = 0;

	(void)state;
	hooks.context = &room;
	options.memory = 1 << 20;
	assert_int_equal(loader_open(&loader, &at, &options, &hooks), ECANCELED);
	assert_in_range(room, 1, 12 << 20);
	for (options.memory = UINT64_MAX; options.memory > 12 << 20; options.memory /= 2) {
		room = 1;
		assert_int_equal(loader_open(&loader, &at, &options, &hooks), ECANCELED);
		assert_int_equal(room, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(epochs_when_values_are_large_then_straight_to_their_samples),
		cmocka_unit_test(epochs_when_values_are_smaller_then_past_the_arena_as_well),
		cmocka_unit_test(memory_when_blocks_are_used_again_then_bounded),
		cmocka_unit_test(memory_when_neighbours_come_together_then_bounded),
		cmocka_unit_test(batch_when_its_values_are_large_then_all_of_their_memory_is_held),
		cmocka_unit_test(blocks_when_small_values_take_the_memory_then_they_go),
		cmocka_unit_test(block_when_given_back_then_the_next_one_of_its_size),
		cmocka_unit_test(arena_when_the_database_has_a_name_then_limited_as_without),
		cmocka_unit_test(room_when_all_memory_is_for_batches_then_none_is_left_for_records),
		cmocka_unit_test(values_when_the_file_is_cut_then_these_fail),
	};

	setenv("LMDBIO_STORE", "arena", 1);
	setenv("LMDBIO_IO", "direct", 1);
	setenv("LMDBIO_MEMORY", "12M", 1);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
