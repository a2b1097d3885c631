/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the published ways of feeding a training job have in common, and how they differ.
 *
 * A policy is a row of one table; the simulator and the measured loader read the same rows. Adding
 * one takes: a row in policy.c; where a field gets a new value, a case in lab/sim and in
 * the measured run; a row in the table of lmdbio-sim(1).
 */
#ifndef LMDBIO_LAB_POLICY_H
#define LMDBIO_LAB_POLICY_H

#include <stdbool.h>
#include <stddef.h>

/* What a node draws its batches from. */
enum policy_order {
	POLICY_SHUFFLE, /* all records, shuffled anew in each epoch */
	POLICY_SHARD,   /* its own share of the records, shuffled */
};

/* What a node keeps. */
enum policy_place {
	POLICY_NOTHING,
	POLICY_SHARE,    /* what fits of its share: the records are dealt out in runs, one a node */
	POLICY_FREQUENT, /* what it reads most itself: PLACEMENT_PER_NODE */
	POLICY_PLANNED,  /* what the job as a whole has planned: PLACEMENT_GLOBAL */
	POLICY_READ,     /* what it has read, until there is no more room */
};

enum { POLICY_MEMORY = 1, POLICY_SSD = 2 }; /* tiers, as bits */

/* Batches read ahead that are as many as the staging buffer holds. */
#define POLICY_AHEAD_ALL 65535u

struct policy {
	const char *name;
	const char *summary; /* a phrase for people, with its source */
	enum policy_order order;
	enum policy_place place;
	unsigned tiers;    /* where it is kept */
	unsigned ahead;    /* buffers for batches, the one in use included; 0: read when wanted */
	bool memory_only;  /* everything is in memory from the beginning: the bound */
	bool filled_first; /* what is kept is read before the first batch */
	bool only_kept;    /* nothing else is ever used */
	bool peers;        /* what other nodes keep is read from them */
	bool late_misses;  /* what no node keeps is read when it is wanted, not ahead */
	bool fills_itself; /* threads beside bring what is to be kept, each copy from storage */
	bool once;         /* a record is read from storage once, and goes on from node to node */
	bool side_by_side; /* reads from storage are under way while others are; else in turn */
};

/* The table; *n is how many rows. The bound is the first, lmdbio's own the last. Static. */
const struct policy *policy_table(size_t *n);

/* The row of that name, or NULL. */
const struct policy *policy_find(const char *name);

#endif
