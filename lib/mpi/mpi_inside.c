/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the node's server inside a program that uses MPI itself.
 *
 * A thread of ours waits in an MPI session of its own, and on a communicator of all ranks, for
 * those that have not come yet; only it waits. From then on it does what lmdbio-run does for
 * programs without MPI. A process that has made a session must end it: the thread ends when
 * MPI_Finalize ends MPI (an attribute of MPI_COMM_SELF is deleted then) or when the process exits,
 * with all other ranks.
 */
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
	INSIDE_GATHERING, /* ranks are waited for, or have not all found their places; nothing can end that */
	INSIDE_SERVING,
	INSIDE_OVER,
};

static struct {
	pthread_mutex_t lock; /* of the thread's being joined */
	pthread_t thread;
	pid_t process; /* whose thread it is: a forked child has none */
	bool running;
	atomic_bool ending;
	pthread_mutex_t joining; /* held while the session is opened */
	atomic_bool joined;      /* the session is open, or will not be */
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

/* Whether the ranks come together in time. A program may be over before all have begun. */
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

/* Waits for all ranks to end, as MPI_Finalize does; not for ever for those that never come. */
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

/* At exit, once or twice. A program that has begun MPI and not ended it has failed: its job is
 * to end at once, as it would without lmdbio, whatever waits for the others to come or to read
 * on. */
static void exit_begins(void)
{
	int begun = 0, ended = 0;

	MPI_Initialized(&begun);
	MPI_Finalized(&ended);
	if (!begun || ended)
		inside_end();
}

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF before it does anything else; but where, as in
 * MPICH 4.0, a session keeps MPI alive, it leaves that to the session's end, which is in our thread. */
static int finalize_begins(MPI_Comm comm, int keyval, void *value, void *state)
{
	(void)comm, (void)keyval, (void)value, (void)state;
	if (!pthread_equal(pthread_self(), inside.thread))
		inside_end();
	return MPI_SUCCESS;
}

/* As soon as the program has MPI, its MPI_Finalize is to be noticed. */
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

/* struct mpi_work's look. */
static bool is_ending(void *context)
{
	uint64_t woken;

	(void)context;
	if (!atomic_load(&inside.ending)) {
		finalize_watch();
		return atomic_load(&inside.ending);
	}
	/* What inside_end() has written would end each sleep of the wait for the other ranks at once. */
	(void)!read(inside.wake, &woken, sizeof(woken));
	return true;
}

/* The wait for the others in MPI_Session_init, which nothing can end. */
struct gathering {
	pthread_mutex_t lock;
	pthread_cond_t over;
	bool is_over;
};

/* Says what a program waits for that has not come as far as main(). */
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

	/* MPICH 4.2 takes leave of the launcher in a handler of exit() that beginning MPI sets up, if MPI has ended
	 * by then; else the launcher kills the job. Handlers run last come, first served: this one, which ends MPI,
	 * has to come after MPICH's. */
	if (rc == MPI_SUCCESS)
		atexit(exit_begins);
	return rc;
}

/* Before the program. What fails now is tried again, and said, when that has begun MPI. */
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

/* Opens the session once the program has begun MPI with MPI_THREAD_MULTIPLE; the first call that begins MPI sets the level
 * (MPICH 4.0). If MPI_Finalize runs at the same time, MPICH 4.0 begins anew behind it and crashes. Only the thread that
 * began MPI may end it, so that thread opens the session in its calls of LMDB. Our own thread opens it for a program that
 * makes no such call, which is in time if the program keeps MPI for longer than a sleep of NAP_IDLE. */
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

/* In a call of LMDB. */
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

/* Waits until the program has begun MPI. false: it has not with all threads, or it ends. */
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

/* The session's end is MPI's, unless the program holds MPI as well. `together`: the ranks have come together, and know
 * that all leave. */
static void session_close(MPI_Comm *all, bool together)
{
	int begun = 1, ended = 0; /* in doubt the program has MPI, and is not to lose it */

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
