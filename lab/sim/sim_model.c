/* SPDX-License-Identifier: OLDAP-2.8 */
/* Computes how long a cluster takes for its requests. */
#include "sim_private.h"

#include <math.h>

static double larger(double a, double b)
{
	return a > b ? a : b;
}

double sim_curve_at(const struct sim_curve *curve, double at)
{
	unsigned i = 0;

	while (i < curve->n && curve->at[i] < at)
		i++;
	if (!i)
		return curve->value[0];
	if (i == curve->n)
		return curve->value[i - 1];
	return curve->value[i - 1] + (curve->value[i] - curve->value[i - 1]) *
					     (at - curve->at[i - 1]) /
					     (curve->at[i] - curve->at[i - 1]);
}

/* Returns the rate of storage for each of `nodes` nodes that read with `streams` streams each. */
static double storage_rate(const struct sim_cluster *cluster, double nodes, unsigned streams)
{
	double rate = sim_curve_at(&cluster->storage, nodes) / nodes *
		      pow(streams, cluster->storage_gain);

	if (cluster->storage_node && rate > cluster->storage_node)
		rate = cluster->storage_node;
	if (cluster->storage_total && rate * nodes > cluster->storage_total)
		rate = cluster->storage_total / nodes;
	return rate;
}

double sim_storage_rate(const struct sim_cluster *cluster, unsigned streams)
{
	return storage_rate(cluster, cluster->nodes, streams);
}

/* A stream gets its answers one after the other. While one stream waits, the others' bytes are in
 * flight. The bound is either the waiting, as if no other stream read, or the rate of all streams
 * together (the bounds of a closed network, Denning and Buzen 1978). */
static double storage_seconds(const struct sim_cluster *cluster, unsigned streams, double reads,
			      double bytes)
{
	double together = bytes * streams / sim_storage_rate(cluster, streams);
	double alone = bytes / storage_rate(cluster, 1, 1);

	return larger(together,
		      reads * cluster->storage_latency + (alone < together ? alone : together));
}

/* Returns the rate of one of several streams that share a device, at most the network's. */
static double stream_rate(double all, uint32_t streams, double network)
{
	double rate = all / streams;

	return network && network < rate ? network : rate;
}

double sim_fetch(const struct sim_cluster *cluster, enum sim_source source, unsigned streams,
		 double reads, double bytes)
{
	const uint32_t *threads = cluster->streams;

	switch (source) {
	case SIM_STORAGE:
		return storage_seconds(cluster, streams, reads, bytes);
	case SIM_PEER_MEMORY:
		return reads * cluster->network_latency + bytes / stream_rate(cluster->memory_rate,
									      threads[SIM_MEMORY],
									      cluster->network);
	case SIM_PEER_SSD:
		return reads * cluster->network_latency +
		       bytes / stream_rate(cluster->ssd_read, threads[SIM_SSD], cluster->network);
	case SIM_OWN_MEMORY:
		return bytes / stream_rate(cluster->memory_rate, threads[SIM_MEMORY], 0);
	default:
		return bytes / stream_rate(cluster->ssd_read, threads[SIM_SSD], 0);
	}
}

/* Returns a stream's seconds to preprocess and to write into the staging buffer, both at the same
 * time. */
static double prepare(const struct sim_cluster *cluster, double bytes)
{
	return larger(bytes / cluster->preprocess,
		      bytes * cluster->streams[SIM_STAGING] / cluster->staging_rate);
}

/* Returns the least seconds that the node's devices need, for itself and for its peers. */
static double devices(const struct sim_cluster *cluster, const struct sim_load *load)
{
	double in = load->received + load->bytes[SIM_PEER_MEMORY] + load->bytes[SIM_PEER_SSD];
	double out = load->pushed + load->sent[0] + load->sent[1];
	double memory = load->bytes[SIM_OWN_MEMORY] + load->sent[0] + load->written[0];
	double ssd = (load->bytes[SIM_OWN_SSD] + load->sent[1]) / cluster->ssd_read +
		     load->written[1] / cluster->ssd_write;

	return larger(larger(in, out) / cluster->network,
		      larger(memory / cluster->memory_rate, ssd));
}

static double all_bytes(const struct sim_load *load)
{
	double sum = 0;

	for (unsigned i = 0; i < SIM_SOURCES; i++)
		sum += load->bytes[i];
	return sum;
}

double sim_ahead(const struct sim *sim, const struct sim_node *node)
{
	const struct sim_cluster *cluster = sim->cluster;
	const struct sim_load *load = &node->load;
	unsigned own = cluster->streams[SIM_STAGING], reading;
	double reads = (double)(load->reads[SIM_STORAGE] - load->late_reads);
	double bytes = load->bytes[SIM_STORAGE] - load->late_bytes;
	double others = prepare(cluster, all_bytes(load) - load->late_bytes), storage, seconds;

	if (sim->policy->memory_only || !sim->policy->ahead)
		return 0;
	for (unsigned i = SIM_PEER_MEMORY; i < SIM_SOURCES; i++)
		others += sim_fetch(cluster, i, 1, (double)load->reads[i], load->bytes[i]);
	reading = own + sim_fill_streams(sim, node);
	/* A policy without streams for filling uses them to read ahead. */
	if (sim->policy->once)
		reading = own + cluster->streams[SIM_MEMORY] + cluster->streams[SIM_SSD];
	storage = sim_fetch(cluster, SIM_STORAGE, reading, reads, bytes) /
		  (sim->policy->once ? reading : own);
	seconds =
		sim->policy->side_by_side ? larger(storage, others / own) : storage + others / own;
	return larger(seconds, devices(cluster, load));
}

double sim_late(const struct sim *sim, const struct sim_node *node)
{
	const struct sim_load *load = &node->load;
	double reads = (double)load->late_reads, bytes = load->late_bytes;

	if (sim->policy->memory_only)
		return 0;
	if (!sim->policy->ahead) {
		reads = (double)load->reads[SIM_STORAGE];
		bytes = load->bytes[SIM_STORAGE];
	}
	return bytes > 0 ? sim_fetch(sim->cluster, SIM_STORAGE, 1, reads, bytes) +
				   prepare(sim->cluster, bytes)
			 : 0;
}
