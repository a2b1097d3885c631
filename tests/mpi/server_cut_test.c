/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how much a node with a cut or slow network costs the others: which node reads which chunk
 * from storage, and for how many steps of simulated time any of them waits.
 *
 * Four servers over simulated MPI want all chunks of a data set. A step is a hundredth of a second.
 */
#include "config.h"
#include "mpi_simulated.h"
#include "server_fixture.h"

#include "util/clock.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum {
	NODES = 4,
	CUT = NODES - 1,
	MEGABYTES = 40,
	FIRST = 8, /* chunks that come before the network is cut */
	STEPS_A_SECOND = 100,
	BODY_STEPS = 30, /* steps per message of a slow network */
};

static struct {
	struct server_job job;
	uint64_t end; /* nodes want the chunks before this one */
	int nodes;    /* the first nodes, which want them */
	unsigned steps;
} test;

static uint64_t chunks(void)
{
	return arena_chunks(test.job.servers[0]->sets->arena) - 1; /* all whole chunks */
}

static uint64_t owned(int owner, uint64_t first, uint64_t end)
{
	uint64_t n = 0;

	for (; first < end; first++)
		n += server_owner(test.job.servers[0]->sets, first) == owner;
	return n;
}

static bool all_came(struct server_job *job)
{
	for (int node = 0; node < test.nodes; node++)
		if (!arena_present(job->servers[node]->sets->arena, 0, test.end * ARENA_BLOCKS))
			return false;
	return true;
}

/* Makes all nodes want these chunks. Returns the steps until the first `nodes` nodes have them. */
static unsigned want(int nodes, uint64_t first, uint64_t end)
{
	unsigned before = test.job.steps;

	for (int node = 0; node < test.job.nodes; node++)
		for (uint64_t chunk = first; chunk < end; chunk++)
			assert_non_null(server_want(test.job.servers[node], test.job.servers[node]->sets, chunk, true));
	test.end = end;
	test.nodes = nodes;
	assert_true(server_job_comes(&test.job, all_came));
	for (int node = 0; node < nodes; node++)
		for (uint64_t chunk = first; chunk < end; chunk++)
			assert_true(server_job_has(&test.job, node, chunk));
	return test.job.steps - before;
}

static const struct server_counts *counts(int node)
{
	return &test.job.servers[node]->sets->counts;
}

static uint64_t reads(int first, int end)
{
	uint64_t n = 0;

	for (; first < end; first++)
		n += counts(first)->read_requests;
	return n;
}

static bool no_questions(struct server_job *job)
{
	for (int node = 0; node < job->nodes; node++)
		if (job->servers[node]->wire.exchange.questions)
			return false;
	return true;
}

static void begin(void)
{
	server_job_open_large(&test.job, NODES, MEGABYTES);
	server_job_begin(&test.job);
	want(NODES, 0, FIRST);
	assert_int_equal(reads(0, NODES), FIRST);
}

static void end(void)
{
	test.job.each = NULL;
	server_job_end(&test.job);
	server_job_close(&test.job);
}

static void node_when_cut_then_others_read_each_of_its_chunks_once(void **state)
{
	uint64_t lost, most = 0;
	unsigned steps;

	(void)state;
	begin();
	lost = owned(CUT, FIRST, chunks());
	assert_true(lost > NODES);
	sim_cut(CUT, true);
	steps = want(CUT, FIRST, chunks());
	print_message("-- %u steps, %u reads of storage by the others\n", steps, (unsigned)reads(0, CUT));
	assert_int_equal(reads(0, CUT), chunks() - owned(CUT, 0, FIRST));
	for (int node = 0; node < CUT; node++) {
		uint64_t mine = counts(node)->read_requests - owned(node, 0, chunks());

		assert_int_equal(counts(node)->alone, mine);
		most = mine > most ? mine : most;
	}
	assert_true(most <= lost / CUT + 2);
	/* All nodes wait once, and at the same time, for a question to the cut node. */
	assert_true(steps <= STEPS_A_SECOND + STEPS_A_SECOND / 2);
	sim_cut(CUT, false);
	end();
}

static void node_when_cut_then_it_reads_all_chunks_itself(void **state)
{
	unsigned steps;

	(void)state;
	begin();
	sim_cut(CUT, true);
	steps = want(NODES, FIRST, chunks());
	print_message("-- %u steps\n", steps);
	assert_int_equal(counts(CUT)->read_requests, owned(CUT, 0, FIRST) + chunks() - FIRST);
	assert_true(steps <= 2 * STEPS_A_SECOND + STEPS_A_SECOND / 2);
	sim_cut(CUT, false);
	end();
}

static void node_when_cut_for_a_while_then_it_is_asked_again(void **state)
{
	uint64_t half, before, alone = 0;

	(void)state;
	begin();
	half = chunks() / 2;
	sim_cut(CUT, true);
	want(CUT, FIRST, half);
	sim_cut(CUT, false);
	assert_true(server_job_comes(&test.job, no_questions));
	/* The next question to it must be answered in time before it is asked as often as the
	 * others. */
	want(NODES, half, half + NODES);
	before = reads(0, NODES);
	for (int node = 0; node < NODES; node++)
		alone += counts(node)->alone;
	want(NODES, half + NODES, chunks());
	assert_int_equal(reads(0, NODES) - before, chunks() - half - NODES);
	for (int node = 0; node < NODES; node++)
		alone -= counts(node)->alone;
	assert_int_equal(alone, 0);
	end();
}

static bool probe_is_over(struct server_job *job)
{
	return !job->servers[0]->pace.peers[CUT].open;
}

static void node_when_it_was_late_then_it_is_probed_and_its_chunk_comes_from_another(void **state)
{
	struct server *asker;
	uint64_t half, chunk;

	(void)state;
	begin();
	asker = test.job.servers[0];
	half = chunk = chunks() / 2;
	sim_cut(CUT, true);
	want(CUT, FIRST, half);
	sim_cut(CUT, false);
	assert_true(server_job_comes(&test.job, no_questions));
	assert_true(pace_is_probe(&asker->pace, CUT));
	while (server_owner(asker->sets, chunk) != CUT)
		chunk++;
	assert_non_null(server_want(asker, asker->sets, chunk, true));
	(void)server_loads_step(asker, asker->wire.now);
	assert_int_equal(asker->pace.peers[CUT].open, 1);
	for (const struct server_load *load = asker->under_way; load; load = load->next)
		assert_int_not_equal(load->source, CUT);
	/* The node that reads the chunk answers the probe in time. */
	assert_true(server_job_comes(&test.job, probe_is_over));
	assert_false(pace_is_probe(&asker->pace, CUT));
	end();
}

static void network_creeps(struct server_job *job)
{
	(void)job;
	if (++test.steps % BODY_STEPS == 0)
		sim_pass(CUT, 1);
}

/* Readers go through the data, AHEAD chunks at a time, as fast as chunks come. */
static void node_when_slow_then_others_wait_for_it_little(void **state)
{
	enum { AHEAD = 4 };
	unsigned steps = 0;

	(void)state;
	begin();
	sim_cut(CUT, true);
	test.job.each = network_creeps;
	for (uint64_t chunk = FIRST; chunk + AHEAD <= chunks(); chunk += AHEAD)
		steps += want(CUT, chunk, chunk + AHEAD);
	print_message("-- %u steps, %u reads of storage by the others\n", steps, (unsigned)reads(0, CUT));
	assert_true(reads(0, CUT) <= chunks());
	assert_true(steps <= 3 * STEPS_A_SECOND);
	sim_cut(CUT, false);
	end();
}

static void node_when_slow_then_it_reads_what_comes_late(void **state)
{
	unsigned steps;

	(void)state;
	begin();
	sim_cut(CUT, true);
	test.job.each = network_creeps;
	steps = want(NODES, FIRST, chunks());
	print_message("-- %u steps, %u reads of storage\n", steps, (unsigned)counts(CUT)->read_requests);
	assert_true(steps <= 2 * STEPS_A_SECOND);
	sim_cut(CUT, false);
	end();
}

static bool time_has_passed(struct server_job *job)
{
	return job->steps > STEPS_A_SECOND / 2;
}

static bool first_is_passed(struct server_job *job)
{
	return job->servers[0]->under_way && job->servers[0]->under_way->late;
}

/* Returns a chunk for which two other nodes come before node 0 in the order. */
static uint64_t chunk_of_third(void)
{
	const struct chunk_spread *spread = &test.job.servers[0]->sets->spread;
	uint64_t chunk = FIRST;

	while (chunk_spread_turn(spread, chunk_spread_order(spread, chunk * ARENA_CHUNK), 2) != 0)
		assert_true(++chunk < chunks());
	return chunk;
}

/* Node 0 asks the first node of a chunk's order. Meanwhile a peer that has passed the second node
 * as well asks node 0. */
static void node_when_told_of_more_that_do_not_answer_then_it_asks_none_of_them(void **state)
{
	struct server *asker;
	struct server_load *load;
	uint64_t asked;

	(void)state;
	begin();
	asker = test.job.servers[0];
	sim_cut(0, true);
	test.job.steps = 0;
	assert_true(server_job_comes(&test.job, time_has_passed));
	load = server_want(asker, asker->sets, chunk_of_third(), true);
	assert_non_null(load);
	server_job_step(&test.job);
	assert_int_equal(load->turn, 0);
	server_turns_believe(asker, load, 2);
	asked = asker->wire.exchange.serial;
	assert_true(server_job_comes(&test.job, first_is_passed));
	assert_int_equal(load->turn, 2);
	assert_int_equal(asker->wire.exchange.serial, asked);
	sim_cut(0, false);
	end();
}

static bool body_is_coming(struct server_job *job)
{
	return job->servers[0]->wire.exchange.questions->coming;
}

/* Four nodes at 1 Gbit/s need 235 ms for all bodies that one of them may send at once. */
static void body_when_it_stops_on_its_way_then_another_node_is_asked(void **state)
{
	struct server *asker;
	struct server_load *load;
	uint64_t patience;

	(void)state;
	begin();
	asker = test.job.servers[0];
	sim_hold(0, false, true);
	load = server_want(asker, asker->sets, chunk_of_third(), true);
	assert_non_null(load);
	server_job_step(&test.job);
	assert_true(server_job_comes(&test.job, body_is_coming));
	test.job.steps = 0;
	assert_true(server_job_comes(&test.job, first_is_passed));
	patience = pace_patience(&asker->pace) / JOB_STEP;
	assert_in_range(test.job.steps, patience / 2, patience + ARENA_CHUNK * asker->pace.byte / JOB_STEP + 2);
	assert_int_equal(load->turn, 1);
	sim_hold(0, false, false);
	end();
}

/* An owner that waits for storage is not passed over. */
static bool owner_says_so(struct server_job *job)
{
	return job->steps > STEPS_A_SECOND;
}

static void owner_when_it_waits_for_storage_then_it_is_waited_for(void **state)
{
	struct server *asker, *owner;
	struct server_load *load;
	struct server_ask ask = {0};
	uint64_t chunk;

	(void)state;
	begin();
	asker = test.job.servers[0];
	owner = test.job.servers[1];
	for (chunk = FIRST; server_owner(asker->sets, chunk) != 1;)
		chunk++;
	/* The question reaches an owner that never gets the chunk from storage: a debt stands for
	 * it. */
	sim_hold(1, true, true);
	load = server_want(asker, asker->sets, chunk, true);
	assert_non_null(load);
	server_job_step(&test.job);
	assert_non_null(asker->wire.exchange.questions);
	exchange_owe(&owner->wire.exchange, &ask.debt, 0, asker->wire.exchange.questions->number, owner->wire.now);
	test.job.steps = 0;
	assert_true(server_job_comes(&test.job, owner_says_so));
	assert_false(load->queued);
	assert_int_equal(counts(0)->alone, 0);
	exchange_pay(&owner->wire.exchange, &ask.debt);
	sim_hold(1, true, false);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(node_when_cut_then_others_read_each_of_its_chunks_once),
		cmocka_unit_test(node_when_cut_then_it_reads_all_chunks_itself),
		cmocka_unit_test(node_when_cut_for_a_while_then_it_is_asked_again),
		cmocka_unit_test(node_when_it_was_late_then_it_is_probed_and_its_chunk_comes_from_another),
		cmocka_unit_test(node_when_slow_then_others_wait_for_it_little),
		cmocka_unit_test(node_when_slow_then_it_reads_what_comes_late),
		cmocka_unit_test(node_when_told_of_more_that_do_not_answer_then_it_asks_none_of_them),
		cmocka_unit_test(body_when_it_stops_on_its_way_then_another_node_is_asked),
		cmocka_unit_test(owner_when_it_waits_for_storage_then_it_is_waited_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
