/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the servers of a job of several nodes, in one process, over simulated MPI. */
#ifndef LMDBIO_TEST_SERVER_FIXTURE_H
#define LMDBIO_TEST_SERVER_FIXTURE_H

#include "mpi/server_private.h"

#include "env_fixture.h"

enum {
	JOB_NODES = 2,
	JOB_NODES_MOST = 4,
	JOB_STEP = 10000000, /* ns of simulated time between two looks of server_job_comes() */
	JOB_STEPS = 20000    /* 200 s: the longest pause between reminders is 64 s */
};

struct server_job {
	struct place place;
	int nodes;
	struct server *servers[JOB_NODES_MOST];
	int opened[JOB_NODES_MOST]; /* the codes of server_peers_open() */
	unsigned types;             /* datatypes that the test has kept MPI from freeing */
	uint64_t begun;             /* ns: the clock at server_job_begin(), less `passed` */
	uint64_t passed; /* ns that the test has let pass; the servers see no other time */
	unsigned steps;  /* such steps of server_job_comes() */
	void (*each)(struct server_job *job); /* called before each step, or NULL */
};

/* Makes a data set of some megabytes, for jobs of two nodes one after the other; the large form,
 * for this number of nodes and megabytes. */
void server_job_open(struct server_job *job);
void server_job_open_large(struct server_job *job, int nodes, unsigned megabytes);
void server_job_close(struct server_job *job);
/* Begins the servers; each node serves the data set. */
void server_job_begin(struct server_job *job);
/* Lets each server look once. */
void server_job_step(struct server_job *job);
/* Returns a chunk that this node owns. */
uint64_t server_job_chunk(const struct server_job *job, int owner);
/* Whether a node has a chunk for its members; the test fails if its bytes are wrong. */
bool server_job_has(const struct server_job *job, int node, uint64_t chunk);
/* Lets the servers look, a hundredth of a second apart, until is_done() returns true. Waits for
 * reads of storage. Returns false if is_done() never does. */
bool server_job_comes(struct server_job *job, bool (*is_done)(struct server_job *job));
/* Ends all servers. Returns whether they end. */
bool server_job_stop(struct server_job *job);
/* Ends all servers, and asserts that they leave nothing behind. */
void server_job_end(struct server_job *job);

#endif
