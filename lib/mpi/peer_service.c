/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the thread that serves a rank's peers: decides when it looks around and when it sleeps, and
 * ends all services of a job, whenever and in whatever order loaders are closed.
 *
 * Work of its own process wakes the service. It finds what peers send when it looks: often while it
 * waits for an answer, otherwise the more seldom the longer nothing has come.
 *
 * A rank that has closed its loader, and has all answers that it has asked for, says so by a
 * non-blocking barrier, and goes on answering. When all ranks have said so, no rank asks any more.
 * A process that exits earlier waits until all ranks have said so. */
#include "config.h"
#include "mpi/peer_private.h"

#include "mpi/mpi_error.h"
#include "mpi/mpi_wait.h"
#include "util/clock.h"
#include "util/list.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/thread.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	pthread_mutex_t lock;
	pthread_cond_t ended;
	struct peer_job *jobs;
	struct peer_job *left; /* jobs that have not ended well: MPI may still use their memory */
	pid_t process;         /* the jobs'; a forked child has no jobs */
} serving = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.ended = PTHREAD_COND_INITIALIZER,
};

/* --- a job ------------------------------------------------------------------------------------ */

static const struct exchange_rules usual = {
	.silent_ns = CLOCK_SECOND, .owed_ns = 10 * CLOCK_SECOND, .beat_ns = CLOCK_SECOND / 10};

struct peer_job *job_new(const char *name)
{
	struct peer_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->comm = MPI_COMM_NULL;
	job->name = strdup(name);
	job->fills.urgent_last = &job->fills.urgent;
	job->disks.last = &job->disks.first;
	pthread_mutex_init(&job->lock, NULL);
	clock_condition(&job->wake);
	pthread_cond_init(&job->fills.filled, NULL);
	crew_init(&job->fills.crew, &filler_work, job, &job->lock);
	crew_init(&job->disks.crew, &disk_work, job, &job->lock);
	if (job->name)
		return job;
	job_free(job);
	return NULL;
}

int job_join(struct peer_job *job, MPI_Comm comm)
{
	unsigned patience = settings_get()->patience;
	struct exchange_rules rules = exchange_patient(&usual, patience);
	int rc = mpi_comm_dup(comm, &job->comm);

	if (rc != MPI_SUCCESS)
		return rc;
	rc = MPI_Comm_rank(job->comm, &job->rank);
	if (rc == MPI_SUCCESS)
		rc = MPI_Comm_size(job->comm, &job->ranks);
	if (rc != MPI_SUCCESS)
		return rc;
	job->peers = calloc((size_t)job->ranks, sizeof(*job->peers));
	return wire_open(&job->wire, job->comm, &rules, &peer_payload, job) || !job->peers ||
			       pace_open(&job->pace, job->ranks, UINT_MAX, patience)
		       ? MPI_ERR_NO_MEM
		       : MPI_SUCCESS;
}

void job_free(struct peer_job *job)
{
	if (!job)
		return;
	for (int rank = 0; job->peers && rank < job->ranks; rank++)
		free(job->peers[rank].ready);
	if (job->disks.owned)
		job->store.disk->close(job->store.disk_state);
	answers_drop(job);
	peer_store_close_units(&job->store);
	peer_plan_free(job);
	wire_close(&job->wire);
	pace_close(&job->pace);
	free(job->peers);
	free(job->plan.homes);
	free((void *)job->plan.copies);
	free(job->fills.own);
	free(job->name);
	pthread_mutex_destroy(&job->lock);
	pthread_cond_destroy(&job->wake);
	pthread_cond_destroy(&job->fills.filled);
	free(job);
}

/* --- the end ---------------------------------------------------------------------------------- */

enum ending { GOES_ON, ENDS, BREAKS_OFF };

void service_wake(struct peer_job *job)
{
	job->news = true;
	pthread_cond_signal(&job->wake);
}

static void ending_begins(struct peer_job *job)
{
	pthread_mutex_lock(&job->lock);
	job->finalizing = true;
	service_wake(job);
	pthread_mutex_unlock(&job->lock);
}

static enum ending end_step(struct peer_job *job)
{
	int finalized = 0;

	MPI_Finalized(&finalized);
	pthread_mutex_lock(&job->lock);
	/* Without service_wake(): the service would have news of its own at each look. */
	job->finalizing |= finalized != 0;
	if (job->finalizing)
		job->over = true;
	if (job->closed || job->finalizing)
		exchange_stop(&job->wire.exchange);
	pthread_mutex_unlock(&job->lock);
	return !wire_is_over(&job->wire) ? GOES_ON : job->wire.broken ? BREAKS_OFF : ENDS;
}

static void job_tell(struct peer_job *job)
{
	const struct tier_ops *disk = job->store.disk;
	uint64_t used, written = disk ? disk->space(job->store.disk_state).written : 0;

	pthread_mutex_lock(&job->store.lock);
	used = job->store.used;
	pthread_mutex_unlock(&job->store.lock);
	log_line("%s: rank %d has kept %llu bytes and %llu on disk, sent %llu (%llu of further "
		 "copies), received %llu; %llu questions were given up, %llu of them to ranks that "
		 "were alive; %llu plans were made anew; it slept %llu times",
		 job->name, job->rank, (unsigned long long)used, (unsigned long long)written,
		 (unsigned long long)job->counts.answered, (unsigned long long)job->counts.copies,
		 (unsigned long long)job->counts.received, (unsigned long long)job->counts.given_up,
		 (unsigned long long)job->counts.owed, (unsigned long long)job->counts.plans,
		 (unsigned long long)job->counts.naps);
}

/* If the ranks did not end together, the memory that MPI may still read or write stays. */
static void job_end(struct peer_job *job, bool well)
{
	bool closed;

	job->over = true;
	crew_stop(&job->disks.crew);
	if (settings_get()->verbose)
		job_tell(job);
	if (well) {
		MPI_Comm_free(&job->comm);
	} else {
		asks_drop(job);
	}
	MPI_Session_finalize(&job->session);
	pthread_mutex_lock(&serving.lock);
	list_remove(serving.jobs, job, next);
	pthread_mutex_lock(&job->lock);
	job->gone = true;
	asks_put(job, job->asked); /* which refuses them now */
	job->asked = NULL;
	closed = job->closed;
	if (!well) {
		job->next = serving.left;
		serving.left = job;
	}
	/* If the loader is still open, the thread that closes it frees the job, perhaps at once. */
	pthread_mutex_unlock(&job->lock);
	if (closed && well)
		job_free(job);
	pthread_cond_broadcast(&serving.ended);
	pthread_mutex_unlock(&serving.lock);
}

/* Whether a program that exits has failed, because it has begun MPI and not ended it. MPI does not
 * tell of sessions: a program with sessions alone has failed if its status is not 0. */
static bool has_failed(int status)
{
	int begun = 0, finalized = 0;

	MPI_Initialized(&begun);
	MPI_Finalized(&finalized);
	return begun ? !finalized : status != 0;
}

/* At exit other ranks may still ask, and MPI_Finalize would have waited for them too. The job of a
 * program that has failed must end at once, as it would without lmdbio. */
static void exit_begins(int status, void *unused)
{
	(void)unused;
	if (serving.process != getpid() || has_failed(status))
		return;
	pthread_mutex_lock(&serving.lock);
	for (struct peer_job *job = serving.jobs; job; job = job->next)
		ending_begins(job);
	while (serving.jobs)
		pthread_cond_wait(&serving.ended, &serving.lock);
	pthread_mutex_unlock(&serving.lock);
}

/* --- the thread ------------------------------------------------------------------------------- */

static void nap(struct peer_job *job, uint64_t ns)
{
	uint64_t until = clock_now() + ns;

	pthread_mutex_lock(&job->lock);
	job->counts.naps++;
	if (!job->news)
		(void)clock_wait(&job->wake, &job->lock, until);
	job->news = false;
	pthread_mutex_unlock(&job->lock);
}

static bool may_begin(struct peer_job *job)
{
	bool goes;

	pthread_mutex_lock(&job->lock);
	while (job->go == SERVICE_WAITS)
		pthread_cond_wait(&job->wake, &job->lock);
	goes = job->go == SERVICE_GOES;
	pthread_mutex_unlock(&job->lock);
	return goes;
}

static void *service_run(void *argument)
{
	struct peer_job *job = argument;
	enum ending ending = GOES_ON;
	struct mpi_nap rest = {0};

	thread_name("lmdbio-peers");
	if (!may_begin(job))
		return NULL;
	pthread_detach(pthread_self());
	while (ending == GOES_ON) {
		uint64_t now = clock_now(), ns;
		bool any = wire_step(&job->wire, now);

		asks_step(job, now);
		any |= answers_step(job);
		any |= asks_late(job, now);
		ending = end_step(job);
		/* Answers that wait for a unit or a disk need no frequent looks: the threads there
		 * wake the service. */
		ns = mpi_nap_next(&rest, any, wire_is_idle(&job->wire) ? NAP_IDLE : NAP_BUSY);
		if (ns && ending == GOES_ON)
			nap(job, ns);
	}
	job_end(job, ending == ENDS);
	return NULL;
}

/* With a session of lmdbio's, MPI goes on when the program ends it, until the service's own thread
 * ends the session. MPI_Finalize of MPICH takes its locks away, so a thread that is in a call of
 * MPI at that time would be lost. */
int service_start(struct peer_job *job)
{
	int rc = mpi_session_open(&job->session);

	if (rc != MPI_SUCCESS)
		return mpi_error_code(rc);
	pthread_mutex_lock(&serving.lock);
	if (serving.process != getpid())
		on_exit(exit_begins, NULL);
	serving.process = getpid();
	pthread_mutex_unlock(&serving.lock);
	rc = thread_start(&job->service, service_run, job);
	if (rc)
		MPI_Session_finalize(&job->session);
	return rc;
}

void service_go(struct peer_job *job)
{
	pthread_mutex_lock(&serving.lock);
	job->next = serving.jobs;
	serving.jobs = job;
	pthread_mutex_unlock(&serving.lock);
	pthread_mutex_lock(&job->lock);
	job->go = SERVICE_GOES;
	pthread_cond_signal(&job->wake);
	pthread_mutex_unlock(&job->lock);
}

void service_cancel(struct peer_job *job)
{
	pthread_mutex_lock(&job->lock);
	job->go = SERVICE_CANCELLED;
	pthread_cond_signal(&job->wake);
	pthread_mutex_unlock(&job->lock);
	pthread_join(job->service, NULL);
	MPI_Session_finalize(&job->session);
}
