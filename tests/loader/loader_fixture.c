/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how its values are made. */
#include "loader_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct place place;

/* The length of value i and every byte follow from i. */
static size_t value_make(void *bytes, uint64_t i)
{
	size_t size = i % 7 == 3 ? 40 + i % 50 : VALUE - i % 1000;
	uint8_t *value = bytes;

	for (size_t j = 0; j < size; j++)
		value[j] = (uint8_t)(i * 7 + j * 13 + (j >> 8));
	return size;
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

/* Settings are read once in a process. */
int run_in_each_store(char **argv, const char *name, const struct CMUnitTest *tests, size_t n)
{
	static const char *const stores[] = {"cache", "arena"};
	int bad = 0, status;

	if (getenv("LMDBIO_STORE"))
		return _cmocka_run_group_tests(name, tests, n, group_setup, group_teardown);
	for (unsigned i = 0; i < 2; i++) {
		pid_t child = fork();

		if (!child) {
			setenv("LMDBIO_STORE", stores[i], 1);
			execv("/proc/self/exe", argv);
			_exit(127);
		}
		bad |= waitpid(child, &status, 0) != child || status;
	}
	return bad;
}

struct lmdbio_loader_options options_of(enum lmdbio_order order, uint64_t memory)
{
	return (struct lmdbio_loader_options){
		.size = sizeof(struct lmdbio_loader_options),
		.seed = 5,
		.batch = BATCH,
		.order = order,
		.block = 40,
		.buffer = 4,
		.resident = RECORDS / 2,
		.memory = memory,
	};
}

struct lmdbio_loader *loader_make(const struct lmdbio_loader_options *options)
{
	struct loader_place at = {.path = place.directory, .flags = MDB_NOLOCK};
	struct lmdbio_loader *loader;

	assert_int_equal(loader_open(&loader, &at, options, NULL), 0);
	assert_int_equal(loader_records(loader), RECORDS);
	return loader;
}

bool is_right(const struct lmdbio_sample *sample)
{
	uint8_t bytes[VALUE];
	char key[16];
	size_t size;

	if (sample->error || sample->record >= RECORDS)
		return false;
	size = value_make(bytes, sample->record);
	snprintf(key, sizeof(key), "%08u", (unsigned)sample->record);
	return sample->key.mv_size == 8 && !memcmp(sample->key.mv_data, key, 8) &&
	       sample->data.mv_size == size && !memcmp(sample->data.mv_data, bytes, size);
}

uint64_t epoch_read(struct lmdbio_loader *loader, uint64_t epoch, uint32_t ranks, uint32_t rank)
{
	const struct order *order = loader_order(loader);
	struct lmdbio_batch *batch;
	struct order_epoch at;
	uint64_t n = 0;
	int rc;

	order_begin(&at, order, epoch);
	assert_int_equal(loader_epoch(loader, epoch), 0);
	for (uint64_t number = 0; !(rc = loader_next(loader, &batch)); number++) {
		assert_int_equal(batch->epoch, epoch);
		assert_int_equal(batch->number, number);
		assert_int_equal(batch->count, order_share(order, ranks, rank));
		for (uint32_t i = 0; i < batch->count; i++) {
			assert_true(batch->samples[i].record ==
				    order_record(&at, order_slot(order, ranks, rank, number, i)));
			if (batch->samples[i].record == LMDBIO_NO_RECORD)
				continue;
			assert_true(is_right(&batch->samples[i]));
			n++;
		}
		loader_done(batch);
	}
	assert_int_equal(rc, MDB_NOTFOUND);
	return n;
}
