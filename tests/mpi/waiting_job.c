/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells what the threads of a job's rank cost while it waits.
 *
 *	waiting_job MILLISECONDS PATH
 *
 * Ranks 1 and up wait in lmdbio_mpi_loader_open() for rank 0, which comes so much later. Then all
 * read an epoch, and wait as long without a call, while their services have nothing to do. Standard
 * output has a line for each rank, thread and wait:
 *
 *	RANK WAIT THREAD PROCESSOR-NANOSECONDS SLEEPS NANOSECONDS
 *
 * WAIT is open or idle; SLEEPS counts how often the kernel has put the thread to sleep.
 */
#include <lmdbio_mpi.h>

#include <dirent.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

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
	threads->at = now();
	while (folder && threads->n < THREADS && (entry = readdir(folder)))
		if (entry->d_name[0] != '.')
			thread_look(&threads->each[threads->n++], entry->d_name);
	if (folder)
		closedir(folder);
}

/* Threads that have begun meanwhile are told of from their beginning on. */
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

/* Returns when all have come. */
static void gather(void)
{
	MPI_Request request;
	int there = 0;

	MPI_Ibarrier(MPI_COMM_WORLD, &request);
	while (MPI_Test(&request, &there, MPI_STATUS_IGNORE) == MPI_SUCCESS && !there)
		wait_for(1);
}

static int job(int rank, int ms, const char *path)
{
	struct lmdbio_loader_options options = {
		.size = sizeof(options), .batch = 16, .order = LMDBIO_ORDER_SHUFFLE, .seed = 1};
	struct lmdbio_loader *loader;
	struct lmdbio_batch *batch;
	static struct threads before;
	int rc;

	gather();
	threads_look(&before);
	if (!rank)
		wait_for(ms);
	rc = lmdbio_mpi_loader_open(MPI_COMM_WORLD, &loader, path, MDB_NOLOCK, NULL, &options);
	if (rc)
		return rc;
	threads_tell(rank, "open", &before);
	rc = lmdbio_loader_epoch(loader, 0);
	while (!rc && !(rc = lmdbio_loader_next(loader, &batch)))
		lmdbio_batch_done(batch);
	if (rc != MDB_NOTFOUND)
		return rc;
	gather();
	wait_for(ms / 4);
	threads_look(&before);
	wait_for(ms);
	threads_tell(rank, "idle", &before);
	gather();
	lmdbio_loader_close(loader);
	return 0;
}

int main(int argc, char **argv)
{
	int level, rank, rc;

	if (argc != 3)
		return 2;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	rc = job(rank, atoi(argv[1]), argv[2]);
	if (rc)
		fprintf(stderr, "rank %d: %d\n", rank, rc);
	fflush(stdout);
	MPI_Finalize();
	return rc != 0;
}
