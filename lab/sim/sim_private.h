/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the state of a simulated run. */
#ifndef LMDBIO_TOOLS_SIM_PRIVATE_H
#define LMDBIO_TOOLS_SIM_PRIVATE_H

#include "loader/placement.h"
#include "sim.h"

enum { SIM_TIERS = 2, SIM_STEPS = 512 /* how finely the order of filling is told apart */ };

/* What a node has to do for one batch. */
struct sim_load {
	uint64_t reads[SIM_SOURCES];
	double bytes[SIM_SOURCES];
	double late_bytes; /* of those from storage: read when they are wanted */
	uint64_t late_reads;
	double sent[SIM_TIERS]; /* to peers, by where it was read */
	double pushed, received, written[SIM_TIERS];
};

/* A node's share of the records, and what it keeps of it. */
struct sim_share {
	uint64_t first, records;
	uint64_t kept[SIM_TIERS]; /* the first ones in memory, the next ones on SSD */
	uint64_t kept_before;     /* by the nodes before this one */
	struct permute order;     /* of an epoch, where nodes read their shares */
};

struct sim_node {
	struct sim_load load;
	double ready;             /* when the reading of its last batch was done */
	struct sim_filling {
		unsigned step;    /* what is first used before it has been looked at */
		double bytes;     /* brought of it */
	} filling[SIM_TIERS];     /* of copies, in the order of first use */
	double room[SIM_TIERS];   /* bytes left, where it keeps what it reads */
	uint64_t full[SIM_TIERS]; /* when that was used up; UINT64_MAX: not yet */
};

/* A node's copies in a tier that are first used in one step of the run, in bytes. */
struct sim_copies {
	float all, read; /* read: by the reader from storage, before they were brought */
};

struct sim {
	const struct policy *policy;
	const struct sim_cluster *cluster;
	const struct sim_job *job;
	struct order order;
	struct order_epoch epoch;
	struct permute kept_order; /* only_kept: of what all nodes keep */
	struct placement *plan;    /* or NULL */
	struct sim_node *nodes;
	struct sim_share *shares;
	struct sim_copies (*fill)[SIM_TIERS][SIM_STEPS]; /* [node]; NULL: nothing fills itself */
	uint64_t *seen;                                  /* bits: was read from storage */
	uint64_t kept;            /* records that nodes keep of their shares */
	uint64_t room[SIM_TIERS]; /* bytes a node, 0 where the policy uses none */
	uint64_t batches;         /* of an epoch */
	double storage_bytes;
};

/* --- sim_model.c: seconds --- */

double sim_curve_at(const struct sim_curve *curve, double at);
/* What one node gets of storage while all read with so many streams each. */
double sim_storage_rate(const struct sim_cluster *cluster, unsigned streams);
/* A stream's seconds for so many reads; `streams`: that read from storage meanwhile. */
double sim_fetch(const struct sim_cluster *cluster, enum sim_source source, unsigned streams,
		 double reads, double bytes);
/* A node's seconds for what it has to read ahead for a batch, and for what it has not. */
double sim_ahead(const struct sim *sim, const struct sim_node *node);
double sim_late(const struct sim *sim, const struct sim_node *node);

/* --- sim_source.c: where records come from --- */

int sim_place(struct sim *sim);
double sim_record_bytes(const struct sim_job *job, uint64_t record);
/* Adds a record that `node` reads at a time (placement_time()) to the loads. */
void sim_read(struct sim *sim, uint32_t node, uint64_t record, uint32_t epoch, uint64_t time);

/* --- sim_fill.c: copies that nodes bring beside --- */

int sim_fill_plan(struct sim *sim);
/* Whether a node's copy in a tier is there at a time. */
bool sim_filled(const struct sim *sim, uint32_t node, unsigned tier, uint64_t record,
		uint64_t time);
/* A node's reader has read from storage what it keeps a copy of: that need not be brought. */
void sim_fill_read(struct sim *sim, uint32_t node, unsigned tier, uint64_t record, double bytes);
/* Streams that bring copies to a node now. */
unsigned sim_fill_streams(const struct sim *sim, const struct sim_node *node);
/* Goes on filling for so many seconds. */
void sim_fill_on(struct sim *sim, double seconds);
/* Seconds before the first batch, where all is brought first. */
double sim_fill_first(struct sim *sim);

#endif
