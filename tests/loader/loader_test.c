/* What only this file knows: that the batch loader hands out the right bytes in the right order,
 * from every source, to any number of takers, and ends at any time.
 *
 * The program runs itself once for each store.
 */
#include "env_fixture.h"

#include "index/record_index.h"
#include "loader/batch_loader.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { RECORDS = 1500, BATCH = 32, VALUE = 7000, SMALL = 300 << 10 };

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { ROUNDS = 8, MEMORIES = 2 };
#else
enum { ROUNDS = 40, MEMORIES = 3 };
#endif

static struct place place;

/* Value i: its length and every byte follow from i. */
static size_t value_size(uint64_t i)
{
	return i % 7 == 3 ? 40 + i % 50 : VALUE - i % 1000;
}

static void value_make(uint8_t *bytes, uint64_t i)
{
	for (size_t j = 0; j < value_size(i); j++)
		bytes[j] = (uint8_t)(i * 7 + j * 13 + (j >> 8));
}

static int group_setup(void **state)
{
	uint8_t bytes[VALUE];
	MDB_env *orig;
	MDB_txn *txn;
	MDB_dbi dbi;
	char key[16];

	(void)state;
	place_make(&place);
	assert_int_equal(lmdbio_orig_mdb_env_create(&orig), 0);
	assert_int_equal(lmdbio_orig_mdb_env_set_maxdbs(orig, 4), 0);
	assert_int_equal(lmdbio_orig_mdb_env_set_mapsize(orig, 64 << 20), 0);
	assert_int_equal(lmdbio_orig_mdb_env_open(orig, place.directory, MDB_NOSYNC, 0600), 0);
	assert_int_equal(lmdbio_orig_mdb_txn_begin(orig, NULL, 0, &txn), 0);
	assert_int_equal(lmdbio_orig_mdb_dbi_open(txn, NULL, 0, &dbi), 0);
	for (uint64_t i = 0; i < RECORDS; i++) {
		MDB_val data = {value_size(i), bytes};
		MDB_val name = {8, key};

		snprintf(key, sizeof(key), "%08u", (unsigned)i);
		value_make(bytes, i);
		assert_int_equal(lmdbio_orig_mdb_put(txn, dbi, &name, &data, 0), 0);
	}
	assert_int_equal(lmdbio_orig_mdb_txn_commit(txn), 0);
	lmdbio_orig_mdb_env_close(orig);
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	place_remove(&place);
	return 0;
}

static struct lmdbio_loader_options options_of(enum lmdbio_order order, uint64_t memory)
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

static struct lmdbio_loader *loader_make(const struct lmdbio_loader_options *options)
{
	struct loader_place at = {.path = place.directory, .flags = MDB_NOLOCK};
	struct lmdbio_loader *loader;

	assert_int_equal(loader_open(&loader, &at, options, NULL), 0);
	assert_int_equal(loader_records(loader), RECORDS);
	return loader;
}

static void assert_right(const struct lmdbio_sample *sample)
{
	uint8_t bytes[VALUE];
	char key[16];

	assert_int_equal(sample->error, 0);
	assert_true(sample->record < RECORDS);
	value_make(bytes, sample->record);
	snprintf(key, sizeof(key), "%08u", (unsigned)sample->record);
	assert_int_equal(sample->key.mv_size, 8);
	assert_memory_equal(sample->key.mv_data, key, 8);
	assert_int_equal(sample->data.mv_size, value_size(sample->record));
	assert_memory_equal(sample->data.mv_data, bytes, value_size(sample->record));
}

/* Goes through an epoch; every sample must be the order's. Returns how many there were. */
static uint64_t epoch_read(struct lmdbio_loader *loader, uint64_t epoch, uint32_t ranks,
			   uint32_t rank)
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
			assert_right(&batch->samples[i]);
			n++;
		}
		loader_done(batch);
	}
	assert_int_equal(rc, MDB_NOTFOUND);
	return n;
}

static void epochs_when_of_any_order_then_every_record_once(void **state)
{
	static const uint64_t memory[] = {0, SMALL, 1};

	(void)state;
	for (unsigned order = 0; order <= LMDBIO_ORDER_OPPORTUNISTIC; order++)
		for (unsigned i = 0; i < MEMORIES; i++) {
			struct lmdbio_loader_options options = options_of(order, memory[i]);
			struct lmdbio_loader *loader = loader_make(&options);

			assert_int_equal(epoch_read(loader, 0, 1, 0), RECORDS);
			assert_int_equal(epoch_read(loader, 1, 1, 0), RECORDS);
			/* Not the one that was read ahead. */
			assert_int_equal(epoch_read(loader, 7, 1, 0), RECORDS);
			loader_close(loader);
		}
}

static void ranks_when_three_then_together_every_record_once(void **state)
{
	(void)state;
	for (unsigned order = 0; order <= LMDBIO_ORDER_SHUFFLE; order++) {
		uint64_t n = 0;

		for (uint32_t rank = 0; rank < 3; rank++) {
			struct lmdbio_loader_options options = options_of(order, SMALL);
			struct lmdbio_loader *loader;

			options.ranks = 3;
			options.rank = rank;
			loader = loader_make(&options);
			n += epoch_read(loader, 2, 3, rank);
			loader_close(loader);
		}
		assert_int_equal(n, RECORDS);
	}
}

static void batches_when_several_are_out_then_all_stay_right(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, 1);
	struct lmdbio_batch *out[RECORDS / BATCH + 2], *more;
	struct lmdbio_loader *loader;
	unsigned n = 0;

	(void)state;
	loader = loader_make(&options);
	assert_int_equal(loader_next(loader, &more), EINVAL);
	assert_int_equal(loader_epoch(loader, 0), 0);
	/* More than the memory that it has: who waits must get it. */
	while (!loader_next(loader, &out[n]))
		n++;
	assert_int_equal(n, RECORDS / BATCH + 1);
	assert_int_equal(loader_epoch(loader, 3), 0);
	assert_int_equal(loader_next(loader, &more), 0);
	loader_close(loader);
	for (unsigned i = 0; i < n; i++) {
		for (size_t j = 0; j < out[i]->count; j++)
			if (out[i]->samples[j].record != LMDBIO_NO_RECORD)
				assert_right(&out[i]->samples[j]);
		loader_done(out[i]);
	}
	assert_int_equal(more->epoch, 3);
	assert_right(&more->samples[0]);
	loader_done(more);
	loader_done(NULL);
	loader_close(NULL);
}

/* --- threads ---------------------------------------------------------------------------------- */

struct taker {
	struct lmdbio_loader *loader;
	pthread_t thread;
	uint64_t sum, samples;
	bool wrong;
	int rc;
};

static void *take_all(void *argument)
{
	struct taker *taker = argument;
	struct lmdbio_batch *batch;
	uint8_t bytes[VALUE];

	while (!(taker->rc = loader_next(taker->loader, &batch))) {
		for (size_t i = 0; i < batch->count; i++) {
			const struct lmdbio_sample *sample = &batch->samples[i];

			if (sample->record == LMDBIO_NO_RECORD)
				continue;
			value_make(bytes, sample->record);
			taker->wrong |= sample->data.mv_size != value_size(sample->record) ||
					memcmp(sample->data.mv_data, bytes, sample->data.mv_size);
			taker->sum += sample->record;
			taker->samples++;
		}
		loader_done(batch);
	}
	return NULL;
}

static void threads_when_four_take_then_each_record_once(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, SMALL);
	uint64_t sum = 0, samples = 0;
	struct taker takers[4];

	(void)state;
	takers[0].loader = loader_make(&options);
	assert_int_equal(loader_epoch(takers[0].loader, 0), 0);
	for (unsigned i = 0; i < 4; i++) {
		takers[i] = (struct taker){.loader = takers[0].loader};
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

		if (stop)
			assert_int_equal(loader_epoch(loader, stop), 0);
		for (unsigned i = 1; i < stop; i++) {
			assert_int_equal(loader_next(loader, &batch), 0);
			if (i + 1 < stop)
				loader_done(batch);
		}
		loader_close(loader);
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

/* --- decoding and errors ---------------------------------------------------------------------- */

static int decode(void *context, const struct lmdbio_sample *sample, void *output)
{
	uint64_t *out = output;

	if (context && sample->record % 100 == 17)
		return -77;
	out[0] += sample->record;
	out[1] = sample->data.mv_size;
	return 0;
}

static void decode_when_given_then_each_sample_has_its_output(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, SMALL);
	struct lmdbio_batch *batch;
	struct lmdbio_loader *loader;
	uint64_t n = 0;

	(void)state;
	options.decode = decode;
	options.decode_size = 16;
	options.decode_threads = 3;
	loader = loader_make(&options);
	assert_int_equal(loader_epoch(loader, 0), 0);
	while (!loader_next(loader, &batch)) {
		const uint64_t *out = batch->decoded;

		for (size_t i = 0; i < batch->count; i++) {
			bool none = batch->samples[i].record == LMDBIO_NO_RECORD;

			assert_int_equal(out[2 * i], none ? 0 : batch->samples[i].record);
			assert_int_equal(out[2 * i + 1], batch->samples[i].data.mv_size);
			n += !none;
		}
		loader_done(batch);
	}
	assert_int_equal(n, RECORDS);
	loader_close(loader);
}

static void errors_when_skipped_then_only_those_samples_lack(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, SMALL);
	struct lmdbio_loader_stats stats = {.size = sizeof(stats)};
	struct lmdbio_batch *batch;
	struct lmdbio_loader *loader;
	unsigned failed = 0, passed = 0;
	int rc;

	(void)state;
	options.decode = decode;
	options.decode_context = &options;
	options.decode_size = 16;
	options.skip_errors = 1;
	loader = loader_make(&options);
	assert_int_equal(loader_epoch(loader, 0), 0);
	while (!loader_next(loader, &batch)) {
		for (size_t i = 0; i < batch->count; i++) {
			failed += batch->samples[i].error == -77;
			passed += !batch->samples[i].error;
		}
		loader_done(batch);
	}
	assert_int_equal(failed, 15);
	assert_int_equal(loader_stats(loader, &stats), 0);
	assert_int_equal(stats.errors, 15);
	loader_close(loader);

	options.skip_errors = 0;
	loader = loader_make(&options);
	assert_int_equal(loader_epoch(loader, 0), 0);
	for (failed = passed = 0; (rc = loader_next(loader, &batch)) != MDB_NOTFOUND;) {
		assert_true(!rc || rc == -77);
		failed += rc != 0;
		passed += !rc;
		loader_done(batch);
	}
	assert_true(failed > 5 && failed <= 15);
	assert_int_equal(failed + passed, RECORDS / BATCH + 1);
	loader_close(loader);
}

static void page_when_damaged_then_only_its_records_fail(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, SMALL);
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch;
	struct index_place at;
	struct record_index *index;
	uint8_t page[4096], bad[4096] = {0};
	unsigned failed = 0, right = 0;
	MDB_env *env = own_open(&place, 4, MDB_NOLOCK);
	MDB_txn *txn;
	FILE *file = fopen(place.data, "r");

	(void)state;
	/* The leaf page of record 700, spoilt when the records have been counted. */
	assert_int_equal(txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
	assert_int_equal(records_take(txn, DBI_MAIN, &index), 0);
	assert_int_equal(index_find(index, 700, &at), 0);
	records_give(env, index);
	txn_abort(txn);
	env_close(env);
	assert_non_null(file);
	assert_int_equal(fseek(file, (long)at.page * 4096, SEEK_SET), 0);
	assert_int_equal(fread(page, 4096, 1, file), 1);
	fclose(file);
	options.skip_errors = 1;
	loader = loader_make(&options);
	place_patch(&place, at.page * 4096, bad, 4096);
	assert_int_equal(loader_epoch(loader, 0), 0);
	while (!loader_next(loader, &batch)) {
		for (size_t i = 0; i < batch->count; i++) {
			const struct lmdbio_sample *sample = &batch->samples[i];

			if (sample->record == LMDBIO_NO_RECORD)
				continue;
			if (sample->error) {
				assert_int_equal(sample->error, MDB_CORRUPTED);
				failed++;
			} else {
				assert_right(sample);
				right++;
			}
		}
		loader_done(batch);
	}
	assert_int_equal(failed + right, RECORDS);
	assert_true(failed < 200);
	/* An arena may have had the page before it was spoilt. */
	assert_true(failed > 0 || !strcmp(getenv("LMDBIO_STORE"), "arena"));
	loader_close(loader);
	place_patch(&place, at.page * 4096, page, 4096);
}

/* --- resume ----------------------------------------------------------------------------------- */

static void resume_when_at_any_batch_on_other_ranks_then_goes_on(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, SMALL);
	struct lmdbio_loader *loader = loader_make(&options);
	uint8_t saved[ORDER_STATE];
	struct lmdbio_batch *batch;

	(void)state;
	assert_int_equal(loader_save(loader, saved), EINVAL);
	assert_int_equal(loader_epoch(loader, 4), 0);
	for (unsigned done = 0; done < 40; done += 13) {
		struct lmdbio_loader_options other = options_of(LMDBIO_ORDER_SEQUENTIAL, 0);
		struct order_epoch at;

		assert_int_equal(loader_save(loader, saved), 0);
		other.seed = 99;
		other.ranks = 4;
		order_begin(&at, loader_order(loader), 4);
		for (uint32_t rank = 0; rank < 4; rank += 3) {
			struct lmdbio_loader *resumed;
			uint64_t n = done;

			other.rank = rank;
			resumed = loader_make(&other);
			assert_int_equal(loader_restore(resumed, saved), 0);
			for (; !loader_next(resumed, &batch); n++) {
				assert_int_equal(batch->number, n);
				for (uint32_t i = 0; i < batch->count; i++)
					assert_true(batch->samples[i].record ==
						    order_record(&at, order_slot(&at.order, 4, rank,
										 n, i)));
				loader_done(batch);
			}
			assert_int_equal(n, order_batches(&at.order));
			loader_close(resumed);
		}
		for (unsigned i = 0; i < 13 && !loader_next(loader, &batch); i++)
			loader_done(batch);
	}
	saved[20] ^= 1;
	assert_int_equal(loader_restore(loader, saved), EINVAL);
	loader_close(loader);
}

/* --- sources ---------------------------------------------------------------------------------- */

static unsigned files_in(const char *directory)
{
	DIR *dir = opendir(directory);
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n - 2;
}

static void stage_when_it_has_room_then_storage_is_read_once(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, SMALL);
	struct lmdbio_loader_stats first = {.size = sizeof(first)}, second = first;
	struct lmdbio_loader *loader;
	struct place stage;

	(void)state;
	place_make(&stage);
	options.stage_dir = stage.directory;
	loader = loader_make(&options);
	assert_int_equal(files_in(stage.directory), 1);
	assert_int_equal(epoch_read(loader, 0, 1, 0), RECORDS);
	assert_int_equal(loader_stats(loader, &first), 0);
	assert_true(first.staged_bytes > RECORDS * 5000);
	assert_int_equal(first.stage_state, 0);
	assert_int_equal(epoch_read(loader, 1, 1, 0), RECORDS);
	assert_int_equal(loader_stats(loader, &second), 0);
	assert_int_equal(second.staged_bytes, first.staged_bytes);
	/* The faster source is taken, so not all need come from there. */
	assert_true(second.stage_bytes + second.file_bytes + second.memory_bytes > RECORDS * 10000);
	assert_true(second.stage_bytes > 0);
	loader_close(loader);
	assert_int_equal(files_in(stage.directory), 0);
	place_remove(&stage);
}

static void stage_when_full_or_not_there_then_goes_on_without(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, SMALL);
	struct lmdbio_loader_stats stats = {.size = sizeof(stats)};
	struct lmdbio_loader *loader;
	struct place stage;

	(void)state;
	place_make(&stage);
	options.stage_dir = stage.directory;
	options.stage_size = 1 << 20;
	loader = loader_make(&options);
	assert_int_equal(epoch_read(loader, 0, 1, 0), RECORDS);
	assert_int_equal(epoch_read(loader, 1, 1, 0), RECORDS);
	assert_int_equal(loader_stats(loader, &stats), 0);
	assert_int_equal(stats.stage_state, TIER_FULL);
	assert_true(stats.staged_bytes > 900000 && stats.staged_bytes <= 1 << 20);
	loader_close(loader);
	assert_int_equal(files_in(stage.directory), 0);

	options.stage_dir = "/no/such/directory";
	loader = loader_make(&options);
	assert_int_equal(epoch_read(loader, 0, 1, 0), RECORDS);
	assert_int_equal(loader_stats(loader, &stats), 0);
	assert_int_equal(stats.stage_state, TIER_FAILED);
	loader_close(loader);
	place_remove(&stage);
}

static void opportunistic_when_residents_have_come_then_from_memory(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_OPPORTUNISTIC, 4 << 20);
	struct lmdbio_loader_stats first = {.size = sizeof(first)}, second = first;
	struct lmdbio_loader *loader;

	(void)state;
	options.resident = RECORDS / 5;
	loader = loader_make(&options);
	assert_int_equal(epoch_read(loader, 0, 1, 0), RECORDS);
	assert_int_equal(loader_stats(loader, &first), 0);
	assert_int_equal(epoch_read(loader, 1, 1, 0), RECORDS);
	assert_int_equal(loader_stats(loader, &second), 0);
	assert_true(second.memory_bytes - first.memory_bytes > RECORDS / 5 * 4000);
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

static void open_when_options_make_no_sense_then_refused(void **state)
{
	struct lmdbio_loader_options good = options_of(LMDBIO_ORDER_SHUFFLE, 0), bad;
	struct loader_place at = {.path = place.directory, .flags = MDB_NOLOCK};
	struct lmdbio_loader *loader;

	(void)state;
	assert_int_equal(loader_open(&loader, &at, NULL, NULL), EINVAL);
	bad = good, bad.size = 8;
	assert_int_equal(loader_open(&loader, &at, &bad, NULL), EINVAL);
	bad = good, bad.batch = 0;
	assert_int_equal(loader_open(&loader, &at, &bad, NULL), EINVAL);
	bad = good, bad.rank = 1;
	assert_int_equal(loader_open(&loader, &at, &bad, NULL), EINVAL);
	at.name = "nobody";
	assert_int_equal(loader_open(&loader, &at, &good, NULL), MDB_NOTFOUND);
	at.path = "/no/such/place";
	assert_int_equal(loader_open(&loader, &at, &good, NULL), ENOENT);
	assert_null(loader);
}

static void quality_when_sorted_by_label_then_positions_are_fooled(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SEQUENTIAL, 0);
	struct lmdbio_quality quality = {.size = sizeof(quality)};
	struct lmdbio_loader *loader;

	(void)state;
	/* Keys 00000000 to 00001499: the first six digits are fifteen labels in a row. */
	loader = loader_make(&options);
	assert_int_equal(loader_quality(loader, 0, 0, 6, &quality), 0);
	assert_int_equal(quality.distinct, 15);
	assert_true(quality.positions == 0);
	assert_true(quality.labels < 0.2);
	loader_close(loader);
	options.order = LMDBIO_ORDER_SHUFFLE;
	loader = loader_make(&options);
	assert_int_equal(loader_quality(loader, 0, 0, 6, &quality), 0);
	assert_true(quality.positions > 0.999999 && quality.positions < 1.000001);
	assert_true(quality.labels > 0.999999 && quality.labels < 1.000001);
	assert_true(quality.worst > 0.7);
	loader_close(loader);
	options.order = LMDBIO_ORDER_BLOCK;
	loader = loader_make(&options);
	assert_int_equal(loader_quality(loader, 0, 0, 6, &quality), 0);
	assert_true(quality.positions > 0.5 && quality.positions < 0.99);
	assert_true(quality.labels > 0.3 && quality.labels < 0.9);
	loader_close(loader);
}

/* What DeepIO published for images glued in constant order. */
static void positions_when_glued_in_groups_then_as_published(void **state)
{
	static const struct {
		unsigned group, percent;
	} published[] = {{4, 73}, {16, 49}, {256, 16}};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		double percent = 100 * quality_groups(10240, published[i].group);

		assert_true(percent > published[i].percent - 1.0 &&
			    percent < published[i].percent + 1.0);
	}
	assert_true(quality_groups(1000, 1) == 1);
	assert_true(quality_groups(1000, 1000) == 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(epochs_when_of_any_order_then_every_record_once),
		cmocka_unit_test(ranks_when_three_then_together_every_record_once),
		cmocka_unit_test(batches_when_several_are_out_then_all_stay_right),
		cmocka_unit_test(threads_when_four_take_then_each_record_once),
		cmocka_unit_test(close_when_somebody_waits_then_nobody_hangs),
		cmocka_unit_test(close_when_at_any_batch_then_no_hang),
		cmocka_unit_test(close_when_a_round_is_being_planned_then_no_hang),
		cmocka_unit_test(quiet_when_begun_then_waiting_still_works),
		cmocka_unit_test(decode_when_given_then_each_sample_has_its_output),
		cmocka_unit_test(errors_when_skipped_then_only_those_samples_lack),
		cmocka_unit_test(page_when_damaged_then_only_its_records_fail),
		cmocka_unit_test(resume_when_at_any_batch_on_other_ranks_then_goes_on),
		cmocka_unit_test(stage_when_it_has_room_then_storage_is_read_once),
		cmocka_unit_test(stage_when_full_or_not_there_then_goes_on_without),
		cmocka_unit_test(opportunistic_when_residents_have_come_then_from_memory),
		cmocka_unit_test(child_when_forked_then_it_has_no_loader),
		cmocka_unit_test(open_when_options_make_no_sense_then_refused),
		cmocka_unit_test(quality_when_sorted_by_label_then_positions_are_fooled),
		cmocka_unit_test(positions_when_glued_in_groups_then_as_published),
	};
	static const char *const stores[] = {"cache", "arena"};
	int bad = 0, status;

	(void)argc;
	if (getenv("LMDBIO_STORE"))
		return cmocka_run_group_tests(tests, group_setup, group_teardown);
	/* Settings are read once in a process. */
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
