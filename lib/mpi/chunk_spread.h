/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which node of a job has which chunk of a data set, in memory and on disk. This is pure
 * arithmetic, so every process can compute it for all nodes.
 *
 * Data is cut into units. A unit is a chunk, or what a container compresses as one if that is more.
 * A run is as many units as there are nodes. It has one unit for each node, in an order of its own.
 * So no node has more than one unit more than another, and a node's number says nothing about where
 * in the data its units stand. */
#ifndef LMDBIO_MPI_CHUNK_SPREAD_H
#define LMDBIO_MPI_CHUNK_SPREAD_H

#include <stdint.h>

struct chunk_spread {
	uint64_t place; /* the orders follow from it: chunk_spread_place() */
	uint64_t size;  /* bytes of the data */
	uint64_t unit;  /* bytes: chunk_spread_unit() */
	int nodes;
};

/* Returns the place of a file, which is the same under all names of the file. */
uint64_t chunk_spread_place(uint64_t inode, int64_t mtime_ns);

/* `piece`: bytes that are best read by one node, a power of two. */
uint64_t chunk_spread_unit(uint64_t piece);

/* The node that has the byte at this offset. */
int chunk_spread_owner(const struct chunk_spread *spread, uint64_t offset);

/* The order in which the nodes stand in for one another for a byte. */
struct chunk_order {
	int owner;
	unsigned first; /* distance of the first stand-in behind the owner, less one */
};

struct chunk_order chunk_spread_order(const struct chunk_spread *spread, uint64_t offset);

/* Returns the node that stands in when the first `turn` nodes of an order do not answer; turn 0:
 * the owner. Each node has one turn, below the number of nodes. The other nodes stand in evenly for
 * one node's bytes. */
int chunk_spread_turn(const struct chunk_spread *spread, struct chunk_order order, unsigned turn);

/* Bytes that a node has. */
uint64_t chunk_spread_bytes(const struct chunk_spread *spread, int node);

/* Numbers a node's bytes through, in the data's order. Returns where in the data byte number `at`
 * stands. */
uint64_t chunk_spread_offset(const struct chunk_spread *spread, int node, uint64_t at);

#endif
