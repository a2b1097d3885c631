/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the node's server inside a program that uses MPI itself.
 *
 * A thread of lmdbio's waits for ranks that have not come yet, in an MPI session of its own and on
 * a communicator of all ranks. No other thread waits. Then the thread does what lmdbio-run does for
 * programs without MPI. A process that has opened a session must close it. So the thread ends with
 * all other ranks: when MPI_Finalize ends MPI (which deletes an attribute of MPI_COMM_SELF) or when
 * the process exits. */
#include "config.h"
#include "mpi/module_parts.h"

#include "mpi/mpi_error.h"
#include "mpi/mpi_job.h"
#include "mpi/mpi_over.h"
#include "mpi/mpi_wait.h"

#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"
#include "util/thread.h"

#include <errno.h>
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { GATHER_LIMIT = 10000 /* ms */ };

enum inside_state {
	INSIDE_GATHERING, /* the thread waits for ranks or finds their places: nothing ends that */
	INSIDE_SERVING,
	INSIDE_OVER,
};

static struct {
	pthread_mutex_t lock; /* held while the thread begins or is joined */
	pthread_t thread;
	pid_t process; /* the thread's; a forked child has no thread */
	bool running;
	atomic_bool ending;
	pthread_mutex_t joining; /* held while the session is opened */
	atomic_bool joined;      /* the session is open, or never will be */
	int failed;              /* MPI's code where MPI_Session_init failed, else MPI_SUCCESS */
	_Atomic enum inside_state state;
	int wake; /* eventfd */
	int keyval;
	MPI_Session session;
} inside = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.joining = PTHREAD_MUTEX_INITIALIZER,
	.wake = -1,
	.keyval = MPI_KEYVAL_INVALID,
	.session = MPI_SESSION_NULL,
};

/* --- the end --------------------------------------------------------------------------------- */

/* Whether the ranks come together within GATHER_LIMIT. A program may be over before all ranks have
 * begun. */
static bool is_gathered(void)
{
	for (unsigned ms = 0; ms < GATHER_LIMIT; ms++) {
		if (atomic_load(&inside.state) != INSIDE_GATHERING)
			return true;
		clock_sleep(1000000);
	}
	log_refused("the node was not served: not all ranks have begun MPI with "
		    "MPI_THREAD_MULTIPLE");
	return false;
}

/* Waits for all ranks to end, as MPI_Finalize does, but only GATHER_LIMIT for ranks that never
 * come. */
static void inside_end(void)
{
	uint64_t one = 1;

	if (inside.process != getpid())
		return;
	pthread_mutex_lock(&inside.lock);
	atomic_store(&inside.ending, true);
	(void)!write(inside.wake, &one, sizeof(one));
	if (inside.running && is_gathered()) {
		pthread_join(inside.thread, NULL);
		inside.running = false;
	}
	pthread_mutex_unlock(&inside.lock);
}

/* At exit, once or twice. A program that has begun MPI and not ended it has failed: its job must
 * end at once, as it would without lmdbio. So nothing waits here for other ranks to come or to
 * finish their reads. */
static void exit_begins(void)
{
	int begun = 0, ended = 0;

	MPI_Initialized(&begun);
	MPI_Finalized(&ended);
	if (!begun || ended)
		inside_end();
}

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF before it does anything else. Where a
 * session keeps MPI alive, as in MPICH 4.0, the session's end in lmdbio's thread deletes them. */
static int finalize_begins(MPI_Comm comm, int keyval, void *value, void *state)
{
	(void)comm, (void)keyval, (void)value, (void)state;
	if (!pthread_equal(pthread_self(), inside.thread))
		inside_end();
	return MPI_SUCCESS;
}

/* Has lmdbio notice the program's MPI_Finalize, as soon as the program has begun MPI. */
static void finalize_watch(void)
{
	int begun = 0, ended = 0;

	if (inside.keyval != MPI_KEYVAL_INVALID)
		return;
	MPI_Initialized(&begun);
	MPI_Finalized(&ended);
	if (!begun || ended)
		return;
	if (MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, finalize_begins, &inside.keyval, NULL) != MPI_SUCCESS)
		inside.keyval = MPI_KEYVAL_INVALID;
	else if (MPI_Comm_set_attr(MPI_COMM_SELF, inside.keyval, &inside) != MPI_SUCCESS)
		(void)MPI_Comm_free_keyval(&inside.keyval); /* the next look tries again */
}

/* --- the thread ------------------------------------------------------------------------------- */

/* The look() of struct mpi_work. */
static bool is_ending(void *context)
{
	uint64_t woken;

	(void)context;
	if (!atomic_load(&inside.ending)) {
		finalize_watch();
		return atomic_load(&inside.ending);
	}
	/* The number that inside_end() has written would end each sleep of the wait for other ranks
	 * at once. */
	(void)!read(inside.wake, &woken, sizeof(woken));
	return true;
}

/* The wait for other ranks in MPI_Session_init, which nothing can end. */
struct gathering {
	pthread_mutex_t lock;
	pthread_cond_t over;
	bool is_over;
};

/* Says that MPI waits for other ranks, if opening the session takes longer than GATHER_LIMIT. */
static void *gathering_watch(void *argument)
{
	struct gathering *gathering = argument;
	uint64_t until = clock_now() + GATHER_LIMIT * UINT64_C(1000000);
	bool in_time = true;

	thread_name("lmdbio-mpi");
	pthread_mutex_lock(&gathering->lock);
	while (!gathering->is_over && in_time)
		in_time = clock_wait(&gathering->over, &gathering->lock, until);
	if (!gathering->is_over)
		log_refused("MPI waits for ranks of the job that have not begun it: all must be "
			    "started with --mpi=inside");
	pthread_mutex_unlock(&gathering->lock);
	return NULL;
}

static int session_open(void)
{
	int rc = mpi_session_open(&inside.session);

	/* MPICH 4.2 sets up an exit() handler when MPI begins. If MPI has ended when that handler
	 * runs, it tells the launcher that the process ends; otherwise the launcher kills the job.
	 * exit() runs the last handler first, so this handler, which ends MPI, must be set up after
	 * MPICH's. */
	if (rc == MPI_SUCCESS)
		atexit(exit_begins);
	return rc;
}

/* Opens the session before the program runs. If that fails, session_join() tries again and reports
 * the failure, once the program has begun MPI. */
static void session_open_first(void)
{
	struct gathering gathering = {.lock = PTHREAD_MUTEX_INITIALIZER};
	pthread_t watch;
	bool watched;

	clock_condition(&gathering.over);
	watched = !thread_start(&watch, gathering_watch, &gathering);
	(void)session_open();
	if (!watched)
		return;
	pthread_mutex_lock(&gathering.lock);
	gathering.is_over = true;
	pthread_cond_signal(&gathering.over);
	pthread_mutex_unlock(&gathering.lock);
	pthread_join(watch, NULL);
}

/* Opens the session once the program has begun MPI with MPI_THREAD_MULTIPLE. The first call that
 * begins MPI sets the level (MPICH 4.0). If MPI_Finalize runs at the same time, MPICH 4.0 begins
 * anew behind it and crashes. Only the thread that began MPI may end it, so that thread opens the
 * session in its calls of LMDB. A program may make no such call: then lmdbio's own thread opens the
 * session. That is in time if the program keeps MPI for longer than a sleep of NAP_IDLE. */
static void session_join(void)
{
	int begun = 0, ended = 0, level = MPI_THREAD_SINGLE;

	pthread_mutex_lock(&inside.joining);
	MPI_Initialized(&begun);
	MPI_Finalized(&ended);
	if (begun && !atomic_load(&inside.joined)) {
		if (!ended)
			MPI_Query_thread(&level);
		if (level == MPI_THREAD_MULTIPLE)
			inside.failed = session_open();
		else if (!ended)
			log_refused("the node is not served: the program has not asked for "
				    "MPI_THREAD_MULTIPLE");
		atomic_store(&inside.joined, true);
	}
	pthread_mutex_unlock(&inside.joining);
}

/* Opens the session in a call of LMDB. */
static void program_joins(void)
{
	int begun = 0, ended = 0, is_main = 0;

	if (inside.process != getpid())
		return;
	MPI_Initialized(&begun);
	MPI_Finalized(&ended);
	if (begun && !ended && MPI_Is_thread_main(&is_main) == MPI_SUCCESS && is_main)
		session_join();
}

/* Waits until the program has begun MPI. Returns false if it has begun MPI without
 * MPI_THREAD_MULTIPLE, or ends. */
static bool program_allows(void)
{
	struct pollfd wake = {.fd = inside.wake, .events = POLLIN};
	struct mpi_nap rest = {0};

	for (session_join(); !atomic_load(&inside.joined) && !atomic_load(&inside.ending);
	     session_join())
		(void)clock_poll(&wake, 1, mpi_nap_next(&rest, false, NAP_IDLE));
	return inside.session != MPI_SESSION_NULL || inside.failed;
}

static int all_ranks(MPI_Comm *all)
{
	MPI_Group group;
	int rc;

	if (inside.session == MPI_SESSION_NULL)
		return inside.failed;
	finalize_watch();
	rc = MPI_Group_from_session_pset(inside.session, "mpi://WORLD", &group);
	if (rc != MPI_SUCCESS)
		return rc;
	rc = MPI_Comm_create_from_group(group, "lmdbio", MPI_INFO_NULL, MPI_ERRORS_RETURN, all);
	MPI_Group_free(&group);
	return rc;
}

/* Closes the session, which ends MPI unless the program uses MPI as well. `together`: the ranks
 * have come together, and know that all leave. */
static void session_close(MPI_Comm *all, bool together)
{
	int begun = 1, ended = 0; /* when in doubt the program has MPI, and must not lose it */

	if (*all != MPI_COMM_NULL)
		MPI_Comm_free(all);
	if (inside.session == MPI_SESSION_NULL)
		return;
	MPI_Initialized(&begun);
	MPI_Finalized(&ended);
	if (together && (!begun || ended) && mpi_leave(mpi_job_get()))
		return;
	MPI_Session_finalize(&inside.session);
}

static void *inside_run(void *argument)
{
	struct mpi_work work = {
		.node = settings_get()->node ? settings_get()->node : "",
		.look = is_ending,
		.fd = inside.wake,
		.looks_often = true,
	};
	MPI_Comm all = MPI_COMM_NULL;
	bool together;
	int rc;

	(void)argument;
	thread_name("lmdbio-mpi");
	if (!program_allows()) {
		atomic_store(&inside.state, INSIDE_OVER);
		return NULL;
	}
	rc = all_ranks(&all);
	if (rc == MPI_SUCCESS)
		rc = mpi_job_adopt(all);
	together = rc == MPI_SUCCESS;
	if (together) {
		atomic_store(&inside.state, INSIDE_SERVING);
		rc = mpi_server_begin(&work);
		if (rc && rc != EADDRINUSE)
			log_refused("the node is not served: %s", strerror(rc));
		rc = mpi_server_run(&work);
		if (rc || mpi_over_await(mpi_job_get()) != MPI_SUCCESS) {
			log_refused("MPI fails, and other ranks wait for this one: the job ends");
			mpi_job_abort(EXIT_FAILURE);
		}
		mpi_job_return();
	} else {
		mpi_error_refuse(rc, "the node is not served: the ranks do not come together");
	}
	session_close(&all, together);
	atomic_store(&inside.state, INSIDE_OVER);
	return NULL;
}

int mpi_inside_begin(bool first)
{
	int begun = 0, rc = 0;

	if (atomic_load(&inside.joined))
		return 0;
	pthread_mutex_lock(&inside.lock);
	if (inside.process) {
		pthread_mutex_unlock(&inside.lock);
		program_joins();
		return 0;
	}
	inside.wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (inside.wake < 0) {
		rc = errno;
		goto done;
	}
	inside.process = getpid();
	MPI_Initialized(&begun);
	if (first && !begun)
		session_open_first();
	atomic_store(&inside.joined, inside.session != MPI_SESSION_NULL);
	rc = thread_start(&inside.thread, inside_run, NULL);
	inside.running = !rc;
	if (!rc)
		atexit(exit_begins); /* also for a program that has not begun MPI */
	else if (inside.session != MPI_SESSION_NULL)
		MPI_Session_finalize(&inside.session);
done:
	pthread_mutex_unlock(&inside.lock);
	return rc;
}
