/* SPDX-License-Identifier: OLDAP-2.8 */
/* Ranks that ask each other over simulated MPI for bytes that follow from a number. */
#ifndef LMDBIO_TEST_WIRE_FIXTURE_H
#define LMDBIO_TEST_WIRE_FIXTURE_H

#include "mpi/exchange_wire.h"

enum { WIRE_RANKS = 2, WIRE_BODY = 10000 /* bytes: more than a message that is eager */ };

struct wire_rank {
	struct wire wire;
	unsigned right, lost, ended, sent; /* questions; bodies that MPI needs no more */
	unsigned notes;                    /* that have come */
	int error;                         /* of the last question that ended */
	uint64_t answers;                  /* questions that came */
};

struct wire_world {
	uint64_t now;
	struct wire_rank ranks[WIRE_RANKS];
};

void world_begin(struct wire_world *world);
/* Rank 0 asks rank 1, or the other way round. Returns whether it may. */
bool world_ask(struct wire_world *world, int from, uint64_t what);
/* A look of each rank, a tenth of a second after the last one; or of one rank. */
void world_step(struct wire_world *world);
void world_look(struct wire_world *world, int rank);
/* Until a rank has no question any more; false: that does not come. */
bool world_settles(struct wire_world *world, int rank);
/* All ranks stop. Returns whether they end, with nothing left. */
bool world_end(struct wire_world *world);

#endif
