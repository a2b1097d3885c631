/* What only this file knows: what the loader reads for an announced range or in front of a cursor,
 * what it maps of what is in memory, and what it does when storage fails. */
#include "env_fixture.h"

#include "io/io_fault.h"
#include "origin/origin.h"
#include "prefetch/prefetch_private.h"
#include "util/checked.h"
#include "util/clock.h"
#include "util/processor.h"
#include "util/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	RECORDS_BIG = 250,
	RECORDS_LONG = 390,
	RECORDS_LONGER = 1000,
	RECORDS_LEAVES = 300000,
	VALUE_BIG = 40000,
	RECORDS_SMALL = 60000,
	VALUE_SMALL = 100
};
enum { AHEAD = 8 << 20, AHEAD_CACHED = 64 << 20, DEPTH = 16, IDLE_SECONDS = 60, OTHERS = 7 };

enum { MAPS = (64 << 20) / RESIDENCY_FAULT };

static struct {
	struct place place;
	int fd;
	uint64_t size;
	struct io file, io;
	struct io_fault plan;
	struct window window;
	struct residency residency;
	struct prefetch *prefetch;
	struct snapshot snapshot;
	struct tree tree;
	struct comparators order;
	struct arena_identity identity;
	char node[32];
	struct arena *others[OTHERS]; /* as processes of the node have them */
	size_t in_flight;             /* at most */
	bool busy;                    /* the machine's processors */
	bool dear;                    /* a scan's faults, whatever they take */
	unsigned maps[MAPS];          /* how often each RESIDENCY_FAULT of the file was mapped */
	uint64_t cold;                /* the one chunk that is not in the page cache; or 0 */
	unsigned maps_waited;         /* of them had been mapped when a read was first waited for */
} f;

/* The loader waits for work by this call alone, and nothing else here does. */
static sem_t idle;

int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock);

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock)
{
	sem_post(&idle);
	return __real_pthread_cond_wait(condition, lock);
}

bool __wrap_processor_is_free(void);

bool __wrap_processor_is_free(void)
{
	return !f.busy;
}

bool __real_faults_are_dear(struct prefetch *prefetch, struct cursor *cursor, uint64_t offset);
bool __wrap_faults_are_dear(struct prefetch *prefetch, struct cursor *cursor, uint64_t offset);

bool __wrap_faults_are_dear(struct prefetch *prefetch, struct cursor *cursor, uint64_t offset)
{
	return f.dear || __real_faults_are_dear(prefetch, cursor, offset);
}

void __real_residency_map(const struct residency *residency, uint64_t offset, uint64_t length);
void __wrap_residency_map(const struct residency *residency, uint64_t offset, uint64_t length);

void __wrap_residency_map(const struct residency *residency, uint64_t offset, uint64_t length)
{
	if (length >= RESIDENCY_FAULT)
		for (uint64_t at = offset / RESIDENCY_FAULT; at * RESIDENCY_FAULT < offset + length;
		     at++)
			f.maps[at]++;
	__real_residency_map(residency, offset, length);
}

static unsigned maps_count(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < MAPS; i++)
		n += f.maps[i];
	return n;
}

bool __real_leave_to_cache(struct residency *residency, uint64_t chunk, uint64_t offset,
			   uint64_t end);
bool __wrap_leave_to_cache(struct residency *residency, uint64_t chunk, uint64_t offset,
			   uint64_t end);

bool __wrap_leave_to_cache(struct residency *residency, uint64_t chunk, uint64_t offset,
			   uint64_t end)
{
	return (!f.cold || chunk != f.cold) && __real_leave_to_cache(residency, chunk, offset, end);
}

size_t __real_io_wait(struct io *io, struct io_request **requests, size_t min, size_t max);
size_t __wrap_io_wait(struct io *io, struct io_request **requests, size_t min, size_t max);

size_t __wrap_io_wait(struct io *io, struct io_request **requests, size_t min, size_t max)
{
	if (f.in_flight < io->in_flight)
		f.in_flight = io->in_flight;
	if (!f.maps_waited)
		f.maps_waited = maps_count();
	return __real_io_wait(io, requests, min, max);
}

/* Until the loader has nothing more to do; the bound is for one that never stops. */
static void assert_comes_to_rest(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += IDLE_SECONDS;
	assert_int_equal(sem_timedwait(&idle, &until), 0);
}

/* The same of a loader that has to look at what its streams' programs have taken until now. */
static void assert_comes_to_rest_again(void)
{
	pthread_mutex_lock(&f.prefetch->lock);
	while (!sem_trywait(&idle))
		;
	pthread_cond_signal(&f.prefetch->wake);
	pthread_mutex_unlock(&f.prefetch->lock);
	assert_comes_to_rest();
}

static void key_make(char key[16], MDB_val *value, unsigned i)
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

/* The newest snapshot of the place, in an arena that nobody else knows of, or in the page cache,
 * which has it from the writing. */
static void look(enum residency_kind kind)
{
	struct arena_options options = {.budget = 64 << 20, .node = f.node, .share = true};
	struct prefetch_options ahead = {.ahead = kind == RESIDENCY_CACHE ? AHEAD_CACHED : AHEAD,
					 .depth = DEPTH};
	const uint32_t page_size = 4096;
	struct meta meta;
	struct stat st;

	f.fd = open(f.place.data, O_RDONLY | O_CLOEXEC);
	assert_true(f.fd >= 0);
	assert_int_equal(fstat(f.fd, &st), 0);
	f.size = (uint64_t)st.st_size;
	f.identity =
		(struct arena_identity){.device = 1, .inode = 2, .size = f.size, .snapshot = 1};
	snprintf(f.node, sizeof(f.node), "prefetch_test %d", (int)getpid());
	assert_int_equal(io_open_file(&f.file, "pread", f.fd), 0);
	assert_int_equal(io_open_fault(&f.io, &f.file, &f.plan), 0);
	assert_int_equal(window_open(&f.window, &f.file, f.size, page_size), 0);
	assert_int_equal(meta_judge(window_meta(&f.window, 0), window_meta(&f.window, 1), &meta),
			 0);
	assert_int_equal(meta.page_size, page_size);
	assert_int_equal(residency_open(&f.residency, kind, (uint8_t *)(uintptr_t)f.window.base,
					f.size, f.fd, &f.io, &options, kind == RESIDENCY_CACHE),
			 0);
	assert_int_equal(
		residency_snapshot(&f.residency, &f.identity, f.identity.size, 2 * page_size, true),
		0);
	residency_enter(&f.residency);
	assert_int_equal(prefetch_open(&f.prefetch, &f.residency, &f.io, &ahead), 0);
	f.snapshot = (struct snapshot){.page_size = page_size};
	assert_int_equal(window_look(&f.window, meta.last_page + 1, f.size, &f.snapshot.view), 0);
	f.snapshot.view.residency = f.snapshot.view.runs = &f.residency;
	f.snapshot.watch = prefetch_watch(f.prefetch);
	f.tree = (struct tree){.record = meta.main_tree};
	comparators_default(&f.order, 0);
	assert_int_equal(sem_init(&idle, 0, 0), 0);
}

static int setup(unsigned records, size_t size, enum residency_kind kind)
{
	memset(&f, 0, sizeof(f));
	place_make(&f.place);
	many_put(records, size);
	look(kind);
	return 0;
}

static int setup_big(void **state)
{
	(void)state;
	return setup(RECORDS_BIG, VALUE_BIG, RESIDENCY_ARENA);
}

static int setup_cached(void **state)
{
	(void)state;
	return setup(RECORDS_LONG, VALUE_BIG, RESIDENCY_CACHE);
}

static int setup_cached_longer(void **state)
{
	(void)state;
	return setup(RECORDS_LONGER, VALUE_BIG, RESIDENCY_CACHE);
}

static int setup_cached_leaves(void **state)
{
	(void)state;
	return setup(RECORDS_LEAVES, VALUE_SMALL, RESIDENCY_CACHE);
}

static int setup_small(void **state)
{
	(void)state;
	return setup(RECORDS_SMALL, VALUE_SMALL, RESIDENCY_ARENA);
}

static int teardown(void **state)
{
	(void)state;
	prefetch_end(f.prefetch, &f.snapshot);
	prefetch_close(f.prefetch);
	for (unsigned i = 0; i < OTHERS; i++)
		arena_close(f.others[i]);
	residency_leave(&f.residency);
	residency_close(&f.residency);
	window_close(&f.window);
	io_close(&f.io);
	io_close(&f.file);
	close(f.fd);
	place_remove(&f.place);
	sem_destroy(&idle);
	return 0;
}

static void announce(const MDB_val *first, const MDB_val *last)
{
	assert_int_equal(
		prefetch_range(f.prefetch, &f.snapshot, &f.tree, &f.order.key, first, last), 0);
	assert_comes_to_rest();
}

/* All of it, but as a part: what is wanted of a part is asked for page by page, again and again
 * until it has come. */
static void announce_from_first(void)
{
	char text[16];
	MDB_val first;

	key_make(text, &first, 0);
	announce(&first, NULL);
}

static uint64_t bytes_read(void)
{
	return io_counted(&f.io).bytes;
}

static void range_when_all_is_wanted_then_all_comes_once(void **state)
{
	uint64_t low = 2 * f.snapshot.page_size;

	(void)state;
	announce(NULL, NULL);
	assert_true(residency_covers(&f.residency, low, f.size - low));
	assert_true(bytes_read() <= f.size);
	announce(NULL, NULL);
	assert_true(bytes_read() <= f.size);
}

static void range_when_one_process_scans_then_all_reads_are_its_own(void **state)
{
	(void)state;
	residency_scan(&f.residency, 1);
	announce(NULL, NULL);
	/* Not more than room for looking ahead. */
	assert_int_equal(f.in_flight, AHEAD / ARENA_CHUNK);
	residency_scan(&f.residency, -1);
}

/* Their leaves are known from one branch to the next alone, and those from the root. */
static void range_of_small_values_when_wanted_then_many_reads_are_in_flight(void **state)
{
	(void)state;
	announce(NULL, NULL);
	assert_in_range(f.in_flight, AHEAD / ARENA_CHUNK / 2, AHEAD / ARENA_CHUNK);
}

static void range_when_eight_processes_scan_then_they_share_the_reads_in_flight(void **state)
{
	struct arena_options options = {.budget = 64 << 20, .node = f.node, .share = true};
	const char *why;

	(void)state;
	for (unsigned i = 0; i < OTHERS; i++) {
		assert_int_equal(arena_open(&f.others[i], &f.identity, &options, &why), 0);
		assert_null(why);
		arena_scanning(f.others[i], 1);
	}
	residency_scan(&f.residency, 1);
	announce(NULL, NULL);
	assert_int_equal(f.in_flight, 2 * DEPTH / (OTHERS + 1));
	residency_scan(&f.residency, -1);
}

/* A tenth of the records, and the tree above them; an end in the middle of a leaf is one too. */
static void range_when_it_ends_early_then_the_rest_is_left(void **state)
{
	unsigned records = (unsigned)f.tree.record.entries;
	char from[16], to[16];
	MDB_val first, last;

	(void)state;
	key_make(from, &first, records / 2);
	key_make(to, &last, records / 2 + records / 10);
	announce(&first, &last);
	assert_true(bytes_read() >= f.size / 10);
	assert_true(bytes_read() <= f.size / 10 * 2 + ARENA_CHUNK);
}

static void range_when_every_read_fails_then_the_loader_rests(void **state)
{
	(void)state;
	f.plan = (struct io_fault){
		.calls = IO_FAULT_READS, .nth = 1, .for_ever = true, .error = EIO};
	announce_from_first();
	assert_in_range(f.plan.failed, 1, DEPTH);
	assert_int_equal(bytes_read(), 0);
}

/* Not from the first read on: there are wishes in the queue then, and reads in flight. */
static void range_when_reads_begin_to_fail_then_the_loader_rests(void **state)
{
	(void)state;
	f.plan = (struct io_fault){
		.calls = IO_FAULT_READS, .nth = 5, .for_ever = true, .error = EIO};
	announce_from_first();
	assert_in_range(f.plan.failed, 1, 2 * DEPTH);
}

static void range_when_one_read_has_failed_then_the_next_brings_all(void **state)
{
	uint64_t low = 2 * f.snapshot.page_size;

	(void)state;
	f.plan = (struct io_fault){.calls = IO_FAULT_READS, .nth = 3, .error = EIO};
	announce_from_first();
	assert_int_equal(f.plan.failed, 1);
	announce(NULL, NULL);
	assert_true(residency_covers(&f.residency, low, f.size - low));
}

/* --- a cursor's look-ahead ---------------------------------------------------------------------
 */

static const struct comparators *comparators(void)
{
	static struct comparators both;

	both = f.order;
	return &both;
}

/* A cursor at a record. */
static void cursor_place(struct cursor *cursor, unsigned record)
{
	char text[16];
	MDB_val key, data;

	key_make(text, &key, record);
	cursor_init(cursor, &f.snapshot, &f.tree, comparators(), NULL);
	assert_int_equal(cursor_get(cursor, &key, &data, MDB_SET_KEY), 0);
}

static const uint8_t *cursor_step(struct cursor *cursor)
{
	MDB_val key, data;

	assert_int_equal(cursor_get(cursor, &key, &data, MDB_NEXT), 0);
	return data.mv_data;
}

/* A branch that the program has found in memory has never been brought, and the way from one leaf
 * to the next leads over it. */
static void scan_when_its_branch_was_never_brought_then_it_is_looked_ahead_of(void **state)
{
	unsigned record = RECORDS_LONG - 100, behind = RECORDS_LONG - 51;
	struct cursor cursor, other;
	uint64_t value;

	(void)state;
	f.snapshot.view.residency = NULL;
	f.tree.pattern = PATTERN_SEQUENTIAL;
	cursor_place(&other, behind);
	value = (uint64_t)(cursor_step(&other) - f.window.base);
	cursor_leave(&other);
	cursor_place(&cursor, record);
	for (int i = 0; i < CURSOR_PACE_FIRST; i++)
		cursor_step(&cursor);
	assert_non_null(cursor.ahead);
	assert_comes_to_rest();
	assert_true(residency_covers(&f.residency, value, VALUE_BIG));
	cursor_leave(&cursor);
}

static uint64_t faults_now(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return (uint64_t)usage.ru_minflt;
}

/* Goes over bytes of the window as a program does; returns how many faults that took. */
static uint64_t faults_over(uint64_t offset, uint64_t length)
{
	uint64_t before = faults_now();

	for (uint64_t end = offset + length; offset < end; offset += 4096)
		(void)*(volatile const uint8_t *)(f.window.base + offset);
	return faults_now() - before;
}

enum { LOOKED_AT_BYTES = 4 << 20 };

/* Nothing is mapped any more. */
static void unmap_all(void)
{
	assert_int_equal(
		madvise((void *)(uintptr_t)f.window.base, f.size & ~(uint64_t)4095, MADV_DONTNEED),
		0);
}

static void map_when_all_is_there_then_the_program_takes_no_fault(void **state)
{
	uint64_t offset = 2 << 20, length = 2 << 20, without;

	(void)state;
	unmap_all();
	without = faults_over(offset, length);
	unmap_all();
	residency_map(&f.residency, offset, length);
	assert_in_range(faults_over(offset, length), 0, without / 8);
}

/* The same bytes in single pages, whatever the file system of the data has, from an offset on. */
static void single_pages_show(uint64_t offset, size_t length)
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

/* As a scan of a large set over single pages. */
static void scan_make(struct cursor *cursor)
{
	cursor_init(cursor, &f.snapshot, &f.tree, comparators(), NULL);
	f.tree.record.leaf_pages = 0;
	f.tree.record.overflow_pages = 1 << 20;
	f.tree.record.entries = f.tree.record.overflow_pages / (LOOKED_AT_BYTES / 4096);
	cursor->paced = 1;
	single_pages_show(LOOKED_AT_BYTES, LOOKED_AT_BYTES + 16 * RESIDENCY_FAULT);
}

/* As a scan of a large set that goes over 4 MiB of it between two looks: at the cost of faults
 * alone, unless it computes, too. */
static bool is_dear(struct cursor *cursor, uint64_t touched, uint64_t computed)
{
	unmap_all();
	cursor->seen = (struct cursor_seen){clock_now() - computed, faults_now()};
	(void)faults_over(LOOKED_AT_BYTES, touched);
	return __real_faults_are_dear(f.prefetch, cursor, 2 * LOOKED_AT_BYTES);
}

static void faults_when_they_take_the_time_then_and_only_then_they_are_dear(void **state)
{
	struct cursor cursor;
	bool dear = false;

	(void)state;
	scan_make(&cursor);
	/* Whoever waits for a processor in between has computed, for all one can see. */
	for (int i = 0; i < 1000 && !dear; i++)
		dear = is_dear(&cursor, LOOKED_AT_BYTES, 0);
	assert_true(dear);
	for (int i = 0; i < 20; i++) {
		assert_false(is_dear(&cursor, LOOKED_AT_BYTES, 1000000000));
		assert_false(is_dear(&cursor, LOOKED_AT_BYTES / 2, 0));
		assert_false(is_dear(&cursor, 0, 0));
	}
	f.busy = true;
	for (int i = 0; i < 20; i++)
		assert_false(is_dear(&cursor, LOOKED_AT_BYTES, 0));
}

/* A program that copies each value into fresh memory takes faults for that, and none that anybody
 * could take for it. */
static void faults_when_they_are_for_other_memory_then_they_are_not_dear(void **state)
{
	struct cursor cursor;

	(void)state;
	scan_make(&cursor);
	(void)faults_over(LOOKED_AT_BYTES, LOOKED_AT_BYTES + 16 * RESIDENCY_FAULT);
	for (int i = 0; i < 20; i++) {
		uint8_t *copy = mmap(NULL, LOOKED_AT_BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert_true(copy != MAP_FAILED);
		madvise(copy, LOOKED_AT_BYTES, MADV_NOHUGEPAGE);
		cursor.seen = (struct cursor_seen){clock_now(), faults_now()};
		for (size_t at = 0; at < LOOKED_AT_BYTES; at += 4096)
			copy[at] = f.window.base[LOOKED_AT_BYTES + at];
		munmap(copy, LOOKED_AT_BYTES);
		assert_false(__real_faults_are_dear(f.prefetch, &cursor, 2 * LOOKED_AT_BYTES));
	}
}

/* As when another thread goes on with a cursor, or a forked child. */
static void faults_when_another_thread_had_taken_more_then_they_are_not_dear(void **state)
{
	struct cursor cursor;

	(void)state;
	scan_make(&cursor);
	for (int i = 0; i < 20; i++) {
		unmap_all();
		cursor.seen = (struct cursor_seen){clock_now() - 1000000000, faults_now() + 1000};
		assert_false(__real_faults_are_dear(f.prefetch, &cursor, 2 * LOOKED_AT_BYTES));
	}
}

/* What it did before was another scan, however many faults that took. */
static void faults_when_the_cursor_was_set_elsewhere_then_it_is_looked_at_anew(void **state)
{
	struct cursor cursor;

	(void)state;
	scan_make(&cursor);
	for (int i = 0; i < 200; i++) {
		unmap_all();
		cursor.seen = (struct cursor_seen){clock_now(), faults_now()};
		(void)faults_over(LOOKED_AT_BYTES, LOOKED_AT_BYTES);
		cursor_leave(&cursor);
		cursor.paced = 1;
		assert_false(__real_faults_are_dear(f.prefetch, &cursor, 2 * LOOKED_AT_BYTES));
	}
}

/* While somebody writes to it nothing of a file on a network is known to be in memory. */
static void faults_when_nothing_is_known_of_the_file_then_they_are_not_dear(void **state)
{
	struct cursor cursor;

	(void)state;
	scan_make(&cursor);
	assert_int_equal(residency_snapshot(&f.residency, &f.identity, f.identity.size,
					    2 * f.snapshot.page_size, false),
			 0);
	for (int i = 0; i < 200; i++)
		assert_false(is_dear(&cursor, LOOKED_AT_BYTES, 0));
}

/* What lies in memory is gone over by a thread, and then it is the program's without a fault. */
static void scan_when_its_faults_are_dear_then_they_are_taken_ahead_of_it(void **state)
{
	uint64_t without;
	struct cursor cursor;

	(void)state;
	f.dear = true;
	unmap_all();
	without = faults_over(1 << 20, 1 << 20);
	unmap_all();
	cursor_place(&cursor, 0);
	for (int i = 0; i < CURSOR_PACE_FIRST; i++)
		cursor_step(&cursor);
	assert_non_null(cursor.ahead);
	assert_comes_to_rest();
	assert_in_range(faults_over(1 << 20, 1 << 20), 0, without / 8);
	assert_int_equal(bytes_read(), 0);
	cursor_leave(&cursor);
}

/* A scan over what is in memory, some steps of which take it from one value to another. */
struct mapped_scan {
	struct cursor cursor;
	uint64_t at; /* where in the file the value is */
};

static void mapped_begin(struct mapped_scan *scan)
{
	f.dear = true;
	cursor_place(&scan->cursor, 0);
	for (int i = 0; i < CURSOR_PACE_FIRST; i++)
		cursor_step(&scan->cursor);
	assert_non_null(scan->cursor.ahead);
	assert_comes_to_rest_again();
}

static void mapped_steps(struct mapped_scan *scan, unsigned steps)
{
	const uint8_t *value = NULL;

	for (unsigned i = 0; i < steps; i++)
		value = cursor_step(&scan->cursor);
	scan->at = (uint64_t)(value - f.window.base);
}

/* How many of a part's faults have not been taken. */
static unsigned unmapped(uint64_t from, uint64_t to)
{
	unsigned n = 0;

	for (from = round_up(from, RESIDENCY_FAULT); from + RESIDENCY_FAULT <= to;
	     from += RESIDENCY_FAULT)
		n += !f.maps[from / RESIDENCY_FAULT];
	return n;
}

/* One database of several, the pieces of which are asked for as they come. */
static void scan_when_its_database_is_a_part_of_the_file_then_all_of_it_is_mapped(void **state)
{
	struct mapped_scan scan;
	uint64_t from;

	(void)state;
	f.tree.record.overflow_pages /= 2;
	mapped_begin(&scan);
	mapped_steps(&scan, 100);
	assert_comes_to_rest_again();
	from = scan.at;
	for (int i = 0; i < 400; i++) {
		mapped_steps(&scan, 1);
		assert_comes_to_rest_again();
	}
	assert_in_range(unmapped(from, scan.at), 0, (scan.at - from) / RESIDENCY_FAULT / 16);
	cursor_leave(&scan.cursor);
}

/* The end of what has been mapped. */
static uint64_t mapped_end(void)
{
	unsigned i = MAPS;

	while (i && !f.maps[i - 1])
		i--;
	return (uint64_t)i * RESIDENCY_FAULT;
}

enum { AHEAD_MAPPED = 8 << 20 };

/* A chunk more, as whole ones come, and what the loader does not look at each step for. */
static void assert_maps_8_mib_ahead(unsigned steps)
{
	struct mapped_scan scan;

	mapped_begin(&scan);
	for (int i = 0; i < 50; i++) {
		mapped_steps(&scan, steps);
		assert_comes_to_rest_again();
		assert_in_range(mapped_end(), scan.at, scan.at + AHEAD_MAPPED + 2 * ARENA_CHUNK);
	}
	assert_in_range(mapped_end(), scan.at + AHEAD_MAPPED / 2, f.size);
	cursor_leave(&scan.cursor);
}

static void scan_when_it_is_long_then_no_more_than_8_mib_are_mapped_ahead(void **state)
{
	(void)state;
	assert_maps_8_mib_ahead(10);
}

static void scan_of_leaves_when_it_is_long_then_no_more_are_mapped_ahead(void **state)
{
	(void)state;
	assert_maps_8_mib_ahead(3000);
}

/* Some stream's bytes have to be read, and another's to be mapped: what has come is not kept until
 * all has been mapped. */
static void read_when_much_is_to_be_mapped_then_it_does_not_wait_for_that(void **state)
{
	const uint64_t chunks = 8, size = ARENA_CHUNK;

	(void)state;
	f.cold = 4;
	pthread_mutex_lock(&f.prefetch->lock);
	assert_int_equal(loader_wake(f.prefetch), 0);
	assert_true(loader_want(f.prefetch, f.cold * size, size, false));
	for (uint64_t i = 1; i <= chunks; i++)
		assert_true(loader_want(f.prefetch, (f.cold + i) * size, size, true));
	pthread_mutex_unlock(&f.prefetch->lock);
	assert_comes_to_rest();
	assert_int_equal(bytes_read(), size);
	assert_int_equal(maps_count(), chunks * size / RESIDENCY_FAULT);
	assert_in_range(f.maps_waited, 0, 2 * size / RESIDENCY_FAULT);
}

/* What is in memory has not been brought. */
static void scan_when_nothing_was_read_for_it_then_nothing_of_that_counts_as_used(void **state)
{
	uint64_t used = stats_get(STATS_PREFETCH_USED);
	struct mapped_scan scan;

	(void)state;
	mapped_begin(&scan);
	mapped_steps(&scan, 100);
	cursor_leave(&scan.cursor);
	assert_int_equal(bytes_read(), 0);
	assert_int_equal(stats_get(STATS_PREFETCH_USED), used);
}

/* Goes on to the end of the data with a look-ahead that has once been begun; returns whether it
 * still has one then. */
static bool is_mapped_until_the_end(void)
{
	struct mapped_scan scan;
	bool mapped;

	mapped_begin(&scan);
	f.dear = false;
	f.busy = true;
	for (int i = 0; i < 97; i++) {
		mapped_steps(&scan, 10);
		assert_comes_to_rest_again();
	}
	mapped = scan.cursor.ahead != NULL;
	cursor_leave(&scan.cursor);
	return mapped;
}

static void scan_when_its_faults_go_on_then_its_look_ahead_does(void **state)
{
	(void)state;
	single_pages_show(0, f.size & ~(uint64_t)4095);
	assert_true(is_mapped_until_the_end());
}

static void scan_when_all_is_mapped_already_then_its_look_ahead_ends(void **state)
{
	(void)state;
	single_pages_show(0, f.size & ~(uint64_t)4095);
	(void)faults_over(0, f.size & ~(uint64_t)4095);
	assert_false(is_mapped_until_the_end());
}

static void *snapshot_again(void *argument)
{
	(void)argument;
	for (unsigned i = 0; i < 20; i++) {
		f.identity.snapshot++;
		assert_int_equal(residency_snapshot(&f.residency, &f.identity, f.identity.size,
						    2 * f.snapshot.page_size, true),
				 0);
	}
	return NULL;
}

/* Another thread's transactions begin while somebody writes; the thread sanitizer looks on. */
static void scan_when_newer_snapshots_begin_then_it_goes_on(void **state)
{
	struct mapped_scan scan;
	pthread_t thread;

	(void)state;
	mapped_begin(&scan);
	assert_int_equal(pthread_create(&thread, NULL, snapshot_again, NULL), 0);
	mapped_steps(&scan, 900);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_comes_to_rest_again();
	cursor_leave(&scan.cursor);
}

/* Goes on while the loader is kept from doing anything; nothing behind the program's back is mapped
 * then, but all in front of it. */
static void overtake(struct mapped_scan *scan, unsigned steps)
{
	uint64_t from, to;

	pthread_mutex_lock(&f.prefetch->lock);
	from = round_up(mapped_end(), ARENA_CHUNK) + ARENA_CHUNK;
	mapped_steps(scan, steps);
	to = scan->at - 2 * ARENA_CHUNK;
	pthread_mutex_unlock(&f.prefetch->lock);
	assert_true(from + 4 * ARENA_CHUNK < to);
	assert_comes_to_rest_again();
	assert_int_equal(unmapped(from, to), (to - from) / RESIDENCY_FAULT);
	assert_int_equal(unmapped(scan->at, scan->at + ARENA_CHUNK), 0);
}

static void scan_when_it_has_overtaken_its_look_ahead_then_that_maps_nothing_behind_it(void **state)
{
	struct mapped_scan scan;

	(void)state;
	mapped_begin(&scan);
	mapped_steps(&scan, 100);
	assert_comes_to_rest_again();
	overtake(&scan, 500);
	cursor_leave(&scan.cursor);
}

static void scan_of_leaves_when_it_has_overtaken_its_look_ahead_then_the_same(void **state)
{
	struct mapped_scan scan;

	(void)state;
	mapped_begin(&scan);
	mapped_steps(&scan, 10000);
	assert_comes_to_rest_again();
	overtake(&scan, 200000);
	cursor_leave(&scan.cursor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(range_when_all_is_wanted_then_all_comes_once,
						setup_big, teardown),
		{"range_of_small_values_when_all_is_wanted_then_all_comes_once",
		 range_when_all_is_wanted_then_all_comes_once, setup_small, teardown, NULL},
		cmocka_unit_test_setup_teardown(
			range_when_one_process_scans_then_all_reads_are_its_own, setup_big,
			teardown),
		cmocka_unit_test_setup_teardown(
			range_of_small_values_when_wanted_then_many_reads_are_in_flight,
			setup_small, teardown),
		cmocka_unit_test_setup_teardown(
			range_when_eight_processes_scan_then_they_share_the_reads_in_flight,
			setup_big, teardown),
		cmocka_unit_test_setup_teardown(range_when_it_ends_early_then_the_rest_is_left,
						setup_big, teardown),
		{"range_of_small_values_when_it_ends_early_then_the_rest_is_left",
		 range_when_it_ends_early_then_the_rest_is_left, setup_small, teardown, NULL},
		cmocka_unit_test_setup_teardown(range_when_every_read_fails_then_the_loader_rests,
						setup_big, teardown),
		cmocka_unit_test_setup_teardown(
			range_when_reads_begin_to_fail_then_the_loader_rests, setup_big, teardown),
		cmocka_unit_test_setup_teardown(
			range_when_one_read_has_failed_then_the_next_brings_all, setup_big,
			teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_its_branch_was_never_brought_then_it_is_looked_ahead_of,
			setup_cached, teardown),
		cmocka_unit_test_setup_teardown(
			map_when_all_is_there_then_the_program_takes_no_fault, setup_cached,
			teardown),
		cmocka_unit_test_setup_teardown(
			faults_when_they_take_the_time_then_and_only_then_they_are_dear,
			setup_cached, teardown),
		cmocka_unit_test_setup_teardown(
			faults_when_they_are_for_other_memory_then_they_are_not_dear, setup_cached,
			teardown),
		cmocka_unit_test_setup_teardown(
			faults_when_another_thread_had_taken_more_then_they_are_not_dear,
			setup_cached, teardown),
		cmocka_unit_test_setup_teardown(
			faults_when_the_cursor_was_set_elsewhere_then_it_is_looked_at_anew,
			setup_cached, teardown),
		cmocka_unit_test_setup_teardown(
			faults_when_nothing_is_known_of_the_file_then_they_are_not_dear, setup_big,
			teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_its_faults_are_dear_then_they_are_taken_ahead_of_it, setup_cached,
			teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_its_database_is_a_part_of_the_file_then_all_of_it_is_mapped,
			setup_cached_longer, teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_it_is_long_then_no_more_than_8_mib_are_mapped_ahead,
			setup_cached_longer, teardown),
		cmocka_unit_test_setup_teardown(
			scan_of_leaves_when_it_is_long_then_no_more_are_mapped_ahead,
			setup_cached_leaves, teardown),
		cmocka_unit_test_setup_teardown(
			read_when_much_is_to_be_mapped_then_it_does_not_wait_for_that, setup_cached,
			teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_nothing_was_read_for_it_then_nothing_of_that_counts_as_used,
			setup_cached, teardown),
		cmocka_unit_test_setup_teardown(scan_when_its_faults_go_on_then_its_look_ahead_does,
						setup_cached_longer, teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_all_is_mapped_already_then_its_look_ahead_ends,
			setup_cached_longer, teardown),
		cmocka_unit_test_setup_teardown(scan_when_newer_snapshots_begin_then_it_goes_on,
						setup_cached_longer, teardown),
		cmocka_unit_test_setup_teardown(
			scan_when_it_has_overtaken_its_look_ahead_then_that_maps_nothing_behind_it,
			setup_cached_longer, teardown),
		cmocka_unit_test_setup_teardown(
			scan_of_leaves_when_it_has_overtaken_its_look_ahead_then_the_same,
			setup_cached_leaves, teardown),
	};

	return cmocka_run_group_tests_name("prefetch", tests, NULL, NULL);
}
