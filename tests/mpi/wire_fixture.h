/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares ranks that ask each other, over simulated MPI, for bytes that follow from a number. */
#ifndef LMDBIO_TEST_WIRE_FIXTURE_H
#define LMDBIO_TEST_WIRE_FIXTURE_H

#include "mpi/exchange_wire.h"

enum { WIRE_RANKS = 2, WIRE_BODY = 10000 /* bytes: more than an eager message has */ };

struct wire_rank {
	struct wire wire;
	unsigned right, lost, ended, sent; /* questions; `sent`: bodies that MPI needs no more */
	unsigned notes;                    /* notes that have come */
	int error;                         /* the error of the last question that ended */
	uint64_t answers;                  /* questions received */
};

struct wire_world {
	uint64_t now;
	struct wire_rank ranks[WIRE_RANKS];
};

void world_begin(struct wire_world *world);
/* Rank 0 asks rank 1, or the other way round. Returns whether the exchange allows it. */
bool world_ask(struct wire_world *world, int from, uint64_t what);
/* Lets each rank look once, a tenth of a second after the last look; world_look() lets one rank
 * look. */
void world_step(struct wire_world *world);
void world_look(struct wire_world *world, int rank);
/* Lets the ranks look until this rank has no open question; returns false if that never happens. */
bool world_settles(struct wire_world *world, int rank);
/* Stops all ranks. Returns whether they end and leave nothing behind. */
bool world_end(struct wire_world *world);

#endif
