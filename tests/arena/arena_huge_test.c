/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks when an arena has huge pages, and that bytes put directly in their place are used like all
 * others. */
#include "arena_children.h"
#include "arena_support.h"

#include "arena/arena_private.h"
#include "util/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	CHUNKS = 21, /* odd: the last chunk has no neighbour for a huge page */
	OTHERS = 15
};

static struct dataset dataset;

/* The thread's processor time in ns; the real time that this machine's kernel needs does not matter
 * here. */
static uint64_t processor_time;

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (clock != CLOCK_THREAD_CPUTIME_ID)
		return __real_clock_gettime(clock, time);
	*time = clock_spec(processor_time);
	return 0;
}

/* Prepares chunks, also if the kernel has refused before. */
static void prepare(struct arena *arena, uint64_t first, uint64_t count)
{
	for (uint64_t chunk = first; chunk < first + count; chunk++) {
		atomic_store(&arena->trust, 1);
		arena_prepare(arena, chunk, 1);
	}
}

static struct arena *open_prepared(uint64_t first, uint64_t count)
{
	struct arena *arena = child_open(&dataset, CHUNKS);

	prepare(arena, first, count);
	return arena;
}

static bool has_place(const struct arena *arena, uint64_t chunk)
{
	return arena_place(arena, chunk * ARENA_CHUNK, ARENA_CHUNK) != NULL;
}

/* Returns whether this kernel makes huge pages of a memfd, found out without the arena. */
static bool kernel_can(void)
{
	size_t length = 2 * ARENA_HUGE;
	int fd = memfd_create("probe", MFD_CLOEXEC);
	bool can = false;
	char *map;

	if (fd < 0 || ftruncate(fd, (off_t)length) || pwrite(fd, "x", 1, 0) != 1)
		return false;
	/* Maps inside a reservation, so that the address can be a multiple of a huge page. */
	map = mmap(NULL, 2 * length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map != MAP_FAILED) {
		char *place =
			(char *)(((uintptr_t)map + ARENA_HUGE - 1) & ~(uintptr_t)(ARENA_HUGE - 1));

		if (mmap(place, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		    place)
			can = *(volatile char *)place == 'x' && !madvise(place, ARENA_HUGE, 25);
		munmap(map, 2 * length);
	}
	close(fd);
	return can;
}

static int begin(void **state)
{
	(void)state;
	dataset = dataset_make(CHUNKS);
	return 0;
}

static int end(void **state)
{
	(void)state;
	dataset_close(&dataset);
	return 0;
}

static void prepare_when_all_has_room_then_whole_pairs_have_places(void **state)
{
	struct arena *arena = open_prepared(3, CHUNKS);

	(void)state;
	if (!kernel_can())
		skip();
	assert_false(has_place(arena, 1));
	for (uint64_t chunk = 2; chunk < CHUNKS - 1; chunk++)
		assert_true(has_place(arena, chunk));
	assert_false(has_place(arena, CHUNKS - 1));
	assert_false(has_place(arena, CHUNKS));
	assert_int_equal(arena_memory(arena), (CHUNKS - 3) * (uint64_t)ARENA_CHUNK);
	assert_int_equal(arena_used(arena), 0);
	arena_close(arena);
}

static void prepare_when_there_is_less_room_then_nothing(void **state)
{
	struct arena *arena = child_open(&dataset, CHUNKS - 1);

	(void)state;
	assert_false(arena_may_prepare(arena, 0));
	prepare(arena, 0, CHUNKS);
	for (uint64_t chunk = 0; chunk < CHUNKS; chunk++)
		assert_false(has_place(arena, chunk));
	assert_int_equal(arena_memory(arena), 0);
	arena_close(arena);
}

static void prepare_when_asked_twice_then_tries_once(void **state)
{
	struct arena *arena = child_open(&dataset, CHUNKS), *other;

	(void)state;
	assert_true(arena_may_prepare(arena, 4));
	prepare(arena, 4, 2);
	other = child_open(&dataset, CHUNKS);
	assert_false(arena_may_prepare(arena, 4));
	assert_false(arena_may_prepare(other, 5));
	assert_int_equal(has_place(other, 5), kernel_can());
	arena_close(arena);
	arena_close(other);
}

static void prepare_when_untried_then_one_first(void **state)
{
	struct arena *arena = child_open(&dataset, CHUNKS);

	(void)state;
	arena_prepare(arena, 0, CHUNKS);
	assert_int_equal(has_place(arena, 0), kernel_can());
	assert_true(arena_may_prepare(arena, 2));
	arena_close(arena);
}

static void prepare_when_it_took_too_long_three_times_then_no_more(void **state)
{
	struct arena *arena = child_open(&dataset, CHUNKS);

	(void)state;
	atomic_store(&arena->trust, -2);
	assert_true(arena_may_prepare(arena, 0));
	atomic_store(&arena->trust, -3);
	assert_false(arena_may_prepare(arena, 0));
	arena_prepare(arena, 0, CHUNKS);
	assert_false(has_place(arena, 0));
	arena_close(arena);
}

static void prepare_when_a_chunk_is_claimed_or_published_then_leaves_it(void **state)
{
	struct arena *arena = child_open(&dataset, CHUNKS);
	struct reader reader;

	(void)state;
	reader_begin(&reader, arena, &dataset);
	assert_true(arena_claim(arena, 0));
	assert_true(reader_load(&reader, 0, 3));
	arena_release(arena, 0);
	assert_true(arena_claim(arena, 3));
	prepare(arena, 0, 6);
	for (uint64_t chunk = 0; chunk < 4; chunk++)
		assert_false(has_place(arena, chunk));
	assert_int_equal(has_place(arena, 4), kernel_can());
	assert_int_equal(reader_wrong(&reader, 0, 3), 0);
	arena_release(arena, 3);
	reader_end(&reader);
	arena_close(arena);
}

/* A process that is about to read a chunk has claimed it already. */
static void prepare_when_the_caller_has_claimed_a_chunk_then_its_pair_if_that_is_free(void **state)
{
	struct arena *arena = child_open(&dataset, CHUNKS), *other = child_open(&dataset, CHUNKS);
	struct reader reader;

	(void)state;
	reader_begin(&reader, arena, &dataset);
	for (uint64_t chunk = 3; chunk < 9; chunk += 2)
		assert_true(arena_claim(arena, chunk));
	assert_true(arena_claim(other, 4));
	assert_true(arena_claim(arena, 6));
	assert_true(reader_load(&reader, 6 * ARENA_BLOCKS, 1));
	arena_release(arena, 6);
	for (uint64_t chunk = 3; chunk < 9; chunk += 2) {
		atomic_store(&arena->trust, 1);
		arena_prepare_claimed(arena, chunk);
	}
	assert_int_equal(has_place(arena, 2), kernel_can());
	assert_int_equal(has_place(arena, 3), kernel_can());
	assert_false(has_place(arena, 5)); /* its neighbour is another process's */
	assert_false(has_place(arena, 7)); /* ... has bytes */
	assert_false(arena_may_prepare(arena, 5));
	/* The claim is kept, and the neighbour's given back. */
	assert_false(arena_claim(other, 3));
	assert_true(arena_claim(other, 2));
	assert_true(arena_claim(other, 6));
	assert_true(reader_load(&reader, 3 * ARENA_BLOCKS, ARENA_BLOCKS));
	assert_int_equal(reader_wrong(&reader, 3 * ARENA_BLOCKS, ARENA_BLOCKS), 0);
	reader_end(&reader);
	arena_close(arena);
	arena_close(other);
}

static void place_when_read_into_then_others_see_the_bytes(void **state)
{
	struct arena *one = open_prepared(0, CHUNKS), *two = child_open(&dataset, CHUNKS);
	struct reader reader;

	(void)state;
	if (!kernel_can())
		skip();
	reader_begin(&reader, two, &dataset);
	for (uint64_t chunk = 6; chunk < 8; chunk++) {
		uint64_t offset = chunk * ARENA_CHUNK;

		assert_true(arena_claim(one, chunk));
		assert_true(arena_reserve(one, ARENA_BLOCKS));
		assert_int_equal(pread(dataset.fd, arena_place(one, offset, ARENA_CHUNK),
				       ARENA_CHUNK, (off_t)offset),
				 ARENA_CHUNK);
		arena_publish(one, chunk * ARENA_BLOCKS, ARENA_BLOCKS);
		arena_release(one, chunk);
	}
	assert_true(arena_present(two, 6ull * ARENA_BLOCKS, 2ull * ARENA_BLOCKS));
	assert_int_equal(reader_wrong(&reader, 6ull * ARENA_BLOCKS, 2ull * ARENA_BLOCKS), 0);
	assert_int_equal(arena_used(two), 2ull * ARENA_CHUNK);
	reader_end(&reader);
	arena_close(one);
	arena_close(two);
}

static void place_when_it_reaches_into_the_next_chunk_then_none(void **state)
{
	struct arena *arena = open_prepared(0, CHUNKS);

	(void)state;
	assert_null(arena_place(arena, ARENA_CHUNK - ARENA_BLOCK, 2ull * ARENA_BLOCK));
	arena_close(arena);
}

static void bring(struct reader *reader, uint64_t chunk)
{
	assert_true(arena_claim(reader->arena, chunk));
	assert_true(reader_load(reader, chunk * ARENA_BLOCKS, ARENA_BLOCKS));
	arena_release(reader->arena, chunk);
}

static void read_when_it_fails_then_the_memory_goes_and_the_place_with_it(void **state)
{
	struct arena *arena = open_prepared(0, 2);
	struct reader reader;

	(void)state;
	if (!kernel_can())
		skip();
	reader_begin(&reader, arena, &dataset);
	bring(&reader, 1);
	assert_true(arena_claim(arena, 0));
	assert_true(arena_reserve(arena, ARENA_BLOCKS));
	memset(arena_place(arena, 0, ARENA_CHUNK), 1, ARENA_CHUNK);
	arena_abandon(arena, 0, ARENA_BLOCKS);
	assert_false(has_place(arena, 0));
	assert_int_equal(arena_memory(arena), ARENA_CHUNK);
	assert_int_equal(reader_wrong(&reader, ARENA_BLOCKS, ARENA_BLOCKS), 0);
	reader_end(&reader);
	arena_close(arena);
}

/* A program that lost its huge pages by one failed read would have none for the rest of its
 * life. */
static void read_when_another_has_failed_then_its_page_stays_huge(void **state)
{
	struct arena *arena = open_prepared(0, 8);
	struct reader reader;

	(void)state;
	if (!kernel_can())
		skip();
	reader_begin(&reader, arena, &dataset);
	assert_true(arena_claim(arena, 7));
	assert_true(arena_reserve(arena, 1));
	arena_abandon(arena, 7, 1);
	assert_true(arena_reserve(arena, 1));
	arena_unreserve(arena, 1);
	bring(&reader, 0);
	assert_true(arena_claim(arena, 2));
	assert_true(reader_load(&reader, 2ull * ARENA_BLOCKS, 1));
	arena_release(arena, 2);
	for (uint64_t chunk = 0; chunk < 6; chunk++)
		assert_true(arena_is_huge(arena, chunk));
	assert_false(arena_is_huge(arena, 7));
	assert_int_equal(reader_wrong(&reader, 0, ARENA_BLOCKS), 0);
	reader_end(&reader);
	arena_close(arena);
}

/* A whole chunk keeps its memory when a read of it is given up because others have read it
 * meanwhile. */
static void read_when_it_is_given_up_and_the_chunk_is_whole_then_its_page_stays_huge(void **state)
{
	struct arena *arena = open_prepared(0, 2);
	struct reader reader;

	(void)state;
	if (!kernel_can())
		skip();
	reader_begin(&reader, arena, &dataset);
	assert_true(arena_claim(arena, 0));
	assert_true(reader_load(&reader, 0, ARENA_BLOCKS));
	arena_abandon(arena, 0, 0);
	assert_true(arena_is_huge(arena, 0) && arena_is_huge(arena, 1));
	assert_int_equal(reader_wrong(&reader, 0, ARENA_BLOCKS), 0);
	reader_end(&reader);
	arena_close(arena);
}

static void prepared_when_nobody_reads_into_it_then_goes_as_the_limit_comes_down(void **state)
{
	const struct identity identity = {
		.device = 7, .inode = 7, .size = UINT64_C(1000) * ARENA_CHUNK};
	const struct arena_options options = {
		.budget = CHUNKS * ARENA_CHUNK, .share = true, .node = test_node()};
	struct arena *arena = open_prepared(0, 4), *other;
	struct reader reader;
	const char *why;

	(void)state;
	if (!kernel_can())
		skip();
	reader_begin(&reader, arena, &dataset);
	for (uint64_t chunk = 4; chunk < CHUNKS - 1; chunk++)
		bring(&reader, chunk);
	assert_int_equal(arena_memory(arena), (CHUNKS - 1) * (uint64_t)ARENA_CHUNK);
	assert_int_equal(arena_open(&other, &identity, &options, &why), 0);
	bring(&reader, CHUNKS - 1);
	assert_true(arena_budget(arena) < CHUNKS * (uint64_t)ARENA_CHUNK);
	/* Two chunks go for each that comes, until the arena is within its part. */
	for (uint64_t chunk = 0; arena_used(arena) > arena_budget(arena) && chunk < CHUNKS; chunk++)
		if (!has_place(arena, chunk))
			bring(&reader, chunk);
	assert_true(arena_used(arena) <= arena_budget(arena));
	assert_int_equal(arena_memory(arena), arena_used(arena));
	reader_end(&reader);
	arena_close(other);
	arena_close(arena);
}

static void die_when_prepared(const char *step)
{
	if (!strcmp(step, "prepared"))
		raise(SIGKILL);
}

static void preparer_when_it_is_killed_then_its_claims_and_memory_go(void **state)
{
	struct arena *arena = child_open(&dataset, CHUNKS);
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (!pid) {
		step_taken = die_when_prepared;
		(void)open_prepared(0, 4);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	for (uint64_t chunk = 0; chunk < 4; chunk++) {
		assert_true(arena_claim(arena, chunk));
		arena_release(arena, chunk);
		assert_false(has_place(arena, chunk));
	}
	assert_int_equal(arena_memory(arena), 0);
	arena_close(arena);
}

static void take_2_ms(const char *step)
{
	if (!strcmp(step, "prepared"))
		processor_time += 2000000;
}

/* Each of the processes saves the time that a huge page saves. */
static void prepare_when_many_processes_scan_then_a_page_may_take_longer(void **state)
{
	struct arena *arena = child_open(&dataset, CHUNKS), *others[OTHERS];

	(void)state;
	if (!kernel_can())
		skip();
	step_taken = take_2_ms;
	arena_prepare(arena, 0, ARENA_PAIR);
	assert_true(has_place(arena, 0));
	assert_int_equal(atomic_load(&arena->trust), -1);
	for (unsigned i = 0; i < OTHERS; i++) {
		others[i] = child_open(&dataset, CHUNKS);
		arena_scanning(others[i], 1, 0);
	}
	arena_prepare(arena, ARENA_PAIR, ARENA_PAIR);
	assert_true(has_place(arena, ARENA_PAIR));
	assert_int_equal(atomic_load(&arena->trust), 1);
	step_taken = NULL;
	for (unsigned i = 0; i < OTHERS; i++)
		arena_close(others[i]);
	arena_close(arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(prepare_when_all_has_room_then_whole_pairs_have_places),
		cmocka_unit_test(prepare_when_there_is_less_room_then_nothing),
		cmocka_unit_test(prepare_when_asked_twice_then_tries_once),
		cmocka_unit_test(prepare_when_untried_then_one_first),
		cmocka_unit_test(prepare_when_it_took_too_long_three_times_then_no_more),
		cmocka_unit_test(prepare_when_many_processes_scan_then_a_page_may_take_longer),
		cmocka_unit_test(prepare_when_a_chunk_is_claimed_or_published_then_leaves_it),
		cmocka_unit_test(
			prepare_when_the_caller_has_claimed_a_chunk_then_its_pair_if_that_is_free),
		cmocka_unit_test(place_when_read_into_then_others_see_the_bytes),
		cmocka_unit_test(place_when_it_reaches_into_the_next_chunk_then_none),
		cmocka_unit_test(preparer_when_it_is_killed_then_its_claims_and_memory_go),
		cmocka_unit_test(read_when_it_fails_then_the_memory_goes_and_the_place_with_it),
		cmocka_unit_test(read_when_another_has_failed_then_its_page_stays_huge),
		cmocka_unit_test(
			read_when_it_is_given_up_and_the_chunk_is_whole_then_its_page_stays_huge),
		cmocka_unit_test(
			prepared_when_nobody_reads_into_it_then_goes_as_the_limit_comes_down),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
