/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which rank sends to which. */
#include "config.h"
#include "mpi/stage_exchange.h"

#include "mpi/mpi_agree.h"
#include "mpi/mpi_error.h"
#include "mpi/mpi_sealed.h"
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
	/* All ranks or none, for the next call is collective. */
	rc = mpi_agree(job->all, rc, NULL);
	if (!rc)
		rc = mpi_error_code(mpi_allgather(mine, places, 2, MPI_INT, job->all));
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

/* Of a node's ranks those that send to this one are as many apart as this node has ranks. *taken:
 * what became of the first part that did not come, or was not taken. */
static int receive_from(const struct stage_exchange *exchange, int node, int *taken)
{
	const struct stage_peers *peers = exchange->peers;
	const struct mpi_place *at = &exchange->job->place;

	for (int i = at->node_rank; i < count_of(peers, node); i += at->node_ranks) {
		int rank = peers->ranks[peers->first[node] + i];
		struct stage_part part = stage_shares_part(exchange->shares, rank, exchange->step);
		struct mpi_sealed sealed;

		if (!part.length)
			continue;
		if (!sealed_receive(&sealed, exchange->buffer, part.length, rank, STAGE_TAG,
				    exchange->job->all))
			return EIO;
		sealed_await(&sealed);
		if (sealed.failed)
			return EIO;
		if (*taken)
			continue;
		*taken = sealed_is_right(&sealed, exchange->buffer, part.length, part.offset)
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
	uint64_t sum = at->nodes > 1 ? sealed_sum(exchange->mine, mine.length, mine.offset) : 0;
	int taken = 0, rc = 0;

	for (int distance = 1; distance < at->nodes && !rc; distance++) {
		int to = (at->node + distance) % at->nodes;
		int from = (at->node - distance + at->nodes) % at->nodes;
		int peer = peers->ranks[peers->first[to] + at->node_rank % count_of(peers, to)];
		struct mpi_sealed sent;

		sealed_init(&sent);
		if (mine.length) {
			sealed_send(&sent, exchange->mine, mine.length, sum, peer, STAGE_TAG,
				    exchange->job->all);
			*moved += mine.length;
		}
		rc = receive_from(exchange, from, &taken);
		sealed_await(&sent);
		if (!rc && sent.failed)
			rc = EIO;
	}
	return rc ? rc : taken;
}
