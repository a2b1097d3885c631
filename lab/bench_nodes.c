/* SPDX-License-Identifier: OLDAP-2.8 */
/* Measures a policy with processes as nodes. The loader and its reads are real; sleeping replaces
 * the computing.
 *
 * Each process is a node with its own loader, arena and budget. After each batch all wait for the
 * slowest, as a job does that adds up its gradients.
 */
#include "bench_nodes.h"

#include "loader/loader_ready.h"
#include "origin/origin.h"
#include "util/clock.h"
#include "util/stats.h"

#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILL_BATCH = 8 /* records that a node reads as one batch while it fills */ };

static const struct argp_option argp_options[] = {
	{"policy", 'p', "NAME", 0, "a policy of lmdbio-sim(1)", 0},
	{"nodes", 'n', "N", 0, "processes that are a node each (1)", 0},
	{"batch", 'b', "N", 0, "records in a global batch (64)", 0},
	{"epochs", 'e', "N", 0, "epochs (3)", 0},
	{"threads", 't', "N", 0, "reads in flight on a node (4)", 0},
	{"seed", 's', "N", 0, "of the order (1)", 0},
	{"memory", 'm', "MIB", 0, "that a node keeps records in (64)", 0},
	{"ssd", 'd', "MIB", 0, "the same, of its second tier (0)", 0},
	{"buffer", 'f', "MIB", 0, "that a node reads ahead at most (32)", 0},
	{"compute", 'c', "MIB", 0, "that a node trains on in a second (100)", 0},
	{0},
};

static uint64_t number_of(const char *text, uint64_t most, struct argp_state *state)
{
	char *end;
	unsigned long long number = strtoull(text, &end, 10);

	if (end == text || *end || number > most)
		argp_error(state, "'%s' is not a number up to %llu", text,
			   (unsigned long long)most);
	return number;
}

static error_t option_parse(int key, char *argument, struct argp_state *state)
{
	struct nodes_job *job = state->input;

	switch (key) {
	case 'p':
		job->policy = policy_find(argument);
		if (!job->policy)
			argp_error(state, "no policy '%s'", argument);
		return 0;
	case 'n':
		job->nodes = (uint32_t)number_of(argument, NODES_MOST, state);
		return 0;
	case 'b':
		job->batch = (uint32_t)number_of(argument, 1 << 20, state);
		return 0;
	case 'e':
		job->epochs = (uint32_t)number_of(argument, PLACEMENT_READS_MOST, state);
		return 0;
	case 't':
		job->threads = (uint32_t)number_of(argument, 32, state);
		return 0;
	case 's':
		job->seed = number_of(argument, UINT32_MAX, state);
		return 0;
	case 'm':
		job->room[0] = number_of(argument, 1 << 20, state) << 20;
		return 0;
	case 'd':
		job->room[1] = number_of(argument, 1 << 20, state) << 20;
		return 0;
	case 'f':
		job->buffer = number_of(argument, 1 << 20, state) << 20;
		return 0;
	case 'c':
		job->compute = (double)number_of(argument, 1 << 20, state) * 1048576;
		return 0;
	case ARGP_KEY_ARG:
		if (job->path)
			argp_usage(state);
		job->path = argument;
		return 0;
	case ARGP_KEY_END:
		if (!job->policy || !job->path || !job->nodes || job->batch < job->nodes ||
		    !job->epochs || !job->compute)
			argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = argp_options,
	.parser = option_parse,
	.args_doc = "ENVIRONMENT",
	.doc = "Runs one policy for real, with processes as nodes, and prints one line of JSON.",
};

/* Allocates zeroes that child processes share. */
static void *shared(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static bool area_fill(struct nodes_area *area, const struct nodes_job *job)
{
	size_t words = ready_words(area->records) * sizeof(uint64_t);
	size_t batches = area->records / job->batch * job->epochs;
	pthread_barrierattr_t attributes;

	area->size = (area->unit + 64) * area->records;
	area->claimed = shared(words + 1);
	area->there = shared(words + 1);
	area->at = shared(area->records * sizeof(*area->at) + 1);
	area->stalls = shared(batches * job->nodes * sizeof(*area->stalls) + 1);
	area->bytes = shared(area->size + 1);
	for (uint32_t i = 0; i < job->nodes; i++)
		if (!(area->kept[i] = shared(words + 1)))
			return false;
	if (!area->claimed || !area->there || !area->at || !area->stalls || !area->bytes)
		return false;
	pthread_barrierattr_init(&attributes);
	pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	return !pthread_barrier_init(&area->together, &attributes, job->nodes);
}

static int node_open(struct nodes_tier *tier, struct lmdbio_loader **loader)
{
	const struct nodes_job *job = tier->job;
	struct lmdbio_loader_options options = {
		.size = sizeof(options),
		.seed = job->seed,
		.batch = tier->filling ? job->nodes * FILL_BATCH : job->batch,
		.ranks = job->nodes,
		.rank = tier->node,
		.order = LMDBIO_ORDER_SHUFFLE,
		.tail = tier->filling ? LMDBIO_TAIL_PAD : LMDBIO_TAIL_DROP,
		.memory = job->buffer,
		.threads = job->threads,
	};
	struct loader_place place = {.path = job->path, .flags = MDB_NOLOCK};
	struct loader_hooks hooks = {.prepare = nodes_prepare, .context = tier};

	if (tier->filling || job->policy->order == POLICY_SHARD) {
		options.order = LMDBIO_ORDER_SEQUENTIAL;
		options.shares = job->nodes;
	}
	/* Two batches: at an epoch's end a loader reads the next epoch's beginning ahead. */
	if (tier->filling)
		options.ahead = 2;
	/* The policy reads when a batch is wanted: one batch, and nothing while the other one is
	 * computed. */
	if (job->policy->ahead <= 2 && !tier->filling && !job->policy->memory_only)
		options.ahead = 1;
	if (!job->policy->ahead && !job->policy->memory_only)
		options.threads = 1;
	return loader_open(loader, &place, &options, &hooks);
}

static void node_sleep(double seconds)
{
	struct timespec left = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

static double batch_bytes(const struct lmdbio_batch *batch)
{
	double bytes = 0;

	for (size_t i = 0; i < batch->count; i++)
		bytes += (double)batch->samples[i].data.mv_size;
	return bytes;
}

/* Runs an epoch without computing and without waiting for other nodes, to offer records to the
 * tier. */
static int node_fill(struct nodes_tier *tier)
{
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch;
	int rc;

	tier->filling = true;
	rc = node_open(tier, &loader);
	if (rc)
		return rc;
	rc = loader_epoch(loader, 0);
	while (!rc && !(rc = loader_next(loader, &batch)))
		loader_done(batch);
	loader_close(loader);
	tier->filling = false;
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int node_epoch(struct nodes_tier *tier, struct lmdbio_loader *loader, uint32_t epoch)
{
	struct nodes_area *area = tier->area;
	uint64_t batches = area->records / tier->job->batch;
	double *stalls = area->stalls + (tier->node * tier->job->epochs + epoch) * batches;
	bool late = !tier->job->policy->ahead && !tier->job->policy->memory_only;
	int rc = loader_epoch(loader, epoch);

	for (uint64_t b = 0; b < batches; b++) {
		struct lmdbio_batch *batch = NULL;
		uint64_t began = clock_now();

		if (!rc)
			rc = loader_next(loader, &batch);
		stalls[b] = (double)(clock_now() - began) * 1e-9;
		if (late)
			loader_quiet(loader, true);
		if (batch) {
			node_sleep(batch_bytes(batch) / tier->job->compute);
			loader_done(batch);
		}
		/* A process that has failed comes here too, or the others would wait for ever. */
		pthread_barrier_wait(&area->together);
		if (late)
			loader_quiet(loader, false);
	}
	return rc;
}

static int node_run(struct nodes_tier *tier)
{
	const struct nodes_job *job = tier->job;
	struct nodes_area *area = tier->area;
	bool fills = job->policy->filled_first || job->policy->memory_only;
	struct lmdbio_loader *loader = NULL;
	uint64_t began;
	int rc = 0;

	for (unsigned i = 0; i < NODE_TIERS; i++)
		tier->room[i] = job->room[i];
	pthread_barrier_wait(&area->together);
	began = clock_now();
	if (fills)
		rc = node_fill(tier);
	pthread_barrier_wait(&area->together);
	if (!tier->node)
		area->before = (double)(clock_now() - began) * 1e-9;
	if (!rc)
		rc = node_open(tier, &loader);
	if (!rc && job->policy->fills_itself)
		rc = nodes_fill_begin(tier, loader);
	pthread_barrier_wait(&area->together);
	if (rc || !loader) {
		/* The mark keeps other processes from barriers that this one does not reach. */
		atomic_store(&area->failed, (uint64_t)(rc ? rc : EINVAL));
	}
	pthread_barrier_wait(&area->together);
	if (atomic_load(&area->failed))
		return rc ? rc : EIO;
	for (uint32_t epoch = 0; epoch < job->epochs; epoch++) {
		int failed;

		began = clock_now();
		failed = node_epoch(tier, loader, epoch);
		rc = rc ? rc : failed;
		if (!tier->node)
			area->ends[epoch] = (double)(clock_now() - began) * 1e-9;
	}
	loader_close(loader);
	atomic_fetch_add(&area->storage, stats_get(STATS_STORAGE_BYTES));
	return rc;
}

/* Measures how many records there are and how large, in a process that leaves nothing behind. */
static int measure_data(struct nodes_area *area, const struct nodes_job *job)
{
	struct lmdbio_loader_options options = {.size = sizeof(options), .batch = 1, .ahead = 1};
	struct loader_place place = {.path = job->path, .flags = MDB_NOLOCK};
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch;
	int rc = loader_open(&loader, &place, &options, NULL);

	if (rc)
		return rc;
	area->records = loader_records(loader);
	rc = loader_epoch(loader, 0);
	if (!rc)
		rc = loader_next(loader, &batch);
	if (!rc) {
		area->unit = batch->samples[0].key.mv_size + batch->samples[0].data.mv_size;
		loader_done(batch);
	}
	loader_close(loader);
	return rc;
}

/* Starts the process `number`, or the one that measures the data (number is nodes). */
static pid_t child_start(struct nodes_area *area, const struct nodes_job *job, uint32_t number)
{
	struct nodes_tier tier = {.job = job, .area = area, .node = number};
	char node[32];
	pid_t pid = fork();
	int rc;

	if (pid)
		return pid;
	snprintf(node, sizeof(node), "bench-node-%u", number);
	setenv("LMDBIO_NODE", node, 1);
	rc = number == job->nodes ? measure_data(area, job) : node_run(&tier);
	if (rc)
		fprintf(stderr, "bench_nodes: node %u: %s\n", number,
			rc > 0 ? strerror(rc) : lmdbio_orig_mdb_strerror(rc));
	_exit(rc != 0);
}

static bool child_end(pid_t pid)
{
	int status;

	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       !WEXITSTATUS(status);
}

static int compare_doubles(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return left < right ? -1 : left > right;
}

/* Returns the median over batches of each batch's mean over the nodes. */
static double stall_median(const struct nodes_area *area, const struct nodes_job *job)
{
	size_t batches = area->records / job->batch * job->epochs;
	double *means = calloc(batches + 1, sizeof(*means)), median;

	if (!means)
		return NAN;
	for (uint32_t node = 0; node < job->nodes; node++)
		for (size_t i = 0; i < batches; i++)
			means[i] += area->stalls[node * batches + i] / job->nodes;
	qsort(means, batches, sizeof(*means), compare_doubles);
	median = means[batches / 2];
	free(means);
	return median;
}

static void print_line(const struct nodes_area *area, const struct nodes_job *job)
{
	double data = (double)area->unit * (double)area->records;
	double seconds = job->policy->filled_first ? area->before : 0;

	for (uint32_t epoch = 0; epoch < job->epochs; epoch++)
		seconds += area->ends[epoch];
	printf("{\"policy\": \"%s\", \"nodes\": %u, \"records\": %llu, \"record_bytes\": %llu, "
	       "\"seconds\": %.4f, \"before\": %.4f, \"first_epoch\": %.4f, \"last_epoch\": %.4f, "
	       "\"stall_median\": %.6f, \"storage_over_data\": %.3f, \"kept\": %.4f}\n",
	       job->policy->name, job->nodes, (unsigned long long)area->records,
	       (unsigned long long)area->unit, seconds,
	       job->policy->filled_first ? area->before : 0, area->ends[0],
	       area->ends[job->epochs - 1], stall_median(area, job), (double)area->storage / data,
	       (double)ready_count(area->there, area->records) / (double)area->records);
}

int main(int argc, char **argv)
{
	struct nodes_job job = {
		.nodes = 1,
		.batch = 64,
		.epochs = 3,
		.threads = 4,
		.seed = 1,
		.room = {UINT64_C(64) << 20, 0},
		.buffer = UINT64_C(32) << 20,
		.compute = 100 * 1048576.0,
	};
	struct nodes_area *area = shared(sizeof(*area));
	pid_t children[NODES_MOST];
	bool sound = true;

	argp_parse(&argp, argc, argv, 0, NULL, &job);
	if (!area || !child_end(child_start(area, &job, job.nodes)))
		return 1;
	if (area->records < job.batch || !area_fill(area, &job)) {
		fprintf(stderr, "bench_nodes: too few records, or too little memory\n");
		return 1;
	}
	for (uint32_t i = 0; i < job.nodes; i++)
		children[i] = child_start(area, &job, i);
	for (uint32_t i = 0; i < job.nodes; i++)
		sound = child_end(children[i]) && sound;
	if (sound)
		print_line(area, &job);
	return !sound;
}
