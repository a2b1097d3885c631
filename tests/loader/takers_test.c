/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests that any number of takers may take batches from a loader, that it ends at any time, and what
 * a quiet time holds back. */
#include "loader_fixture.h"

#include "loader/loader_private.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ROUNDS = 8, CHILDREN = 20 };
#else
enum { ROUNDS = 40, CHILDREN = 300 };
#endif

struct taker {
	struct lmdbio_loader *loader;
	uint64_t ns; /* waits for a batch at a time; 0: without a bound */
	pthread_t thread;
	uint64_t sum, samples;
	bool wrong;
	int rc;
};

static int take_next(const struct taker *taker, struct lmdbio_batch **batch)
{
	int rc = ETIMEDOUT;

	if (!taker->ns)
		return loader_next(taker->loader, batch);
	while (rc == ETIMEDOUT)
		rc = loader_next_within(taker->loader, taker->ns, batch);
	return rc;
}

static void *take_all(void *argument)
{
	struct taker *taker = argument;
	struct lmdbio_batch *batch;

	while (!(taker->rc = take_next(taker, &batch))) {
		for (size_t i = 0; i < batch->count; i++) {
			const struct lmdbio_sample *sample = &batch->samples[i];

			if (sample->record == LMDBIO_NO_RECORD)
				continue;
			taker->wrong |= !is_right(sample);
			taker->sum += sample->record;
			taker->samples++;
		}
		loader_done(batch);
	}
	return NULL;
}

static void four_take(uint64_t ns)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, SMALL);
	uint64_t sum = 0, samples = 0;
	struct taker takers[4];

	takers[0].loader = loader_make(&options);
	assert_int_equal(loader_epoch(takers[0].loader, 0), 0);
	for (unsigned i = 0; i < 4; i++) {
		takers[i] = (struct taker){.loader = takers[0].loader, .ns = ns};
		assert_int_equal(pthread_create(&takers[i].thread, NULL, take_all, &takers[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++) {
		pthread_join(takers[i].thread, NULL);
		assert_int_equal(takers[i].rc, MDB_NOTFOUND);
		assert_false(takers[i].wrong);
		sum += takers[i].sum;
		samples += takers[i].samples;
	}
	assert_int_equal(samples, RECORDS);
	assert_int_equal(sum, (uint64_t)RECORDS * (RECORDS - 1) / 2);
	loader_close(takers[0].loader);
}

static void threads_when_four_take_then_each_record_once(void **state)
{
	(void)state;
	four_take(0);
}

static void threads_when_their_waits_end_early_then_each_record_once(void **state)
{
	(void)state;
	four_take(50000);
}

/* A call whose wait has ended leaves its batch to the next call. */
static void wait_when_bounded_then_it_ends_and_the_place_stays(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, SMALL);
	struct lmdbio_loader_stats stats = {.size = sizeof(stats)};
	uint8_t before[ORDER_STATE], after[ORDER_STATE];
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch;

	(void)state;
	options.bandwidth = 1;
	loader = loader_make(&options);
	assert_int_equal(loader_epoch(loader, 0), 0);
	assert_int_equal(loader_save(loader, before), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(loader_next_within(loader, i * 1000000, &batch), ETIMEDOUT);
		assert_null(batch);
	}
	assert_int_equal(loader_save(loader, after), 0);
	assert_memory_equal(before, after, sizeof(before));
	assert_int_equal(loader_stats(loader, &stats), 0);
	assert_int_equal(stats.batches, 0);
	assert_int_equal(loader->takers.waiting, 0);
	loader_close(loader);
}

/* Holds back all samples until it is opened. */
struct gate {
	pthread_mutex_t lock;
	pthread_cond_t opened;
	bool open;
};

static int decode_behind(void *context, const struct lmdbio_sample *sample, void *output)
{
	struct gate *gate = context;

	(void)sample;
	(void)output;
	pthread_mutex_lock(&gate->lock);
	while (!gate->open)
		pthread_cond_wait(&gate->opened, &gate->lock);
	pthread_mutex_unlock(&gate->lock);
	return 0;
}

/* The epoch's stalls contain the waits that ended early, each batch's as one stall. */
static void wait_when_bounded_then_it_counts_as_a_stall_of_the_batch(void **state)
{
	struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, SMALL);
	struct lmdbio_loader_stats stats = {.size = sizeof(stats)};
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch;

	(void)state;
	options.decode = decode_behind;
	options.decode_context = &gate;
	options.decode_size = 1;
	loader = loader_make(&options);
	assert_int_equal(loader_epoch(loader, 0), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(loader_next_within(loader, 4000000, &batch), ETIMEDOUT);
	pthread_mutex_lock(&gate.lock);
	gate.open = true;
	pthread_cond_broadcast(&gate.opened);
	pthread_mutex_unlock(&gate.lock);
	assert_int_equal(loader_next(loader, &batch), 0);
	assert_int_equal(batch->number, 0);
	assert_int_equal(loader_stats(loader, &stats), 0);
	assert_int_equal(stats.batches, 1);
	assert_true(stats.stall_ns >= 8000000);
	for (unsigned i = 0; i < 13; i++) /* the first 13 are stalls of less than 4 ms */
		assert_int_equal(stats.stalls[i], 0);
	loader_done(batch);
	loader_close(loader);
}

/* Storage that gives a byte a second: whoever waits would wait for years. */
static void close_when_somebody_waits_then_nobody_hangs(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, SMALL);
	struct lmdbio_loader_stats stats = {.size = sizeof(stats)};
	struct taker takers[3];

	(void)state;
	options.bandwidth = 1;
	takers[0].loader = loader_make(&options);
	assert_int_equal(loader_epoch(takers[0].loader, 0), 0);
	for (unsigned i = 0; i < 3; i++) {
		takers[i] = (struct taker){.loader = takers[0].loader};
		assert_int_equal(pthread_create(&takers[i].thread, NULL, take_all, &takers[i]), 0);
	}
	assert_int_equal(loader_stats(takers[0].loader, &stats), 0);
	/* A new epoch calls off who waits for the old one, but who comes late waits for it. */
	assert_int_equal(loader_epoch(takers[0].loader, 5), 0);
	loader_close(takers[0].loader);
	for (unsigned i = 0; i < 3; i++) {
		pthread_join(takers[i].thread, NULL);
		assert_true(takers[i].rc == ECANCELED || takers[i].rc == MDB_NOTFOUND);
		assert_false(takers[i].wrong);
	}
}

static void close_when_at_any_batch_then_no_hang(void **state)
{
	(void)state;
	for (unsigned stop = 0; stop < 12; stop++) {
		struct lmdbio_loader_options options =
			options_of(LMDBIO_ORDER_SHUFFLE, stop % 2 ? SMALL : 0);
		struct lmdbio_loader *loader = loader_make(&options);
		struct lmdbio_batch *batch = NULL;
		char line[] = "what was there before";

		if (stop)
			assert_int_equal(loader_epoch(loader, stop), 0);
		for (unsigned i = 1; i < stop; i++) {
			assert_int_equal(loader_next(loader, &batch), 0);
			if (i + 1 < stop)
				loader_done(batch);
		}
		loader_close(loader);
		assert_int_equal(loader_verdict(loader, line, sizeof(line)), 0);
		assert_string_equal(line, "");
		loader_done(batch);
	}
}

static void close_when_a_round_is_being_planned_then_no_hang(void **state)
{
	(void)state;
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, 2 << 20);
		struct lmdbio_loader *loader = loader_make(&options);
		struct lmdbio_batch *batch;

		assert_int_equal(loader_epoch(loader, i), 0);
		for (unsigned j = 0; j < i; j++) {
			assert_int_equal(loader_next(loader, &batch), 0);
			loader_done(batch);
		}
		loader_close(loader);
	}
}

static void quiet_when_begun_then_waiting_still_works(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, SMALL);
	struct lmdbio_loader *loader = loader_make(&options);

	(void)state;
	loader_quiet(loader, true);
	assert_int_equal(epoch_read(loader, 0, 1, 0), RECORDS);
	loader_quiet(loader, false);
	loader_quiet(loader, false);
	assert_int_equal(epoch_read(loader, 1, 1, 0), RECORDS);
	loader_close(loader);
}

/* A thread of a tier that reads a run. */
struct run {
	struct lmdbio_loader *loader;
	_Atomic int haste;
	uint64_t taken;
	int rc;
};

static void run_take(void *context, uint64_t record, int error, const MDB_val *key,
		     const MDB_val *data)
{
	struct lmdbio_sample sample = {.record = record, .error = error, .key = *key, .data = *data};

	((struct run *)context)->taken += !error && is_right(&sample);
}

static void *run_read(void *argument)
{
	struct run *run = argument;

	run->rc = loader_run(run->loader, 10, 20, &run->haste, run_take, run);
	return NULL;
}

/* What becomes of a run that has begun as RUN_LATER in a quiet time, when its haste changes. */
static int run_changed(struct lmdbio_loader *loader, enum run_haste haste, uint64_t *taken)
{
	struct run run = {.loader = loader, .haste = RUN_LATER};
	pthread_t thread;

	loader_quiet(loader, true);
	assert_int_equal(pthread_create(&thread, NULL, run_read, &run), 0);
	run.haste = haste;
	loader_hurry(loader);
	assert_int_equal(pthread_join(thread, NULL), 0);
	loader_quiet(loader, false);
	*taken = run.taken;
	return run.rc;
}

static void run_when_quiet_then_its_haste_decides(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, SMALL);
	struct lmdbio_loader *loader;
	uint64_t taken;

	(void)state;
	/* Without haste a run would wait for the bandwidth for hours, too. */
	options.bandwidth = 1;
	loader = loader_make(&options);
	assert_int_equal(run_changed(loader, RUN_NOT, &taken), EAGAIN);
	assert_int_equal(taken, 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(run_changed(loader, RUN_NOW, &taken), 0);
		assert_int_equal(taken, 20);
	}
	assert_int_equal(run_changed(loader, RUN_NOT, &taken), EAGAIN);
	loader_close(loader);
}

static void child_when_forked_then_it_has_no_loader(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, SMALL);
	struct lmdbio_loader *loader = loader_make(&options);
	struct lmdbio_batch *batch, *none;
	pid_t child;
	int status;

	(void)state;
	assert_int_equal(loader_epoch(loader, 0), 0);
	assert_int_equal(loader_next(loader, &batch), 0);
	child = fork();
	if (!child) {
		int rc = loader_next(loader, &none);

		loader_done(batch);
		loader_close(loader);
		_exit(rc == ECHILD ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	loader_done(batch);
	assert_int_equal(epoch_read(loader, 1, 1, 0), RECORDS);
	loader_close(loader);
}

static void *open_one(void *argument)
{
	static atomic_uint here;
	struct lmdbio_loader *loader = argument;

	pthread_mutex_init(&loader->lock, NULL);
	atomic_fetch_add(&here, 1);
	while (atomic_load(&here) % 2)
		continue;
	loader_enlist(loader);
	return NULL;
}

/* Returns 0 when the list has both. */
static int open_two(void *argument)
{
	struct lmdbio_loader *loaders = argument;
	pthread_t threads[2];

	for (unsigned i = 0; i < 2; i++)
		if (pthread_create(&threads[i], NULL, open_one, &loaders[i]))
			return 1;
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	return loader_delist(&loaders[0]) && loader_delist(&loaders[1]) ? 0 : 2;
}

static void child_when_its_first_loaders_are_opened_at_once_then_it_has_both(void **state)
{
	struct lmdbio_loader *loaders = calloc(2, sizeof(*loaders));

	(void)state;
	assert_non_null(loaders);
	for (unsigned i = 0; i < CHILDREN; i++)
		assert_int_equal(in_process(open_two, loaders), 0);
	free(loaders);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_when_four_take_then_each_record_once),
		cmocka_unit_test(threads_when_their_waits_end_early_then_each_record_once),
		cmocka_unit_test(wait_when_bounded_then_it_ends_and_the_place_stays),
		cmocka_unit_test(wait_when_bounded_then_it_counts_as_a_stall_of_the_batch),
		cmocka_unit_test(close_when_somebody_waits_then_nobody_hangs),
		cmocka_unit_test(close_when_at_any_batch_then_no_hang),
		cmocka_unit_test(close_when_a_round_is_being_planned_then_no_hang),
		cmocka_unit_test(quiet_when_begun_then_waiting_still_works),
		cmocka_unit_test(run_when_quiet_then_its_haste_decides),
		cmocka_unit_test(child_when_forked_then_it_has_no_loader),
		cmocka_unit_test(child_when_its_first_loaders_are_opened_at_once_then_it_has_both),
	};

	(void)argc;
	return run_in_each_store(argv, "takers", tests, sizeof(tests) / sizeof(tests[0]));
}
