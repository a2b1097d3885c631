/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a chunk which comes from a peer too late changes no byte that readers see. */
#include "config.h"
#include "mpi_simulated.h"
#include "server_fixture.h"

#include "util/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static bool is_coming(const struct server *server)
{
	const struct exchange_question *question = server->wire.exchange.questions;

	return question && question->coming;
}

/* Node 0 asks node 1 for a chunk, but the body does not come. Node 0 reads storage, and its readers
 * have the chunk. Then the body comes. */
static void late_body(bool damaged)
{
	struct server_job job;
	uint64_t chunk;

	server_job_open(&job);
	server_job_begin(&job);
	chunk = server_job_chunk(&job, 1);
	sim_hold(0, false, true);
	if (damaged)
		sim_damage(0, false);
	/* Two neighbouring chunks get a huge page, into which storage is read without a copy. */
	for (uint64_t half = 0; half < ARENA_PAIR; half++)
		assert_non_null(server_want(job.servers[0], job.servers[0]->sets,
					    chunk / ARENA_PAIR * ARENA_PAIR + half, true));
	while (!is_coming(job.servers[0]))
		server_job_step(&job);
	job.passed += 2 * CLOCK_SECOND;
	while (!server_job_has(&job, 0, chunk))
		server_job_step(&job);
	assert_true(job.servers[0]->wire.exchange.questions->lost);
	sim_hold(0, false, false);
	while (job.servers[0]->wire.exchange.questions)
		server_job_step(&job);
	assert_true(server_job_has(&job, 0, chunk));
	if (!job.servers[0]->sets->counts.placed_bytes)
		print_message("-- no huge pages here\n");
	assert_int_equal(job.servers[0]->sets->counts.alone, 1);
	server_job_end(&job);
	server_job_close(&job);
}

static void body_when_late_and_damaged_then_readers_see_the_chunk_of_storage(void **state)
{
	(void)state;
	late_body(true);
}

static void body_when_late_then_readers_see_the_chunk_of_storage(void **state)
{
	(void)state;
	late_body(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(body_when_late_and_damaged_then_readers_see_the_chunk_of_storage),
		cmocka_unit_test(body_when_late_then_readers_see_the_chunk_of_storage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
