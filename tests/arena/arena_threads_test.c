/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what an arena promises to the threads of one process. */
#include "arena_children.h"
#include "arena_support.h"

#include "arena/arena_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

enum { CHUNKS = 40 };

static struct dataset dataset;

struct job {
	struct reader reader;
	pthread_t thread;
	unsigned rounds;
	bool own; /* chunks that no other thread unpins meanwhile: pins are the process's */
	unsigned number;
};

enum { THREADS = 4 };

static void *work(void *argument)
{
	struct job *job = argument;

	for (unsigned i = 0; i < job->rounds; i++) {
		uint64_t chunk = reader_random(&job->reader) % CHUNKS;
		unsigned block = (unsigned)reader_random(&job->reader) % 200;

		if (job->own)
			chunk = chunk / THREADS * THREADS + job->number;
		reader_use(&job->reader, chunk, block,
			   1 + (unsigned)reader_random(&job->reader) % 56);
	}
	return NULL;
}

static void run_threads(uint64_t budget, bool own, unsigned rounds, bool many)
{
	_Atomic uint64_t wrong = 0, direct = 0, reads = 0;
	struct arena *arenas[THREADS];
	struct job jobs[THREADS];

	for (unsigned i = 0; i < THREADS; i++) {
		arenas[i] = i && !many ? arenas[0] : child_open(&dataset, budget);
		reader_begin(&jobs[i].reader, arenas[i], &dataset);
		reader_end(&jobs[i].reader);
		/* Read where it is written, so that a thread sanitizer compares the two. */
		jobs[i].reader.map = arena_bytes(arenas[i]);
		jobs[i].reader.wrong = &wrong;
		jobs[i].reader.direct = &direct;
		jobs[i].reader.reads = &reads;
		jobs[i].reader.patience = 20000; /* ms; no reader goes on without the arena */
		jobs[i].reader.random += i * 77777;
		jobs[i].rounds = rounds;
		jobs[i].own = own;
		jobs[i].number = i;
		assert_int_equal(pthread_create(&jobs[i].thread, NULL, work, &jobs[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(jobs[i].thread, NULL);
	assert_int_equal(wrong, 0);
	if (budget == CHUNKS) {
		assert_int_equal(reads * ARENA_BLOCK, arena_used(arenas[0]));
		assert_int_equal(direct, 0);
	}
	assert_true(reads > CHUNKS * ARENA_BLOCKS / 2);
	assert_true(arena_used(arenas[0]) <= budget * ARENA_CHUNK);
	assert_int_equal(arena_memory(arenas[0]), arena_used(arenas[0]));
	for (unsigned i = 0; i < (many ? THREADS : 1); i++)
		arena_close(arenas[i]);
}

static void threads_when_all_fits_then_each_block_is_read_once(void **state)
{
	(void)state;
	run_threads(CHUNKS, false, 3000, false);
	run_threads(CHUNKS, false, 3000, true);
}

static void threads_when_memory_is_short_then_right_bytes(void **state)
{
	(void)state;
	run_threads(6, true, 1500, false);
	run_threads(6, false, 1500, true);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_when_all_fits_then_each_block_is_read_once),
		cmocka_unit_test(threads_when_memory_is_short_then_right_bytes),
	};
	int failed;

	dataset = dataset_make(CHUNKS);
	child_yield_at_steps();
	alarm(300); /* a hang is a failure */
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	dataset_close(&dataset);
	return failed;
}
