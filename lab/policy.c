/* SPDX-License-Identifier: OLDAP-2.8 */
/* Holds the table of published policies. */
#include "policy.h"

#include <string.h>

static const struct policy policies[] = {
	{
		.name = "none",
		.summary = "no I/O: all data in memory; the bound",
		.memory_only = true,
		.ahead = POLICY_AHEAD_ALL,
	},
	{
		.name = "naive",
		.summary = "each record read from storage when it is wanted",
	},
	{
		.name = "double",
		.summary = "double buffering from storage (tf.data, PyTorch's DataLoader)",
		.ahead = 2,
	},
	{
		.name = "deepio-ordered",
		.summary = "DeepIO, ordered: shares in memory, the rest on demand",
		.place = POLICY_SHARE,
		.tiers = POLICY_MEMORY,
		.ahead = POLICY_AHEAD_ALL,
		.filled_first = true,
		.peers = true,
		.late_misses = true,
	},
	{
		.name = "deepio",
		.summary = "DeepIO, opportunistic: only what is in memory is used",
		.place = POLICY_SHARE,
		.tiers = POLICY_MEMORY,
		.ahead = POLICY_AHEAD_ALL,
		.filled_first = true,
		.only_kept = true,
		.peers = true,
	},
	{
		.name = "partition",
		.summary = "static partition: each node reads its own share only",
		.order = POLICY_SHARD,
		.place = POLICY_SHARE,
		.tiers = POLICY_MEMORY,
		.ahead = 2,
	},
	{
		.name = "staging",
		.summary = "parallel staging: each node's share to its SSD, then training on that",
		.order = POLICY_SHARD,
		.place = POLICY_SHARE,
		.tiers = POLICY_SSD,
		.ahead = POLICY_AHEAD_ALL,
		.filled_first = true,
		.only_kept = true,
	},
	{
		.name = "overlap",
		.summary = "staging overlapped with training: what was read is kept on the SSD",
		.place = POLICY_READ,
		.tiers = POLICY_SSD,
		.ahead = POLICY_AHEAD_ALL,
	},
	{
		.name = "nopfs",
		.summary = "NoPFS: each node keeps what it reads most, in memory and on SSD",
		.place = POLICY_FREQUENT,
		.tiers = POLICY_MEMORY | POLICY_SSD,
		.ahead = POLICY_AHEAD_ALL,
		.peers = true,
		.fills_itself = true,
	},
	{
		.name = "plan",
		.summary = "lmdbio's plan alone: one for all nodes, storage read once",
		.place = POLICY_PLANNED,
		.tiers = POLICY_MEMORY | POLICY_SSD,
		.ahead = POLICY_AHEAD_ALL,
		.peers = true,
		.once = true,
	},
	{
		.name = "lmdbio",
		.summary = "lmdbio: the same, with requests to all sources side by side",
		.place = POLICY_PLANNED,
		.tiers = POLICY_MEMORY | POLICY_SSD,
		.ahead = POLICY_AHEAD_ALL,
		.peers = true,
		.once = true,
		.side_by_side = true,
	},
};

const struct policy *policy_table(size_t *n)
{
	*n = sizeof(policies) / sizeof(*policies);
	return policies;
}

const struct policy *policy_find(const char *name)
{
	for (size_t i = 0; i < sizeof(policies) / sizeof(*policies); i++)
		if (!strcmp(policies[i].name, name))
			return &policies[i];
	return NULL;
}
