/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that records come right, in the order and within the memory, when they
 * are swept out of a file that memory cannot hold.
 */
#include "env_fixture.h"

#include "arena/arena_private.h"
#include "loader/loader_private.h"

#include "util/clock.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { RECORDS = 3000, BATCH = 24, VALUE = 3000, MEMORY = RECORDS * VALUE / 2 };

static struct place place;

/* Value i: its number over and over again, and where it ends. */
static size_t value_make(void *bytes, uint64_t i)
{
	uint64_t *words = bytes;

	for (unsigned j = 0; j < VALUE / 8; j++)
		words[j] = i * 1000 + j;
	return VALUE - i % 100;
}

static int group_setup(void **state)
{
	(void)state;
	place_make(&place);
	place_put_records(&place, RECORDS, VALUE, value_make);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	place_remove(&place);
	return 0;
}

static struct lmdbio_loader *loader_make(uint32_t ranks, uint32_t rank, uint32_t ahead)
{
	struct lmdbio_loader_options options = {
		.size = sizeof(options),
		.seed = 5,
		.batch = BATCH,
		.order = LMDBIO_ORDER_SHUFFLE,
		.memory = MEMORY,
		.ranks = ranks,
		.rank = rank,
		.ahead = ahead,
		.skip_errors = 1,
	};
	struct loader_place at = {.path = place.directory, .flags = MDB_NOLOCK};
	struct lmdbio_loader *loader;

	assert_int_equal(loader_open(&loader, &at, &options, NULL), 0);
	return loader;
}

static bool is_swept(struct lmdbio_loader *loader)
{
	bool swept;

	pthread_mutex_lock(&loader->lock);
	swept = loader->plan.sweep.sectors > 0;
	pthread_mutex_unlock(&loader->lock);
	return swept;
}

static bool is_right(const struct lmdbio_sample *sample)
{
	uint64_t words[VALUE / 8];
	size_t size = value_make(words, sample->record);
	char text[16];

	snprintf(text, sizeof(text), "%08u", (unsigned)sample->record);
	return !sample->error && sample->key.mv_size == 8 &&
	       !memcmp(sample->key.mv_data, text, 8) && sample->data.mv_size == size &&
	       !memcmp(sample->data.mv_data, words, size);
}

/* What some batches were like. */
struct seen {
	uint64_t batches, right, failed, held_most, ahead_most;
	uint64_t lost; /* not right, nor on the damaged page */
};

static uint64_t damaged_page; /* 0: none is */

static bool is_damaged(struct lmdbio_loader *loader, uint64_t record)
{
	struct index_place at;

	assert_int_equal(index_find(loader->data.index, record, &at), 0);
	return at.page == damaged_page;
}

static uint64_t batches_ahead(struct lmdbio_loader *loader)
{
	uint64_t ahead;

	pthread_mutex_lock(&loader->lock);
	ahead = loader->ahead.batches;
	pthread_mutex_unlock(&loader->lock);
	return ahead;
}

/* Takes batches from `number` on, `most` of them at most: each sample must be the order's. */
static struct seen take(struct lmdbio_loader *loader, uint64_t epoch, uint64_t number,
			uint64_t most)
{
	const struct order *order = loader_order(loader);
	const struct lmdbio_loader_options *options = &loader->options;
	struct lmdbio_loader_stats stats = {.size = sizeof(stats)};
	struct seen seen = {0};
	struct order_epoch at;

	order_begin(&at, order, epoch);
	for (; seen.batches < most; seen.batches++, number++) {
		struct lmdbio_batch *batch;

		if (loader_next(loader, &batch))
			break;
		assert_int_equal(batch->epoch, epoch);
		assert_int_equal(batch->number, number);
		for (uint32_t i = 0; i < batch->count; i++) {
			const struct lmdbio_sample *sample = &batch->samples[i];

			assert_true(sample->record ==
				    order_record(&at, order_slot(order, options->ranks,
								 options->rank, number, i)));
			seen.right += is_right(sample);
			seen.lost += !is_right(sample) && !is_damaged(loader, sample->record);
			seen.failed += sample->error != 0;
		}
		assert_int_equal(loader_stats(loader, &stats), 0);
		if (stats.held_bytes > seen.held_most)
			seen.held_most = stats.held_bytes;
		if (batches_ahead(loader) > seen.ahead_most)
			seen.ahead_most = batches_ahead(loader);
		loader_done(batch);
	}
	return seen;
}

static void epochs_when_swept_then_every_record_once_in_order(void **state)
{
	bool swept = false;

	(void)state;
	for (uint32_t rank = 0; rank < 3; rank++) {
		uint32_t ranks = rank ? 2 : 1;
		struct lmdbio_loader *loader = loader_make(ranks, ranks - rank % 2 - 1, 0);

		for (uint64_t epoch = 0; epoch < 3; epoch++) {
			struct seen seen;

			assert_int_equal(loader_epoch(loader, epoch), 0);
			seen = take(loader, epoch, 0, UINT64_MAX);
			assert_int_equal(seen.right, RECORDS / ranks);
			assert_int_equal(seen.failed, 0);
		}
		swept |= is_swept(loader);
		loader_close(loader);
	}
	/* Where rounds stay short for want of a processor, one rank or another does not sweep. */
	assert_true(swept);
}

/* A batch that somebody waits for gets its memory in any case: that may be two steps more. */
static void held_when_swept_then_hardly_more_than_memory(void **state)
{
	struct lmdbio_loader *loader = loader_make(1, 0, 0);

	(void)state;
	for (uint64_t epoch = 0; epoch < 3; epoch++) {
		assert_int_equal(loader_epoch(loader, epoch), 0);
		assert_in_range(take(loader, epoch, 0, UINT64_MAX).held_most, MEMORY / 3,
				MEMORY + MEMORY / 4);
	}
	assert_true(is_swept(loader));
	loader_close(loader);
}

/* In batches: of bytes that are being read it is not known what they come to. */
static void ahead_when_bounded_then_the_window_is(void **state)
{
	struct lmdbio_loader *loader = loader_make(1, 0, 8);

	(void)state;
	assert_int_equal(loader_epoch(loader, 0), 0);
	assert_in_range(take(loader, 0, 0, UINT64_MAX).ahead_most, 1, 8);
	loader_close(loader);
}

/* Of two records in a batch and three ranks, rank 0 has none. */
static void ahead_when_the_rank_has_no_samples_then_bounded_too(void **state)
{
	struct lmdbio_loader_options options = {
		.size = sizeof(options),
		.batch = 2,
		.ranks = 3,
		.order = LMDBIO_ORDER_SHUFFLE,
		.memory = MEMORY,
		.ahead = 400,
	};
	struct loader_place at = {.path = place.directory, .flags = MDB_NOLOCK};
	struct lmdbio_loader *loader;

	(void)state;
	assert_int_equal(loader_open(&loader, &at, &options, NULL), 0);
	assert_int_equal(loader_epoch(loader, 0), 0);
	while (batches_ahead(loader) < options.ahead)
		sched_yield();
	assert_int_equal(batches_ahead(loader), options.ahead);
	assert_int_equal(take(loader, 0, 0, UINT64_MAX).batches, RECORDS / options.batch);
	loader_close(loader);
}

static void epoch_when_another_begins_in_the_middle_then_nothing_is_mixed(void **state)
{
	struct lmdbio_loader *loader = loader_make(1, 0, 0);
	uint8_t saved[ORDER_STATE];

	(void)state;
	for (uint64_t stop = 1; stop < 125; stop += 31) {
		assert_int_equal(loader_epoch(loader, 7 * stop), 0);
		assert_int_equal(take(loader, 7 * stop, 0, stop).right, stop * BATCH);
		assert_int_equal(loader_save(loader, saved), 0);
		assert_int_equal(loader_epoch(loader, 3), 0);
		assert_int_equal(take(loader, 3, 0, UINT64_MAX).right, RECORDS);
		assert_int_equal(loader_restore(loader, saved), 0);
		assert_int_equal(take(loader, 7 * stop, stop, UINT64_MAX).right,
				 RECORDS - stop * BATCH);
	}
	loader_close(loader);
}

static void close_when_swept_at_any_batch_then_no_hang(void **state)
{
	(void)state;
	for (unsigned stop = 0; stop < 125; stop += 17) {
		struct lmdbio_loader *loader = loader_make(1, 0, 0);

		assert_int_equal(loader_epoch(loader, 1), 0);
		assert_int_equal(take(loader, 1, 0, stop).right, stop * BATCH);
		loader_close(loader);
	}
}

/* What the loader has read up to now has to be read again. */
static void memory_forget(struct lmdbio_loader *loader)
{
	struct store *store = &loader->data.env->store;

	assert_int_equal(store_pause(store), 0);
	arena_evict(store->arena, UINT64_MAX);
	assert_int_equal(arena_used(store->arena), 0);
	store_resume(store);
}

/* The leaf page of a record, spoilt when records have been counted. */
static void page_when_damaged_and_swept_then_only_its_records_fail(void **state)
{
	struct lmdbio_loader *loader = loader_make(1, 0, 0);
	uint8_t page[4096], bad[4096] = {0};
	struct index_place at;
	struct seen seen;
	FILE *file = fopen(place.data, "r");

	(void)state;
	assert_int_equal(index_find(loader->data.index, RECORDS - 500, &at), 0);
	assert_non_null(file);
	assert_int_equal(fseek(file, (long)at.page * 4096, SEEK_SET), 0);
	assert_int_equal(fread(page, 4096, 1, file), 1);
	fclose(file);
	place_patch(&place, at.page * 4096, bad, 4096);
	damaged_page = at.page;
	memory_forget(loader);
	for (uint64_t epoch = 0; epoch < 2; epoch++) {
		assert_int_equal(loader_epoch(loader, epoch), 0);
		seen = take(loader, epoch, 0, UINT64_MAX);
		/* Of its own records some may have been planned with the page as it was. */
		assert_int_equal(seen.lost, 0);
		assert_in_range(seen.failed, epoch, 300);
		assert_in_range(seen.right, RECORDS - 300, RECORDS);
	}
	loader_close(loader);
	damaged_page = 0;
	place_patch(&place, at.page * 4096, page, 4096);
}

/* Takers of one epoch, more than a sweep that is short of memory has planned batches. */
enum { TAKERS = 40, HANG = 600 /* seconds */ };

struct takers {
	struct lmdbio_loader *loader;
	pthread_t threads[TAKERS];
	atomic_uint batches, failed;
};

static void *epoch_take(void *argument)
{
	struct takers *takers = argument;
	struct lmdbio_batch *batch;
	int rc;

	while (!(rc = loader_next(takers->loader, &batch))) {
		atomic_fetch_add(&takers->batches, 1);
		loader_done(batch);
	}
	atomic_fetch_add(&takers->failed, rc != MDB_NOTFOUND);
	return NULL;
}

/* Until then no piece is read. */
static void reads_begin_at(struct lmdbio_loader *loader, uint64_t at)
{
	pthread_mutex_lock(&loader->lock);
	loader->reads.free_at = at;
	crew_wake_all(&loader->readers);
	pthread_mutex_unlock(&loader->lock);
}

static bool all_wait(struct lmdbio_loader *loader)
{
	bool all;

	pthread_mutex_lock(&loader->lock);
	all = loader->takers.waiting == TAKERS;
	pthread_mutex_unlock(&loader->lock);
	return all;
}

/* Memory that was short once bounds the window; no taker may wait for batches that it leaves unplanned. */
static void takers_when_memory_was_short_and_swept_then_none_waits_for_ever(void **state)
{
	struct takers takers = {.loader = loader_make(1, 0, 0)};
	struct lmdbio_loader *loader = takers.loader;

	(void)state;
	(void)alarm(HANG);
	reads_begin_at(loader, CLOCK_NEVER);
	assert_int_equal(loader_epoch(loader, 0), 0);
	for (unsigned i = 0; i < TAKERS; i++)
		assert_int_equal(pthread_create(&takers.threads[i], NULL, epoch_take, &takers), 0);
	while (!all_wait(loader))
		sched_yield();
	pthread_mutex_lock(&loader->lock);
	loader->memory.lacking = MEMORY / 16;
	pthread_mutex_unlock(&loader->lock);
	reads_begin_at(loader, 0);
	for (unsigned i = 0; i < TAKERS; i++)
		assert_int_equal(pthread_join(takers.threads[i], NULL), 0);
	assert_int_equal(takers.batches, loader_batches(loader));
	assert_int_equal(takers.failed, 0);
	assert_true(is_swept(loader));
	loader_close(loader);
	(void)alarm(0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(epochs_when_swept_then_every_record_once_in_order),
		cmocka_unit_test(held_when_swept_then_hardly_more_than_memory),
		cmocka_unit_test(ahead_when_bounded_then_the_window_is),
		cmocka_unit_test(ahead_when_the_rank_has_no_samples_then_bounded_too),
		cmocka_unit_test(epoch_when_another_begins_in_the_middle_then_nothing_is_mixed),
		cmocka_unit_test(close_when_swept_at_any_batch_then_no_hang),
		cmocka_unit_test(takers_when_memory_was_short_and_swept_then_none_waits_for_ever),
		cmocka_unit_test(page_when_damaged_and_swept_then_only_its_records_fail),
	};

	setenv("LMDBIO_STORE", "arena", 1);
	setenv("LMDBIO_MEMORY", "6M", 1);
	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
