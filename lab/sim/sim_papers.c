/* SPDX-License-Identifier: OLDAP-2.8 */
/* Models how long a job waits for its records in each way of LMDBIO's papers, and with lmdbio. */
#include "sim_papers.h"
#include "sim_stride.h"

#include <errno.h>
#include <math.h>

enum {
	BATCHES = 3,      /* batches to walk page by page; the others are like them */
	QUEUE_MOST = 32,  /* requests that a disk sorts: native command queuing */
	CHUNK = 1 << 20,  /* lmdbio's unit */
	AHEAD = 64,       /* chunks that each program on lmdbio requests ahead: 64 MiB */
	WEAK_RECORDS = 2, /* of a process in a batch, beyond the published scales */
	PROCESSES_MOST = 1000000,
};

/* A plot's job at one scale. */
struct scale {
	const struct papers_plot *plot;
	const struct papers_cluster *cluster;
	uint32_t processes, nodes, here; /* here: processes of the first node */
	uint64_t batch;
	double batches, bytes; /* of the job; bytes: the pages of its records */
	double forward, backward, other;
};

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static double smaller(double a, double b)
{
	return a < b ? a : b;
}

/* How many standard deviations the largest of n normal numbers lies above their mean: Blom's
 * estimate, with Hastings' approximation of the quantile. */
static double largest_of(double n)
{
	double t;

	if (n < 2)
		return 0;
	t = sqrt(-2 * log(0.625 / (n + 0.25)));
	return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
			   (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

/* Interpolates between two published scales by a straight line over logarithms, as strong scaling
 * is drawn. */
static double computing_at(const struct papers_plot *plot, double processes, size_t offset)
{
	const char *base = (const char *)plot->computing + offset;
	unsigned i = 1;
	double a, b, part;

	while (i < plot->n - 1 && plot->processes[i] < processes)
		i++;
	a = *(const double *)(base + (i - 1) * sizeof(*plot->computing));
	b = *(const double *)(base + i * sizeof(*plot->computing));
	part = log(processes / plot->processes[i - 1]) /
	       log((double)plot->processes[i] / plot->processes[i - 1]);
	return a * pow(b / a, part);
}

static void scale_set(struct scale *scale, const struct papers_plot *plot, uint32_t processes)
{
	uint32_t last = plot->processes[plot->n - 1];
	uint32_t known = processes < last ? processes : last;
	double growth;

	*scale = (struct scale){.plot = plot, .cluster = plot->cluster, .processes = processes};
	scale->here = processes < plot->cluster->cores ? processes : plot->cluster->cores;
	scale->nodes = (processes + plot->cluster->cores - 1) / plot->cluster->cores;
	scale->batch = processes > last ? (uint64_t)WEAK_RECORDS * processes : plot->batch;
	growth = (double)plot->batch / (double)scale->batch;
	scale->batches = (double)plot->records / (double)scale->batch;
	scale->bytes =
		(double)plot->records * (plot->value_pages + 1.0 / plot->leaf_records) * PAGES_SIZE;
	scale->forward =
		growth * computing_at(plot, known, offsetof(struct papers_computing, forward));
	scale->backward =
		growth * computing_at(plot, known, offsetof(struct papers_computing, backward));
	scale->other = growth * computing_at(plot, known, offsetof(struct papers_computing, other));
}

/* A batch is over when the slowest process has computed. Processes differ more if more of them
 * share a node's memory and power. */
static double computing(const struct scale *scale)
{
	double full = (double)scale->here / scale->cluster->cores;
	double skew = scale->cluster->skew * full * largest_of(scale->processes);

	return (scale->forward + scale->backward) * (1 + skew) + scale->other;
}

/* The slowest node counts: all nodes meet after each fetch. */
static double slowest(const struct scale *scale)
{
	return 1 + scale->cluster->spread * largest_of(scale->nodes);
}

/* --- by mapped files ---------------------------------------------------------------------------
 */

/* Computes the seconds of the job from the faults of a node's readers. */
static int mapped(const struct scale *scale, enum papers_way way, struct papers_time *time)
{
	const struct papers_cluster *cluster = scale->cluster;
	bool all = way == PAPERS_LMDB;
	struct stride stride = {
		.batch = scale->batch,
		.batches = BATCHES,
		.value_pages = scale->plot->value_pages,
		.leaf_records = scale->plot->leaf_records,
		.readers = all ? scale->processes : scale->nodes,
		.here = all ? scale->here : 1,
		.way = way == PAPERS_DM ? STRIDE_TOUCHES : STRIDE_STEPS,
		.step = cluster->step,
	};
	struct pages_kernel kernel = {
		.blocks = true,
		.window = (uint32_t)(cluster->window / PAGES_SIZE),
		.around = 1,
		.fault = cluster->fault,
		.wakeup = cluster->wakeup,
		.rate = cluster->storage / scale->nodes,
	};
	struct stride_result result;
	int rc;

	/* The middle node steps over as much as the average node. */
	stride.run = stride.batch / stride.readers;
	stride.first = (stride.readers - stride.here) / 2;
	rc = stride_run(&stride, &kernel, &result);
	time->reading = result.seconds * scale->batches / BATCHES;
	time->bytes = result.bytes * scale->nodes * scale->batches / BATCHES;
	return rc;
}

/* --- by requests of known places -----------------------------------------------------------------
 */

static double pread_rate(const struct papers_cluster *cluster, double bytes)
{
	double part = log2(bytes / PAGES_SIZE);
	unsigned i = part < 0 ? 0 : part > 2 ? 2 : (unsigned)part;

	part = part < i ? 0 : part > i + 1 ? 1 : part - i;
	return cluster->pread[i] + part * (cluster->pread[i + 1] - cluster->pread[i]);
}

/* Returns the seconds in which disks serve requests of `readers` readers, of `bytes` bytes each. A
 * request touches the blocks it lies in, which are dealt out over the disks. The readers' requests
 * arrive in any order, so one of k requests of a disk with k readers continues the request before
 * it. A disk sorts its queue, which shortens its seeks: 7,200 rpm disks serve about 80 requests a
 * second one by one, and twice as many out of a full queue. */
static double disks(const struct papers_cluster *cluster, double readers, double bytes,
		    double queue)
{
	double touches = readers * (bytes / (double)cluster->block + (readers > 1));
	double each = touches / cluster->disks;
	double others = smaller(readers, larger(1, smaller(queue, each)));
	double seek = cluster->seek / sqrt(sqrt(smaller(others, QUEUE_MOST)));

	return readers * bytes / (cluster->disks * cluster->disk_rate) +
	       each * seek * (1 - 1 / others);
}

/* Returns the seconds of one fetch, in which `readers` readers read at the same time. */
static double fetch(const struct scale *scale, double readers, double bytes)
{
	const struct papers_cluster *cluster = scale->cluster;

	return larger(larger(disks(cluster, readers, bytes, INFINITY),
			     readers * bytes / cluster->storage),
		      bytes / pread_rate(cluster, bytes));
}

/* Groups of nodes read in turn; each group has the best size. */
static double staggered(const struct scale *scale, double bytes)
{
	double best = INFINITY;

	for (uint32_t group = 1; group <= scale->nodes; group++) {
		double turns = ceil((double)scale->nodes / group);

		best = smaller(best, turns * (fetch(scale, group, bytes) + scale->cluster->hop));
	}
	return best;
}

static void requested(const struct scale *scale, enum papers_way way, struct papers_time *time)
{
	const struct papers_cluster *cluster = scale->cluster;
	double node = scale->bytes / scale->nodes;
	double bytes =
		way < PAPERS_COAL ? node / scale->batches : smaller(node, (double)cluster->memory);
	double all = fetch(scale, scale->nodes, bytes) * slowest(scale);

	if (way == PAPERS_STAG)
		all = smaller(all, staggered(scale, bytes));
	time->reading = all * node / bytes;
	time->bytes = scale->bytes;
	if (way == PAPERS_DIO) {
		/* One process walks through the leaf pages, and storage reads the pages between
		 * them too. */
		time->reading += larger(scale->bytes / cluster->storage,
					(double)scale->plot->records / scale->plot->leaf_records *
						cluster->fault);
		time->bytes += scale->bytes;
	}
}

/* --- lmdbio
 * ---------------------------------------------------------------------------------------- */

/* The node that owns a chunk reads it once and sends it to all others, for each of them has records
 * in it. The node does all of that ahead of the programs and beside their computing. Only the wait
 * for the very first chunk is not hidden. */
static void served(const struct scale *scale, struct papers_time *time)
{
	const struct papers_cluster *cluster = scale->cluster;
	double chunks = scale->bytes / CHUNK, n = scale->nodes, storage, network, server, first;
	/* The programs of a node are spread over a batch, and each looks ahead from its place. */
	double window = smaller(chunks, AHEAD + chunks / scale->batches);

	storage = larger(disks(cluster, smaller(n, chunks), scale->bytes / smaller(n, chunks),
			       window / cluster->disks),
			 scale->bytes / cluster->storage);
	storage = larger(storage, scale->bytes / n / cluster->pread[3]);
	/* The owner of a chunk sends it to each of the others before the window goes on. */
	network = scale->bytes * (n - 1) / n / cluster->network;
	network = larger(network,
			 chunks / window * (n - 1) * (CHUNK / cluster->network + cluster->hop));
	server = scale->bytes * (n - 1) / n / cluster->server;
	first = cluster->seek + CHUNK / cluster->disk_rate + (n - 1) * CHUNK / cluster->network +
		CHUNK / cluster->server;
	time->reading =
		first + larger(0, larger(storage, larger(network, server)) * slowest(scale) -
					  time->computing);
	time->reading += (double)scale->plot->records * cluster->step;
	time->bytes = scale->bytes;
}

int papers_model(const struct papers_plot *plot, enum papers_way way, uint32_t processes,
		 struct papers_time *time)
{
	struct scale scale;
	int rc = 0;

	*time = (struct papers_time){0};
	if (way >= PAPERS_ALL || !processes || processes > PROCESSES_MOST)
		return EINVAL;
	scale_set(&scale, plot, processes);
	time->computing = computing(&scale);
	if (way == PAPERS_OURS) {
		served(&scale, time);
	} else if (way >= PAPERS_DIO) {
		requested(&scale, way, time);
	} else {
		rc = mapped(&scale, way, time);
		if (way != PAPERS_LMDB)
			time->reading *= slowest(&scale);
	}
	if (way == PAPERS_DM) /* the cursor passes from node to node in each batch */
		time->reading += scale.batches * (scale.nodes * scale.cluster->turn +
						  (double)scale.batch * scale.cluster->step);
	time->seconds = time->computing + time->reading;
	return rc;
}
