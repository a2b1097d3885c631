/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what an arena promises to the threads of one process. */
#include "arena_children.h"
#include "arena_support.h"

#include "arena/arena_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ARENA_SITES_OF_OTHERS
#include "arena_sites.h"

enum { CHUNKS = 40 };

static struct dataset dataset;

struct job {
	struct reader reader;
	pthread_t thread;
	unsigned rounds;
	bool own; /* chunks that no other thread unpins meanwhile: pins belong to the process */
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
		/* Read at the address where it is written, so that ThreadSanitizer compares the
		 * two. */
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

/* --- two at one place ------------------------------------------------------------------------ */

static struct arena *raced;

/* Blocks that another thread has published after the missing ones were counted, and before they are
 * marked, count once. */
static void publish_too(const char *step)
{
	if (strcmp(step, "publish-counted"))
		return;
	step_taken = NULL;
	arena_publish(raced, 5, 10);
}

static void threads_when_both_publish_a_block_then_it_counts_once(void **state)
{
	void (*const before)(const char *step) = step_taken;

	(void)state;
	raced = child_open(&dataset, CHUNKS);
	assert_true(arena_claim(raced, 0));
	assert_true(arena_reserve(raced, 10));
	step_taken = publish_too;
	arena_publish(raced, 0, 10);
	assert_null(step_taken);
	step_taken = before;
	assert_true(arena_present(raced, 0, 15));
	assert_int_equal(arena_used(raced), 15 * ARENA_BLOCK);
	arena_release(raced, 0);
	arena_close(raced);
}

static void keep_too(const struct arena_site *site)
{
	if (strcmp(site->function, "arena_keep") || strcmp(site->call, "add"))
		return;
	site_taken = NULL;
	arena_keep(raced, 3);
}

static void threads_when_both_keep_a_chunk_then_it_counts_once(void **state)
{
	(void)state;
	raced = child_open(&dataset, CHUNKS);
	assert_true(arena_claim(raced, 3));
	site_taken = keep_too;
	arena_keep(raced, 3);
	assert_null(site_taken);
	assert_int_equal(atomic_load(&raced->head->kept), 1);
	arena_keep(raced, 3);
	arena_keep(raced, 4);
	assert_int_equal(atomic_load(&raced->head->kept), 2);
	arena_close(raced);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_when_all_fits_then_each_block_is_read_once),
		cmocka_unit_test(threads_when_memory_is_short_then_right_bytes),
		cmocka_unit_test(threads_when_both_publish_a_block_then_it_counts_once),
		cmocka_unit_test(threads_when_both_keep_a_chunk_then_it_counts_once),
	};
	int failed;

	dataset = dataset_make(CHUNKS);
	child_yield_at_steps();
	alarm(300); /* a hang counts as a failure */
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	dataset_close(&dataset);
	return failed;
}
