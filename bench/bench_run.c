/* SPDX-License-Identifier: OLDAP-2.8 */
/* Starts worker processes: their pipes, arguments and environment. */
#include "bench_run.h"

#include "bench_busy.h"

#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PROCESSES_MAX = 64, WORDS_MAX = 32, VARIABLES_MAX = 1024 };

const char *const library_names[LIBRARIES] = {[ORIGINAL] = "original", [LMDBIO] = "lmdbio"};

static char worker_path[PATH_MAX], drop_in_path[PATH_MAX];
static char group_path[PATH_MAX];
static bool original_is_built_in;

struct worker {
	pid_t pid;
	int to;		 /* its standard input */
	FILE *from;	 /* its standard output */
	bool killed;	 /* by this process */
	char said[8192]; /* the result's texts point into it */
};

int run_init_at(const char *worker, const char *drop_in)
{
	const char *missing = NULL;

	if (snprintf(worker_path, PATH_MAX, "%s", worker) >= PATH_MAX || access(worker, X_OK))
		missing = worker;
	else if (!realpath(drop_in, drop_in_path))
		missing = drop_in;
	if (!missing)
		return 0;
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, missing, strerror(errno));
	return ENOENT;
}

int run_init(const char *library)
{
	char here[PATH_MAX], beside[PATH_MAX + 40], below[PATH_MAX + 40];
	ssize_t n = readlink("/proc/self/exe", here, sizeof(here) - 1);
	const char *directory;

	here[n > 0 ? n : 0] = 0;
	directory = dirname(here);
	snprintf(beside, sizeof(beside), "%s/bench_worker", directory);
	snprintf(below, sizeof(below), "%s/../compat/.libs/liblmdb.so.0", directory);
	return run_init_at(beside, library ? library : below);
}

void run_confine(const char *processes)
{
	snprintf(group_path, PATH_MAX, "%s", processes ? processes : "");
}

int run_group_put(const char *path, uint64_t number)
{
	FILE *file = fopen(path, "we");
	int rc = 0;

	if (!file || fprintf(file, "%" PRIu64 "\n", number) < 0)
		rc = errno;
	if (file && fclose(file))
		rc = errno;
	return rc;
}

/* Done before the worker opens anything, so that the group is charged for all of it. */
static int worker_confine(const struct worker *worker)
{
	int rc = *group_path ? run_group_put(group_path, (uint64_t)worker->pid) : 0;

	if (rc)
		fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, group_path,
			strerror(rc));
	return rc;
}

/* This process's environment with the library's LD_PRELOAD in place of any other. */
static void environment_make(enum library library, const char *variable, char *preload, size_t room,
			     char *variables[VARIABLES_MAX])
{
	static char disable[] = "LMDBIO_DISABLE=1";
	size_t name = variable ? strcspn(variable, "=") + 1 : 0, n = 0;

	for (char **entry = environ; *entry && n < VARIABLES_MAX - 4; entry++)
		if (strncmp(*entry, "LD_PRELOAD=", 11) != 0 &&
		    strncmp(*entry, disable, sizeof(disable) - 2) != 0 &&
		    (!variable || strncmp(*entry, variable, name) != 0))
			variables[n++] = *entry;
	if (library == ORIGINAL && original_is_built_in)
		variables[n++] = disable;
	if (library == LMDBIO || original_is_built_in) {
		snprintf(preload, room, "LD_PRELOAD=%s", drop_in_path);
		variables[n++] = preload;
	}
	if (variable)
		variables[n++] = (char *)(uintptr_t)variable;
	variables[n] = NULL;
}

static int spawn(pid_t *pid, char *const arguments[], enum library library, const char *variable,
		 const posix_spawn_file_actions_t *actions)
{
	char *variables[VARIABLES_MAX];
	char preload[PATH_MAX + 16];

	environment_make(library, variable, preload, sizeof(preload), variables);
	return posix_spawnp(pid, arguments[0], actions, NULL, arguments, variables);
}

/* Starts a worker, with the words of `front` in front of its command. */
static int worker_start(struct worker *worker, const char *const *front,
			const struct bench_job *job, enum library library, const char *variable)
{
	char words[WORDS_MAX][FIELD_WORD_MAX];
	char *arguments[2 * WORDS_MAX];
	posix_spawn_file_actions_t actions;
	int to[2], from[2], n = 0, rc;

	while (front && *front)
		arguments[n++] = (char *)(uintptr_t)*front++;
	arguments[n++] = worker_path;
	for (size_t i = 0; i < bench_job_n; i++) {
		field_print(&bench_job_fields[i], job, words[i], sizeof(words[i]));
		arguments[n++] = words[i];
	}
	arguments[n] = NULL;
	if (pipe2(to, O_CLOEXEC))
		return errno;
	if (pipe2(from, O_CLOEXEC)) {
		rc = errno;
		close(to[0]);
		close(to[1]);
		return rc;
	}
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
	rc = spawn(&worker->pid, arguments, library, variable, &actions);
	posix_spawn_file_actions_destroy(&actions);
	close(to[0]);
	close(from[1]);
	worker->to = to[1];
	worker->from = fdopen(from[0], "r");
	if (rc) {
		worker->pid = 0;
		fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, arguments[0],
			strerror(rc));
	}
	return rc;
}

/* Reads the worker's result until the worker closes its end. */
static int worker_read(struct worker *worker, struct bench_result *result)
{
	size_t used = 0;

	memset(result, 0, sizeof(*result));
	while (used + 1 < sizeof(worker->said) &&
	       fgets(worker->said + used, (int)(sizeof(worker->said) - used), worker->from)) {
		char *word = worker->said + used;
		size_t length = strcspn(word, "\n");

		word[length] = 0;
		if (field_parse(bench_result_fields, bench_result_n, word, result))
			return EIO;
		used += length + 1;
	}
	return result->library ? 0 : EIO;
}

static int worker_ready(struct worker *worker)
{
	char line[16];

	return fgets(line, sizeof(line), worker->from) && !strcmp(line, "ready\n") ? 0 : EIO;
}

/* A worker without a go-ahead ends by itself. */
static int worker_end(struct worker *worker)
{
	int status = 0;

	if (worker->to >= 0)
		close(worker->to);
	if (worker->from)
		fclose(worker->from);
	if (worker->pid <= 0)
		return EIO;
	while (waitpid(worker->pid, &status, 0) < 0)
		if (errno != EINTR)
			return errno;
	if (WIFSIGNALED(status) && !worker->killed)
		fprintf(stderr, "%s: a worker died by signal %d\n", program_invocation_short_name,
			WTERMSIG(status));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : EIO;
}

/* Kills the workers, which wait for one another, except `silent`, which has already ended. */
static void workers_kill(struct worker *workers, unsigned n, unsigned silent)
{
	for (unsigned i = 0; i < n; i++)
		if (i != silent) {
			workers[i].killed = true;
			kill(workers[i].pid, SIGKILL);
		}
}

/* Waits until each worker has written something. Fails if a worker ends without a word (*silent),
 * or if a signal ends the wait. */
static int workers_watch(struct worker *workers, unsigned n, unsigned *silent)
{
	struct pollfd *fds = calloc(n, sizeof(*fds));
	unsigned left = n;
	int rc = fds ? 0 : ENOMEM;

	for (unsigned i = 0; i < n && !rc; i++)
		fds[i] = (struct pollfd){.fd = fileno(workers[i].from), .events = POLLIN};
	while (left && !rc) {
		if (poll(fds, n, -1) < 0)
			rc = errno;
		for (unsigned i = 0; i < n && !rc; i++) {
			if (fds[i].fd < 0 || !fds[i].revents)
				continue;
			if (!(fds[i].revents & POLLIN)) {
				*silent = i;
				rc = EIO;
			}
			fds[i].fd = -1;
			left--;
		}
	}
	free(fds);
	return rc;
}

/* Asserts that the worker used the intended library: otherwise the run is worthless. */
static int check_library(const struct bench_result *result, enum library library)
{
	char found[PATH_MAX];
	bool ours = realpath(result->library, found) && !strcmp(found, drop_in_path);

	if (ours == (library == LMDBIO || original_is_built_in))
		return 0;
	fprintf(stderr, "%s: the worker ran on %s\n", program_invocation_short_name,
		result->library);
	return EIO;
}

static void result_add(struct bench_result *sum, const struct bench_result *one)
{
	if (!sum->begin || one->begin < sum->begin)
		sum->begin = one->begin;
	if (one->end > sum->end)
		sum->end = one->end;
	if (one->closing > sum->closing)
		sum->closing = one->closing;
	if (one->rss > sum->rss)
		sum->rss = one->rss;
	if (one->own > sum->own)
		sum->own = one->own;
	sum->user += one->user;
	sum->system += one->system;
	sum->major += one->major;
	sum->minor += one->minor;
	sum->switches += one->switches;
	sum->records += one->records;
	sum->bytes += one->bytes;
	sum->sum += one->sum;
	sum->missing += one->missing;
	sum->stopped += one->stopped;
	if (one->settled && (!sum->settled || one->settled < sum->settled))
		sum->settled = one->settled;
	sum->early_records += one->early_records;
	sum->early_bytes += one->early_bytes;
	sum->fetched += one->fetched;
	sum->lmdbio_requests += one->lmdbio_requests;
	sum->lmdbio_bytes += one->lmdbio_bytes;
	sum->steps += one->steps;
	sum->waited += one->waited;
	if (!sum->first_step || one->first_step < sum->first_step)
		sum->first_step = one->first_step;
	if (one->last_step > sum->last_step)
		sum->last_step = one->last_step;
}

/* Tells a ready worker to begin. If the worker was killed meanwhile, the result is an error instead
 * of a SIGPIPE. */
static int worker_go(const struct worker *worker)
{
	const struct sigaction ignored = {.sa_handler = SIG_IGN};
	struct sigaction before;
	int rc;

	sigaction(SIGPIPE, &ignored, &before);
	rc = write(worker->to, "!", 1) == 1 ? 0 : errno;
	sigaction(SIGPIPE, &before, NULL);
	return rc;
}

static int run_group_front(const struct bench_job *job, enum library library, unsigned processes,
			   const char *variable, const char *const *front, struct bench_result *sum)
{
	struct worker *workers = calloc(processes, sizeof(*workers));
	struct bench_job own = *job;
	struct bench_result one;
	struct busy busy = {.n = 0};
	unsigned started = 0, told = 0, silent = processes;
	int rc = 0, ended;

	memset(sum, 0, sizeof(*sum));
	if (!workers)
		return ENOMEM;
	own.step = job->step ? job->step : processes;
	for (; started < processes && !rc; started++) {
		own.first = job->first + started;
		rc = worker_start(&workers[started], front, &own, library, variable);
	}
	for (unsigned i = 0; i < started && !rc; i++)
		rc = worker_ready(&workers[i]);
	for (unsigned i = 0; i < started && !rc; i++)
		rc = worker_confine(&workers[i]);
	if (!rc)
		rc = busy_start(&busy, (unsigned)job->busy);
	for (; told < started && !rc; told++) {
		rc = worker_go(&workers[told]);
		silent = rc ? told : processes;
	}
	if (!rc && job->work == WORK_TRAIN)
		rc = workers_watch(workers, started, &silent);
	if (rc && job->work == WORK_TRAIN) /* workers that have begun would never end */
		workers_kill(workers, told, silent);
	for (unsigned i = 0; i < started && !rc; i++) {
		rc = worker_read(&workers[i], &one);
		if (!rc)
			rc = check_library(&one, library);
		result_add(sum, &one);
	}
	busy_stop(&busy);
	for (unsigned i = 0; i < started; i++) {
		ended = worker_end(&workers[i]);
		rc = rc ? rc : ended;
	}
	free(workers);
	return rc;
}

int run_group(const struct bench_job *job, enum library library, unsigned processes,
	      const char *variable, struct bench_result *sum)
{
	if (!processes || processes > PROCESSES_MAX)
		return EINVAL;
	return run_group_front(job, library, processes, variable, NULL, sum);
}

int run_worker(const struct bench_job *job, struct bench_result *result)
{
	struct worker worker = {.to = -1};
	int rc = worker_start(&worker, NULL, job, ORIGINAL, NULL), ended;

	if (!rc)
		rc = worker_read(&worker, result);
	ended = worker_end(&worker);
	return rc ? rc : ended;
}

/* Whether the worker starts, and on which library. */
static int library_tell(struct bench_result *result, bool quiet, char said[PATH_MAX])
{
	static const struct bench_job tell = {.work = WORK_TELL};
	struct worker worker = {.to = -1};
	int rc, ended, error = -1, nowhere = -1;

	/* The loader's complaint that liblmdb.so.0 is missing is expected. */
	if (quiet && (error = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)) >= 0 &&
	    (nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC)) >= 0)
		dup2(nowhere, STDERR_FILENO);
	rc = worker_start(&worker, NULL, &tell, ORIGINAL, NULL);
	if (!rc)
		rc = worker_read(&worker, result);
	ended = worker_end(&worker);
	if (nowhere >= 0) {
		dup2(error, STDERR_FILENO);
		close(nowhere);
	}
	if (error >= 0)
		close(error);
	if (rc || ended)
		return rc ? rc : ended;
	snprintf(said, PATH_MAX, "%s", result->library);
	result->library = said;
	result->version = strdup(result->version ? result->version : "");
	return 0;
}

int run_original(struct bench_result *result, bool *built_in)
{
	static char found[PATH_MAX];
	char resolved[PATH_MAX];
	int rc = library_tell(result, true, found);

	*built_in = rc || (realpath(found, resolved) && !strcmp(resolved, drop_in_path));
	original_is_built_in = *built_in;
	if (*built_in)
		rc = library_tell(result, false, found);
	if (rc)
		fprintf(stderr, "%s: %s: it does not start\n", program_invocation_short_name,
			worker_path);
	return rc;
}

/* Parses the line "totals: N" of a callgrind file. */
static int read_totals(const char *path, uint64_t *instructions)
{
	FILE *file = fopen(path, "re");
	char line[512];
	int rc = EIO;

	if (!file)
		return errno;
	while (rc && fgets(line, sizeof(line), file))
		if (sscanf(line, "totals: %" SCNu64, instructions) == 1)
			rc = 0;
	fclose(file);
	return rc;
}

int run_counted(const struct bench_job *job, enum library library, uint64_t *instructions,
		struct bench_result *result)
{
	char name[] = "/tmp/lmdbio-bench-XXXXXX";
	char out[sizeof(name) + 32];
	const char *front[] = {"valgrind",
			       "--tool=callgrind",
			       "-q",
			       "--collect-atstart=no",
			       "--toggle-collect=bench_measured",
			       out,
			       NULL};
	int fd = mkstemp(name), rc;

	if (fd < 0)
		return errno;
	close(fd);
	snprintf(out, sizeof(out), "--callgrind-out-file=%s", name);
	rc = run_group_front(job, library, 1, NULL, front, result);
	if (!rc)
		rc = read_totals(name, instructions);
	unlink(name);
	return rc;
}

int run_true(enum library library, uint64_t *nanoseconds)
{
	char *arguments[] = {(char *)(uintptr_t) "true", NULL};
	uint64_t begin = clock_now();
	pid_t pid;
	int status, rc;

	rc = spawn(&pid, arguments, library, NULL, NULL);
	if (rc)
		return rc;
	if (waitpid(pid, &status, 0) != pid || status != 0)
		return EIO;
	*nanoseconds = clock_now() - begin;
	return 0;
}
