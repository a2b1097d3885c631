/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which node of a job has which chunk of a data set, in memory and on disk. Pure arithmetic,
 * so that every process knows it of all nodes without asking.
 *
 * Data is cut into units, which are chunks or what a container compresses as one where that is
 * more. Each run of as many units as there are nodes has one unit for each node, in an order of its
 * own: so no node has more than one unit more than another, and which it has says nothing about
 * where in the data it stands.
 */
#ifndef LMDBIO_MPI_CHUNK_SPREAD_H
#define LMDBIO_MPI_CHUNK_SPREAD_H

#include <stdint.h>

struct chunk_spread {
	uint64_t place; /* what the orders follow from: chunk_spread_place() */
	uint64_t size;  /* bytes of the data */
	uint64_t unit;  /* bytes: chunk_spread_unit() */
	int nodes;
};

/* Of the file itself, whatever its name is where it is opened. */
uint64_t chunk_spread_place(uint64_t inode, int64_t mtime_ns);

/* `piece`: bytes that are best read by one node, a power of two. */
uint64_t chunk_spread_unit(uint64_t piece);

/* The node that has the byte at this offset. */
int chunk_spread_owner(const struct chunk_spread *spread, uint64_t offset);

/* The order in which the nodes stand in for one another with a byte. */
struct chunk_order {
	int owner;
	unsigned first; /* how far behind the owner the first stand-in is, less one */
};

struct chunk_order chunk_spread_order(const struct chunk_spread *spread, uint64_t offset);

/* The node that stands in for the first `turn` nodes of an order when these do not answer; turn 0: the owner. Each node
 * has one turn, below the number of nodes. Others stand in evenly for one node's bytes. */
int chunk_spread_turn(const struct chunk_spread *spread, struct chunk_order order, unsigned turn);

/* Bytes that a node has. */
uint64_t chunk_spread_bytes(const struct chunk_spread *spread, int node);

/* Where in the data the byte stands that has `at` bytes of the node's before it: what a node has,
 * numbered through in the data's order. */
uint64_t chunk_spread_offset(const struct chunk_spread *spread, int node, uint64_t at);

#endif
