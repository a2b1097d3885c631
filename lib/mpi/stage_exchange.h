/* SPDX-License-Identifier: OLDAP-2.8 */
/* Sends what one rank has read to the other nodes.
 *
 * In each step, for each distance d, every node sends to the node d behind it and receives from the
 * node d before it. So all links work alike, and a rank needs one buffer for what comes however
 * many nodes there are. A rank's bytes go to one rank of each other node. */
#ifndef LMDBIO_MPI_STAGE_EXCHANGE_H
#define LMDBIO_MPI_STAGE_EXCHANGE_H

#include "mpi/mpi_job.h"
#include "mpi/rank_shares.h"

#include <stdbool.h>

struct stage_peers {
	int *ranks; /* of all nodes, node by node, in the order of their places there */
	int *first; /* node -> its first place in `ranks`; one more at the end */
};

/* Collective over job->all; returns this rank's own code. The caller frees the peers in any
 * case. */
int stage_peers_find(struct stage_peers *peers, const struct mpi_job *job);
void stage_peers_free(struct stage_peers *peers);

/* Bytes of a buffer for shares->buffer bytes of a part and the sum that goes with it. */
#define STAGE_ROOM(shares) ((shares)->buffer + sizeof(uint64_t))

/* One step: sends `mine`, and hands each part that comes to `take`, in `buffer`. All parts are sent
 * and received even if `take` fails. *moved: bytes sent. Collective over job->all; returns 0, EIO,
 * or the first error of `take`. */
struct stage_exchange {
	const struct mpi_job *job;
	const struct stage_peers *peers;
	const struct stage_shares *shares;
	uint64_t step;
	void *mine;   /* this rank's part of the step, in a buffer of STAGE_ROOM() bytes */
	void *buffer; /* for a part that comes, as large */
	bool *lost;   /* set when MPI has not given up a message, and may still use both buffers */
	int (*take)(void *argument, struct stage_part part, const void *bytes);
	void *argument;
};
int stage_exchange(const struct stage_exchange *exchange, uint64_t *moved);

#endif
