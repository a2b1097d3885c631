/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the steps of a simulation one after another. */
#include "loader/loader_ready.h"
#include "sim_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { USE_SHARE = 200, USE_KEPT, BUFFERS_MOST = 4096 };

/* The clock of a run, and its results so far. */
struct steps {
	double now;
	double ends[BUFFERS_MOST]; /* of the last batches, by number */
	unsigned buffers;          /* batches in reading, waiting or in use */
	double *stalls;            /* [batch of the run] */
	uint64_t done;             /* batches */
};

static bool curve_makes_sense(const struct sim_curve *curve)
{
	if (!curve->n || curve->n > SIM_CURVE_POINTS)
		return false;
	for (unsigned i = 0; i < curve->n; i++)
		if (curve->value[i] <= 0 || (i && curve->at[i] <= curve->at[i - 1]))
			return false;
	return true;
}

const char *sim_complaint(const struct sim_cluster *cluster, const struct sim_job *job)
{
	if (!cluster->nodes || cluster->nodes > SIM_NODES_MOST)
		return "1 to 30000 nodes can be simulated";
	if (!job->records || !job->record_bytes || !job->epochs || !job->batch)
		return "a job has records, bytes in them, batches and epochs, 1 or more of each";
	if (job->epochs > PLACEMENT_READS_MOST)
		return "4096 epochs at most can be planned";
	if (job->batch < cluster->nodes)
		return "a global batch has a record for every node";
	if (job->records < job->batch)
		return "a data set has a batch of records";
	if (job->spread < 0 || job->spread >= 1)
		return "sizes spread by 0 to less than 1 of themselves";
	for (unsigned i = 0; i < SIM_STREAMS; i++)
		if (!cluster->streams[i])
			return "each tier has a stream";
	if (cluster->compute <= 0 || cluster->preprocess <= 0 || cluster->staging_rate <= 0 ||
	    cluster->memory_rate <= 0 || cluster->ssd_read <= 0 || cluster->ssd_write <= 0 ||
	    cluster->network <= 0)
		return "rates are above 0";
	if (!curve_makes_sense(&cluster->storage) || cluster->storage_gain < 0 ||
	    cluster->storage_gain > 1)
		return "storage has rates above 0, for ever more nodes, and a gain from 0 to 1";
	return NULL;
}

static void shares_cut(struct sim *sim)
{
	uint32_t nodes = sim->cluster->nodes;

	for (uint32_t i = 0; i < nodes; i++) {
		struct sim_share *share = &sim->shares[i];

		share->first = sim->job->records * i / nodes;
		share->records = sim->job->records * (i + 1) / nodes - share->first;
	}
}

static int sim_open(struct sim *sim)
{
	struct order_spec spec = {
		.seed = sim->job->seed,
		.records = sim->job->records,
		.batch = sim->job->batch,
		.policy = ORDER_SHUFFLE,
		.tail = ORDER_DROP,
	};
	int rc = order_init(&sim->order, &spec);

	if (rc)
		return rc;
	sim->batches = order_batches(&sim->order);
	sim->nodes = calloc(sim->cluster->nodes, sizeof(*sim->nodes));
	sim->shares = calloc(sim->cluster->nodes, sizeof(*sim->shares));
	sim->seen = calloc(ready_words(sim->job->records), sizeof(*sim->seen));
	if (!sim->nodes || !sim->shares || !sim->seen)
		return ENOMEM;
	shares_cut(sim);
	rc = sim_place(sim);
	if (!rc && sim->policy->fills_itself)
		rc = sim_fill_plan(sim);
	return rc ? ENOMEM : 0;
}

static void sim_close(struct sim *sim)
{
	placement_free(sim->plan);
	free(sim->nodes);
	free(sim->shares);
	free(sim->seen);
	free(sim->fill);
}

static void epoch_begin(struct sim *sim, uint32_t epoch)
{
	order_begin(&sim->epoch, &sim->order, epoch);
	permute_init(&sim->kept_order, sim->kept ? sim->kept : 1, sim->job->seed, epoch, USE_KEPT);
	for (uint32_t i = 0; i < sim->cluster->nodes; i++) {
		struct sim_share *share = &sim->shares[i];
		uint64_t size = share->records;

		if (sim->policy->only_kept && share->kept[0] + share->kept[1])
			size = share->kept[0] + share->kept[1];
		permute_init(&share->order, size ? size : 1, sim->job->seed, epoch, USE_SHARE + i);
	}
}

/* Returns the n-th record of all that nodes keep. */
static uint64_t kept_record(const struct sim *sim, uint64_t n)
{
	uint32_t low = 0, high = sim->cluster->nodes - 1;

	while (low < high) {
		uint32_t middle = low + (high - low + 1) / 2;

		if (sim->shares[middle].kept_before <= n)
			low = middle;
		else
			high = middle - 1;
	}
	return sim->shares[low].first + n - sim->shares[low].kept_before;
}

/* Returns the i-th record of a node's part of a batch. */
static uint64_t record_of(const struct sim *sim, uint32_t node, uint64_t batch, uint32_t i)
{
	uint64_t position = order_slot(&sim->order, sim->cluster->nodes, node, batch, i);
	const struct sim_share *share = &sim->shares[node];
	uint64_t n;

	if (sim->policy->order == POLICY_SHARD) {
		n = batch * order_share(&sim->order, sim->cluster->nodes, node) + i;
		return share->first + permute_apply(&share->order, 0, n % share->order.size);
	}
	if (sim->policy->only_kept && sim->kept)
		return kept_record(sim, permute_apply(&sim->kept_order, 0, position % sim->kept));
	return order_record(&sim->epoch, position);
}

static double compute_seconds(const struct sim *sim, const struct sim_load *load)
{
	double bytes = 0;

	for (unsigned i = 0; i < SIM_SOURCES; i++)
		bytes += load->bytes[i];
	return bytes / sim->cluster->compute;
}

/* All nodes take one batch each; the next batch begins when the slowest node is done. */
static void step(struct sim *sim, struct steps *steps, struct sim_result *result)
{
	uint64_t number = steps->done++;
	double end = steps->now, stall = 0, free_at = 0;

	if (number >= steps->buffers)
		free_at = steps->ends[(number - steps->buffers) % BUFFERS_MOST];
	for (uint32_t i = 0; i < sim->cluster->nodes; i++) {
		struct sim_node *node = &sim->nodes[i];
		double late = sim_late(sim, node), start, done;

		node->ready =
			(node->ready > free_at ? node->ready : free_at) + sim_ahead(sim, node);
		start = node->ready > steps->now ? node->ready : steps->now;
		done = start + late + compute_seconds(sim, &node->load);
		stall += start - steps->now + late;
		end = done > end ? done : end;
		for (unsigned s = 0; s < SIM_SOURCES; s++)
			result->bytes[s] += node->load.bytes[s];
	}
	steps->stalls[number] = stall / sim->cluster->nodes;
	result->stall += steps->stalls[number];
	sim_fill_on(sim, end - steps->now);
	steps->now = end;
	steps->ends[number % BUFFERS_MOST] = end;
}

static void epoch_run(struct sim *sim, struct steps *steps, struct sim_result *result,
		      uint32_t epoch)
{
	uint32_t nodes = sim->cluster->nodes;

	epoch_begin(sim, epoch);
	for (uint64_t batch = 0; batch < sim->batches; batch++) {
		uint64_t begin = (epoch * sim->batches + batch) * sim->job->batch;

		for (uint32_t i = 0; i < nodes; i++)
			sim->nodes[i].load = (struct sim_load){0};
		for (uint32_t i = 0; i < nodes; i++)
			for (uint32_t n = 0; n < order_share(&sim->order, nodes, i); n++)
				sim_read(sim, i, record_of(sim, i, batch, n), epoch, begin);
		step(sim, steps, result);
	}
}

static int compare_doubles(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return left < right ? -1 : left > right;
}

static double kept_part(const struct sim *sim)
{
	uint64_t kept = 0;

	switch (sim->policy->place) {
	case POLICY_SHARE:
		return (double)sim->kept / (double)sim->job->records;
	case POLICY_READ:
		return (double)ready_count(sim->seen, sim->job->records) /
		       (double)sim->job->records;
	case POLICY_FREQUENT:
	case POLICY_PLANNED:
		for (uint64_t record = 0; record < sim->job->records; record++)
			kept += placement_holders(sim->plan, record, NULL, 0) > 0;
		return (double)kept / (double)sim->job->records;
	default:
		return sim->policy->memory_only;
	}
}

static unsigned buffers_of(const struct sim *sim)
{
	double batch = (double)sim->job->record_bytes * sim->job->batch / sim->cluster->nodes;
	double buffers = (double)sim->cluster->room[SIM_STAGING] / batch;

	if (buffers > sim->policy->ahead)
		buffers = sim->policy->ahead;
	return buffers < 1 ? 1 : buffers > BUFFERS_MOST ? BUFFERS_MOST : (unsigned)buffers;
}

int sim_run(const struct policy *policy, const struct sim_cluster *cluster,
	    const struct sim_job *job, struct sim_result *result)
{
	struct sim sim = {.policy = policy, .cluster = cluster, .job = job};
	struct steps *steps = NULL;
	int rc;

	*result = (struct sim_result){0};
	if (sim_complaint(cluster, job))
		return EINVAL;
	rc = sim_open(&sim);
	if (rc)
		goto end;
	rc = ENOMEM;
	steps = calloc(1, sizeof(*steps));
	if (!steps)
		goto end;
	steps->stalls = malloc(sim.batches * job->epochs * sizeof(*steps->stalls));
	if (!steps->stalls)
		goto end;
	steps->buffers = buffers_of(&sim);
	if (policy->filled_first)
		result->before = sim_fill_first(&sim);
	for (uint32_t epoch = 0; epoch < job->epochs; epoch++) {
		double begin = steps->now;

		epoch_run(&sim, steps, result, epoch);
		result->last = steps->now - begin;
		if (!epoch)
			result->first = result->last;
	}
	result->seconds = result->before + steps->now;
	qsort(steps->stalls, steps->done, sizeof(*steps->stalls), compare_doubles);
	result->stall_median = steps->stalls[steps->done / 2];
	result->storage_bytes = sim.storage_bytes;
	result->kept = kept_part(&sim);
	result->used = policy->only_kept ? result->kept : 1;
	rc = 0;
end:
	if (steps)
		free(steps->stalls);
	free(steps);
	sim_close(&sim);
	return rc;
}
