/* SPDX-License-Identifier: OLDAP-2.8 */
/* Computes when a copy that is filled beside the training arrives.
 *
 * Copies arrive in the order of their first use, each from storage. There is no list. Each node and
 * tier has the bytes first used in each of SIM_STEPS steps of the run. Records that the node itself
 * read from storage before their copies arrived count as there too. Records from a peer do not, and
 * are read from storage all the same, as in NoPFS.
 */
#include "sim_private.h"

#include <errno.h>
#include <stdlib.h>

enum { USE_COPIES = 300 };

static unsigned step_of(const struct sim *sim, uint64_t time)
{
	uint64_t end = sim->batches * sim->job->batch * sim->job->epochs;

	return time < end ? (unsigned)((double)time / (double)end * SIM_STEPS) : SIM_STEPS - 1;
}

/* Returns when a node reads a record for the first time. */
static uint64_t first_use(const struct sim *sim, uint32_t node, uint64_t record)
{
	uint16_t room[PLACEMENT_READS_MOST];
	const uint16_t *readers = placement_readers(sim->plan, record, room);
	uint32_t e = 0;

	while (e < sim->job->epochs && readers[e] != node)
		e++;
	return e == sim->job->epochs ? PLACEMENT_NEVER
				     : placement_next(sim->plan, record, PLACEMENT_NOBODY,
						      placement_time(sim->plan, e, 0));
}

int sim_fill_plan(struct sim *sim)
{
	struct placement_holder *holders = malloc(sim->cluster->nodes * sizeof(*holders));

	sim->fill = calloc(sim->cluster->nodes, sizeof(*sim->fill));
	if (!holders || !sim->fill) {
		free(holders);
		return ENOMEM;
	}
	for (uint64_t record = 0; record < sim->job->records; record++) {
		unsigned n = placement_holders(sim->plan, record, holders, sim->cluster->nodes);

		for (unsigned i = 0; i < n; i++) {
			unsigned step = step_of(sim, first_use(sim, holders[i].node, record));

			sim->fill[holders[i].node][holders[i].tier][step].all +=
				(float)sim_record_bytes(sim->job, record);
		}
	}
	free(holders);
	return 0;
}

/* Returns whether a record's copy is there. The model knows how much of a step's records is there,
 * not which. */
bool sim_filled(const struct sim *sim, uint32_t node, unsigned tier, uint64_t record, uint64_t time)
{
	const struct sim_filling *filling = &sim->nodes[node].filling[tier];
	uint64_t first = first_use(sim, node, record);
	unsigned step = step_of(sim, first);
	const struct sim_copies *copies = &sim->fill[node][tier][step];
	double there = step == filling->step ? filling->bytes : 0;
	double part = (double)permute_draw(1 << 20, node, record, USE_COPIES) / (1 << 20);

	if (first < time)
		there += (double)copies->read;
	return step < filling->step || part * (double)copies->all < there;
}

void sim_fill_read(struct sim *sim, uint32_t node, unsigned tier, uint64_t record, double bytes)
{
	sim->fill[node][tier][step_of(sim, first_use(sim, node, record))].read += (float)bytes;
}

unsigned sim_fill_streams(const struct sim *sim, const struct sim_node *node)
{
	unsigned streams = 0;

	for (unsigned tier = 0; sim->fill && tier < SIM_TIERS; tier++)
		if (node->filling[tier].step < SIM_STEPS)
			streams += sim->cluster->streams[SIM_MEMORY + tier];
	return streams;
}

/* Returns the rate that a tier's own streams get from storage while `reading` streams read. */
static double fill_rate(const struct sim *sim, unsigned tier, unsigned reading)
{
	const struct sim_cluster *cluster = sim->cluster;
	double rate =
		sim_storage_rate(cluster, reading) / reading * cluster->streams[SIM_MEMORY + tier];

	return tier && rate > cluster->ssd_write ? cluster->ssd_write : rate;
}

/* Fills up to `most` bytes, step by step. Returns how many. */
static double fill_steps(struct sim_filling *filling, const struct sim_copies *copies, double most)
{
	double left = most;

	while (filling->step < SIM_STEPS) {
		const struct sim_copies *now = &copies[filling->step];
		double needs = (double)now->all - (double)now->read - filling->bytes;

		if (needs > left) {
			filling->bytes += left;
			return most;
		}
		left -= needs > 0 ? needs : 0;
		*filling = (struct sim_filling){.step = filling->step + 1};
	}
	return most - left;
}

/* Returns the bytes that a node's filling streams get from storage in `seconds`: their part while
 * others read, or the rate that readers leave, as a stream waits for one record after the other. */
static double fill_bytes(const struct sim *sim, const struct sim_node *node, double seconds)
{
	const struct sim_cluster *cluster = sim->cluster;
	unsigned filling = sim_fill_streams(sim, node);
	unsigned reading = cluster->streams[SIM_STAGING] + filling;
	double rate = sim_storage_rate(cluster, reading), size = (double)sim->job->record_bytes;
	double part = rate * seconds * filling / reading;
	double left = rate * seconds - node->load.bytes[SIM_STORAGE];
	double one = cluster->storage_latency + size / sim_curve_at(&cluster->storage, 1);
	double alone = seconds * filling * size / one;

	left = left < alone ? left : alone;
	return left > part ? left : part;
}

void sim_fill_on(struct sim *sim, double seconds)
{
	const struct sim_cluster *cluster = sim->cluster;

	for (uint32_t i = 0; sim->fill && i < cluster->nodes; i++) {
		struct sim_node *node = &sim->nodes[i];
		unsigned filling = sim_fill_streams(sim, node);
		double bytes = filling ? fill_bytes(sim, node, seconds) / filling : 0;

		for (unsigned tier = 0; tier < SIM_TIERS; tier++) {
			double most = bytes * cluster->streams[SIM_MEMORY + tier];

			if (tier && most > cluster->ssd_write * seconds)
				most = cluster->ssd_write * seconds;
			sim->storage_bytes +=
				fill_steps(&node->filling[tier], sim->fill[i][tier], most);
		}
	}
}

double sim_fill_first(struct sim *sim)
{
	double longest = 0;

	for (uint32_t i = 0; i < sim->cluster->nodes; i++) {
		const struct sim_share *share = &sim->shares[i];
		uint64_t record = share->first;

		for (unsigned tier = 0; tier < SIM_TIERS; tier++) {
			double bytes = 0, seconds;

			for (uint64_t n = share->kept[tier]; n; n--)
				bytes += sim_record_bytes(sim->job, record++);
			if (!bytes)
				continue;
			seconds = bytes /
				  fill_rate(sim, tier, sim->cluster->streams[SIM_MEMORY + tier]);
			longest = seconds > longest ? seconds : longest;
			sim->storage_bytes += bytes;
		}
	}
	return longest;
}
