/* SPDX-License-Identifier: OLDAP-2.8 */
/* The servers of a job of several nodes, in one process, over simulated MPI. */
#ifndef LMDBIO_TEST_SERVER_FIXTURE_H
#define LMDBIO_TEST_SERVER_FIXTURE_H

#include "mpi/server_private.h"

#include "env_fixture.h"

enum {
	JOB_NODES = 2,
	JOB_NODES_MOST = 4,
	JOB_STEP = 10000000, /* ns of simulated time between two looks of server_job_comes() */
	JOB_STEPS = 20000    /* 200 s: the longest pause between reminders is 64 */
};

struct server_job {
	struct place place;
	int nodes;
	struct server *servers[JOB_NODES_MOST];
	int opened[JOB_NODES_MOST];  /* what server_peers_open() has returned */
	unsigned types; /* that the test has had MPI not free */
	uint64_t begun;  /* ns: the clock at server_job_begin(), less what had passed */
	uint64_t passed; /* ns that the test has let pass; no other time passes for the servers */
	unsigned steps;  /* of these, of server_job_comes() */
	void (*each)(struct server_job *job); /* before each of them, or NULL */
};

/* A data set of some megabytes, for one job of two nodes after the other; or of so many nodes and megabytes. */
void server_job_open(struct server_job *job);
void server_job_open_large(struct server_job *job, int nodes, unsigned megabytes);
void server_job_close(struct server_job *job);
/* Each node serves the data set. */
void server_job_begin(struct server_job *job);
/* One look of each server. */
void server_job_step(struct server_job *job);
/* A chunk whose owner is that node. */
uint64_t server_job_chunk(const struct server_job *job, int owner);
/* Whether a node has a chunk for its members; it is right then, or the test fails. */
bool server_job_has(const struct server_job *job, int node, uint64_t chunk);
/* Looks of the servers, a hundredth of a second after each other, until something is so. Reads of storage are
 * waited for. false: it does not come. */
bool server_job_comes(struct server_job *job, bool (*is_done)(struct server_job *job));
/* All servers end. Returns whether they do. */
bool server_job_stop(struct server_job *job);
/* They end, and nothing of theirs stays. */
void server_job_end(struct server_job *job);

#endif
