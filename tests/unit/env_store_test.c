/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which store an environment takes, what happens to its lookups and to a fork when the map is
 * remade, how it reads a file that grows, and what a forked child counts. */
#include "env_fixture.h"
#include "thread_asleep.h"

#include "util/clock.h"
#include "util/settings.h"
#include "util/stats.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* The kernel's pages may be larger. */
long __real_sysconf(int name);
long __wrap_sysconf(int name);

static long large_page;

long __wrap_sysconf(int name)
{
	return name == _SC_PAGESIZE && large_page ? large_page : __real_sysconf(name);
}

enum { READ_RECORDS = 400, READ_VALUE = 20000 };

static size_t value_make(void *bytes, uint64_t i)
{
	memset(bytes, (int)i, READ_VALUE);
	return READ_VALUE;
}

/* Each record in a transaction of its own, in order. */
static void records_read(MDB_env *env, unsigned from, unsigned to)
{
	for (unsigned i = from; i < to; i++) {
		char name[16];
		MDB_val key = {8, name}, data;
		MDB_txn *txn;

		snprintf(name, sizeof(name), "%08u", i);
		assert_int_equal(txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
		assert_int_equal(txn_here(txn), 0);
		assert_int_equal(tree_get(&txn->snapshot, &txn->trees[DBI_MAIN],
					  &env->slots[DBI_MAIN].order, &key, &data),
				 0);
		assert_int_equal(((uint8_t *)data.mv_data)[READ_VALUE - 1], (uint8_t)i);
		txn_abort(txn);
	}
}

static void store_set(const char *store)
{
	((struct settings *)(uintptr_t)settings_get())->store = store;
}

/* The next transaction inherits the lookups of the previous one. */
static void lookups_when_the_map_is_made_anew_then_nothing_looks_ahead_of_them(void **state)
{
	struct place place;
	bool ahead = false;
	MDB_env *env;

	(void)state;
	place_make(&place);
	place_put_records(&place, READ_RECORDS, READ_VALUE, value_make);
	store_set("arena");
	env = own_open(&place, 0, 0);
	records_read(env, 0, READ_RECORDS / 2);
	for (unsigned i = 0; i < LOOKUPS; i++)
		ahead |= env->spare->lookups.each[i].ahead != NULL;
	assert_true(ahead);
	assert_int_equal(env_set_mapsize(env, 0), 0);
	for (unsigned i = 0; i < LOOKUPS; i++)
		assert_null(env->spare->lookups.each[i].ahead);
	records_read(env, READ_RECORDS / 2, READ_RECORDS);
	env_close(env);
	store_set("auto");
	place_remove(&place);
}

static void environment_when_the_kernel_has_large_pages_then_no_arena(void **state)
{
	static const long sizes[] = {ARENA_BLOCK, 65536};
	struct place place;

	(void)state;
	place_make(&place);
	place_put_records(&place, READ_RECORDS, READ_VALUE, value_make);
	store_set("arena");
	for (unsigned i = 0; i < 2; i++) {
		MDB_env *env;

		large_page = sizes[i];
		env = own_open(&place, 0, 0);
		records_read(env, 0, READ_RECORDS);
		assert_int_equal(store_shows_file(&env->store), large_page != ARENA_BLOCK);
		env_close(env);
	}
	large_page = 0;
	store_set("auto");
	place_remove(&place);
}

/* The library asks for the file's status once in a tick of the kernel's clock. */
static void next_tick(void)
{
	uint64_t now = clock_coarse();

	while (clock_coarse() == now)
		;
}

/* Cuts a file in half. Returns the bytes that were cut off. */
static uint8_t *half_take(const struct place *place, uint64_t *half, uint64_t *size)
{
	int fd = open(place->data, O_RDONLY | O_CLOEXEC);
	struct stat st;
	uint8_t *bytes;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	*size = (uint64_t)st.st_size;
	*half = *size / 2 & ~(uint64_t)(ARENA_BLOCK - 1);
	bytes = malloc(*size - *half);
	assert_non_null(bytes);
	assert_int_equal(pread(fd, bytes, *size - *half, (off_t)*half), *size - *half);
	close(fd);
	place_cut(place, *half);
	return bytes;
}

/* As when a program opens a file that is still being copied. */
static void file_when_it_gets_longer_without_a_commit_then_all_of_it_is_read(void **state)
{
	struct place place;
	uint64_t half, size;
	uint8_t *bytes;
	MDB_env *env;
	MDB_txn *txn;

	(void)state;
	place_make(&place);
	place_put_records(&place, READ_RECORDS, READ_VALUE, value_make);
	bytes = half_take(&place, &half, &size);
	store_set("cache");
	env = own_open(&place, 0, 0);
	assert_int_equal(txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
	txn_abort(txn);
	assert_int_equal(store_size(&env->store), half);
	place_patch(&place, half, bytes, size - half);
	next_tick();
	records_read(env, 0, READ_RECORDS);
	assert_int_equal(store_size(&env->store), size);
	env_close(env);
	store_set("auto");
	free(bytes);
	place_remove(&place);
}

static int child_counts_what_the_kernel_reads(void *argument)
{
	MDB_txn *txn;

	if (txn_begin(argument, NULL, MDB_RDONLY, &txn))
		return 1;
	txn_abort(txn);
	return !atomic_load(&stats_own.kernel_since);
}

static void child_when_the_kernel_reads_an_inherited_file_then_counts_it(void **state)
{
	struct place place;
	MDB_env *env;
	bool local;
	int rc;

	(void)state;
	place_make(&place);
	place_put_records(&place, READ_RECORDS, READ_VALUE, value_make);
	env = own_open(&place, 0, 0);
	local = env->reads.local;
	rc = local ? in_process(child_counts_what_the_kernel_reads, env) : 0;
	env_close(env);
	place_remove(&place);
	if (!local)
		skip();
	assert_int_equal(rc, 0);
}

/* A thread makes the map anew while another forks. */
static struct {
	MDB_env *env;
	pid_t forker; /* the other thread's number */
	_Atomic bool remaps, forks, forks_amid;
} at_once;

static void fork_has_begun(void)
{
	atomic_store(&at_once.forks, true);
}

/* Behind the environments' step. */
static void fork_goes_on(void)
{
	if (atomic_load(&at_once.remaps))
		atomic_store(&at_once.forks_amid, true);
}

/* Lasts until the fork has passed the environments, or waits for this thread. */
static int remap_slowly(MDB_env *orig, size_t size)
{
	atomic_store(&at_once.remaps, true);
	while (!atomic_load(&at_once.forks_amid) &&
	       !(atomic_load(&at_once.forks) && thread_is_asleep(at_once.forker)))
		sched_yield();
	atomic_store(&at_once.remaps, false);
	return lmdbio_orig_mdb_env_set_mapsize(orig, size);
}

static void *remap(void *unused)
{
	assert_int_equal(env_set_mapsize(at_once.env, 0), 0);
	return unused;
}

static void fork_when_another_thread_makes_the_map_anew_then_waits_for_it(void **state)
{
	static const struct fork_steps first = {.prepare = fork_has_begun};
	static const struct fork_steps last = {.prepare = fork_goes_on};
	struct origin slow;
	const struct origin *origin;
	struct place place;
	pthread_t thread;
	int status;
	pid_t pid;

	(void)state;
	place_make(&place);
	place_put_records(&place, READ_RECORDS, READ_VALUE, value_make);
	store_set("arena");
	at_once.env = own_open(&place, 0, 0);
	at_once.forker = (pid_t)syscall(SYS_gettid);
	origin = at_once.env->origin;
	slow = *origin;
	slow.call.mdb_env_set_mapsize = remap_slowly;
	at_once.env->origin = &slow;
	at_fork(FORK_LOADERS, &first);
	at_fork(FORK_KEEPER, &last);
	assert_int_equal(pthread_create(&thread, NULL, remap, NULL), 0);
	while (!atomic_load(&at_once.remaps))
		sched_yield();
	pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(status, 0);
	assert_false(atomic_load(&at_once.forks_amid));
	at_once.env->origin = origin;
	records_read(at_once.env, 0, READ_RECORDS);
	env_close(at_once.env);
	store_set("auto");
	place_remove(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			lookups_when_the_map_is_made_anew_then_nothing_looks_ahead_of_them),
		cmocka_unit_test(environment_when_the_kernel_has_large_pages_then_no_arena),
		cmocka_unit_test(file_when_it_gets_longer_without_a_commit_then_all_of_it_is_read),
		cmocka_unit_test(child_when_the_kernel_reads_an_inherited_file_then_counts_it),
		cmocka_unit_test(fork_when_another_thread_makes_the_map_anew_then_waits_for_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
