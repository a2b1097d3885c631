/* SPDX-License-Identifier: OLDAP-2.8 */
/* Holds the published numbers of clusters and jobs.
 *
 * Scenarios 1 to 4 are those of R. Boehringer's thesis (ETH Zurich, 2020), the origin of NoPFS: a
 * data set that fits the memory of a node; that fits a node with its SSD; that fits all nodes
 * together; that fits nowhere. The thesis gives nodes, rates, capacities and data set sizes. It
 * does not give streams, the gain of further streams, and the SSD's write rate. These were chosen
 * so that double buffering and parallel staging match the thesis's table. With them the order of
 * the policies matches the thesis's in all four scenarios. Records are larger than the thesis's,
 * which changes no ratio, but shortens a simulation.
 */
#include "sim.h"

#include <string.h>

#define MB 1e6
#define GB 1000000000ull

#define THESIS_CLUSTER                                                                             \
	{                                                                                          \
		.nodes = 4, .room = {1 * GB, 50 * GB, 100 * GB}, .streams = {3, 2, 2},             \
		.compute = 100 * MB, .preprocess = 200 * MB, .staging_rate = 50000 * MB,           \
		.memory_rate = 50000 * MB, .ssd_read = 86 * MB, .ssd_write = 86 * MB,              \
		.network = 10000 * MB,                                                             \
		.storage = {4, {1, 2, 4, 8}, {66 * MB, 86 * MB, 129 * MB, 146 * MB}},              \
		.storage_gain = 0.8, .storage_node = 2000 * MB,                                    \
	}

static const struct sim_preset presets[] = {
	{
		.name = "scenario1",
		.summary = "270 MB on 4 nodes: fits the memory of each",
		.cluster = THESIS_CLUSTER,
		.job = {.records = 50000,
			.record_bytes = 5400,
			.spread = 0.2,
			.batch = 128,
			.epochs = 10,
			.seed = 42},
	},
	{
		.name = "scenario2",
		.summary = "150 GB on 4 nodes: fits memory and SSD of each",
		.cluster = THESIS_CLUSTER,
		.job = {.records = 100000,
			.record_bytes = 1500000,
			.spread = 0.2,
			.batch = 128,
			.epochs = 10,
			.seed = 42},
	},
	{
		.name = "scenario3",
		.summary = "600 GB on 4 nodes: fits memory and SSD of all together",
		.cluster = THESIS_CLUSTER,
		.job = {.records = 200000,
			.record_bytes = 3000000,
			.spread = 0.2,
			.batch = 128,
			.epochs = 5,
			.seed = 42},
	},
	{
		.name = "scenario4",
		.summary = "1.2 TB on 4 nodes: fits nowhere",
		.cluster = THESIS_CLUSTER,
		.job = {.records = 300000,
			.record_bytes = 4000000,
			.spread = 0.2,
			.batch = 128,
			.epochs = 5,
			.seed = 42},
	},
};

const struct sim_preset *sim_presets(size_t *n)
{
	*n = sizeof(presets) / sizeof(*presets);
	return presets;
}

const struct sim_preset *sim_preset_find(const char *name)
{
	for (size_t i = 0; i < sizeof(presets) / sizeof(*presets); i++)
		if (!strcmp(presets[i].name, name))
			return &presets[i];
	return NULL;
}
