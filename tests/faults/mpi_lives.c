/* SPDX-License-Identifier: OLDAP-2.8 */
/* What ranks of two nodes do together over simulated MPI besides stagings, a life each: loaders and indexes of a job,
 * servers of nodes with a reader. Right records, or one code on all ranks, and no rank that waits for ever. */
#include "config.h"
#include "life.h"

#include "job_records.h"
#include "library_calls.h"
#include "mpi_simulated.h"
#include "simulated_job.h"
#include "simulated_turns.h"

#include "env_fixture.h"

#include "mpi/mpi_module.h"
#include "util/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdbio_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	RANKS = JOB_RANKS,
	RECORDS = 200,
	LARGE_RECORDS = 3,
	LARGE_VALUE = 1 << 20,
	PATIENCE = 20000 /* ms */
};

extern const struct mpi_module lmdbio_mpi_module;

static struct {
	struct place place, large, copy;
	bool copies; /* the last rank opens the copy */
	char scratch[200], disk[RANKS][220], names[RANKS][40];
	struct lmdbio_loader_options options;
	bool on_disk;
	unsigned threads; /* of this process, without those of ranks */
	struct outcome ranks[RANKS];
} job;

static size_t large_make(void *bytes, uint64_t i)
{
	memset(bytes, (int)i + 1, LARGE_VALUE);
	return LARGE_VALUE;
}

/* ESTALE: one rank could not tell which file it is. ENOTSUP: a server could not make memory that
 * other processes see. */
static bool is_code(int rc)
{
	static const int codes[] = {EIO,    ENOMEM,     EMFILE, EAGAIN,
				    ENOSPC, EADDRINUSE, ESTALE, ENOTSUP};

	for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++)
		if (rc == codes[i])
			return true;
	return false;
}

/* ---- loaders and indexes ---- */

static const char *directory_of(int rank)
{
	return (job.copies && rank == RANKS - 1 ? &job.copy : &job.place)->directory;
}

static void rank_loads(void *context, int rank)
{
	struct lmdbio_loader_options options = job.options;
	struct outcome *outcome = &job.ranks[rank];
	struct lmdbio_loader *loader;
	int failed = 0;

	(void)context;
	if (job.on_disk)
		options.stage_dir = job.disk[rank];
	outcome->opened = lmdbio_mpi_loader_open(sim_comm(rank), &loader, directory_of(rank), 0,
						 NULL, &options);
	if (outcome->opened)
		return;
	for (uint64_t epoch = 0; epoch < 2 && !outcome->read; epoch++) {
		if (!(outcome->read = job_read_epoch(loader, epoch, outcome, &failed)))
			outcome->read = failed;
	}
	loader_close(loader);
}

static void rank_indexes(void *context, int rank)
{
	(void)context;
	job_read_index(sim_comm(rank), directory_of(rank), &job.ranks[rank]);
}

/* The services of all ranks end, however their loaders did. */
static void services_end(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (unsigned ms = 0; job_threads() > job.threads && ms < PATIENCE; ms++)
		nanosleep(&pause, NULL);
	if (job_threads() > job.threads)
		lives_end(LEFT, "threads", (int)(job_threads() - job.threads));
}

static void judge(void)
{
	unsigned records = 0;

	for (int rank = 0; rank < RANKS; rank++) {
		const struct outcome *outcome = &job.ranks[rank];
		int rc = outcome->opened ? outcome->opened : outcome->read;

		records += outcome->records;
		if (outcome->wrong)
			lives_end(WRONG_BYTES, "a record", rank);
		if (outcome->opened != job.ranks[0].opened)
			lives_end(WRONG_CODE, "one code on all ranks", outcome->opened);
		if (rc && (lives_strict || !is_code(rc)))
			lives_end(WRONG_CODE, outcome->opened ? "an opening" : "a read", rc);
		lives_failed |= rc != 0;
	}
	if (!lives_failed && records != 2 * RECORDS)
		lives_end(MISSING, "records", (int)records);
}

static void together(void (*rank_does)(void *, int))
{
	bool ended;

	memset(job.ranks, 0, sizeof(job.ranks));
	lives_failed = false;
	/* Nodes keep no records that the page cache has. */
	((struct settings *)(uintptr_t)settings_get())->store = "arena";
	calls_spare(true);
	job.threads = job_threads();
	calls_spare(false);
	sim_begin(RANKS);
	ended = sim_run(RANKS, rank_does, NULL);
	calls_spare(true);
	services_end();
	calls_spare(false);
	if (!ended)
		lives_end(WRONG_CODE, "ranks wait for each other", 0);
	judge();
	if (sim_handles())
		lives_end(LEFT, "handles of MPI", (int)sim_handles());
	sim_end();
}

static void live_loading(void)
{
	job.options = (struct lmdbio_loader_options){.size = sizeof(job.options),
						     .batch = JOB_BATCH,
						     .order = LMDBIO_ORDER_SHUFFLE,
						     .seed = 3};
	together(rank_loads);
}

/* What stays in memory differs between epochs: ranks agree anew. */
static void live_loading_opportunely(void)
{
	job.options = (struct lmdbio_loader_options){.size = sizeof(job.options),
						     .batch = JOB_BATCH,
						     .order = LMDBIO_ORDER_OPPORTUNISTIC,
						     .seed = 3};
	together(rank_loads);
}

/* Memory has room for a part; local disks have the rest. */
static void live_loading_on_disks(void)
{
	char command[300];

	job.options = (struct lmdbio_loader_options){.size = sizeof(job.options),
						     .batch = JOB_BATCH,
						     .order = LMDBIO_ORDER_SHUFFLE,
						     .memory = RECORDS * JOB_VALUE / 6,
						     .seed = 3};
	job.on_disk = true;
	together(rank_loads);
	job.on_disk = false;
	calls_spare(true);
	snprintf(command, sizeof(command), "rm -rf '%s'/node*/*", job.scratch);
	if (system(command))
		abort();
	calls_spare(false);
}

static void live_indexing(void)
{
	together(rank_indexes);
}

/* The ranks compare their files before they read from each other. */
static void live_indexing_copies(void)
{
	job.copies = true;
	together(rank_indexes);
	job.copies = false;
}

/* ---- servers ---- */

/* In a child of a server: a program of the node. Ends with FINE, or with what is wrong. */
static void program_run(const char *node)
{
	MDB_env *env = NULL;
	MDB_txn *txn = NULL;
	MDB_cursor *cursor;
	MDB_val key, data;
	MDB_dbi dbi;
	unsigned n = 0;
	int rc;

	((struct settings *)(uintptr_t)settings_get())->node = node;
	((struct settings *)(uintptr_t)settings_get())->store = "arena";
	rc = mdb_env_create(&env);
	if (!rc)
		rc = mdb_env_open(env, job.large.directory, MDB_RDONLY | MDB_NOTLS, 0600);
	if (!rc)
		rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
	if (!rc)
		rc = mdb_dbi_open(txn, NULL, 0, &dbi);
	if (!rc)
		rc = mdb_cursor_open(txn, dbi, &cursor);
	while (!rc && !(rc = mdb_cursor_get(cursor, &key, &data, MDB_NEXT))) {
		const uint8_t *bytes = data.mv_data;

		for (size_t at = 0; at < LARGE_VALUE; at += 511)
			if (data.mv_size != LARGE_VALUE || bytes[at] != n + 1)
				_exit(WRONG_BYTES);
		n++;
	}
	_exit(rc == MDB_NOTFOUND             ? n == LARGE_RECORDS ? FINE : MISSING
	      : is_code(rc) && !lives_strict ? FINE
					     : WRONG_CODE);
}

struct program {
	const char *node;
	pid_t child; /* 0: it has not begun; -1: it has ended */
	int end;
};

static bool program_look(void *context)
{
	struct program *program = context;
	int status;

	if (!program->child) {
		program->child = fork();
		if (!program->child)
			program_run(program->node);
	}
	if (program->child > 0 && waitpid(program->child, &status, WNOHANG) == program->child) {
		program->end = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
		program->child = -1;
	}
	return program->child < 0;
}

static bool is_over(void *context)
{
	(void)context;
	return false;
}

static void rank_serves(void *context, int rank)
{
	const struct mpi_module *module = &lmdbio_mpi_module;
	const char *paths[] = {job.large.data, NULL};
	struct lmdbio_stage_report report = {.size = sizeof(report)};
	struct program program = {.node = job.names[rank]};
	struct mpi_work work = {
		.node = job.names[rank], .fd = -1, .look = is_over, .paths = paths, .fills = true};
	struct outcome *outcome = &job.ranks[rank];
	struct mpi_place at = {0};
	int rc = module->begin(true, &at), filled = 0;

	(void)context;
	outcome->opened = rc;
	if (rc) {
		sim_break(); /* as launchers do */
		return;
	}
	rc = module->gather();
	if (!rc)
		rc = module->serve_begin(&work);
	filled = module->serve_fill(&work, &report);
	if (filled == ECONNABORTED)
		module->abort(2);
	work.look = program_look;
	work.looks_often = true;
	work.context = &program;
	if (module->serve(&work))
		module->abort(2);
	outcome->wrong = program.end != FINE;
	if (module->end() == ECONNABORTED)
		module->abort(2);
	outcome->read = rc ? rc : filled;
}

static void live_serving(void)
{
	static unsigned run;
	bool broke, told = false;

	run++;
	for (int node = 0; node < RANKS; node++)
		snprintf(job.names[node], sizeof(job.names[node]), "lives-%d-%d-%u", (int)getpid(),
			 node, run);
	memset(job.ranks, 0, sizeof(job.ranks));
	sim_begin(RANKS);
	sim_library(false, MPI_THREAD_MULTIPLE);
	broke = !sim_run(RANKS, rank_serves, NULL);
	for (int rank = 0; rank < RANKS; rank++) {
		const struct outcome *outcome = &job.ranks[rank];
		int rc = outcome->opened ? outcome->opened : outcome->read;

		told = told || outcome->opened;
		if (outcome->wrong)
			lives_end(WRONG_BYTES, "a program of a node", rank);
		if (rc && !broke && (lives_strict || !is_code(rc)))
			lives_end(WRONG_CODE, "a server", rc);
	}
	if (broke && !told)
		lives_end(WRONG_CODE, "ranks wait for each other", 0);
	sim_end();
}

const struct life *lives_number(unsigned number)
{
	static const struct life lives[] = {
		{"loading", live_loading},
		{"loading opportunely", live_loading_opportunely},
		{"loading on disks", live_loading_on_disks},
		{"indexing", live_indexing},
		{"indexing copies", live_indexing_copies},
		{"serving", live_serving},
	};

	return number < sizeof(lives) / sizeof(*lives) ? &lives[number] : NULL;
}

void lives_begin(void)
{
	const char *base = getenv("TMPDIR");
	char command[600];

	setenv("MPIR_CVAR_NUM_CLIQUES", "2", 1);
	snprintf(job.scratch, sizeof(job.scratch), "%.150s/lmdbio-job.XXXXXX",
		 base && *base ? base : "/tmp");
	if (!mkdtemp(job.scratch))
		abort();
	for (int node = 0; node < RANKS; node++) {
		snprintf(job.disk[node], sizeof(job.disk[node]), "%s/node%d", job.scratch, node);
		if (mkdir(job.disk[node], 0700))
			abort();
	}
	place_make(&job.place);
	place_put_records(&job.place, RECORDS, JOB_VALUE, job_value_make);
	place_make(&job.copy);
	snprintf(command, sizeof(command), "cp '%s' '%s'", job.place.data, job.copy.data);
	if (system(command))
		abort();
	place_make(&job.large);
	place_put_records(&job.large, LARGE_RECORDS, LARGE_VALUE, large_make);
}

void lives_over(void)
{
	char command[300];

	snprintf(command, sizeof(command), "rm -rf '%s'", job.scratch);
	if (system(command))
		abort();
	sim_begin(1);
	sim_program_ends(); /* at exit no service is waited for in vain */
	place_remove(&job.place);
	place_remove(&job.copy);
	place_remove(&job.large);
}
