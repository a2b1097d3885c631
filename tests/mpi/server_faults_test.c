/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a failing call of MPI costs the readers of a node no right byte, and does not end a
 * server.
 *
 * Two servers over simulated MPI begin, exchange chunks and end. Each call that they make fails for
 * the n-th time, n from 1 until none does: once, and for ever. A wait is bounded by the servers'
 * looks. The simulation has no failures of its own: a call that fails is not made, and the next one
 * works.
 */
#include "config.h"
#include "mpi_simulated.h"
#include "mpi_sites.h"
#include "server_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FIRST = 6 /* chunks that both nodes want at first */, LATER = 2 };
#ifdef __SANITIZE_ADDRESS__
enum { EACH = 5, FASTER = 1 }; /* the plain build tries more */
#else
enum { EACH = 16, FASTER = 4 };
#endif

static struct {
	struct server_job job;
	uint64_t end; /* both nodes want the chunks before this one */
} test;

static bool all_came(struct server_job *job)
{
	for (int node = 0; node < JOB_NODES; node++)
		if (!arena_present(job->servers[node]->sets->arena, 0, test.end * ARENA_BLOCKS))
			return false;
	return true;
}

/* Makes both nodes want chunks, and checks the chunks when they have come. */
static bool want(struct server_job *job, uint64_t first, uint64_t end)
{
	for (int node = 0; node < JOB_NODES; node++)
		for (uint64_t chunk = first; chunk < end; chunk++)
			assert_non_null(server_want(job->servers[node], job->servers[node]->sets, chunk, true));
	test.end = end;
	if (!server_job_comes(job, all_came))
		return false;
	for (int node = 0; node < JOB_NODES; node++)
		for (uint64_t chunk = first; chunk < end; chunk++)
			assert_true(server_job_has(job, node, chunk));
	return true;
}

static bool no_questions(struct server_job *job)
{
	for (int node = 0; node < JOB_NODES; node++)
		if (job->servers[node]->wire.exchange.questions)
			return false;
	return true;
}

static uint64_t asked_bytes(const struct server_job *job)
{
	return job->servers[0]->sets->counts.asked_bytes + job->servers[1]->sets->counts.asked_bytes;
}

/* Returns what went wrong, or NULL. */
static const char *job_run(struct server_job *job, bool on)
{
	bool settled;
	uint64_t before;

	server_job_begin(job);
	if (!want(job, 0, FIRST))
		return "chunks do not come";
	settled = !on && mpi_site_has_failed() && !job->opened[0] && !job->opened[1];
	if (settled && !server_job_comes(job, no_questions))
		return "questions do not end";
	before = asked_bytes(job);
	if (!want(job, FIRST, FIRST + LATER))
		return "later chunks do not come";
	if (settled && asked_bytes(job) == before)
		return "peers are not asked again";
	return server_job_stop(job) ? NULL : "servers do not end";
}

static const char *site_run(const struct mpi_site *site, unsigned n, bool on, bool *failed)
{
	const char *then;

	mpi_site_arm(site, n, on);
	then = job_run(&test.job, on);
	*failed = mpi_site_disarm();
	if (!strcmp(site->call, "MPI_Type_free"))
		test.job.types = sim_left().types;
	server_job_end(&test.job);
	return then;
}

/* Servers reach no other sites. */
static bool is_met(const struct mpi_site *site)
{
	return strstr(site->file, "/server_") || strstr(site->file, "/exchange_wire") || strstr(site->file, "/mpi_wait");
}

static void calls_fail(bool on)
{
	struct mpi_sweep sweep = {.run = site_run,
				  .is_met = is_met,
				  .each = EACH,
				  .faster = FASTER,
				  .once = !on,
				  .ever = on};
	unsigned runs, bad = 0;

	server_job_open(&test.job);
	runs = mpi_sites_sweep(&sweep, &bad);
	server_job_close(&test.job);
	print_message("-- %u failures\n", runs);
	assert_int_equal(bad, 0);
	assert_true(runs > 60);
}

static void call_when_it_fails_once_then_chunks_are_right_and_peers_are_asked_again(void **state)
{
	(void)state;
	calls_fail(false);
}

static void call_when_it_fails_for_ever_then_chunks_are_right_and_servers_end(void **state)
{
	(void)state;
	calls_fail(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(call_when_it_fails_once_then_chunks_are_right_and_peers_are_asked_again),
		cmocka_unit_test(call_when_it_fails_for_ever_then_chunks_are_right_and_servers_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
