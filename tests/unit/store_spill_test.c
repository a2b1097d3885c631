/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what a container's reader gets from a chunk that it saves to the scratch file while
 * another process publishes more of that chunk. */
#include "store_fixture.h"
#include "window/store_private.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { CHUNK = 3, FIRST = CHUNK * ARENA_CHUNK + 5 * ARENA_BLOCK, LATE = FIRST + 40 * ARENA_BLOCK };

/* Readers of one container, each with a scratch file of its own. */
struct containers {
	struct fixture *f;
	int scratch[2];
	struct store_packed packed[2];
};

static struct containers now;
static bool late_at_write; /* the block comes with the next write to the first scratch file */
static bool
	late_at_look; /* ... after the chunk has gone, before the next look at what is published */
static bool full;     /* the scratch file takes no more */
static bool handed_out; /* the late block, at the write */

ssize_t __real_pwrite(int fd, const void *bytes, size_t length, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t length, off_t offset);
bool __real_lmdbio_core_arena_present(const struct arena *arena, uint64_t first, uint64_t count);
bool __wrap_lmdbio_core_arena_present(const struct arena *arena, uint64_t first, uint64_t count);

static void publish_late(void)
{
	assert_int_equal(store_bring(&now.f->second.store, LATE, ARENA_BLOCK), 0);
}

/* Saves all chunks and drops them, as before a fork. */
static void leave(void)
{
	store_hold(&now.f->first.store);
	store_release(&now.f->first.store);
}

ssize_t __wrap_pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
	if (fd == now.scratch[0] && full) {
		errno = ENOSPC;
		return -1;
	}
	if (fd == now.scratch[0] && late_at_write) {
		late_at_write = false;
		publish_late();
		handed_out = store_covers(&now.f->first.store, LATE, ARENA_BLOCK);
	}
	return __real_pwrite(fd, bytes, length, offset);
}

bool __wrap_lmdbio_core_arena_present(const struct arena *arena, uint64_t first, uint64_t count)
{
	if (late_at_look) {
		late_at_look = false;
		leave();
		publish_late();
	}
	return __real_lmdbio_core_arena_present(arena, first, count);
}

static int container_open(struct reader *reader, unsigned i)
{
	struct fixture *f = now.f;
	struct arena_options options = {.budget = 2 * SIZE, .node = f->node, .share = true};

	reader_close(reader);
	now.scratch[i] = memfd_create("store-scratch", MFD_CLOEXEC);
	if (now.scratch[i] < 0 || ftruncate(now.scratch[i], SIZE))
		return -1;
	now.packed[i] = (struct store_packed){.scratch = now.scratch[i], .piece = ARENA_BLOCK};
	reader->base = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, now.scratch[i], 0);
	if (reader->base == MAP_FAILED || io_open_file(&reader->io, "pread", f->fd) ||
	    store_open(&reader->store, STORE_CONTAINER, reader->base, SIZE, now.scratch[i],
		       &reader->io, &options, false))
		return -1;
	store_spill_to(&reader->store, &now.packed[i]);
	return store_snapshot(&reader->store, &f->identity, SIZE, LOW, true);
}

/* The first reader is in a transaction, and has one block of the chunk. */
static int setup(void **state)
{
	late_at_write = late_at_look = full = handed_out = false;
	if (store_setup(state))
		return -1;
	now.f = *state;
	if (container_open(&now.f->first, 0) || container_open(&now.f->second, 1))
		return -1;
	store_enter(&now.f->first.store);
	return store_bring(&now.f->first.store, FIRST, ARENA_BLOCK) ||
	       get_state(&now.f->first.store, CHUNK) != CHUNK_PART;
}

static int teardown(void **state)
{
	store_leave(&now.f->first.store);
	full = false;
	for (unsigned i = 0; i < 2; i++)
		close(now.scratch[i]);
	return store_teardown(state);
}

static void assert_both_right(void)
{
	struct reader *reader = &now.f->first;

	assert_int_equal(store_bring(&reader->store, FIRST, ARENA_BLOCK), 0);
	assert_int_equal(store_bring(&reader->store, LATE, ARENA_BLOCK), 0);
	assert_true(store_covers(&reader->store, FIRST, ARENA_BLOCK));
	assert_true(store_covers(&reader->store, LATE, ARENA_BLOCK));
	assert_right(reader, FIRST, ARENA_BLOCK);
	assert_right(reader, LATE, ARENA_BLOCK);
}

static void block_when_it_is_published_while_its_chunk_is_saved_then_not_handed_out(void **state)
{
	(void)state;
	late_at_write = true;
	leave();
	assert_false(late_at_write);
	assert_false(handed_out);
	assert_right(&now.f->first, FIRST, ARENA_BLOCK);
	assert_both_right();
}

static void block_when_its_chunk_is_saved_while_it_is_looked_for_then_not_handed_out(void **state)
{
	(void)state;
	late_at_look = true;
	assert_false(store_covers(&now.f->first.store, LATE, ARENA_BLOCK));
	assert_false(late_at_look);
	assert_right(&now.f->first, FIRST, ARENA_BLOCK);
	assert_both_right();
}

static void chunk_when_it_cannot_be_saved_then_it_stays(void **state)
{
	struct store *store = &now.f->first.store;

	(void)state;
	full = true;
	leave();
	assert_int_equal(get_state(store, CHUNK), CHUNK_PART);
	assert_true(store_covers(store, FIRST, ARENA_BLOCK));
	assert_right(&now.f->first, FIRST, ARENA_BLOCK);
	publish_late();
	assert_true(store_covers(store, LATE, ARENA_BLOCK));
	assert_right(&now.f->first, LATE, ARENA_BLOCK);
}

/* In a child without descriptors for shared memory: a chunk that its parent could not save comes to
 * the scratch file. Returns whether the window shows that file then. */
static bool child_shows_scratch(struct store *store)
{
	const struct rlimit none = {0, 0};
	static const char mark[] = "scratch";

	store_forked(store);
	store_release(store);
	full = false;
	return !setrlimit(RLIMIT_NOFILE, &none) && !store_bring(store, FIRST, ARENA_BLOCK) &&
	       store_covers(store, FIRST, ARENA_BLOCK) && !store->arena &&
	       pwrite(now.scratch[0], mark, sizeof(mark), FIRST) == sizeof(mark) &&
	       !memcmp(now.f->first.base + FIRST, mark, sizeof(mark));
}

static void chunk_when_a_child_brings_it_later_then_no_memory_of_the_parent_is_shown(void **state)
{
	struct store *store = &now.f->first.store;
	int status;
	pid_t child;

	(void)state;
	full = true;
	store_hold(store);
	child = fork();
	assert_true(child >= 0);
	if (!child)
		_exit(!child_shows_scratch(store));
	store_release(store);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(block_when_it_is_published_while_its_chunk_is_saved_then_not_handed_out),
		CASE(block_when_its_chunk_is_saved_while_it_is_looked_for_then_not_handed_out),
		CASE(chunk_when_it_cannot_be_saved_then_it_stays),
		CASE(chunk_when_a_child_brings_it_later_then_no_memory_of_the_parent_is_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
