/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a data set by the batch loader as a rank of a job and prints its samples, to be compared
 * with those that a single process gets. With --act one rank disturbs the others.
 *
 *	loader_job [--batch=N] [--seed=N] [--order=WORD] [--block=N] [--buffer=N] [--resident=N]
 *	           [--epochs=N] [--first=N] [--memory=BYTES] [--skip] [--apart] [--hush] [--single] [--sessions]
 *	           [--compute=MICROSECONDS] [--quiet] [--act=WORD --rank=N --at=BATCH]
 *	           [--save=BATCHES | --restore] [--state=FILE]
 *	           [--stage=DIRECTORY] [--stage-size=BYTES] PATH
 *
 * Standard output has a line for each sample: epoch, batch, record, sum of its bytes; for each
 * epoch a line "# epoch ..." of the loader's statistics; and "# rank R: CODE" at the end. After
 * each batch the ranks wait for each other, unless --apart, and sleep for --compute. With --hush
 * they do so as contrib/trainer does: each rank keeps its loader quiet meanwhile. --single asks
 * MPI for no threads; --sessions begins MPI by a session alone. With --quiet samples are neither
 * read nor printed.
 *
 * --act says what `rank` does when it has read `at` batches:
 *   close   closes its loader
 *   quiet   reads no more, and keeps its loader quiet from then on
 *   stop    stops, after it has made a file `stopped` in $LOADER_JOB, for which the others wait
 *   end     calls MPI_Finalize without closing
 *   exit    exits
 *   kill    kills itself
 *   run     runs the program $LOADER_JOB/command while the others wait, and goes on
 * `at` may be 0. Rank 0 saves its place after `save` batches. With --restore all ranks go on from
 * the saved place, which is in epoch `first`.
 */
#include <lmdbio_mpi.h>

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	uint64_t epochs, first, at, compute;
	const char *act, *state;
	uint64_t save, left;
	int acting, rank;
	bool apart, hush, single, sessions, quiet, restore;
	MPI_Comm comm;
	MPI_Session session;
} job = {.epochs = 3, .act = ""};

static const struct option flags[] = {
	{"batch", required_argument, NULL, 'b'},
	{"seed", required_argument, NULL, 's'},
	{"order", required_argument, NULL, 'o'},
	{"epochs", required_argument, NULL, 'e'},
	{"memory", required_argument, NULL, 'm'},
	{"skip", no_argument, NULL, 'x'},
	{"apart", no_argument, NULL, 'p'},
	{"hush", no_argument, NULL, 'h'},
	{"single", no_argument, NULL, '1'},
	{"sessions", no_argument, NULL, 'i'},
	{"block", required_argument, NULL, 'B'},
	{"buffer", required_argument, NULL, 'u'},
	{"resident", required_argument, NULL, 'R'},
	{"compute", required_argument, NULL, 'c'},
	{"quiet", no_argument, NULL, 'q'},
	{"act", required_argument, NULL, 'a'},
	{"rank", required_argument, NULL, 'r'},
	{"at", required_argument, NULL, 't'},
	{"first", required_argument, NULL, 'f'},
	{"save", required_argument, NULL, 'S'},
	{"restore", no_argument, NULL, 'E'},
	{"state", required_argument, NULL, 'T'},
	{"stage", required_argument, NULL, 'd'},
	{"stage-size", required_argument, NULL, 'D'},
	{NULL, 0, NULL, 0},
};

static enum lmdbio_order order_of(const char *word)
{
	return !strcmp(word, "sequential")      ? LMDBIO_ORDER_SEQUENTIAL
	       : !strcmp(word, "block")         ? LMDBIO_ORDER_BLOCK
	       : !strcmp(word, "opportunistic") ? LMDBIO_ORDER_OPPORTUNISTIC
						: LMDBIO_ORDER_SHUFFLE;
}

static int options_parse(struct lmdbio_loader_options *options, int argc, char **argv)
{
	int c;

	while ((c = getopt_long(argc, argv, "", flags, NULL)) != -1) {
		uint64_t number = optarg ? strtoull(optarg, NULL, 10) : 0;

		switch (c) {
		case 'b':
			options->batch = (uint32_t)number;
			break;
		case 's':
			options->seed = number;
			break;
		case 'o':
			options->order = order_of(optarg);
			break;
		case 'm':
			options->memory = number;
			break;
		case 'B':
			options->block = (uint32_t)number;
			break;
		case 'u':
			options->buffer = (uint32_t)number;
			break;
		case 'R':
			options->resident = number;
			break;
		case 'x':
			options->skip_errors = 1;
			break;
		case 'e':
			job.epochs = number;
			break;
		case 'f':
			job.first = number;
			break;
		case 'c':
			job.compute = number;
			break;
		case 'q':
			job.quiet = true;
			break;
		case 'p':
			job.apart = true;
			break;
		case 'h':
			job.hush = true;
			break;
		case '1':
			job.single = true;
			break;
		case 'i':
			job.sessions = true;
			break;
		case 'a':
			job.act = optarg;
			break;
		case 'r':
			job.acting = (int)number;
			break;
		case 't':
			job.at = number;
			break;
		case 'S':
			job.save = number;
			break;
		case 'E':
			job.restore = true;
			break;
		case 'T':
			job.state = optarg;
			break;
		case 'd':
			options->stage_dir = optarg;
			break;
		case 'D':
			options->stage_size = number;
			break;
		default:
			return -1;
		}
	}
	return optind + 1 == argc ? 0 : -1;
}

/* Waits for the other ranks without occupying a processor: there are fewer processors than
 * ranks. */
static void gather(void)
{
	MPI_Request request;
	int there = 0;

	MPI_Ibarrier(job.comm, &request);
	while (MPI_Test(&request, &there, MPI_STATUS_IGNORE) == MPI_SUCCESS && !there)
		usleep(200);
}

static uint64_t sum_of(const struct lmdbio_sample *sample)
{
	const unsigned char *key = sample->key.mv_data, *data = sample->data.mv_data;
	uint64_t sum = sample->data.mv_size;

	for (size_t i = 0; i < sample->key.mv_size; i++)
		sum = sum * 31 + key[i];
	for (size_t i = 0; i < sample->data.mv_size; i++)
		sum = sum * 31 + data[i];
	return sum;
}

static void batch_print(const struct lmdbio_batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		const struct lmdbio_sample *sample = &batch->samples[i];

		if (sample->record == LMDBIO_NO_RECORD)
			continue;
		if (sample->error)
			printf("# error %d of record %llu\n", sample->error,
			       (unsigned long long)sample->record);
		else
			printf("%llu %llu %llu %016llx\n", (unsigned long long)batch->epoch,
			       (unsigned long long)batch->number,
			       (unsigned long long)sample->record,
			       (unsigned long long)sum_of(sample));
	}
}

static void stats_print(struct lmdbio_loader *loader, uint64_t epoch)
{
	struct lmdbio_loader_stats stats = {.size = sizeof(stats)};

	lmdbio_loader_stats(loader, &stats);
	printf("# epoch %llu rank %d storage %llu memory %llu peer %llu file %llu ms %llu stall "
	       "%llu "
	       "stage %llu staged %llu stage_state %llu planned %llu peers %llu\n",
	       (unsigned long long)epoch, job.rank, (unsigned long long)stats.storage_bytes,
	       (unsigned long long)stats.memory_bytes, (unsigned long long)stats.peer_bytes,
	       (unsigned long long)stats.file_bytes, (unsigned long long)stats.epoch_ns / 1000000,
	       (unsigned long long)stats.stall_ns / 1000000, (unsigned long long)stats.stage_bytes,
	       (unsigned long long)stats.staged_bytes, (unsigned long long)stats.stage_state,
	       (unsigned long long)stats.peer_records, (unsigned long long)stats.peer_state);
	fflush(stdout);
}

/* The stopping rank writes its process id; the others go on when the file exists. */
static void stop(bool mine)
{
	char path[4096], made[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/stopped", getenv("LOADER_JOB"));
	snprintf(made, sizeof(made), "%s/made", getenv("LOADER_JOB"));
	while (!mine && access(path, F_OK))
		usleep(1000);
	if (!mine)
		return;
	file = fopen(made, "w");
	if (!file)
		return;
	fprintf(file, "%d\n", (int)getpid());
	fclose(file);
	rename(made, path);
	raise(SIGSTOP);
}

static void run(void)
{
	char command[4096];

	snprintf(command, sizeof(command), "%s/command", getenv("LOADER_JOB"));
	if (system(command))
		fprintf(stderr, "%s has failed\n", command);
}

/* Returns true if this rank reads no more. */
static bool act(struct lmdbio_loader *loader, uint64_t batches)
{
	if (batches != job.at || !*job.act)
		return false;
	if (!strcmp(job.act, "stop"))
		stop(job.rank == job.acting);
	if (!strcmp(job.act, "run") && job.rank == job.acting)
		run();
	if (!strcmp(job.act, "stop") || !strcmp(job.act, "run") || job.rank != job.acting)
		return false;
	if (!strcmp(job.act, "exit"))
		exit(3);
	if (!strcmp(job.act, "kill"))
		raise(SIGKILL);
	/* The number of barriers at which the others still meet: after this batch, after each
	 * further one, and at the end. */
	job.left = lmdbio_loader_batches(loader) * job.epochs - batches + 1 + (batches != 0);
	if (!strcmp(job.act, "close"))
		lmdbio_loader_close(loader);
	if (!strcmp(job.act, "quiet"))
		lmdbio_loader_quiet(loader, 1);
	return true;
}

static int state_save(struct lmdbio_loader *loader)
{
	unsigned char state[LMDBIO_LOADER_STATE];
	FILE *file = fopen(job.state, "w");
	int rc = file ? lmdbio_loader_save(loader, state) : EIO;

	if (!rc && fwrite(state, sizeof(state), 1, file) != 1)
		rc = EIO;
	return file && fclose(file) ? EIO : rc;
}

static int state_restore(struct lmdbio_loader *loader)
{
	unsigned char state[LMDBIO_LOADER_STATE];
	FILE *file = fopen(job.state, "r");
	bool whole = file && fread(state, sizeof(state), 1, file) == 1;

	if (file)
		fclose(file);
	return whole ? lmdbio_loader_restore(loader, state) : EIO;
}

/* Returns MDB_NOTFOUND at the epoch's end, or 0 if this rank reads no more. */
static int read_epoch(struct lmdbio_loader *loader, uint64_t epoch, uint64_t *batches)
{
	struct lmdbio_batch *batch;
	bool restored = job.restore && epoch == job.first;
	int rc = restored ? state_restore(loader) : lmdbio_loader_epoch(loader, epoch);

	while (!rc && !(rc = lmdbio_loader_next(loader, &batch))) {
		if (!job.quiet)
			batch_print(batch);
		if (job.compute)
			usleep((useconds_t)job.compute);
		lmdbio_batch_done(batch);
		if (act(loader, ++*batches))
			return 0;
		if (*batches == job.save && !job.rank && (rc = state_save(loader)))
			return rc;
		if (job.hush)
			lmdbio_loader_quiet(loader, 1);
		if (!job.apart)
			gather();
		if (job.hush)
			lmdbio_loader_quiet(loader, 0);
	}
	return rc;
}

/* Meets the other ranks, which read on. */
static void stay(void)
{
	while (!job.apart && job.left--)
		gather();
}

static int read_all(const char *path, const struct lmdbio_loader_options *options)
{
	struct lmdbio_loader *loader;
	uint64_t batches = 0;
	char name[64];
	int rc;

	rc = lmdbio_mpi_loader_open(job.comm, &loader, path, MDB_NOLOCK, NULL, options);
	if (rc)
		return rc;
	if (act(loader, 0)) {
		stay();
		return 0;
	}
	if (!strcmp(job.act, "run"))
		gather();
	for (uint64_t epoch = job.first; epoch < job.first + job.epochs; epoch++) {
		rc = read_epoch(loader, epoch, &batches);
		if (!rc)
			stay();
		if (rc != MDB_NOTFOUND)
			return rc;
		stats_print(loader, epoch);
	}
	if (getenv("LOADER_JOB")) {
		snprintf(name, sizeof(name), "%s/done.%d", getenv("LOADER_JOB"), job.rank);
		fclose(fopen(name, "w"));
	}
	if (!job.apart)
		gather();
	lmdbio_loader_close(loader);
	return 0;
}

/* With LOADER_SAYS each rank writes into a file of its own. mpiexec passes on the bytes of several
 * ranks in the order in which they come, so blocks of a long output would end amid a line. */
static bool output_apart(void)
{
	const char *says = getenv("LOADER_SAYS");
	char path[4096];

	if (!says)
		return true;
	snprintf(path, sizeof(path), "%s.%d", says, job.rank);
	return freopen(path, "w", stdout);
}

/* Begins MPI, with a communicator of all ranks. */
static void begin(int *argc, char ***argv)
{
	MPI_Group group;
	int level;

	if (!job.sessions) {
		MPI_Init_thread(argc, argv, job.single ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE,
				&level);
		job.comm = MPI_COMM_WORLD;
		return;
	}
	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &job.session);
	MPI_Group_from_session_pset(job.session, "mpi://WORLD", &group);
	MPI_Comm_create_from_group(group, "loader_job", MPI_INFO_NULL, MPI_ERRORS_RETURN,
				   &job.comm);
	MPI_Group_free(&group);
}

static void end(void)
{
	if (!job.sessions) {
		MPI_Finalize();
		return;
	}
	MPI_Comm_free(&job.comm);
	MPI_Session_finalize(&job.session);
}

int main(int argc, char **argv)
{
	struct lmdbio_loader_options options = {
		.size = sizeof(options), .batch = 16, .order = LMDBIO_ORDER_SHUFFLE, .seed = 1};
	int rc;

	if (options_parse(&options, argc, argv))
		return 2;
	begin(&argc, &argv);
	MPI_Comm_rank(job.comm, &job.rank);
	if (!output_apart())
		return 2;
	rc = read_all(argv[optind], &options);
	printf("# rank %d: %d\n", job.rank, rc);
	fflush(stdout);
	end();
	return 0;
}
