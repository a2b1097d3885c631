/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that the batch loader hands out the right bytes in the right order,
 * from every source. */
#include "loader_fixture.h"

#include "index/record_index.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { MEMORIES = 2 };
#else
enum { MEMORIES = 3 };
#endif

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
				assert_true(is_right(&out[i]->samples[j]));
		loader_done(out[i]);
	}
	assert_int_equal(more->epoch, 3);
	assert_true(is_right(&more->samples[0]));
	loader_done(more);
	loader_done(NULL);
	loader_close(NULL);
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

/* Records shown where they are, copied, and swept out of the file. */
static void decode_when_its_output_is_large_then_memory_bounds_it(void **state)
{
	static const uint64_t memory[] = {32 << 20, 4 << 20, 8 << 20};

	(void)state;
	for (unsigned i = 0; i < sizeof(memory) / sizeof(memory[0]); i++) {
		struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SHUFFLE, memory[i]);
		struct lmdbio_loader_stats stats = {.size = sizeof(stats)};
		uint64_t output, n = 0;
		struct lmdbio_batch *batch;
		struct lmdbio_loader *loader;

		options.decode = decode;
		options.decode_size = i == 2 ? 4 << 10 : 64 << 10;
		output = BATCH * options.decode_size;
		loader = loader_make(&options);
		for (uint64_t epoch = 0; epoch < 2; epoch++) {
			assert_int_equal(loader_epoch(loader, epoch), 0);
			for (; !loader_next(loader, &batch); n++) {
				assert_int_equal(loader_stats(loader, &stats), 0);
				assert_in_range(stats.held_bytes, output, memory[i] + 2 * output);
				loader_done(batch);
			}
		}
		assert_int_equal(n, 2 * (RECORDS / BATCH + 1));
		assert_int_equal(loader_epoch(loader, 7), 0);
		loader_close(loader);
	}
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
				assert_true(is_right(sample));
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

static void stage_when_full_then_goes_on_without(void **state)
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
	place_remove(&stage);
}

static void stage_refused(const struct lmdbio_loader_options *options, int error)
{
	struct loader_place at = {.path = place.directory, .flags = MDB_NOLOCK};
	struct lmdbio_loader *loader;

	assert_int_equal(loader_open(&loader, &at, options, NULL), error);
	assert_null(loader);
}

/* Also where the data fits memory, so that nothing would be staged. */
static void stage_when_not_there_then_is_refused(void **state)
{
	static const uint64_t memories[] = {SMALL, 0};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct lmdbio_loader_options options =
			options_of(LMDBIO_ORDER_SHUFFLE, memories[i]);

		options.stage_dir = "/no/such/directory";
		stage_refused(&options, ENOENT);
		options.stage_dir = "/dev/null";
		stage_refused(&options, ENOTDIR);
	}
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

/* A copy of a data set has no lock file until a program opens it. */
static void lock_file_when_the_loader_makes_it_then_as_other_programs_make_it(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SEQUENTIAL, 0);
	struct loader_place at = {.path = place.directory};
	mode_t before = umask(022);
	struct lmdbio_loader *loader;
	char path[300];
	struct stat st;

	(void)state;
	snprintf(path, sizeof(path), "%s/lock.mdb", place.directory);
	(void)unlink(path);
	assert_int_equal(loader_open(&loader, &at, &options, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0644);
	loader_close(loader);
	(void)umask(before);
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

/* A loader keeps its transaction as long as it lives, and LMDB lets one transaction at a time open handles. */
static void attach_when_the_program_opens_a_database_then_its_handle_is_its_own(void **state)
{
	struct lmdbio_loader_options options = options_of(LMDBIO_ORDER_SEQUENTIAL, 0);
	struct loader_place named = {.name = "one"};
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch;
	struct place at;
	MDB_env *orig;
	MDB_txn *txn;
	MDB_dbi dbi;

	(void)state;
	place_make(&at);
	orig = origin_open(&at);
	origin_put_text(orig, "one", 0, "key", "value");
	origin_put_text(orig, "two", 0, "key", "another");
	lmdbio_orig_mdb_env_close(orig);
	named.env = own_open(&at, 1, MDB_NOTLS);
	options.batch = 1;
	assert_int_equal(loader_open(&loader, &named, &options, NULL), 0);
	assert_int_equal(txn_begin(named.env, NULL, MDB_RDONLY, &txn), 0);
	assert_int_equal(dbi_open(txn, "two", 0, &dbi), 0);
	assert_int_equal(txn_commit(txn), 0);
	assert_int_equal(loader_epoch(loader, 0), 0);
	assert_int_equal(loader_next(loader, &batch), 0);
	assert_int_equal(batch->samples[0].data.mv_size, strlen("value"));
	loader_done(batch);
	loader_close(loader);
	assert_int_equal(txn_begin(named.env, NULL, MDB_RDONLY, &txn), 0);
	assert_true(dbi_exists(txn, dbi, TXN_DBI_USER));
	assert_true(txn_has(txn, dbi, "key", "another"));
	txn_abort(txn);
	env_close(named.env);
	place_remove(&at);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(epochs_when_of_any_order_then_every_record_once),
		cmocka_unit_test(ranks_when_three_then_together_every_record_once),
		cmocka_unit_test(batches_when_several_are_out_then_all_stay_right),
		cmocka_unit_test(decode_when_given_then_each_sample_has_its_output),
		cmocka_unit_test(decode_when_its_output_is_large_then_memory_bounds_it),
		cmocka_unit_test(errors_when_skipped_then_only_those_samples_lack),
		cmocka_unit_test(page_when_damaged_then_only_its_records_fail),
		cmocka_unit_test(resume_when_at_any_batch_on_other_ranks_then_goes_on),
		cmocka_unit_test(stage_when_it_has_room_then_storage_is_read_once),
		cmocka_unit_test(stage_when_full_then_goes_on_without),
		cmocka_unit_test(stage_when_not_there_then_is_refused),
		cmocka_unit_test(opportunistic_when_residents_have_come_then_from_memory),
		cmocka_unit_test(open_when_options_make_no_sense_then_refused),
		cmocka_unit_test(
			attach_when_the_program_opens_a_database_then_its_handle_is_its_own),
		cmocka_unit_test(lock_file_when_the_loader_makes_it_then_as_other_programs_make_it),
		cmocka_unit_test(quality_when_sorted_by_label_then_positions_are_fooled),
		cmocka_unit_test(positions_when_glued_in_groups_then_as_published),
	};

	(void)argc;
	return run_in_each_store(argv, "loader", tests, sizeof(tests) / sizeof(tests[0]));
}
