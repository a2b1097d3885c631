/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the state of the processes that act as nodes while a policy is measured. */
#ifndef BENCH_NODES_H
#define BENCH_NODES_H

#include "loader/batch_loader.h"
#include "loader/placement.h"
#include "policy.h"

#include <pthread.h>
#include <stdatomic.h>

enum { NODES_MOST = 64, NODE_TIERS = 2 };

/* The measurement to run. */
struct nodes_job {
	const struct policy *policy;
	const char *path;
	uint32_t nodes, batch, epochs, threads;
	uint64_t seed, room[NODE_TIERS];
	uint64_t buffer; /* bytes that a node may read ahead */
	double compute;  /* bytes a second that a node computes */
};

/* Memory that all processes share, at one address. It holds each record once, and a bit for each
 * node that says whether the node keeps the record: nodes of one machine have no network between
 * them. */
struct nodes_area {
	pthread_barrier_t together;
	_Atomic uint64_t used; /* bytes used of `bytes` */
	_Atomic uint64_t failed;
	uint64_t records, unit, size;         /* unit: bytes of a record; size: of `bytes` */
	_Atomic uint64_t storage, own, peers; /* bytes */
	double before, ends[PLACEMENT_READS_MOST]; /* seconds: filling; each epoch */
	uint64_t *claimed, *there;                 /* bits: a node copies the record; it is there */
	uint64_t *kept[NODES_MOST];           /* bits */
	struct nodes_record {
		uint64_t offset;
		uint32_t key, data; /* bytes */
	} * at;
	double *stalls; /* seconds: [node][batch of the run] */
	uint8_t *bytes;
};

/* One node's part of the area, the state of a tier. */
struct nodes_tier {
	const struct nodes_job *job;
	struct nodes_area *area;
	struct placement *plan; /* or NULL */
	uint32_t node;
	bool filling; /* the order is not the planned one */
	_Atomic uint64_t room[NODE_TIERS];
	/* For a policy that fills its nodes itself: a thread for each tier. */
	struct lmdbio_loader *loader;
	uint64_t *coming; /* bits: records that the training itself will read from storage */
	pthread_t filler[NODE_TIERS];
	unsigned fillers;
};

/* Starts threads that read the records in the node's plan in the order of first use, even if
 * another node has them, until the loader is closed. Returns 0 or an errno. */
int nodes_fill_begin(struct nodes_tier *tier, struct lmdbio_loader *loader);
/* Joins these threads, when the loader is being closed. */
void nodes_fill_end(struct nodes_tier *tier);
/* Copies a record into the shared memory, once. */
uint64_t nodes_put(struct nodes_area *area, uint64_t record, const MDB_val *key,
		   const MDB_val *data);

/* For struct loader_hooks: makes the policy's plan, if it has one, and adds the tier. */
int nodes_prepare(void *tier, struct lmdbio_loader *loader, struct tiers *tiers,
		  struct order_spec *spec);

#endif
