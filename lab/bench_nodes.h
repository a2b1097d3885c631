/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what simulated nodes share while a policy is measured. */
#ifndef BENCH_NODES_H
#define BENCH_NODES_H

#include "loader/batch_loader.h"
#include "loader/placement.h"
#include "policy.h"

#include <pthread.h>
#include <stdatomic.h>

enum { NODES_MOST = 64, NODE_TIERS = 2 };

/* What is measured. */
struct nodes_job {
	const struct policy *policy;
	const char *path;
	uint32_t nodes, batch, epochs, threads;
	uint64_t seed, room[NODE_TIERS];
	uint64_t buffer; /* bytes that a node reads ahead at most */
	double compute;  /* bytes a second of a node */
};

/* Memory that all processes have, at one address. Records lie in it once, and a bit for each node
 * says whether the node keeps them: nodes of one machine have no network between them. */
struct nodes_area {
	pthread_barrier_t together;
	_Atomic uint64_t used; /* of the bytes */
	_Atomic uint64_t failed;
	uint64_t records, unit, size;         /* unit: bytes of a record; size: of `bytes` */
	_Atomic uint64_t storage, own, peers; /* bytes */
	double before, ends[PLACEMENT_READS_MOST]; /* seconds: filling; each epoch */
	uint64_t *claimed, *there;            /* bits: a node copies it; it is there */
	uint64_t *kept[NODES_MOST];           /* bits */
	struct nodes_record {
		uint64_t offset;
		uint32_t key, data; /* bytes */
	} * at;
	double *stalls; /* seconds: [node][batch of the run] */
	uint8_t *bytes;
};

/* One node's part of it, which is a tier's state. */
struct nodes_tier {
	const struct nodes_job *job;
	struct nodes_area *area;
	struct placement *plan; /* or NULL */
	uint32_t node;
	bool filling; /* the order is not the one that is planned for */
	_Atomic uint64_t room[NODE_TIERS];
	/* A policy that fills itself: a thread for each tier. */
	struct lmdbio_loader *loader;
	uint64_t *coming; /* a bit for each record that the training reads from storage by itself */
	pthread_t filler[NODE_TIERS];
	unsigned fillers;
};

/* Threads that read what the node's plan gives it, in the order of its first use, whichever other
 * node has it, until the loader is closed. Returns 0 or an errno. */
int nodes_fill_begin(struct nodes_tier *tier, struct lmdbio_loader *loader);
/* Joins them; the loader is being closed. */
void nodes_fill_end(struct nodes_tier *tier);
/* Copies a record into the memory that all have, once. */
uint64_t nodes_put(struct nodes_area *area, uint64_t record, const MDB_val *key,
		   const MDB_val *data);

/* For struct loader_hooks: plans, if the policy does, and adds the tier. */
int nodes_prepare(void *tier, struct lmdbio_loader *loader, struct tiers *tiers,
		  struct order_spec *spec);

#endif
