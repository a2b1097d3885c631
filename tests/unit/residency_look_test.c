/* What only this file knows: what is believed of the page cache where the kernel does not tell what it
 * holds, because the file belongs to somebody else. */
#include "residency_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <cmocka.h>

static bool cold;
static unsigned tries, asks;

int __wrap_mincore(void *address, size_t length, unsigned char *pages);
ssize_t __real_preadv2(int fd, const struct iovec *to, int n, off_t offset, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *to, int n, off_t offset, int flags);
ssize_t __wrap_readahead(int fd, off64_t offset, size_t length);

/* Also what is behind the file's end. */
int __wrap_mincore(void *address, size_t length, unsigned char *pages)
{
	(void)address;
	memset(pages, 1, (length + 4095) / 4096);
	return 0;
}

ssize_t __wrap_preadv2(int fd, const struct iovec *to, int n, off_t offset, int flags)
{
	tries++;
	assert_int_equal(flags, RWF_NOWAIT);
	if (!cold)
		return __real_preadv2(fd, to, n, offset, 0); /* a memfd does not know it */
	errno = EAGAIN;
	return -1;
}

ssize_t __wrap_readahead(int fd, off64_t offset, size_t length)
{
	(void)fd, (void)offset, (void)length;
	asks++;
	return 0;
}

static int setup(void **state)
{
	struct fixture *f;

	cold = false;
	tries = asks = 0;
	if (residency_setup(state))
		return -1;
	f = *state;
	reader_close(&f->first);
	return reader_open(&f->first, f, RESIDENCY_CACHE, true);
}

/* Like values one after another. */
static void bring_all(struct fixture *f)
{
	for (uint64_t at = ARENA_CHUNK; at < SIZE; at += 16 * ARENA_BLOCK)
		assert_int_equal(residency_bring(&f->first.residency, at, 16 * ARENA_BLOCK), 0);
}

static void scan_when_memory_has_no_room_for_the_file_then_not_kept_in_large_pieces(void **state)
{
	struct residency *residency = &((struct fixture *)*state)->first.residency;

	assert_false(residency_keeps(residency));
	residency_scan(residency, 1);
	assert_true(residency_keeps(residency));
	residency_scan(residency, -1);
	assert_false(residency_keeps(residency));
	residency->room = residency->data - 1;
	residency_scan(residency, 1);
	assert_false(residency_keeps(residency));
	residency_scan(residency, -1);
}

static void scan_when_an_arena_is_filled_then_no_page_cache(void **state)
{
	struct residency *residency = &((struct fixture *)*state)->second.residency;

	residency_scan(residency, 1);
	assert_false(residency_keeps(residency));
	residency_scan(residency, -1);
}

static void file_of_another_when_it_is_warm_then_nothing_is_asked_for(void **state)
{
	struct fixture *f = *state;

	assert_true(residency_idle(&f->first.residency, ARENA_CHUNK, ARENA_CHUNK));
	assert_int_equal(f->first.residency.told, TOLD_NOTHING);
	bring_all(f);
	assert_int_equal(asks, 0);
	assert_in_range(tries, 1, 20);
}

static void file_of_another_when_it_is_cold_then_brought_and_seldom_tried(void **state)
{
	struct fixture *f = *state;
	unsigned values = (CHUNKS - 1) * (ARENA_BLOCKS / 16);

	cold = true;
	assert_false(residency_idle(&f->first.residency, ARENA_CHUNK, ARENA_CHUNK));
	bring_all(f);
	assert_int_equal(asks, values);
	assert_in_range(tries, 1, 10);
}

/* One that is read by somebody else meanwhile. */
static void file_of_another_when_it_becomes_warm_then_that_is_seen(void **state)
{
	struct fixture *f = *state;
	unsigned asked;

	cold = true;
	bring_all(f);
	cold = false;
	asked = asks;
	for (unsigned i = 0; i < 70; i++)
		(void)residency_idle(&f->first.residency, ARENA_CHUNK, ARENA_BLOCK);
	assert_true(residency_idle(&f->first.residency, ARENA_CHUNK, ARENA_BLOCK));
	assert_int_equal(asks, asked);
}

/* What is read past the page cache is not looked for there. */
static void file_of_another_when_an_arena_has_it_then_no_try(void **state)
{
	struct fixture *f = *state;

	f->second.residency.believe_cache = true;
	assert_false(residency_idle(&f->second.residency, ARENA_CHUNK, ARENA_BLOCK));
	assert_int_equal(residency_bring(&f->second.residency, ARENA_CHUNK, ARENA_CHUNK), 0);
	assert_int_equal(tries, 0);
	assert_int_equal(io_counted(&f->second.io).bytes, ARENA_CHUNK);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, residency_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(scan_when_memory_has_no_room_for_the_file_then_not_kept_in_large_pieces),
		CASE(scan_when_an_arena_is_filled_then_no_page_cache),
		CASE(file_of_another_when_it_is_warm_then_nothing_is_asked_for),
		CASE(file_of_another_when_it_is_cold_then_brought_and_seldom_tried),
		CASE(file_of_another_when_it_becomes_warm_then_that_is_seen),
		CASE(file_of_another_when_an_arena_has_it_then_no_try),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
