/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides which rank sends to which, and sends. */
#include "config.h"
#include "mpi/stage_exchange.h"

#include "mpi/exchange_wire.h"
#include "mpi/mpi_error.h"
#include "mpi/mpi_wait.h"

#include <errno.h>
#include <stdlib.h>

enum { STAGE_TAG = 1 };

int stage_peers_find(struct stage_peers *peers, const struct mpi_job *job)
{
	int ranks = job->place.ranks, nodes = job->place.nodes, rc = 0;
	int mine[2] = {job->place.node, job->place.node_rank};
	int *places = malloc(2 * (size_t)ranks * sizeof(*places));

	peers->ranks = malloc((size_t)ranks * sizeof(*peers->ranks));
	peers->first = calloc((size_t)nodes + 1, sizeof(*peers->first));
	if (!places || !peers->ranks || !peers->first)
		rc = ENOMEM;
	/* Either all ranks go on or none, because the next call is collective. */
	rc = mpi_agree(job->all, rc, NULL);
	if (!rc)
		rc = mpi_error_code(mpi_allgather(mine, places, 2, MPI_INT, ranks, job->all));
	if (!rc) {
		for (int rank = 0; rank < ranks; rank++)
			peers->first[places[2 * rank] + 1]++;
		for (int node = 0; node < nodes; node++)
			peers->first[node + 1] += peers->first[node];
		for (int rank = 0; rank < ranks; rank++)
			peers->ranks[peers->first[places[2 * rank]] + places[2 * rank + 1]] = rank;
	}
	free(places);
	return rc;
}

void stage_peers_free(struct stage_peers *peers)
{
	free(peers->ranks);
	free(peers->first);
}

static int count_of(const struct stage_peers *peers, int node)
{
	return peers->first[node + 1] - peers->first[node];
}

/* A part goes with its sum, as two runs of one message. If a sender's death breaks a receive off,
 * MPI may say that the receive is complete (decisions/exchange.md). */
static uint64_t sum_of(const void *bytes, const struct stage_part *part)
{
	struct exchange_run run = {(uint8_t *)bytes, part->length};

	return exchange_sum(&run, 1, part->offset);
}

/* A message that this rank gives up, but MPI does not, may arrive later. So the sum is in the
 * buffer, which then stays, and never in memory of a function that has returned. */
static uint64_t *sum_beside(const struct stage_exchange *exchange, void *buffer)
{
	return (uint64_t *)(void *)((uint8_t *)buffer + exchange->shares->buffer);
}

/* Returns an MPI code. */
static int message_await(const struct stage_exchange *exchange, MPI_Request *request)
{
	int rc = mpi_await(request);

	if (*request != MPI_REQUEST_NULL)
		*exchange->lost = true;
	return rc;
}

static int part_receive(const struct stage_exchange *exchange, size_t length, int from)
{
	uint64_t *sum = sum_beside(exchange, exchange->buffer);
	struct exchange_run runs[] = {{exchange->buffer, length}, {(uint8_t *)sum, sizeof(*sum)}};
	MPI_Request request;
	int rc = runs_begin(runs, 2, from, STAGE_TAG, exchange->job->all, false, &request);

	return rc == MPI_SUCCESS ? message_await(exchange, &request) : rc;
}

/* Receives from the ranks of a node that send to this rank: every n-th of that node's ranks, where
 * n is the number of this node's ranks. *taken: the code of the first part that did not come right,
 * or was not taken. */
static int receive_from(const struct stage_exchange *exchange, int node, int *taken)
{
	const struct stage_peers *peers = exchange->peers;
	const struct mpi_place *at = &exchange->job->place;

	for (int i = at->node_rank; i < count_of(peers, node); i += at->node_ranks) {
		int rank = peers->ranks[peers->first[node] + i];
		struct stage_part part = stage_shares_part(exchange->shares, rank, exchange->step);

		if (!part.length)
			continue;
		if (part_receive(exchange, part.length, rank) != MPI_SUCCESS)
			return EIO;
		if (*taken)
			continue;
		*taken = *sum_beside(exchange, exchange->buffer) == sum_of(exchange->buffer, &part)
				 ? exchange->take(exchange->argument, part, exchange->buffer)
				 : EIO;
	}
	return 0;
}

int stage_exchange(const struct stage_exchange *exchange, uint64_t *moved)
{
	const struct stage_peers *peers = exchange->peers;
	const struct mpi_place *at = &exchange->job->place;
	struct stage_part mine = stage_shares_part(exchange->shares, at->rank, exchange->step);
	uint64_t *sum = sum_beside(exchange, exchange->mine);
	struct exchange_run runs[] = {{exchange->mine, mine.length}, {(uint8_t *)sum, sizeof(*sum)}};
	int taken = 0, rc = 0;

	if (at->nodes > 1)
		*sum = sum_of(exchange->mine, &mine);
	for (int distance = 1; distance < at->nodes && !rc; distance++) {
		int to = (at->node + distance) % at->nodes;
		int from = (at->node - distance + at->nodes) % at->nodes;
		int peer = peers->ranks[peers->first[to] + at->node_rank % count_of(peers, to)];
		MPI_Request sent = MPI_REQUEST_NULL;
		int failed = MPI_SUCCESS;

		if (mine.length)
			failed = runs_begin(runs, 2, peer, STAGE_TAG, exchange->job->all, true,
					    &sent);
		*moved += mine.length;
		rc = receive_from(exchange, from, &taken);
		if (message_await(exchange, &sent) != MPI_SUCCESS || failed != MPI_SUCCESS)
			rc = EIO;
	}
	return rc ? rc : taken;
}
