/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs a job as the measured process: it reads its job, waits for the start, and writes the result.
 * It is linked to the system's liblmdb.so.0 like any program; lmdbio takes its place by
 * LD_PRELOAD. */
#include "bench_make.h"
#include "bench_workloads.h"

#include <dlfcn.h>
#include <lmdbio.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

/* All processes of a run begin together, after their preparations. */
static int wait_for_start(void)
{
	char byte;

	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		return -1;
	return read(STDIN_FILENO, &byte, 1) == 1 ? 0 : -1;
}

/* lmdbio's counters, if this process runs on lmdbio. */
static void note_requests(struct bench_result *result)
{
	struct lmdbio_stats stats = {.size = sizeof(stats)};
	int (*call)(struct lmdbio_stats *);
	void *symbol = dlsym(RTLD_DEFAULT, "lmdbio_stats");

	memcpy(&call, &symbol, sizeof(call));
	if (!call || call(&stats))
		return;
	result->lmdbio_requests = stats.storage_requests;
	result->lmdbio_bytes = stats.storage_bytes;
}

static void print_result(struct bench_result *result)
{
	char word[FIELD_WORD_MAX];
	Dl_info info;
	int (*call)(MDB_env *, const char *, unsigned, mdb_mode_t) = mdb_env_open;
	void *address;

	memcpy(&address, &call, sizeof(address));
	result->library = dladdr(address, &info) ? info.dli_fname : "";
	result->version = mdb_version(NULL, NULL, NULL);
	note_requests(result);
	for (size_t i = 0; i < bench_result_n; i++) {
		field_print(&bench_result_fields[i], result, word, sizeof(word));
		printf("%s\n", word);
	}
}

int main(int argc, char **argv)
{
	struct bench_job job = {.work = WORKS, .step = 1};
	struct bench_result result = {0};
	struct bench_state *state;
	int rc;

	/* A worker ends with its driver, even if the driver is killed. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 1; i < argc; i++)
		if (field_parse(bench_job_fields, bench_job_n, argv[i], &job)) {
			fprintf(stderr, "bench_worker: not understood: %s\n", argv[i]);
			return 2;
		}
	if (job.work == WORK_MAKE) {
		rc = bench_make(&job);
	} else if (job.work == WORK_TELL) {
		rc = 0;
	} else {
		rc = workload_prepare(&job, &state);
		if (rc)
			return 2;
		if (wait_for_start() ||
		    (job.nice && setpriority(PRIO_PROCESS, 0, (int)job.nice))) {
			workload_free(state);
			return 2;
		}
		rc = workload_run(state, &result);
		workload_free(state);
	}
	if (rc) {
		fprintf(stderr, "bench_worker: %s: %s\n", job.path ? job.path : "",
			mdb_strerror(rc));
		return 1;
	}
	print_result(&result);
	return 0;
}
