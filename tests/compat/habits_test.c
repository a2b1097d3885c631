/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what callers of LMDB do that its manual does not mention. */
#include "habit_data.h"

#include "origin/origin.h"

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

static MDB_env *env_opened(const char *path, unsigned flags)
{
	MDB_env *env;

	assert_int_equal(mdb_env_create(&env), 0);
	assert_int_equal(mdb_env_open(env, path, flags, 0664), 0);
	return env;
}

enum { QUEUE = 16, SMALL_STACK = 16 << 10 /* PTHREAD_STACK_MIN */ };

/* A layer of Caffe: opened on the main thread, moved by its prefetch thread, used by a third. */
struct layer {
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	MDB_cursor *cursor;
	unsigned reads;
	pthread_t mover, user;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	MDB_val keys[QUEUE], values[QUEUE];
	unsigned put, taken;
	int move_code;
	unsigned wrong;
};

static void layer_put(struct layer *layer, const MDB_val *key, const MDB_val *value)
{
	pthread_mutex_lock(&layer->lock);
	while (layer->put - layer->taken == QUEUE)
		pthread_cond_wait(&layer->changed, &layer->lock);
	layer->keys[layer->put % QUEUE] = *key;
	layer->values[layer->put % QUEUE] = *value;
	layer->put++;
	pthread_cond_broadcast(&layer->changed);
	pthread_mutex_unlock(&layer->lock);
}

/* As Caffe's LMDBCursor: NEXT until NOTFOUND, then FIRST, for ever. */
static void *layer_move(void *context)
{
	struct layer *layer = context;
	MDB_val key, value;
	int rc = mdb_cursor_get(layer->cursor, &key, &value, MDB_GET_CURRENT);

	for (unsigned n = 0; n < layer->reads && !rc; n++) {
		layer_put(layer, &key, &value);
		rc = mdb_cursor_get(layer->cursor, &key, &value, MDB_NEXT);
		if (rc == MDB_NOTFOUND)
			rc = mdb_cursor_get(layer->cursor, &key, &value, MDB_FIRST);
	}
	layer->move_code = rc;
	if (rc) { /* let the user end */
		MDB_val nothing = {0, NULL};

		for (unsigned n = layer->put; n < layer->reads; n++)
			layer_put(layer, &nothing, &nothing);
	}
	return NULL;
}

static void *layer_use(void *context)
{
	struct layer *layer = context;

	for (unsigned n = 0; n < layer->reads; n++) {
		MDB_val key, value;

		pthread_mutex_lock(&layer->lock);
		while (layer->put == layer->taken)
			pthread_cond_wait(&layer->changed, &layer->lock);
		key = layer->keys[layer->taken % QUEUE];
		value = layer->values[layer->taken % QUEUE];
		pthread_mutex_unlock(&layer->lock);
		if (!key.mv_data || !data_is_record(n % DATA_RECORDS, 0, &key, &value))
			layer->wrong++;
		pthread_mutex_lock(&layer->lock);
		layer->taken++;
		pthread_cond_broadcast(&layer->changed);
		pthread_mutex_unlock(&layer->lock);
	}
	return NULL;
}

static void layer_open(struct layer *layer, const char *path, unsigned reads)
{
	MDB_val key, value;

	memset(layer, 0, sizeof(*layer));
	layer->reads = reads;
	pthread_mutex_init(&layer->lock, NULL);
	pthread_cond_init(&layer->changed, NULL);
	layer->env = env_opened(path, MDB_RDONLY | MDB_NOTLS);
	assert_int_equal(mdb_txn_begin(layer->env, NULL, MDB_RDONLY, &layer->txn), 0);
	assert_int_equal(mdb_dbi_open(layer->txn, NULL, 0, &layer->dbi), 0);
	assert_int_equal(mdb_cursor_open(layer->txn, layer->dbi, &layer->cursor), 0);
	assert_int_equal(mdb_cursor_get(layer->cursor, &key, &value, MDB_FIRST), 0);
	assert_int_equal(pthread_create(&layer->mover, NULL, layer_move, layer), 0);
	assert_int_equal(pthread_create(&layer->user, NULL, layer_use, layer), 0);
}

static void layer_close(struct layer *layer)
{
	pthread_join(layer->mover, NULL);
	pthread_join(layer->user, NULL);
	assert_int_equal(layer->move_code, 0);
	assert_int_equal(layer->wrong, 0);
	mdb_cursor_close(layer->cursor);
	mdb_txn_abort(layer->txn);
	mdb_dbi_close(layer->env, layer->dbi);
	mdb_env_close(layer->env);
	pthread_cond_destroy(&layer->changed);
	pthread_mutex_destroy(&layer->lock);
}

static void cursor_moved_by_another_thread_used_by_a_third(void **state)
{
	const char *path = data_make("data");
	struct layer layer;

	(void)state;
	assert_non_null(path);
	layer_open(&layer, path, 2 * DATA_RECORDS + 5);
	layer_close(&layer);
}

static void caffe_train_and_test_layer_on_one_path_read_three_epochs(void **state)
{
	const char *path = data_make("data");
	struct file_state before;
	struct layer train, test;
	char file[4200];

	(void)state;
	assert_non_null(path);
	snprintf(file, sizeof(file), "%s/data.mdb", path);
	before = file_look(file);
	layer_open(&train, path, 3 * DATA_RECORDS);
	layer_open(&test, path, DATA_RECORDS / 2);
	layer_close(&test);
	layer_close(&train);
	struct file_state after = file_look(file);
	assert_memory_equal(&before, &after, sizeof(before));
}

static void path_opened_twice_both_read_and_either_may_close_first(void **state)
{
	const char *path = data_make("data");
	MDB_env *one, *two;
	MDB_txn *txns[2];

	(void)state;
	assert_non_null(path);
	/* Opening one of them again while the other still reads is another matter: there the
	 * original itself loses the other's reader slot. */
	for (int round = 0; round < 4; round++) {
		bool first = round & 1;

		one = env_opened(path, MDB_RDONLY | (round & 2 ? MDB_NOTLS : 0));
		two = env_opened(path, MDB_RDONLY | MDB_NOTLS);
		assert_int_equal(mdb_txn_begin(one, NULL, MDB_RDONLY, &txns[0]), 0);
		assert_int_equal(mdb_txn_begin(two, NULL, MDB_RDONLY, &txns[1]), 0);
		assert_int_equal(data_check(txns[0], 0), 0);
		assert_int_equal(data_check(txns[1], 0), 0);
		mdb_txn_abort(txns[first]);
		mdb_env_close(first ? two : one);
		assert_int_equal(data_check(txns[!first], 0), 0);
		mdb_txn_abort(txns[!first]);
		mdb_env_close(first ? one : two);
	}
}

static void readers_closed_in_any_order_leave_the_others_right(void **state)
{
	static const unsigned orders[][4] = {
		{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}, {2, 0, 3, 1}};
	const char *path = data_make("data");
	MDB_env *env;
	MDB_dbi dbi;

	(void)state;
	assert_non_null(path);
	env = env_opened(path, MDB_RDONLY | MDB_NOTLS);
	for (unsigned order = 0; order < 4; order++) {
		MDB_txn *txns[4];
		MDB_cursor *cursors[4];
		MDB_val key, value;

		for (unsigned i = 0; i < 4; i++) {
			assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txns[i]), 0);
			assert_int_equal(mdb_dbi_open(txns[i], NULL, 0, &dbi), 0);
			assert_int_equal(mdb_cursor_open(txns[i], dbi, &cursors[i]), 0);
			assert_int_equal(mdb_cursor_get(cursors[i], &key, &value, MDB_LAST), 0);
		}
		assert_int_equal(readers_count(env), 4);
		for (unsigned n = 0; n < 4; n++) {
			unsigned i = orders[order][n];

			/* A read cursor may be closed before or after its transaction ends. */
			if (n & 1)
				mdb_cursor_close(cursors[i]);
			mdb_txn_abort(txns[i]);
			if (!(n & 1))
				mdb_cursor_close(cursors[i]);
			for (unsigned later = n + 1; later < 4; later++)
				assert_int_equal(data_check(txns[orders[order][later]], 0), 0);
		}
	}
	mdb_env_close(env);
}

static void thousand_rounds_of_open_read_close_leak_nothing(void **state)
{
	const char *path = data_make("data");
	struct mallinfo2 before = {0}, after;
	unsigned files = 0, threads = 0;
	MDB_env *env;

	(void)state;
	assert_non_null(path);
	for (int round = 0; round < 1000; round++) {
		MDB_val key = {10, (void *)(uintptr_t) "00000042_k"}, value;
		MDB_txn *txn;
		MDB_dbi dbi;

		if (round == 50) {
			before = mallinfo2();
			files = directory_count("/proc/self/fd");
			threads = directory_count("/proc/self/task");
		}
		env = env_opened(path, MDB_RDONLY | (round & 1 ? MDB_NOTLS : 0));
		assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
		assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
		assert_int_equal(mdb_get(txn, dbi, &key, &value), 0);
		assert_true(data_is_record(42, 0, &key, &value));
		if (round % 100 == 0)
			assert_int_equal(data_check(txn, 0), 0);
		if (round % 3)
			mdb_txn_abort(txn);
		else
			assert_int_equal(mdb_txn_commit(txn), 0);
		mdb_env_close(env);
	}
	after = mallinfo2();
	assert_in_range(after.uordblks, 0, before.uordblks + 2048);
	assert_int_equal(after.hblkhd, before.hblkhd);
	assert_int_equal(directory_count("/proc/self/fd"), files);
	assert_int_equal(directory_count("/proc/self/task"), threads);
	env = env_opened(path, MDB_RDONLY);
	assert_int_equal(readers_count(env), 0);
	mdb_env_close(env);
}

static void *reads_all(void *path)
{
	MDB_env *env = NULL;
	int rc = mdb_env_create(&env);

	if (!rc)
		rc = mdb_env_open(env, path, MDB_RDONLY | MDB_NOTLS, 0664);
	if (!rc)
		rc = data_check_env(env, 0);
	mdb_env_close(env);
	return (void *)(intptr_t)rc;
}

static int reads_on_a_small_stack(char *path)
{
	pthread_attr_t attributes;
	pthread_t thread;
	void *result;

	if (pthread_attr_init(&attributes) || pthread_attr_setstacksize(&attributes, SMALL_STACK) ||
	    pthread_create(&thread, &attributes, reads_all, path))
		return 2;
	pthread_attr_destroy(&attributes);
	return pthread_join(thread, &result) ? 3 : (int)(intptr_t)result;
}

/* As fibers have, and threads of programs with thousands of them; LMDB takes 8 KiB, most of them the C library's. */
static void thread_with_a_small_stack_reads_all(void **state)
{
	const char *path = data_make("data");

	(void)state;
	assert_non_null(path);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* sanitizers make frames larger */
#endif
	assert_int_equal(rerun_with_store("cache", path, NULL), 0);
	assert_int_equal(rerun_with_store("arena", path, NULL), 0);
}

static void wild_handle_closed_after_writing_is_ignored(void **state)
{
	static const MDB_dbi wild[] = {0xdeadbeef, 0, 1, 2, 0x7fffffff, 0xffffffff, 4096};
	const char *path = room_path("written");
	MDB_val key = {1, (void *)(uintptr_t) "k"}, value = {1, (void *)(uintptr_t) "v"};
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	(void)state;
	assert_int_equal(mkdir(path, 0755), 0);
	for (int reading = 0; reading < 2; reading++) {
		env = env_opened(path, reading ? MDB_RDONLY : 0);
		assert_int_equal(mdb_txn_begin(env, NULL, reading ? MDB_RDONLY : 0, &txn), 0);
		assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
		if (!reading)
			assert_int_equal(mdb_put(txn, dbi, &key, &value, 0), 0);
		assert_int_equal(mdb_get(txn, dbi, &key, &value), 0);
		assert_int_equal(mdb_txn_commit(txn), 0);
		for (size_t i = 0; i < sizeof(wild) / sizeof(wild[0]); i++)
			mdb_dbi_close(env, wild[i]);
		mdb_env_close(env);
	}
}

/* convert_imageset: a batch is put again and again into a map of twice the size until it fits. */
static void batch_put(MDB_env *env, unsigned first, unsigned count, unsigned *doublings)
{
	static unsigned char image[3073];
	MDB_envinfo info;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = 0;

	assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
	assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
	for (unsigned i = first; i < first + count && !rc; i++) {
		char text[32];
		MDB_val key = {(size_t)snprintf(text, sizeof(text), "%08u_cat.%u.jpg", i, i), text};
		MDB_val value = {sizeof(image), image};

		memset(image, (int)i, sizeof(image));
		rc = mdb_put(txn, dbi, &key, &value, 0);
	}
	if (!rc)
		rc = mdb_txn_commit(txn);
	else
		mdb_txn_abort(txn);
	mdb_dbi_close(env, dbi);
	if (!rc)
		return;
	assert_int_equal(rc, MDB_MAP_FULL);
	assert_int_equal(mdb_env_info(env, &info), 0);
	assert_int_equal(mdb_env_set_mapsize(env, info.me_mapsize * 2), 0);
	++*doublings;
	batch_put(env, first, count, doublings);
}

static void map_doubled_while_converting_holds_every_image(void **state)
{
	const char *path = room_path("images");
	unsigned doublings = 0;
	MDB_dbi uninitialised = 0xa5a5a5a5;
	MDB_stat stat;
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;

	(void)state;
	assert_int_equal(mkdir(path, 0755), 0);
	env = env_opened(path, 0);
	for (unsigned batch = 0; batch < 5; batch++)
		batch_put(env, batch * 1000, 1000, &doublings);
	mdb_dbi_close(env, uninitialised);
	mdb_env_close(env);
	assert_in_range(doublings, 4, 8);
	/* The original's own word on what was written. */
	assert_int_equal(lmdbio_orig_mdb_env_create(&env), 0);
	assert_int_equal(lmdbio_orig_mdb_env_open(env, path, MDB_RDONLY, 0), 0);
	assert_int_equal(lmdbio_orig_mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
	assert_int_equal(lmdbio_orig_mdb_dbi_open(txn, NULL, 0, &dbi), 0);
	assert_int_equal(lmdbio_orig_mdb_stat(txn, dbi, &stat), 0);
	assert_int_equal(stat.ms_entries, 5000);
	lmdbio_orig_mdb_txn_abort(txn);
	lmdbio_orig_mdb_env_close(env);
}

/* Solvers of one training skip each other's records by moving over them. */
static void solvers_that_skip_each_others_records_see_all_between_them(void **state)
{
	const char *path = data_make("data");
	MDB_env *env;
	unsigned seen = 0;

	(void)state;
	assert_non_null(path);
	env = env_opened(path, MDB_RDONLY | MDB_NOTLS);
	for (unsigned solver = 0; solver < 4; solver++) {
		MDB_val key, value;
		MDB_cursor *cursor;
		MDB_txn *txn;
		MDB_dbi dbi;

		assert_int_equal(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
		assert_int_equal(mdb_dbi_open(txn, NULL, 0, &dbi), 0);
		assert_int_equal(mdb_cursor_open(txn, dbi, &cursor), 0);
		for (unsigned i = 0; !mdb_cursor_get(cursor, &key, &value, MDB_NEXT); i++)
			if (i % 4 == solver)
				seen += data_is_record(i, 0, &key, &value);
		mdb_cursor_close(cursor);
		mdb_txn_abort(txn);
	}
	assert_int_equal(seen, DATA_RECORDS);
	mdb_env_close(env);
}

int main(int argc, char **argv)
{
#define IN_A_ROOM(test) cmocka_unit_test_setup_teardown(test, room_begin, room_end)
	const struct CMUnitTest tests[] = {
		IN_A_ROOM(cursor_moved_by_another_thread_used_by_a_third),
		IN_A_ROOM(caffe_train_and_test_layer_on_one_path_read_three_epochs),
		IN_A_ROOM(path_opened_twice_both_read_and_either_may_close_first),
		IN_A_ROOM(readers_closed_in_any_order_leave_the_others_right),
		IN_A_ROOM(thousand_rounds_of_open_read_close_leak_nothing),
		IN_A_ROOM(thread_with_a_small_stack_reads_all),
		IN_A_ROOM(wild_handle_closed_after_writing_is_ignored),
		IN_A_ROOM(map_doubled_while_converting_holds_every_image),
		IN_A_ROOM(solvers_that_skip_each_others_records_see_all_between_them),
	};

	if (argc == 2)
		return reads_on_a_small_stack(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
