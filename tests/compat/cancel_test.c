/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that no call ends a thread which is to be cancelled, in each store.
 *
 * The reading calls of LMDB are no cancellation points, and a thread that ended inside one of ours would leave locks
 * behind: the next call of another thread would wait for ever.
 */
#include "habit_data.h"

#include <lmdbio.h>

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { HANG_SECONDS = 300 };

struct reading {
	const char *path;
	MDB_env *env;
	int null; /* a descriptor of /dev/null */
	int (*calls)(struct reading *reading);
	int rc;
	bool came_through;
};

static int calls_cursor(struct reading *reading)
{
	return data_check_env(reading->env, 0);
}

static int calls_get(struct reading *reading)
{
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = mdb_txn_begin(reading->env, NULL, MDB_RDONLY, &txn);

	if (rc)
		return rc;
	rc = mdb_dbi_open(txn, NULL, 0, &dbi);
	for (unsigned i = 0; i < DATA_RECORDS && !rc; i++) {
		unsigned number = i * 337 % DATA_RECORDS;
		char text[16];
		MDB_val key = {(size_t)snprintf(text, sizeof(text), "%08u_k", number), text}, data;

		rc = mdb_get(txn, dbi, &key, &data);
		if (!rc && !data_is_record(number, 0, &key, &data))
			rc = 1;
	}
	mdb_txn_abort(txn);
	return rc;
}

static int calls_hints(struct reading *reading)
{
	char text[16] = "00000005_k";
	MDB_val key = {strlen(text), text}, data;
	MDB_txn *txn;
	MDB_dbi dbi;
	int rc = mdb_txn_begin(reading->env, NULL, MDB_RDONLY, &txn);

	if (rc)
		return rc;
	rc = mdb_dbi_open(txn, NULL, 0, &dbi);
	if (!rc)
		rc = lmdbio_prefetch_keys(txn, dbi, &key, 1);
	if (!rc)
		rc = lmdbio_prefetch_range(txn, dbi, NULL, NULL);
	if (!rc)
		rc = lmdbio_advise(txn, dbi, LMDBIO_SEQUENTIAL, 0);
	if (!rc)
		rc = lmdbio_get_record(txn, dbi, 7, &key, &data);
	if (!rc && !data_is_record(7, 0, &key, &data))
		rc = 1;
	mdb_txn_abort(txn);
	return rc;
}

static int calls_open(struct reading *reading)
{
	MDB_env *env;
	int rc = mdb_env_create(&env);

	if (rc)
		return rc;
	rc = mdb_env_open(env, reading->path, MDB_RDONLY | MDB_NOTLS, 0);
	if (!rc)
		rc = data_check_env(env, 0);
	mdb_env_close(env);
	return rc;
}

static int calls_copy(struct reading *reading)
{
	int rc = mdb_env_copyfd(reading->env, reading->null);

	return rc ? rc : mdb_env_copyfd2(reading->env, reading->null, MDB_CP_COMPACT);
}

static int calls_loader(struct reading *reading)
{
	const struct lmdbio_loader_options options = {.size = sizeof(options), .batch = 64};
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch;
	int rc = lmdbio_loader_attach(&loader, reading->env, NULL, &options);

	if (rc)
		return rc;
	rc = lmdbio_loader_epoch(loader, 0);
	while (!rc && !(rc = lmdbio_loader_next(loader, &batch)))
		lmdbio_batch_done(batch);
	lmdbio_loader_close(loader);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static void *cancelled(void *context)
{
	struct reading *reading = context;

	pthread_cancel(pthread_self());
	reading->rc = reading->calls(reading);
	reading->came_through = true;
	pthread_testcancel();
	return NULL;
}

/* So that there is something to wait for. */
static int pages_drop(const char *path)
{
	char name[512];
	int fd, rc;

	snprintf(name, sizeof(name), "%s/data.mdb", path);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	rc = fd < 0 || fdatasync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (fd >= 0)
		close(fd);
	return rc;
}

static int (*const all_calls[])(struct reading *) = {calls_cursor, calls_get,  calls_hints,
						     calls_open,   calls_copy, calls_loader};

static int reads_in_a_thread_that_is_cancelled(struct reading *reading)
{
	pthread_t thread;
	void *ended;
	int rc;

	alarm(HANG_SECONDS);
	reading->null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (reading->null < 0 || pages_drop(reading->path) || mdb_env_create(&reading->env))
		return 10;
	rc = mdb_env_open(reading->env, reading->path, MDB_RDONLY, 0);
	if (rc)
		return rc;
	if (pthread_create(&thread, NULL, cancelled, reading) || pthread_join(thread, &ended))
		return 11;
	if (!reading->came_through)
		return 12;
	if (ended != PTHREAD_CANCELED)
		return 13;
	rc = reading->rc ? reading->rc : data_check_env(reading->env, 0);
	mdb_env_close(reading->env);
	close(reading->null);
	return rc;
}

static void thread_when_it_is_to_be_cancelled_then_calls_end_first(void **state)
{
	static const char *const stores[] = {"cache", "arena"};
	const char *path = data_make("data");

	(void)state;
	assert_non_null(path);
	for (unsigned store = 0; store < sizeof(stores) / sizeof(stores[0]); store++)
		for (unsigned i = 0; i < sizeof(all_calls) / sizeof(all_calls[0]); i++) {
			char calls[16];

			snprintf(calls, sizeof(calls), "%u", i);
			print_message("%s, calls %u\n", stores[store], i);
			assert_int_equal(rerun_with_store(stores[store], path, calls), 0);
		}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			thread_when_it_is_to_be_cancelled_then_calls_end_first, room_begin,
			room_end),
	};

	if (argc == 3) {
		struct reading reading = {.path = argv[1], .calls = all_calls[atoi(argv[2])]};

		return reads_in_a_thread_that_is_cancelled(&reading);
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
