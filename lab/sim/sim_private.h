/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the state of a simulated run. */
#ifndef LMDBIO_TOOLS_SIM_PRIVATE_H
#define LMDBIO_TOOLS_SIM_PRIVATE_H

#include "loader/placement.h"
#include "sim.h"

enum { SIM_TIERS = 2, SIM_STEPS = 512 /* resolution of the order of filling */ };

/* A node's work for one batch. */
struct sim_load {
	uint64_t reads[SIM_SOURCES];
	double bytes[SIM_SOURCES];
	double late_bytes; /* bytes from storage that are read when wanted */
	uint64_t late_reads;
	double sent[SIM_TIERS]; /* to peers, by the tier it was read from */
	double pushed, received, written[SIM_TIERS];
};

/* A node's share of the records, and the kept part. */
struct sim_share {
	uint64_t first, records;
	uint64_t kept[SIM_TIERS]; /* the first ones in memory, the next ones on SSD */
	uint64_t kept_before;     /* by the nodes before this one */
	struct permute order;     /* of an epoch, if nodes read their shares */
};

struct sim_node {
	struct sim_load load;
	double ready; /* when its last batch was read */
	struct sim_filling {
		unsigned step;    /* the step of first use that is being filled */
		double bytes;     /* filled bytes of that step */
	} filling[SIM_TIERS];     /* of copies, in the order of first use */
	double room[SIM_TIERS];   /* bytes left, if it keeps what it reads */
	uint64_t full[SIM_TIERS]; /* when that room was used up; UINT64_MAX: not yet */
};

/* A node's copies in a tier that are first used in one step of the run, in bytes. */
struct sim_copies {
	float all, read; /* read: by the reader from storage, before the copies arrived */
};

struct sim {
	const struct policy *policy;
	const struct sim_cluster *cluster;
	const struct sim_job *job;
	struct order order;
	struct order_epoch epoch;
	struct permute kept_order; /* only_kept: of the records that all nodes keep */
	struct placement *plan;    /* or NULL */
	struct sim_node *nodes;
	struct sim_share *shares;
	struct sim_copies (*fill)[SIM_TIERS][SIM_STEPS]; /* [node]; NULL: no filling */
	uint64_t *seen;                                  /* bits: was read from storage */
	uint64_t kept;            /* records that nodes keep of their shares */
	uint64_t room[SIM_TIERS]; /* bytes a node, 0 if the policy uses none */
	uint64_t batches;         /* of an epoch */
	double storage_bytes;
};

/* --- sim_model.c: seconds --- */

double sim_curve_at(const struct sim_curve *curve, double at);
/* Returns the rate of storage for one node while all nodes read with `streams` streams each. */
double sim_storage_rate(const struct sim_cluster *cluster, unsigned streams);
/* Returns a stream's seconds for `reads` reads while `streams` streams use storage. */
double sim_fetch(const struct sim_cluster *cluster, enum sim_source source, unsigned streams,
		 double reads, double bytes);
/* Return a node's seconds for the part of a batch that it reads ahead, and for the rest. */
double sim_ahead(const struct sim *sim, const struct sim_node *node);
double sim_late(const struct sim *sim, const struct sim_node *node);

/* --- sim_source.c: where records come from --- */

int sim_place(struct sim *sim);
double sim_record_bytes(const struct sim_job *job, uint64_t record);
/* Adds a record that `node` reads at a time (placement_time()) to the loads. */
void sim_read(struct sim *sim, uint32_t node, uint64_t record, uint32_t epoch, uint64_t time);

/* --- sim_fill.c: filling beside the training --- */

int sim_fill_plan(struct sim *sim);
/* Returns whether a node's copy in a tier has arrived at a time. */
bool sim_filled(const struct sim *sim, uint32_t node, unsigned tier, uint64_t record,
		uint64_t time);
/* Notes that a node's reader has read a record from storage: its copy needs no stream. */
void sim_fill_read(struct sim *sim, uint32_t node, unsigned tier, uint64_t record, double bytes);
/* Returns the streams that fill a node's copies now. */
unsigned sim_fill_streams(const struct sim *sim, const struct sim_node *node);
/* Goes on filling for `seconds`. */
void sim_fill_on(struct sim *sim, double seconds);
/* Returns the seconds before the first batch, if all copies are filled first. */
double sim_fill_first(struct sim *sim);

#endif
