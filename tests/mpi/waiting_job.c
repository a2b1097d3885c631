/* SPDX-License-Identifier: OLDAP-2.8 */
/* Prints what the threads of a job's rank cost while it waits.
 *
 *	waiting_job MILLISECONDS PATH [inside]
 *
 * Ranks 1 and up wait for rank 0 in each of these:
 *   open   in lmdbio_mpi_loader_open(), to which rank 0 comes so much later
 *   idle   all wait without a call after an epoch, while their services have nothing to do
 *   batch  in lmdbio_loader_next() of an epoch that is not the next, for records of rank 0, which is
 *          stopped so long
 *   end    in MPI_Finalize and exit(), which rank 0 comes to so much later; with "inside", which asks for
 *          no loader, those of a program that has the node's server inside
 * Standard output has a line for each rank, thread and wait:
 *
 *	RANK WAIT THREAD PROCESSOR-NANOSECONDS SLEEPS NANOSECONDS
 *
 * SLEEPS counts how often the kernel has put the thread to sleep. At the end the thread is "process": all
 * of its threads together, and those that have ended.
 */
#include <lmdbio_mpi.h>

#include "util/clock.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 64 };

struct thread {
	char id[16], name[32];
	uint64_t ns, sleeps;
};

struct threads {
	uint64_t at; /* ns */
	size_t n;
	struct thread each[THREADS];
};

static void wait_for(int ms)
{
	(void)poll(NULL, 0, ms);
}

static void thread_look(struct thread *thread, const char *id)
{
	char path[64], line[256];
	FILE *file;

	memset(thread, 0, sizeof(*thread));
	snprintf(thread->id, sizeof(thread->id), "%.15s", id);
	snprintf(path, sizeof(path), "/proc/self/task/%.15s/schedstat", id);
	file = fopen(path, "re");
	if (file && fgets(line, sizeof(line), file))
		thread->ns = strtoull(line, NULL, 10);
	if (file)
		fclose(file);
	snprintf(path, sizeof(path), "/proc/self/task/%.15s/status", id);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		(void)sscanf(line, "Name: %31s", thread->name);
		if (!strncmp(line, "voluntary_ctxt_switches:", 24))
			thread->sleeps = strtoull(line + 24, NULL, 10);
	}
	if (file)
		fclose(file);
}

static void threads_look(struct threads *threads)
{
	DIR *folder = opendir("/proc/self/task");
	struct dirent *entry;

	memset(threads, 0, sizeof(*threads));
	threads->at = clock_now();
	while (folder && threads->n < THREADS && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			thread_look(&threads->each[threads->n++], entry->d_name);
	if (folder)
		closedir(folder);
}

/* Threads that began meanwhile are reported from their beginning on. */
static void threads_tell(int rank, const char *wait, const struct threads *before)
{
	struct threads after;

	threads_look(&after);
	for (size_t i = 0; i < after.n; i++) {
		struct thread *thread = &after.each[i];

		for (size_t j = 0; j < before->n; j++) {
			if (strcmp(before->each[j].id, thread->id) != 0)
				continue;
			thread->ns -= before->each[j].ns;
			thread->sleeps -= before->each[j].sleeps;
		}
		printf("%d %s %s %llu %llu %llu\n", rank, wait, i ? thread->name : "program",
		       (unsigned long long)thread->ns, (unsigned long long)thread->sleeps,
		       (unsigned long long)(after.at - before->at));
	}
}

/* Returns when all ranks have arrived. */
static void gather(void)
{
	MPI_Request request;
	int there = 0;

	MPI_Ibarrier(MPI_COMM_WORLD, &request);
	while (MPI_Test(&request, &there, MPI_STATUS_IGNORE) == MPI_SUCCESS && !there)
		wait_for(1);
}

static int epoch_take(struct lmdbio_loader *loader, uint64_t epoch)
{
	struct lmdbio_batch *batch;
	int rc = lmdbio_loader_epoch(loader, epoch);

	while (!rc && !(rc = lmdbio_loader_next(loader, &batch)))
		lmdbio_batch_done(batch);
	return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Stops this process for `ms` milliseconds. */
static void stop_for(int ms)
{
	pid_t parent = getpid(), child = fork();

	if (!child) {
		wait_for(ms);
		kill(parent, SIGCONT);
		_exit(0);
	}
	if (child < 0)
		return;
	raise(SIGSTOP);
	waitpid(child, NULL, 0);
}

/* Returns when the process is stopped. */
static void until_stopped(int pid)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	while (state != 'T') {
		wait_for(1);
		file = fopen(path, "re");
		if (!file)
			return;
		(void)!fscanf(file, "%*d (%*[^)]) %c", &state);
		fclose(file);
	}
}

/* Measures the end of a rank, from its last work to the last handler of exit(). Libraries that are
 * loaded with the program register their handlers before main(); these run after the handlers that
 * main() registers. */
static void end_watch(void);
__attribute__((section(".preinit_array"), used)) static void (*const first_of_all)(void) = end_watch;

static struct {
	int rank;
	uint64_t at, ns, sleeps;
} ending;

static void process_look(uint64_t *ns, uint64_t *sleeps)
{
	struct timespec used;
	struct rusage usage;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	getrusage(RUSAGE_SELF, &usage);
	*ns = (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
	*sleeps = (uint64_t)usage.ru_nvcsw;
}

static void end_begins(int rank)
{
	ending.rank = rank;
	ending.at = clock_now();
	process_look(&ending.ns, &ending.sleeps);
}

static void end_tell(int status, void *argument)
{
	uint64_t ns, sleeps;

	(void)status, (void)argument;
	if (!ending.at)
		return;
	process_look(&ns, &sleeps);
	printf("%d end process %llu %llu %llu\n", ending.rank, (unsigned long long)(ns - ending.ns),
	       (unsigned long long)(sleeps - ending.sleeps),
	       (unsigned long long)(clock_now() - ending.at));
	fflush(stdout);
}

static void end_watch(void)
{
	on_exit(end_tell, NULL); /* atexit() would run it with the program's own destructors */
}

static int job(int rank, int ms, const char *path)
{
	struct lmdbio_loader_options options = {
		.size = sizeof(options), .batch = 16, .order = LMDBIO_ORDER_SHUFFLE, .seed = 1};
	struct lmdbio_loader *loader;
	static struct threads before;
	int first = (int)getpid(), rc;

	MPI_Bcast(&first, 1, MPI_INT, 0, MPI_COMM_WORLD);
	gather();
	threads_look(&before);
	if (!rank)
		wait_for(ms);
	rc = lmdbio_mpi_loader_open(MPI_COMM_WORLD, &loader, path, MDB_NOLOCK, NULL, &options);
	if (rc)
		return rc;
	threads_tell(rank, "open", &before);
	rc = epoch_take(loader, 0);
	if (rc)
		return rc;
	gather();
	wait_for(ms / 4);
	threads_look(&before);
	wait_for(ms);
	threads_tell(rank, "idle", &before);
	gather();
	if (!rank)
		stop_for(ms);
	else
		until_stopped(first);
	threads_look(&before);
	rc = epoch_take(loader, 7);
	threads_tell(rank, "batch", &before);
	gather();
	end_begins(rank);
	lmdbio_loader_close(loader);
	return rc;
}

/* A program without a loader that has the node's server inside. */
static int inside(int rank, const char *path)
{
	MDB_env *env = NULL;
	MDB_txn *txn;
	MDB_dbi dbi;
	MDB_stat stat;
	int rc = mdb_env_create(&env);

	if (!rc)
		rc = mdb_env_open(env, path, MDB_RDONLY | MDB_NOLOCK, 0);
	if (!rc)
		rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn);
	if (!rc) {
		rc = mdb_dbi_open(txn, NULL, 0, &dbi);
		if (!rc)
			rc = mdb_stat(txn, dbi, &stat);
		mdb_txn_abort(txn);
	}
	mdb_env_close(env);
	gather();
	end_begins(rank);
	return rc;
}

int main(int argc, char **argv)
{
	int level, rank, rc, ms;

	if (argc < 3 || argc > 4)
		return 2;
	ms = atoi(argv[1]);
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	rc = argc == 4 ? inside(rank, argv[2]) : job(rank, ms, argv[2]);
	if (rc)
		fprintf(stderr, "rank %d: %d\n", rank, rc);
	fflush(stdout);
	if (!rank)
		wait_for(ms);
	MPI_Finalize();
	return rc != 0;
}
