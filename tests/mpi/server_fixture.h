/* SPDX-License-Identifier: OLDAP-2.8 */
/* The servers of a job of several nodes, in one process, over simulated MPI. */
#ifndef LMDBIO_TEST_SERVER_FIXTURE_H
#define LMDBIO_TEST_SERVER_FIXTURE_H

#include "mpi/server_private.h"

#include "env_fixture.h"

enum { JOB_NODES = 2 };

struct server_job {
	struct place place;
	struct server *servers[JOB_NODES];
	uint64_t passed; /* ns that the test has let pass */
};

/* Each node serves one data set of some megabytes. */
void server_job_begin(struct server_job *job);
/* One look of each server. */
void server_job_step(struct server_job *job);
/* A chunk whose owner is that node. */
uint64_t server_job_chunk(const struct server_job *job, int owner);
/* Whether a node has a chunk for its members; it is right then, or the test fails. */
bool server_job_has(const struct server_job *job, int node, uint64_t chunk);
/* All servers end, and nothing of theirs stays. */
void server_job_end(struct server_job *job);

#endif
