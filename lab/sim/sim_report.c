/* SPDX-License-Identifier: OLDAP-2.8 */
/* Prints results, as columns of a table and as JSON. */
#include "sim_report.h"

#include "tool_common.h"
#include "tool_json.h"

#include <inttypes.h>
#include <stdio.h>

static double data_bytes(const struct sim_preset *preset)
{
	return (double)preset->job.records * (double)preset->job.record_bytes;
}

void sim_print_head(const struct sim_preset *preset)
{
	const struct sim_cluster *cluster = &preset->cluster;
	char text[3][TOOL_SIZE_TEXT];

	printf("preset %s, and what the options have changed of it:\n", preset->name);
	printf("%" PRIu32 " nodes; %s, %s and %s of staging buffer, memory and SSD each\n",
	       cluster->nodes, tool_size_text(cluster->room[SIM_STAGING], text[0]),
	       tool_size_text(cluster->room[SIM_MEMORY], text[1]),
	       tool_size_text(cluster->room[SIM_SSD], text[2]));
	printf("%" PRIu64 " records of %s, %s in all; batches of %" PRIu32 ", %" PRIu32
	       " epochs\n\n",
	       preset->job.records, tool_size_text(preset->job.record_bytes, text[0]),
	       tool_size_text((uint64_t)data_bytes(preset), text[1]), preset->job.batch,
	       preset->job.epochs);
	printf("%-15s %12s %8s %12s %12s %12s %8s %7s %7s\n", "policy", "seconds", "x bound",
	       "1st epoch", "last epoch", "median stall", "storage", "kept", "used");
}

void sim_print_result(const struct policy *policy, const struct sim_preset *preset,
		      const struct sim_result *result, double bound)
{
	printf("%-15s %12.2f %8.4f %12.2f %12.2f %12.6f %7.2fx %6.1f%% %6.1f%%\n", policy->name,
	       result->seconds, result->seconds / bound, result->before + result->first,
	       result->last, result->stall_median, result->storage_bytes / data_bytes(preset),
	       100 * result->kept, 100 * result->used);
}

void sim_print_list(void)
{
	size_t n;
	const struct sim_preset *presets = sim_presets(&n);
	const struct policy *policies;

	printf("presets:\n");
	for (size_t i = 0; i < n; i++)
		printf("  %-15s %s\n", presets[i].name, presets[i].summary);
	policies = policy_table(&n);
	printf("policies:\n");
	for (size_t i = 0; i < n; i++)
		printf("  %-15s %s\n", policies[i].name, policies[i].summary);
}

static json_t *json_curve(const struct sim_curve *curve)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < curve->n; i++)
		json_array_append_new(list, json_pack("{sf, sf}", "nodes", curve->at[i], "rate",
						      curve->value[i]));
	return list;
}

static json_t *json_cluster(const struct sim_cluster *cluster)
{
	json_t *json =
		json_pack("{so, so, so, so, so, so, so}", "nodes", tool_json_number(cluster->nodes),
			  "staging", tool_json_number(cluster->room[SIM_STAGING]), "memory",
			  tool_json_number(cluster->room[SIM_MEMORY]), "ssd",
			  tool_json_number(cluster->room[SIM_SSD]), "staging_streams",
			  tool_json_number(cluster->streams[SIM_STAGING]), "memory_streams",
			  tool_json_number(cluster->streams[SIM_MEMORY]), "ssd_streams",
			  tool_json_number(cluster->streams[SIM_SSD]));
	json_t *rates = json_pack(
		"{sf, sf, sf, sf, sf, sf, sf, sf, so, sf, sf, sf, sf}", "compute", cluster->compute,
		"preprocess", cluster->preprocess, "staging_rate", cluster->staging_rate,
		"memory_rate", cluster->memory_rate, "ssd_read", cluster->ssd_read, "ssd_write",
		cluster->ssd_write, "network", cluster->network, "network_latency",
		cluster->network_latency, "storage", json_curve(&cluster->storage), "storage_gain",
		cluster->storage_gain, "storage_node", cluster->storage_node, "storage_total",
		cluster->storage_total, "storage_latency", cluster->storage_latency);

	json_object_update_missing(json, rates);
	json_decref(rates);
	return json;
}

json_t *sim_json_head(const struct sim_preset *preset)
{
	const struct sim_job *job = &preset->job;
	json_t *json_job =
		json_pack("{so, so, sf, so, so, so}", "records", tool_json_number(job->records),
			  "record_bytes", tool_json_number(job->record_bytes), "spread",
			  job->spread, "batch", tool_json_number(job->batch), "epochs",
			  tool_json_number(job->epochs), "seed", tool_json_number(job->seed));

	return json_pack("{ss, ss, so, so, s[]}", "schema", "lmdbio-sim/1", "preset", preset->name,
			 "cluster", json_cluster(&preset->cluster), "job", json_job, "policies");
}

json_t *sim_json_result(const struct policy *policy, const struct sim_preset *preset,
			const struct sim_result *result, double bound)
{
	json_t *bytes = json_pack(
		"{sf, sf, sf, sf, sf}", "storage", result->bytes[SIM_STORAGE], "peer_memory",
		result->bytes[SIM_PEER_MEMORY], "peer_ssd", result->bytes[SIM_PEER_SSD],
		"own_memory", result->bytes[SIM_OWN_MEMORY], "own_ssd", result->bytes[SIM_OWN_SSD]);

	return json_pack("{ss, sf, sf, sf, sf, sf, sf, sf, so, sf, sf, sf, sf}", "policy",
			 policy->name, "seconds", result->seconds, "over_bound",
			 result->seconds / bound, "before", result->before, "first_epoch",
			 result->first, "last_epoch", result->last, "stall", result->stall,
			 "stall_median", result->stall_median, "bytes_by_source", bytes,
			 "storage_bytes", result->storage_bytes, "storage_over_data",
			 result->storage_bytes / data_bytes(preset), "kept", result->kept, "used",
			 result->used);
}
