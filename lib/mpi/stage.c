/* SPDX-License-Identifier: OLDAP-2.8 */
/* Takes a staging from its options to its return code. */
#include "config.h"
#include "mpi/module_parts.h"

#include "io/io.h"
#include "mpi/mpi_error.h"
#include "mpi/mpi_job.h"
#include "mpi/mpi_wait.h"
#include "mpi/stage_exchange.h"
#include "mpi/stage_reader.h"
#include "mpi/rank_shares.h"
#include "mpi/stage_target.h"
#include "util/checked.h"
#include "util/clock.h"

#include <errno.h>
#include <lmdbio_stage.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { STAGE_PAGE = 4 << 10, STAGE_BUFFERS = 2 };

struct lmdbio_stage_hold {
	struct arena *arena;
	char node[MPI_NODE_NAME];
};

/* Lets only so many ranks read at the same time: a token goes from rank r to rank r + group, and a
 * rank without a token waits. Ranks that read together are neighbours in the file. After Pumma et
 * al., "Scalable Deep Learning via I/O Analysis and Optimization" (ACM TOPC 6(2), 2019), section 4,
 * where the group's size was found by hand. */
struct stage_stagger {
	MPI_Comm comm;
	int rank, ranks;
	int group; /* in force; equal to `ranks`: no rank waits */
	bool measuring;
	int best; /* the fastest group so far; 0: none yet */
	uint64_t best_ns;
};
enum { TOKEN_TAG = 2 };

/* `group` as in struct lmdbio_stage_options. */
static void stage_stagger_begin(struct stage_stagger *stagger, const struct mpi_job *job, int group)
{
	*stagger = (struct stage_stagger){.comm = job->all,
					  .rank = job->place.rank,
					  .ranks = job->place.ranks,
					  .measuring = group == LMDBIO_STAGE_MEASURED};
	stagger->group = group > 0 && group < stagger->ranks ? group : stagger->ranks;
}

/* Around a step's read: wait for the turn, and pass it on. Return 0 or EIO. */
static int stage_stagger_enter(struct stage_stagger *stagger)
{
	MPI_Request token;
	int rc;

	if (stagger->rank < stagger->group)
		return 0;
	rc = MPI_Irecv(NULL, 0, MPI_BYTE, stagger->rank - stagger->group, TOKEN_TAG, stagger->comm,
		       &token);
	if (rc == MPI_SUCCESS)
		rc = mpi_await(&token);
	return mpi_error_code(rc);
}

static int stage_stagger_leave(struct stage_stagger *stagger)
{
	if (stagger->rank + stagger->group >= stagger->ranks)
		return 0;
	return mpi_error_code(MPI_Send(NULL, 0, MPI_BYTE, stagger->rank + stagger->group, TOKEN_TAG,
				       stagger->comm));
}

/* Chooses the next group while it is being measured, after a step that took this rank `ns`, with
 * the wait for its turn. Collective; returns 0 or EIO. */
/* A step takes as long as its slowest rank. The search halves the readers as long as that is
 * faster: the curve has one valley, between storage that is idle and storage that thrashes. */
static int stage_stagger_judge(struct stage_stagger *stagger, uint64_t ns)
{
	uint64_t slowest;
	int rc;

	if (!stagger->measuring)
		return 0;
	rc = mpi_allreduce(&ns, &slowest, 1, MPI_INT64_T, MPI_MAX, stagger->comm);
	if (rc != MPI_SUCCESS)
		return mpi_error_code(rc);
	if (!stagger->best || slowest < stagger->best_ns) {
		stagger->best = stagger->group;
		stagger->best_ns = slowest;
		stagger->group = (stagger->group + 1) / 2;
		stagger->measuring = stagger->best > 1;
	} else {
		stagger->measuring = false;
	}
	if (!stagger->measuring)
		stagger->group = stagger->best;
	return 0;
}

struct staging {
	struct lmdbio_stage_options options;
	struct mpi_job job;
	struct stage_source source;
	struct stage_shares shares;
	int share, sharers; /* this rank's share is number `share` of `sharers` */
	struct stage_reader reader;
	struct stage_target target;
	struct stage_peers peers;
	struct stage_stagger stagger;
	void *buffers[STAGE_BUFFERS]; /* a read fills one while the other is handed on */
	void *arriving;               /* for bytes of other nodes; NULL if none send any */
	bool reading;                 /* the reader is open */
	bool lost;                    /* MPI may still use the buffers */
	uint64_t began, waited, moved;
	int nodes_before, failed;
};

/* Returns NULL if there is no reader of that kind. */
static const struct stage_reader_ops *stage_reader_find(enum lmdbio_stage_reader kind)
{
	static const struct stage_reader_ops *const readers[] = {
		[LMDBIO_STAGE_POSIX] = &stage_reader_posix,
		[LMDBIO_STAGE_MPIIO] = &stage_reader_mpiio,
		[LMDBIO_STAGE_COLLECTIVE] = &stage_reader_collective,
	};

	return (unsigned)kind < sizeof(readers) / sizeof(readers[0]) ? readers[kind] : NULL;
}

/* Later versions of the options are longer, earlier ones shorter. */
static int options_take(struct staging *stage, const struct lmdbio_stage_options *options)
{
	struct lmdbio_stage_options *taken = &stage->options;
	const struct stage_reader_ops *reader;

	if (!options || options->size < sizeof(options->size))
		return EINVAL;
	memcpy(taken, options, options->size < sizeof(*taken) ? options->size : sizeof(*taken));
	if (!taken->buffer)
		taken->buffer = LMDBIO_STAGE_BUFFER;
	if (taken->buffer < LMDBIO_STAGE_BUFFER_MIN || taken->buffer > LMDBIO_STAGE_BUFFER_MAX)
		return EINVAL;
	taken->buffer &= ~(uint64_t)(STAGE_PAGE - 1);
	reader = stage_reader_find(taken->reader);
	if (!reader || !stage_target_find(taken->target) || taken->group < LMDBIO_STAGE_MEASURED)
		return EINVAL;
	if (reader->collective && taken->group)
		return EINVAL;
	if (taken->target == LMDBIO_STAGE_MEMORY && !taken->hold)
		return EINVAL;
	if (taken->hold)
		*taken->hold = NULL;
	if (taken->target == LMDBIO_STAGE_PARTS && taken->reader != LMDBIO_STAGE_POSIX)
		return EINVAL;
	if ((taken->target == LMDBIO_STAGE_DIRECTORY || taken->target == LMDBIO_STAGE_SHARED ||
	     taken->target == LMDBIO_STAGE_PARTS) &&
	    (!taken->directory || !*taken->directory))
		return EINVAL;
	return 0;
}

/* Checks options that must be the same on all ranks. Otherwise ranks would wait for each other for
 * ever. */
static int options_agree(struct staging *stage, int rc)
{
	const struct lmdbio_stage_options *options = &stage->options;
	uint64_t mine[] = {options->target, options->reader, options->buffer,
			   (uint64_t)options->group};
	int same = mpi_same(stage->job.all, mine, sizeof(mine), EINVAL);

	return mpi_agree(stage->job.all, rc ? rc : same, &stage->failed);
}

static bool is_in_parts(const struct staging *stage)
{
	return stage->options.target == LMDBIO_STAGE_PARTS;
}

static int buffers_make(struct staging *stage)
{
	bool spread = stage_target_spreads(&stage->target) && stage->job.place.nodes > 1;

	for (unsigned i = 0; i < STAGE_BUFFERS; i++) {
		stage->buffers[i] = io_buffer_new(STAGE_ROOM(&stage->shares));
		if (!stage->buffers[i])
			return ENOMEM;
	}
	if (!spread)
		return 0;
	stage->arriving = io_buffer_new(STAGE_ROOM(&stage->shares));
	return stage->arriving ? 0 : ENOMEM;
}

static int reader_open(struct staging *stage)
{
	int rc;

	stage->reader = (struct stage_reader){
		.ops = stage_reader_find(stage->options.reader),
		.comm = stage->job.all,
		.file = MPI_FILE_NULL,
		.spread = is_in_parts(stage) ? &stage->target.spread : NULL,
		.node = stage->job.place.node,
	};
	rc = stage->reader.ops->open(&stage->reader, &stage->source, stage->options.hints);
	stage->reading = true;
	return mpi_agree(stage->job.all, rc, &stage->failed);
}

static int take(void *argument, struct stage_part part, const void *bytes)
{
	struct staging *stage = argument;

	return stage->target.there || !stage->target.ops->put
		       ? 0
		       : stage->target.ops->put(&stage->target, part.offset, bytes, part.length);
}

/* Brings a step's bytes to this node's target and to the other nodes'. */
static int hand_on(struct staging *stage, uint64_t step)
{
	void *mine = stage->buffers[step % STAGE_BUFFERS];
	struct stage_exchange exchange = {
		.job = &stage->job,
		.peers = &stage->peers,
		.shares = &stage->shares,
		.step = step,
		.mine = mine,
		.buffer = stage->arriving,
		.lost = &stage->lost,
		.take = take,
		.argument = stage,
	};
	struct stage_part part = stage_shares_part(&stage->shares, stage->share, step);
	int rc = 0, other = 0;

	if (part.length)
		rc = take(stage, part, mine);
	if (stage->arriving)
		other = stage_exchange(&exchange, &stage->moved);
	return rc ? rc : other;
}

static void start(struct staging *stage, uint64_t step)
{
	struct stage_part part = stage_shares_part(&stage->shares, stage->share, step);

	stage->reader.ops->start(&stage->reader, part, stage->buffers[step % STAGE_BUFFERS]);
}

/* Waits until a step's bytes are in this rank's buffer. Returns this rank's own code. */
static int read_step(struct staging *stage, uint64_t step, bool ahead)
{
	uint64_t since = clock_now();
	int rc = 0, turn;

	if (!ahead) {
		turn = stage_stagger_enter(&stage->stagger);
		start(stage, step);
		rc = stage->reader.ops->finish(&stage->reader);
		turn = turn ? turn : stage_stagger_leave(&stage->stagger);
		rc = rc ? rc : turn;
	} else {
		rc = stage->reader.ops->finish(&stage->reader);
	}
	stage->waited += clock_now() - since;
	turn = stage_stagger_judge(&stage->stagger, clock_now() - since);
	return rc ? rc : turn;
}

static int tell_progress(struct staging *stage, uint64_t steps)
{
	const struct lmdbio_stage_options *options = &stage->options;

	if (!options->progress)
		return 0;
	return options->progress(options->progress_argument,
				 stage_shares_done(&stage->shares, stage->sharers, steps),
				 stage->shares.size);
}

/* Reads the next step while this one is handed on, if the reader can do that and no rank waits for
 * its turn. */
static int copy_all(struct staging *stage)
{
	bool ahead = stage->reader.ops->ahead && !stage->options.group;
	int rc = 0;

	if (ahead)
		start(stage, 0);
	for (uint64_t step = 0; step < stage->shares.steps; step++) {
		int mine = read_step(stage, step, ahead);

		rc = mpi_agree(stage->job.all, rc ? rc : mine, &stage->failed);
		if (rc)
			return rc;
		if (ahead && step + 1 < stage->shares.steps)
			start(stage, step + 1);
		rc = hand_on(stage, step);
		mine = tell_progress(stage, step + 1);
		rc = rc ? rc : mine;
	}
	return mpi_agree(stage->job.all, rc, &stage->failed);
}

/* Each rank has a share of the data, among the ranks of the job; or of its node's part, among the
 * ranks of the node. A part that is there already has no bytes to share. All ranks take the largest
 * rank's number of steps. */
static int shares_cut(struct staging *stage)
{
	const struct mpi_place *at = &stage->job.place;
	const struct chunk_spread *spread = &stage->target.spread;
	int64_t steps;
	int rc;

	stage->share = is_in_parts(stage) ? at->node_rank : at->rank;
	stage->sharers = is_in_parts(stage) ? at->node_ranks : at->ranks;
	if (!is_in_parts(stage)) {
		stage_shares_cut(&stage->shares, stage->source.size, stage->sharers,
				 stage->options.buffer, stage->source.piece);
		return 0;
	}
	stage_shares_cut(
		&stage->shares, stage->target.there ? 0 : chunk_spread_bytes(spread, at->node),
		stage->sharers, round_up(stage->options.buffer, ARENA_CHUNK), spread->unit);
	steps = (int64_t)stage->shares.steps;
	rc = mpi_error_code(
		mpi_allreduce(MPI_IN_PLACE, &steps, 1, MPI_INT64_T, MPI_MAX, stage->job.all));
	stage->shares.steps = (uint64_t)steps;
	return rc;
}

static int copy(struct staging *stage)
{
	int cut = shares_cut(stage), rc = stage_peers_find(&stage->peers, &stage->job);

	rc = cut ? cut : rc;
	if (!rc)
		rc = buffers_make(stage);
	rc = mpi_agree(stage->job.all, rc, &stage->failed);
	if (!rc)
		rc = reader_open(stage);
	stage_stagger_begin(&stage->stagger, &stage->job, stage->options.group);
	stage->began = clock_now();
	return rc ? rc : copy_all(stage);
}

static void report_fill(struct staging *stage, int rc)
{
	struct lmdbio_stage_report report = {0}, *wanted = stage->options.report;
	uint64_t mine[] = {stage->reader.bytes, stage->reader.calls, stage->moved, stage->waited};
	uint64_t times[] = {stage->waited, stage->began ? clock_now() - stage->began : 0};
	uint64_t sums[4] = {0}, most[2] = {0};

	/* Every rank takes part, even if it does not want the report. */
	mpi_allreduce(mine, sums, 4, MPI_UINT64_T, MPI_SUM, stage->job.all);
	mpi_allreduce(times, most, 2, MPI_INT64_T, MPI_MAX, stage->job.all);
	if (!wanted || wanted->size < sizeof(wanted->size))
		return;
	report = (struct lmdbio_stage_report){
		.size = wanted->size < sizeof(report) ? wanted->size : sizeof(report),
		.file_bytes = stage->source.size,
		.read_bytes = sums[0],
		.read_calls = sums[1],
		.moved_bytes = sums[2],
		.wall_ns = most[1],
		.slowest_ns = most[0],
		.average_ns = sums[3] / (uint64_t)stage->job.place.ranks,
		.group = (uint64_t)stage->stagger.group,
		.ranks = (uint64_t)stage->job.place.ranks,
		.nodes = (uint64_t)stage->job.place.nodes,
		.nodes_before = (uint64_t)stage->nodes_before,
		.failed_rank = rc ? (uint64_t)stage->failed : 0,
	};
	memcpy(wanted, &report, report.size);
}

static int hold_make(struct staging *stage)
{
	struct lmdbio_stage_hold *hold = calloc(1, sizeof(*hold));

	if (!hold)
		return ENOMEM;
	memcpy(hold->node, stage->target.node, sizeof(hold->node));
	hold->arena = stage->target.arena;
	stage->target.arena = NULL;
	*stage->options.hold = hold;
	return 0;
}

static int target_fill(struct staging *stage)
{
	bool memory = stage->options.target == LMDBIO_STAGE_MEMORY;
	uint64_t nonce = clock_of(CLOCK_REALTIME);
	int rc;

	stage->target = (struct stage_target){
		.ops = stage_target_find(stage->options.target),
		.source = &stage->source,
		.options = &stage->options,
		.job = &stage->job,
		.top = {.fd = -1},
		.place = {.fd = -1},
		.fd = -1,
		.spread =
			{
				.place = chunk_spread_place(stage->source.original.identity.inode,
							    stage->source.original.identity.mtime_ns),
				.size = stage->source.size,
				.unit = chunk_spread_unit(stage->source.piece),
				.nodes = stage->job.place.nodes,
			},
	};
	rc = mpi_error_code(mpi_bcast(&nonce, 1, MPI_UINT64_T, 0, stage->job.all));
	stage->target.nonce = nonce;
	mpi_node_name(&stage->job, stage->target.node);
	rc = mpi_agree(stage->job.all, rc, &stage->failed);
	if (!rc)
		rc = stage_target_open(&stage->target, &stage->nodes_before, &stage->failed);
	if (rc)
		return rc;
	if (stage->nodes_before < stage->job.place.nodes)
		rc = stage_target_end(&stage->target, copy(stage), &stage->failed);
	if (rc || !memory)
		return rc;
	rc = mpi_agree(stage->job.all, hold_make(stage), &stage->failed);
	if (rc) {
		lmdbio_mpi_stage_release(*stage->options.hold);
		*stage->options.hold = NULL;
	}
	return rc;
}

static void stage_free(struct staging *stage)
{
	if (stage->reading)
		stage->reader.ops->close(&stage->reader);
	if (stage->target.ops && stage->target.ops->close)
		stage->target.ops->close(&stage->target);
	for (unsigned i = 0; i < STAGE_BUFFERS && !stage->lost; i++)
		io_buffer_free(stage->buffers[i], STAGE_ROOM(&stage->shares));
	if (!stage->lost)
		io_buffer_free(stage->arriving, STAGE_ROOM(&stage->shares));
	stage_peers_free(&stage->peers);
	stage_source_close(&stage->source);
	mpi_job_leave(&stage->job);
	if (stage->job.all != MPI_COMM_NULL)
		MPI_Comm_free(&stage->job.all);
}

__attribute__((visibility("default"))) int
lmdbio_mpi_stage(MPI_Comm comm, const char *path, const struct lmdbio_stage_options *options)
{
	/* Not malloc'ed: a rank without memory must be able to tell the other ranks. */
	struct staging own = {
		.source = {.fd = -1},
		.job = {.all = MPI_COMM_NULL, .node = MPI_COMM_NULL, .leaders = MPI_COMM_NULL},
	};
	struct staging *stage = &own;
	int rc;

	rc = mpi_comm_dup(comm, &stage->job.all);
	if (rc == MPI_SUCCESS)
		rc = mpi_job_place(&stage->job, stage->job.all);
	if (rc != MPI_SUCCESS) {
		rc = mpi_error_code(rc);
		goto done;
	}
	rc = options_agree(stage, options_take(stage, path ? options : NULL));
	if (!rc) {
		rc = stage_source_open(&stage->source, &stage->job, path,
				       stage->options.target == LMDBIO_STAGE_MEMORY ||
					       is_in_parts(stage));
		rc = mpi_agree(stage->job.all, rc, &stage->failed);
	}
	if (!rc)
		rc = target_fill(stage);
	report_fill(stage, rc);
done:
	stage_free(stage);
	return rc;
}

__attribute__((visibility("default"))) void lmdbio_mpi_stage_release(struct lmdbio_stage_hold *hold)
{
	if (!hold)
		return;
	arena_close(hold->arena);
	free(hold);
}

const char *stage_hold_node(const struct lmdbio_stage_hold *hold)
{
	return hold->node;
}
