/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the common parts of published ways to feed a training job, and their differences.
 *
 * A policy is a row of one table, which the simulator and the measured loader share. Adding one
 * takes: a row in policy.c; for a new value of a field, a case in lab/sim and in the measured run;
 * a row in the table of lmdbio-sim(1).
 */
#ifndef LMDBIO_LAB_POLICY_H
#define LMDBIO_LAB_POLICY_H

#include <stdbool.h>
#include <stddef.h>

/* A node's source of batches. */
enum policy_order {
	POLICY_SHUFFLE, /* all records, shuffled anew in each epoch */
	POLICY_SHARD,   /* its own share of the records, shuffled */
};

/* The records that a node keeps. */
enum policy_place {
	POLICY_NOTHING,
	POLICY_SHARE,    /* the part of its share that fits: a run of records a node */
	POLICY_FREQUENT, /* the records that it reads most itself: PLACEMENT_PER_NODE */
	POLICY_PLANNED,  /* the whole job's planned records: PLACEMENT_GLOBAL */
	POLICY_READ,     /* the records that it has read, while there is room */
};

enum { POLICY_MEMORY = 1, POLICY_SSD = 2 }; /* tiers, as bits */

/* As many batches read ahead as the staging buffer holds. */
#define POLICY_AHEAD_ALL 65535u

struct policy {
	const char *name;
	const char *summary; /* a phrase for users, with its source */
	enum policy_order order;
	enum policy_place place;
	unsigned tiers;    /* the tiers that keep records */
	unsigned ahead;    /* buffers for batches, the one in use included; 0: read when wanted */
	bool memory_only;  /* all records are in memory from the beginning: the bound */
	bool filled_first; /* kept records are read before the first batch */
	bool only_kept;    /* records without a copy are never used */
	bool peers;        /* records kept by other nodes are read from them */
	bool late_misses;  /* records without a copy are read when wanted, not ahead */
	bool fills_itself; /* threads beside the training read each copy from storage */
	bool once;         /* each record is read from storage once, and passes from node to node */
	bool side_by_side; /* reads from storage overlap other reads; else they take turns */
};

/* Returns the table; *n is the number of rows. First the bound, last lmdbio's own. Static. */
const struct policy *policy_table(size_t *n);

/* Returns the row of that name, or NULL. */
const struct policy *policy_find(const char *name);

#endif
