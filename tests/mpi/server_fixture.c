/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes the servers of a job, and ends them. */
#include "config.h"
#include "server_fixture.h"

#include "mpi_simulated.h"
#include "util/clock.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { RECORDS = 12, VALUE = 1 << 20 };

static size_t value_make(void *bytes, uint64_t i)
{
	uint64_t *words = bytes;

	for (size_t at = 0; at < VALUE / sizeof(*words); at++)
		words[at] = (i * VALUE + at) * UINT64_C(0x9e3779b97f4a7c15);
	return VALUE;
}

static struct server *server_make(struct server_job *job, int node)
{
	static char names[JOB_NODES_MOST][64];
	struct server *server = calloc(1, sizeof(*server));

	assert_non_null(server);
	snprintf(names[node], sizeof(names[node]), "simulated-%d-%d", (int)getpid(), node);
	server->node = names[node];
	server->place = (struct mpi_place){.rank = node,
					   .ranks = job->nodes,
					   .node = node,
					   .nodes = job->nodes,
					   .node_ranks = 1};
	server->comm = sim_comm(node);
	server->epoll = server->listener = -1;
	job->opened[node] = server_peers_open(server, server->comm);
	assert_int_equal(server_set_open(server, job->place.data), 0);
	server->sets->lasting = false; /* chunks are brought only when the test wants them */
	return server;
}

void server_job_open_large(struct server_job *job, int nodes, unsigned megabytes)
{
	*job = (struct server_job){.nodes = nodes};
	place_make(&job->place);
	place_put_records(&job->place, megabytes, VALUE, value_make);
}

void server_job_open(struct server_job *job)
{
	server_job_open_large(job, JOB_NODES, RECORDS);
}

void server_job_close(struct server_job *job)
{
	place_remove(&job->place);
}

void server_job_begin(struct server_job *job)
{
	sim_begin(job->nodes);
	job->types = 0;
	job->begun = clock_now() - job->passed;
	for (int node = 0; node < job->nodes; node++)
		job->servers[node] = server_make(job, node);
}

void server_job_step(struct server_job *job)
{
	uint64_t now = job->begun + job->passed;

	for (int node = 0; node < job->nodes; node++) {
		(void)server_peers_step(job->servers[node], now);
		(void)server_loads_step(job->servers[node], now);
	}
}

uint64_t server_job_chunk(const struct server_job *job, int owner)
{
	uint64_t chunk = 0;

	while (server_owner(job->servers[0]->sets, chunk) != owner)
		chunk++;
	assert_true(chunk + 1 < arena_chunks(job->servers[0]->sets->arena));
	return chunk;
}

bool server_job_has(const struct server_job *job, int node, uint64_t chunk)
{
	struct server_set *set = job->servers[node]->sets;
	static uint8_t bytes[ARENA_CHUNK];

	if (!arena_present(set->arena, chunk * ARENA_BLOCKS, ARENA_BLOCKS))
		return false;
	assert_int_equal(pread(set->fd, bytes, sizeof(bytes), (off_t)(chunk * ARENA_CHUNK)), sizeof(bytes));
	assert_memory_equal(arena_bytes(set->arena) + chunk * ARENA_CHUNK, bytes, sizeof(bytes));
	return true;
}

static bool is_reading(const struct server_job *job)
{
	for (int node = 0; node < job->nodes; node++)
		if (job->servers[node]->sets->file.in_flight)
			return true;
	return false;
}

bool server_job_comes(struct server_job *job, bool (*is_done)(struct server_job *job))
{
	unsigned steps = 0;

	while (!is_done(job) && steps < JOB_STEPS) {
		server_job_step(job);
		if (is_reading(job)) {
			sched_yield();
			continue;
		}
		steps++;
		job->steps++;
		job->passed += JOB_STEP;
		if (job->each)
			job->each(job);
	}
	return steps < JOB_STEPS;
}

static bool are_over(struct server_job *job)
{
	bool over = true;

	for (int node = 0; node < job->nodes; node++)
		over &= server_is_idle(job->servers[node]) && server_peers_are_over(job->servers[node]);
	return over;
}

bool server_job_stop(struct server_job *job)
{
	for (int node = 0; node < job->nodes; node++)
		job->servers[node]->ending = true;
	return server_job_comes(job, are_over);
}

static bool is_quiet(struct server_job *job)
{
	struct sim_left left = sim_left();

	(void)job;
	return !(left.sends + left.receives + left.messages);
}

static void server_free(struct server *server)
{
	struct server_buffer *buffer;

	server_sets_close(server);
	assert_int_equal(server->reads, 0);
	assert_int_equal(server->asks, 0);
	assert_null(server->holds);
	while ((buffer = server->spare)) {
		server->spare = buffer->next;
		io_buffer_free(buffer->bytes, ARENA_CHUNK);
		free(buffer);
	}
	wire_close(&server->wire);
	pace_close(&server->pace);
	free(server);
}

void server_job_end(struct server_job *job)
{
	struct sim_left left;

	assert_true(server_job_stop(job));
	/* A rank that has ended alone receives nothing more. */
	for (int node = 0; node < job->nodes; node++)
		if (job->servers[node]->wire.broken)
			sim_drop();
	assert_true(server_job_comes(job, is_quiet));
	left = sim_left();
	assert_int_equal(left.sends + left.receives + left.messages, 0);
	assert_int_equal(left.types, job->types);
	for (int node = 0; node < job->nodes; node++)
		server_free(job->servers[node]);
	sim_end();
}
