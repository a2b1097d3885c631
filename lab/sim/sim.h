/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares a simulated cluster, its job, and the results.
 *
 * The model is that of NoPFS (Dryden et al., SC'21, section 4), with devices that can be full. All
 * nodes take the same step at the same time (bulk-synchronous). A step is over when the slowest
 * node is. A node's staging streams fetch its records ahead, each record from the fastest source
 * that has it; preprocessing is part of a fetch. Fetched records wait in the staging buffer, whose
 * size limits how far ahead the streams are. A node's network, memory and SSD never give more in a
 * step than they can.
 *
 * Storage: `storage` has the rate of all nodes together when that many of them read with one stream
 * each. A node that reads with p streams gets p^storage_gain times its part, up to storage_node;
 * all together get at most storage_total.
 *
 * Rates are bytes a second, times seconds. Nothing is measured: the same input gives the same
 * output on any machine.
 */
#ifndef LMDBIO_TOOLS_SIM_H
#define LMDBIO_TOOLS_SIM_H

#include "policy.h"

#include <stdbool.h>
#include <stdint.h>

enum { SIM_CURVE_POINTS = 16, SIM_NODES_MOST = 30000 };

/* A curve of straight lines between its points, flat beyond them. */
struct sim_curve {
	unsigned n;
	double at[SIM_CURVE_POINTS], value[SIM_CURVE_POINTS];
};

enum sim_streams { SIM_STAGING, SIM_MEMORY, SIM_SSD, SIM_STREAMS };

struct sim_cluster {
	uint32_t nodes;
	uint64_t room[SIM_STREAMS];    /* bytes a node: staging buffer, memory, SSD */
	uint32_t streams[SIM_STREAMS]; /* threads that fill and read each tier */
	double compute, preprocess;    /* of a node; preprocess: of one stream */
	double staging_rate, memory_rate, ssd_read, ssd_write; /* of a node, all streams together */
	double network, network_latency;                       /* of a node, each way */
	struct sim_curve storage;
	double storage_gain, storage_node, storage_total, storage_latency; /* 0: no bound */
};

struct sim_job {
	uint64_t records, record_bytes; /* bytes: on average */
	double spread;                  /* sizes are even between 1 - spread and 1 + spread of it */
	uint32_t batch;                 /* records in a global batch */
	uint32_t epochs;
	uint64_t seed;
};

enum sim_source {
	SIM_STORAGE,
	SIM_PEER_MEMORY,
	SIM_PEER_SSD,
	SIM_OWN_MEMORY,
	SIM_OWN_SSD,
	SIM_SOURCES,
};

struct sim_result {
	double seconds, before, first, last; /* all; before the first batch; first and last epoch */
	double stall, stall_median;          /* seconds that a node waits: in all, for a batch */
	double bytes[SIM_SOURCES];           /* that batches took from each source, all nodes */
	double storage_bytes;                /* bytes read from storage in all, including copies */
	double kept;                         /* part of the records with a copy at the end */
	double used;                         /* part of the records that training can ever use */
};

/* Returns 0, EINVAL (an impossible cluster or job), or ENOMEM. */
int sim_run(const struct policy *policy, const struct sim_cluster *cluster,
	    const struct sim_job *job, struct sim_result *result);

/* Checks whether a cluster and a job make sense. Returns NULL, or the fault in words. */
const char *sim_complaint(const struct sim_cluster *cluster, const struct sim_job *job);

/* --- presets --------------------------------------------------------------------------------- */

struct sim_preset {
	const char *name;
	const char *summary;
	struct sim_cluster cluster;
	struct sim_job job;
};

/* Returns the table; *n is the number of rows. Static. */
const struct sim_preset *sim_presets(size_t *n);
const struct sim_preset *sim_preset_find(const char *name);

#endif
