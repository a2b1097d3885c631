/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes the data set, and watches the prefetch thread. */
#include "prefetch_fixture.h"

#include "origin/origin.h"
#include "util/group.h"
#include "util/stats.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

struct prefetch_fixture f;

/* The prefetch thread waits for work by this call alone. It waits without a bound if it was at rest
 * before. */
static sem_t idle;

bool __real_lmdbio_core_clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock,
				   uint64_t until);
bool __wrap_lmdbio_core_clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock,
				   uint64_t until);

bool __wrap_lmdbio_core_clock_wait(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until)
{
	if (f.prefetch && lock == &f.prefetch->lock && until != CLOCK_NEVER)
		sem_post(&idle);
	return __real_lmdbio_core_clock_wait(condition, lock, until);
}

bool __wrap_processor_is_free(void);

bool __wrap_processor_is_free(void)
{
	return !f.busy;
}

bool __wrap_faults_are_dear(struct prefetch *prefetch, struct cursor *cursor, uint64_t offset,
			    bool forward);

bool __wrap_faults_are_dear(struct prefetch *prefetch, struct cursor *cursor, uint64_t offset,
			    bool forward)
{
	return f.dear || __real_faults_are_dear(prefetch, cursor, offset, forward);
}

void __real_store_map(const struct store *store, uint64_t offset, uint64_t length);
void __wrap_store_map(const struct store *store, uint64_t offset, uint64_t length);

void __wrap_store_map(const struct store *store, uint64_t offset, uint64_t length)
{
	if (length >= STORE_FAULT)
		for (uint64_t at = offset / STORE_FAULT; at * STORE_FAULT < offset + length; at++)
			f.maps[at]++;
	__real_store_map(store, offset, length);
}

unsigned maps_count(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MAPS; i++)
		n += f.maps[i];
	return n;
}

bool __real_leave_to_cache(struct store *store, uint64_t chunk, uint64_t offset, uint64_t end);
bool __wrap_leave_to_cache(struct store *store, uint64_t chunk, uint64_t offset, uint64_t end);

bool __wrap_leave_to_cache(struct store *store, uint64_t chunk, uint64_t offset, uint64_t end)
{
	return f.cold != ALL_COLD && (!f.cold || chunk != f.cold) &&
	       __real_leave_to_cache(store, chunk, offset, end);
}

size_t __real_lmdbio_core_io_wait(struct io *io, struct io_request **requests, size_t min, size_t max);
size_t __wrap_lmdbio_core_io_wait(struct io *io, struct io_request **requests, size_t min, size_t max);

size_t __wrap_lmdbio_core_io_wait(struct io *io, struct io_request **requests, size_t min, size_t max)
{
	if (f.in_flight < io->in_flight)
		f.in_flight = io->in_flight;
	if (!f.maps_waited)
		f.maps_waited = maps_count();
	if (f.hold_at && io->in_flight >= f.hold_at) {
		f.hold_at = 0;
		sem_post(&f.held);
		sem_wait(&f.go);
	}
	return __real_lmdbio_core_io_wait(io, requests, min, max);
}

void assert_comes_to_rest(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += IDLE_SECONDS;
	assert_int_equal(sem_timedwait(&idle, &until), 0);
}

void assert_comes_to_rest_again(void)
{
	pthread_mutex_lock(&f.prefetch->lock);
	while (!sem_trywait(&idle))
		;
	f.prefetch->rest_at = 0;
	crew_wake(&f.prefetch->crew);
	pthread_mutex_unlock(&f.prefetch->lock);
	assert_comes_to_rest();
}

void key_make(char key[16], MDB_val *value, unsigned i)
{
	snprintf(key, 16, "%08u", i);
	*value = (MDB_val){.mv_size = 8, .mv_data = key};
}

static void many_put(unsigned records, size_t size)
{
	MDB_env *orig = origin_open(&f.place);
	char text[16], *bytes = calloc(1, size);
	MDB_val key, data = {.mv_size = size, .mv_data = bytes};
	MDB_txn *txn;
	MDB_dbi dbi;

	assert_non_null(bytes);
	assert_int_equal(lmdbio_orig_mdb_env_set_mapsize(orig, 64 << 20), 0);
	assert_int_equal(lmdbio_orig_mdb_txn_begin(orig, NULL, 0, &txn), 0);
	assert_int_equal(lmdbio_orig_mdb_dbi_open(txn, NULL, 0, &dbi), 0);
	for (unsigned i = 0; i < records; i++) {
		key_make(text, &key, i);
		assert_int_equal(lmdbio_orig_mdb_put(txn, dbi, &key, &data, MDB_APPEND), 0);
	}
	assert_int_equal(lmdbio_orig_mdb_txn_commit(txn), 0);
	lmdbio_orig_mdb_env_close(orig);
	free(bytes);
}

/* Looks at the newest snapshot of the place, in an arena that no other process knows, or in the
 * page cache, which holds the file since it was written. */
static void look(enum store_kind kind)
{
	struct arena_options options = {.budget = 64 << 20, .node = f.node, .share = true};
	struct prefetch_options ahead = {.ahead = kind == STORE_CACHE ? AHEAD_CACHED : AHEAD,
					 .depth = DEPTH};
	const uint32_t page_size = 4096;
	struct meta meta;
	struct stat st;

	f.fd = open(f.place.data, O_RDONLY | O_CLOEXEC);
	assert_true(f.fd >= 0);
	assert_int_equal(fstat(f.fd, &st), 0);
	f.size = (uint64_t)st.st_size;
	f.identity =
		(struct identity){.device = 1, .inode = 2, .size = f.size, .snapshot = 1};
	snprintf(f.node, sizeof(f.node), "prefetch_test %d", (int)getpid());
	assert_int_equal(io_open_file(&f.file, "pread", f.fd), 0);
	assert_int_equal(io_open_fault(&f.io, &f.file, &f.plan), 0);
	assert_int_equal(window_open(&f.window, f.fd, f.size, page_size), 0);
	assert_int_equal(
		meta_judge(window_meta(&f.window, 0), window_meta(&f.window, 1), &meta, FORMAT_0_9),
		0);
	assert_int_equal(meta.page_size, page_size);
	assert_int_equal(store_open(&f.store, kind, (uint8_t *)(uintptr_t)f.window.base, f.size,
				    f.fd, &f.io, &options, kind == STORE_CACHE),
			 0);
	assert_int_equal(
		store_snapshot(&f.store, &f.identity, f.identity.size, 2 * page_size, true), 0);
	store_enter(&f.store);
	assert_int_equal(prefetch_open(&f.prefetch, &f.store, &f.io, &ahead), 0);
	f.snapshot = (struct snapshot){.page_size = page_size};
	assert_int_equal(window_look(&f.window, meta.last_page + 1, f.size, &f.snapshot.view), 0);
	f.snapshot.view.store = f.snapshot.view.runs = &f.store;
	f.snapshot.watch = prefetch_watch(f.prefetch);
	f.tree = (struct tree){.record = meta.main_tree};
	comparators_default(&f.order, 0);
	assert_int_equal(sem_init(&idle, 0, 0), 0);
	assert_int_equal(sem_init(&f.held, 0, 0), 0);
	assert_int_equal(sem_init(&f.go, 0, 0), 0);
}

static int setup(unsigned records, size_t size, enum store_kind kind)
{
	memset(&f, 0, sizeof(f));
	place_make(&f.place);
	many_put(records, size);
	look(kind);
	return 0;
}

int setup_big(void **state)
{
	(void)state;
	return setup(RECORDS_BIG, VALUE_BIG, STORE_ARENA);
}

int setup_large(void **state)
{
	(void)state;
	return setup(RECORDS_LARGE, VALUE_LARGE, STORE_ARENA);
}

int setup_huge(void **state)
{
	(void)state;
	return setup(RECORDS_HUGE, VALUE_HUGE, STORE_ARENA);
}

int setup_longer(void **state)
{
	(void)state;
	return setup(RECORDS_LONGER, VALUE_BIG, STORE_ARENA);
}

int setup_arena_leaves(void **state)
{
	(void)state;
	return setup(RECORDS_LEAVES, VALUE_SMALL, STORE_ARENA);
}

int setup_cached(void **state)
{
	(void)state;
	return setup(RECORDS_LONG, VALUE_BIG, STORE_CACHE);
}

int setup_cached_longer(void **state)
{
	(void)state;
	return setup(RECORDS_LONGER, VALUE_BIG, STORE_CACHE);
}

int setup_cached_leaves(void **state)
{
	(void)state;
	return setup(RECORDS_LEAVES, VALUE_SMALL, STORE_CACHE);
}

int setup_small(void **state)
{
	(void)state;
	return setup(RECORDS_SMALL, VALUE_SMALL, STORE_ARENA);
}

void watch_lookups(void)
{
	f.snapshot.lookups = &f.lookups;
}

uint64_t look_up(unsigned record)
{
	char text[16];
	MDB_val key, data;

	key_make(text, &key, record);
	assert_int_equal(tree_get(&f.snapshot, &f.tree, &f.order, &key, &data), 0);
	return (uint64_t)((const uint8_t *)data.mv_data - f.window.base);
}

int teardown(void **state)
{
	(void)state;
	lookups_end(&f.lookups, f.snapshot.watch);
	prefetch_end(f.prefetch, &f.snapshot);
	prefetch_close(f.prefetch);
	for (unsigned i = 0; i < OTHERS; i++)
		arena_close(f.others[i]);
	store_leave(&f.store);
	store_close(&f.store);
	window_close(&f.window);
	io_close(&f.io);
	io_close(&f.file);
	close(f.fd);
	place_remove(&f.place);
	sem_destroy(&idle);
	sem_destroy(&f.held);
	sem_destroy(&f.go);
	return 0;
}
uint64_t bytes_read(void)
{
	return io_counted(&f.io).bytes;
}

uint64_t faults_now(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)usage.ru_minflt;
}

uint64_t faults_over(uint64_t offset, uint64_t length)
{
	uint64_t before = faults_now();

	for (uint64_t end = offset + length; offset < end; offset += 4096)
		(void)*(volatile const uint8_t *)(f.window.base + offset);
	return faults_now() - before;
}

void unmap_all(void)
{
	assert_int_equal(
		madvise((void *)(uintptr_t)f.window.base, f.size & ~(uint64_t)4095, MADV_DONTNEED),
		0);
}

void single_pages_show(uint64_t offset, size_t length)
{
	void *start = (void *)(uintptr_t)(f.window.base + offset);
	int fd = memfd_create("single pages", MFD_CLOEXEC);
	uint8_t page[4096];

	assert_true(fd >= 0);
	for (size_t at = 0; at < length; at += sizeof(page)) {
		memcpy(page, f.window.base + offset + at, sizeof(page));
		assert_int_equal(pwrite(fd, page, sizeof(page), (off_t)at), sizeof(page));
	}
	assert_ptr_equal(mmap(start, length, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0), start);
	assert_int_equal(madvise(start, length, MADV_NOHUGEPAGE), 0);
	close(fd);
}
