/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how often a reader waits for a server that is stopped, and asks a server that refuses. The
 * file has its own clock, which advances during a wait and between two reads. */
#include "store_fixture.h"

#include "arena/arena_private.h"
#include "util/settings.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { PAUSE_MS = 500, MINUTE = 60000 / PAUSE_MS /* reads */ };

static uint64_t ns = 1000000000, waited; /* waited: the part of it spent in waits */

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	*now = (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
				 .tv_nsec = (long)(ns % 1000000000)};
	return 0;
}

bool __wrap_clock_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t limit);

/* During each wait another thread wishes for chunks that use the same place in the table of recent
 * wishes. */
static struct arena *crowded;

bool __wrap_clock_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t limit)
{
	(void)word, (void)value;
	for (unsigned i = 0; crowded && i < ARENA_RECENT; i++)
		atomic_store(&crowded->recent[i].wish, ((uint64_t)i + ARENA_RECENT) << 1);
	ns += limit;
	waited += limit;
	return false;
}

/* The second reader is the server; no thread steps it. */
static int setup(void **state)
{
	struct fixture *f;

	if (store_setup(state))
		return -1;
	f = *state;
	if (store_bring(&f->first.store, LOW, ARENA_BLOCK) ||
	    store_bring(&f->second.store, LOW, ARENA_BLOCK))
		return -1;
	f->first.store.link.socket.fd = f->fd; /* not lmdbio's socket: neither rung nor closed */
	return arena_serve(f->second.store.arena, 0, true);
}

/* Reads a block every PAUSE_MS, from block `first` on. Returns how many reads had to wait. */
static unsigned read_paced(struct reader *reader, uint64_t first, unsigned reads)
{
	unsigned waits = 0;

	for (uint64_t n = first; n < first + reads; n++) {
		uint64_t before = waited;

		ns += PAUSE_MS * UINT64_C(1000000);
		assert_int_equal(store_bring(&reader->store, LOW + n * ARENA_BLOCK, 1), 0);
		assert_right(reader, LOW + n * ARENA_BLOCK, ARENA_BLOCK);
		waits += waited > before;
	}
	return waits;
}

static void server_when_it_is_stopped_then_waits_are_ever_more_rare(void **state)
{
	struct fixture *f = *state;
	uint64_t before = waited;
	unsigned waits = read_paced(&f->first, 1, MINUTE);

	/* After 1, 2, 4, 8, 16, 32 seconds; then each minute. */
	assert_in_range(waits, 5, 6);
	waits += read_paced(&f->first, 1 + MINUTE, 10 * MINUTE);
	assert_in_range(waits, 14, 17);
	assert_true(waited - before <= waits * UINT64_C(300000000));
}

static void server_when_it_is_stopped_and_others_wish_then_the_wait_ends_all_the_same(void **state)
{
	struct fixture *f = *state;
	uint64_t before = waited;

	alarm(60);
	crowded = f->first.store.arena;
	assert_int_equal(store_bring(&f->first.store, LOW + ARENA_BLOCK, 1), 0);
	crowded = NULL;
	assert_right(&f->first, LOW + ARENA_BLOCK, ARENA_BLOCK);
	assert_in_range(waited - before, 1, UINT64_C(3000000000));
	alarm(0);
}

static void server_when_it_goes_on_then_it_is_waited_for_as_at_first(void **state)
{
	struct fixture *f = *state;
	unsigned few = 16000 / PAUSE_MS;

	assert_in_range(read_paced(&f->first, 1, 2 * MINUTE), 6, 8);
	arena_beat(f->second.store.arena);
	assert_in_range(read_paced(&f->first, 1 + 2 * MINUTE, few), 4, 5);
}

static void server_when_it_only_is_slow_then_it_is_waited_for_after_a_second(void **state)
{
	struct fixture *f = *state;
	unsigned waits = 0;

	for (uint64_t n = 0; n < 20; n++) {
		waits += read_paced(&f->first, 1 + 2 * n, 2);
		arena_beat(f->second.store.arena);
	}
	assert_int_equal(waits, 20);
}

static void server_when_it_is_stopped_then_it_is_waited_for_as_long_as_is_set(void **state)
{
	struct fixture *f = *state;
	struct settings *settings = (struct settings *)(uintptr_t)settings_get();
	uint64_t before = waited;

	settings->patience = 20;
	assert_int_equal(read_paced(&f->first, 1, 1), 1);
	assert_in_range(waited - before, UINT64_C(5000000000), UINT64_C(5300000000));
	settings->patience = 1;
}

/* --- a server that refuses ---------------------------------------------------------------------- */

static int listener;
static _Atomic unsigned asked;

static void *refuse(void *unused)
{
	const struct node_answer no = {.version = NODE_VERSION, .error = ENOSPC};
	struct node_message message;
	int fd;

	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		if (recv(fd, &message, sizeof(message), 0) == (ssize_t)sizeof(message)) {
			atomic_fetch_add(&asked, 1);
			(void)node_send(fd, &no, sizeof(no), -1);
		}
		close(fd);
	}
	return unused;
}

static void server_when_it_refuses_then_it_is_asked_ever_more_rarely(void **state)
{
	struct fixture *f = *state;
	struct settings *settings = (struct settings *)(uintptr_t)settings_get();
	struct sockaddr_un address;
	socklen_t length = node_address(&address, f->node);
	pthread_t server;

	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, length), 0);
	assert_int_equal(listen(listener, MINUTE), 0);
	assert_int_equal(pthread_create(&server, NULL, refuse, NULL), 0);
	settings->mpi = true;
	(void)read_paced(&f->first, 1, MINUTE);
	assert_in_range(atomic_load(&asked), 8, 12);
	settings->mpi = false;
	shutdown(listener, SHUT_RDWR);
	assert_int_equal(pthread_join(server, NULL), 0);
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			server_when_it_is_stopped_then_waits_are_ever_more_rare, setup,
			store_teardown),
		cmocka_unit_test_setup_teardown(
			server_when_it_is_stopped_and_others_wish_then_the_wait_ends_all_the_same,
			setup, store_teardown),
		cmocka_unit_test_setup_teardown(
			server_when_it_goes_on_then_it_is_waited_for_as_at_first, setup,
			store_teardown),
		cmocka_unit_test_setup_teardown(
			server_when_it_only_is_slow_then_it_is_waited_for_after_a_second, setup,
			store_teardown),
		cmocka_unit_test_setup_teardown(
			server_when_it_is_stopped_then_it_is_waited_for_as_long_as_is_set, setup,
			store_teardown),
		cmocka_unit_test_setup_teardown(
			server_when_it_refuses_then_it_is_asked_ever_more_rarely, store_setup,
			store_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
