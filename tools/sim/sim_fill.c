/* What only this file knows: when a copy that is brought beside the training has come.
 *
 * Copies come in the order of their first use. Instead of a list, each node and tier has a curve:
 * the bytes whose first use lies before each of SIM_STEPS steps of the run. What the node has used
 * itself is there too: a record that its own thread has not brought yet it brings when it is read.
 */
#include "sim_private.h"

#include <errno.h>
#include <stdlib.h>

static unsigned step_of(const struct sim *sim, uint64_t time)
{
	uint64_t end = sim->batches * sim->job->batch * sim->job->epochs;

	return time < end ? (unsigned)((double)time / (double)end * SIM_STEPS) : SIM_STEPS - 1;
}

/* When a node reads a record for the first time. */
static uint64_t first_use(const struct sim *sim, uint32_t node, uint64_t record)
{
	uint16_t room[PLAN_READS_MOST];
	const uint16_t *readers = plan_readers(sim->plan, record, room);
	uint32_t e = 0;

	while (e < sim->job->epochs && readers[e] != node)
		e++;
	return e == sim->job->epochs
		       ? PLAN_NEVER
		       : plan_next(sim->plan, record, PLAN_NOBODY, plan_time(sim->plan, e, 0));
}

int sim_fill_plan(struct sim *sim)
{
	struct plan_holder *holders = malloc(sim->cluster->nodes * sizeof(*holders));

	sim->fill = calloc(sim->cluster->nodes, sizeof(*sim->fill));
	if (!holders || !sim->fill) {
		free(holders);
		return ENOMEM;
	}
	for (uint64_t record = 0; record < sim->job->records; record++) {
		unsigned n = plan_holders(sim->plan, record, holders, sim->cluster->nodes);

		for (unsigned i = 0; i < n; i++) {
			uint64_t first = first_use(sim, holders[i].node, record);

			sim->fill[holders[i].node][holders[i].tier][step_of(sim, first) + 1] +=
				sim_record_bytes(sim->job, record);
		}
	}
	for (uint32_t node = 0; node < sim->cluster->nodes; node++)
		for (unsigned tier = 0; tier < SIM_TIERS; tier++)
			for (unsigned step = 0; step < SIM_STEPS; step++)
				sim->fill[node][tier][step + 1] += sim->fill[node][tier][step];
	free(holders);
	return 0;
}

bool sim_filled(const struct sim *sim, uint32_t node, unsigned tier, uint64_t record, uint64_t time)
{
	uint64_t first;

	if (sim->nodes[node].filled[tier] >= sim->fill[node][tier][SIM_STEPS])
		return true;
	first = first_use(sim, node, record);
	return first < time ||
	       sim->nodes[node].filled[tier] >= sim->fill[node][tier][step_of(sim, first) + 1];
}

static bool is_filling(const struct sim *sim, const struct sim_node *node, uint32_t number,
		       unsigned tier)
{
	return node->filled[tier] < sim->fill[number][tier][SIM_STEPS];
}

unsigned sim_fill_streams(const struct sim *sim, const struct sim_node *node, uint32_t number)
{
	unsigned streams = 0;

	for (unsigned tier = 0; sim->fill && tier < SIM_TIERS; tier++)
		if (is_filling(sim, node, number, tier))
			streams += sim->cluster->streams[SIM_MEMORY + tier];
	return streams;
}

/* What a tier's own streams get of storage while `reading` read. */
static double fill_rate(const struct sim *sim, unsigned tier, unsigned reading)
{
	const struct sim_cluster *cluster = sim->cluster;
	double rate =
		sim_storage_rate(cluster, reading) / reading * cluster->streams[SIM_MEMORY + tier];

	return tier && rate > cluster->ssd_write ? cluster->ssd_write : rate;
}

void sim_fill_on(struct sim *sim, double seconds, uint64_t time)
{
	for (uint32_t i = 0; sim->fill && i < sim->cluster->nodes; i++) {
		struct sim_node *node = &sim->nodes[i];
		unsigned reading =
			sim->cluster->streams[SIM_STAGING] + sim_fill_streams(sim, node, i);

		for (unsigned tier = 0; tier < SIM_TIERS; tier++) {
			double left = sim->fill[i][tier][SIM_STEPS] - node->filled[tier], more;

			if (left <= 0)
				continue;
			more = fill_rate(sim, tier, reading) * seconds;
			more = more < left ? more : left;
			node->filled[tier] += more;
			sim->storage_bytes += more;
			/* What was used in the meantime was brought by the reader. */
			if (node->filled[tier] < sim->fill[i][tier][step_of(sim, time)])
				node->filled[tier] = sim->fill[i][tier][step_of(sim, time)];
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
