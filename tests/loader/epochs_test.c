/* SPDX-License-Identifier: OLDAP-2.8 */
/* Several threads begin epochs, restore, take batches and ask a loader at the same time.
 *
 * Every batch must hold what its own epoch and number say, no call may hang, and the loader must
 * serve a whole epoch afterwards.
 */
#include "loader_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { CHANGES = 120 };
#else
enum { CHANGES = 300 };
#endif

enum { CHANGERS = 2, TAKERS = 3, HANG = 240 /* seconds */ };

/* A full shuffle, with a memory that makes the loader copy: rounds, or sweeps. */
static const struct {
	const char *name;
	uint64_t memory;
	enum lmdbio_order order;
	bool decode;
} shapes[] = {
	{"rounds", SMALL, LMDBIO_ORDER_SHUFFLE, true},
	{"sweeps", 2 << 20, LMDBIO_ORDER_SHUFFLE, false},
	{"resident", 2 << 20, LMDBIO_ORDER_OPPORTUNISTIC, true},
	{"shown", 0, LMDBIO_ORDER_SHUFFLE, false},
};

struct crowd {
	struct lmdbio_loader *loader;
	_Atomic unsigned changers; /* that have not ended */
	_Atomic uint64_t taken, wrong, unexpected;
	bool restores;
	struct order order;
	uint8_t state[ORDER_STATE];
};

static int decode(void *context, const struct lmdbio_sample *sample, void *output)
{
	(void)context;
	memcpy(output, &sample->record, sizeof(sample->record));
	return 0;
}

static void *change_many(void *argument)
{
	struct crowd *crowd = argument;

	for (unsigned i = 0; i < CHANGES; i++) {
		int rc = crowd->restores && i % 3 == 2 ? loader_restore(crowd->loader, crowd->state)
						       : loader_epoch(crowd->loader, i % 5);

		if (rc)
			crowd->unexpected++;
	}
	crowd->changers--;
	return NULL;
}

static bool batch_is_right(struct crowd *crowd, const struct lmdbio_batch *batch)
{
	const uint64_t *decoded = batch->decoded;
	struct order_epoch at;

	order_begin(&at, &crowd->order, batch->epoch);
	for (uint32_t i = 0; i < batch->count; i++) {
		const struct lmdbio_sample *sample = &batch->samples[i];

		if (sample->record != order_record(&at, batch->number * BATCH + i))
			return false;
		if (sample->record == LMDBIO_NO_RECORD)
			continue;
		if (!is_right(sample) || (decoded && decoded[i] != sample->record))
			return false;
	}
	return true;
}

static void *take_many(void *argument)
{
	struct crowd *crowd = argument;
	struct lmdbio_batch *held = NULL, *batch;

	while (crowd->changers) {
		int rc = loader_next(crowd->loader, &batch);

		if (rc == ECANCELED || rc == MDB_NOTFOUND) {
			sched_yield();
			continue;
		}
		if (rc) {
			crowd->unexpected++;
			break;
		}
		crowd->taken++;
		crowd->wrong += !batch_is_right(crowd, batch);
		/* One stays out while the next is taken, over the epochs' ends. */
		loader_done(held);
		held = batch;
	}
	loader_done(held);
	return NULL;
}

static void *ask_many(void *argument)
{
	struct crowd *crowd = argument;
	struct lmdbio_loader_stats stats = {.size = sizeof(stats)};
	uint8_t state[ORDER_STATE];
	char line[200];

	while (crowd->changers) {
		int rc;

		loader_quiet(crowd->loader, true);
		rc = loader_save(crowd->loader, state);
		crowd->unexpected += rc != 0;
		crowd->unexpected += loader_stats(crowd->loader, &stats) != 0;
		crowd->unexpected += loader_verdict(crowd->loader, line, sizeof(line)) == 0;
		loader_quiet(crowd->loader, false);
		sched_yield();
	}
	return NULL;
}

static struct lmdbio_loader *crowd_loader(unsigned shape)
{
	struct lmdbio_loader_options options =
		options_of(shapes[shape].order, shapes[shape].memory);

	options.threads = 6;
	if (shapes[shape].decode) {
		options.decode = decode;
		options.decode_size = sizeof(uint64_t);
		options.decode_threads = 2;
	}
	return loader_make(&options);
}

static void crowd_run(unsigned shape, bool restores)
{
	struct crowd crowd = {.loader = crowd_loader(shape), .changers = CHANGERS};
	pthread_t threads[CHANGERS + TAKERS + 1];
	unsigned n = 0;

	crowd.restores = restores;
	crowd.order = *loader_order(crowd.loader);
	assert_int_equal(loader_epoch(crowd.loader, 3), 0);
	assert_int_equal(loader_save(crowd.loader, crowd.state), 0);
	alarm(HANG);
	for (unsigned i = 0; i < CHANGERS; i++)
		assert_int_equal(pthread_create(&threads[n++], NULL, change_many, &crowd), 0);
	for (unsigned i = 0; i < TAKERS; i++)
		assert_int_equal(pthread_create(&threads[n++], NULL, take_many, &crowd), 0);
	assert_int_equal(pthread_create(&threads[n++], NULL, ask_many, &crowd), 0);
	for (unsigned i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(crowd.unexpected, 0);
	assert_int_equal(crowd.wrong, 0);
	assert_int_equal(epoch_read(crowd.loader, 7, 1, 0), RECORDS);
	loader_close(crowd.loader);
	alarm(0);
}

static void epochs_when_two_threads_begin_then_every_batch_is_its_own(void **state)
{
	(void)state;
	for (unsigned shape = 0; shape < sizeof(shapes) / sizeof(shapes[0]); shape++)
		crowd_run(shape, false);
}

static void epochs_when_two_threads_restore_then_every_batch_is_its_own(void **state)
{
	(void)state;
	for (unsigned shape = 0; shape < sizeof(shapes) / sizeof(shapes[0]); shape++)
		crowd_run(shape, true);
}

/* The loader is closed while all of them are at it. */
static void *change_until_closed(void *argument)
{
	struct crowd *crowd = argument;
	int rc = 0;

	for (unsigned i = 0; !rc; i++)
		rc = i % 3 == 2 ? loader_restore(crowd->loader, crowd->state)
				: loader_epoch(crowd->loader, i % 5);
	crowd->unexpected += rc != ECANCELED;
	return NULL;
}

static void *take_until_closed(void *argument)
{
	struct crowd *crowd = argument;
	struct lmdbio_loader_stats stats = {.size = sizeof(stats)};
	struct lmdbio_batch *batch;

	while (!loader_stats(crowd->loader, &stats))
		if (!loader_next(crowd->loader, &batch)) {
			crowd->taken++;
			loader_done(batch);
		}
	return NULL;
}

static void close_when_threads_begin_epochs_then_no_hang(void **state)
{
	(void)state;
	for (unsigned round = 0; round < CHANGES / 10; round++) {
		unsigned shape = round % (sizeof(shapes) / sizeof(shapes[0]));
		struct crowd crowd = {.loader = crowd_loader(shape)};
		pthread_t threads[4];

		assert_int_equal(loader_epoch(crowd.loader, 3), 0);
		assert_int_equal(loader_save(crowd.loader, crowd.state), 0);
		alarm(HANG);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(pthread_create(&threads[i], NULL,
							i % 2 ? take_until_closed
							      : change_until_closed,
							&crowd),
					 0);
		while (crowd.taken < round % 5)
			sched_yield();
		loader_close(crowd.loader);
		for (unsigned i = 0; i < 4; i++)
			pthread_join(threads[i], NULL);
		assert_int_equal(crowd.unexpected, 0);
		alarm(0);
	}
}

static void *wait_for_one(void *argument)
{
	struct crowd *crowd = argument;
	struct lmdbio_batch *batch;
	int rc = loader_next(crowd->loader, &batch);

	if (!rc)
		loader_done(batch);
	crowd->unexpected += rc && rc != ECANCELED && rc != MDB_NOTFOUND;
	return NULL;
}

static unsigned waiting(struct lmdbio_loader *loader)
{
	struct lmdbio_loader_stats stats = {.size = sizeof(stats)};

	assert_int_equal(loader_stats(loader, &stats), 0);
	return (unsigned)stats.batches;
}

/* The same epoch begins again while another thread waits for its first batch: that thread and the
 * next one must not wait for the same batch. */
static void epoch_when_begun_again_under_a_waiting_taker_then_all_of_it_comes(void **state)
{
	(void)state;
	for (unsigned i = 0; i < CHANGES / 10; i++) {
		struct crowd crowd = {.loader = crowd_loader(i % 2)};
		pthread_t thread;

		assert_int_equal(loader_epoch(crowd.loader, 0), 0);
		alarm(HANG);
		assert_int_equal(pthread_create(&thread, NULL, wait_for_one, &crowd), 0);
		for (unsigned j = 0; j < i % 7 && !waiting(crowd.loader); j++)
			sched_yield();
		assert_int_equal(loader_epoch(crowd.loader, 0), 0);
		pthread_join(thread, NULL);
		assert_int_equal(crowd.unexpected, 0);
		assert_int_equal(epoch_read(crowd.loader, 0, 1, 0), RECORDS);
		loader_close(crowd.loader);
		alarm(0);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(epochs_when_two_threads_begin_then_every_batch_is_its_own),
		cmocka_unit_test(epochs_when_two_threads_restore_then_every_batch_is_its_own),
		cmocka_unit_test(close_when_threads_begin_epochs_then_no_hang),
		cmocka_unit_test(
			epoch_when_begun_again_under_a_waiting_taker_then_all_of_it_comes),
	};

	(void)argc;
	return run_in_each_store(argv, "epochs", tests, sizeof(tests) / sizeof(tests[0]));
}
