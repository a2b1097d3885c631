/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a program survives each failing call of MPI, while a server runs inside it or while a
 * process ends by MPI. The program begins, ends in time, and leaves nothing behind.
 *
 * Each life of a program is a child process, of one rank over simulated MPI. Each call fails for
 * the n-th time, n from 1 until none does: once, and for ever.
 */
#include "config.h"
#include "mpi_simulated.h"
#include "mpi_sites.h"
#include "simulated_job.h"

#include "mpi/module_parts.h"
#include "mpi/mpi_error.h"
#include "mpi/mpi_job.h"
#include "node/node_socket.h"
#include "util/clock.h"
#include "util/settings.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	ENDED = 0,
	ENDED_FAILED = 17,
	LEFT = 18,
	UNSERVED = 19,
	UNJOINED = 20,
	SECONDS = 60,
	STATUS = 5,
	LOOKS = 4000
};

/* How a program uses MPI. */
enum life { FIRST, LATER, CALLING, NEVER, NEVER_FIRST, SINGLE, UNNOTICED, THREADLESS, LIVES };

static const struct mpi_site *failing;
static bool no_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	return no_threads ? EAGAIN : __real_pthread_create(thread, attributes, run, argument);
}

/* Whether a failure of this call leaves a session behind. Where MPI does not say whether the
 * program has ended it, exit() does not wait for other ranks. */
static bool gives_back(const struct mpi_site *site)
{
	return strstr(site->call, "free") || strstr(site->call, "inalize");
}

/* Runs at the end of exit(), after the handlers of the code under test. */
static void look(void)
{
	bool failed = mpi_site_disarm();

	if (sim_handles() && !(failed && gives_back(failing)))
		_exit(LEFT);
	if (failed)
		_exit(ENDED_FAILED);
}

static bool is_served(void)
{
	int fd = node_connect(settings_get()->node);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Simulates the program's work; it does not depend on a server. Without a server the work goes on
 * until the failure. */
static void work(bool waits, bool until_failed)
{
	for (unsigned i = 0;
	     i < LOOKS && waits && !is_served() && !(until_failed && mpi_site_has_failed()); i++)
		clock_sleep(CLOCK_SECOND / 1000);
}

/* Whether a server starts when no call fails. */
static bool serves(enum life life)
{
	return life == FIRST || life == LATER || life == CALLING || life == UNNOTICED;
}

static void live(enum life life, const struct mpi_site *site, unsigned n, bool on)
{
	bool served;

	(void)alarm(SECONDS);
	sim_begin(1);
	sim_library(life == LATER || life == SINGLE || life == UNNOTICED, life == SINGLE ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE);
	atexit(look);
	failing = site;
	no_threads = life == THREADLESS;
	if (site || life == UNNOTICED)
		mpi_site_arm(site ? site : mpi_site(0), site ? n : UINT_MAX, on);
	if (life == UNNOTICED) /* the first call */
		mpi_site_also("mpi_inside.c", "MPI_Comm_set_attr", 1);
	(void)mpi_inside_begin(life == FIRST || life == NEVER_FIRST || life == THREADLESS);
	if (life == FIRST || life == CALLING)
		sim_library(true, MPI_THREAD_MULTIPLE);
	/* The program may end MPI as soon as the call returns. */
	if (life == CALLING && (mpi_inside_begin(false) || (!site && sim_sessions() != 1)))
		_exit(UNJOINED);
	work(serves(life), site);
	served = is_served();
	if (!site && served != serves(life) &&
	    life != NEVER_FIRST) /* in that life a server may or may not run */
		_exit(UNSERVED);
	if (site && mpi_site_has_failed() && !on)
		work(serves(life) && life != UNNOTICED, false);
	if (site && life == UNNOTICED)
		work(true, false);
	if (life != NEVER && life != NEVER_FIRST)
		sim_program_ends();
	exit(ENDED);
}

static int life_of(enum life life, const struct mpi_site *site, unsigned n, bool on)
{
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	assert_true(child >= 0);
	if (!child)
		live(life, site, n, on);
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* For a life that differs from the others in one call only: whether the site is that call. */
static bool is_met(const struct mpi_site *site, enum life life)
{
	return strstr(site->file, "mpi_inside.c") ||
	       (life != UNNOTICED && life != THREADLESS && !strstr(site->file, "exchange") &&
		!strstr(site->file, "stage") && !strstr(site->file, "peer"));
}

static void call_when_it_fails_inside_a_program_then_the_program_ends_as_it_would(void **state)
{
	const struct mpi_site *site;
	unsigned runs = 0, bad = 0;

	(void)state;
	for (unsigned life = 0; life < LIVES; life++)
		assert_int_equal(life_of(life, NULL, 0, false), ENDED);
	for (unsigned i = 0; (site = mpi_site(i)); i++)
		for (unsigned life = 0; life < LIVES; life++)
			for (unsigned on = 0; on < 2 && is_met(site, life); on++) {
				int rc = ENDED_FAILED;

				for (unsigned n = 1; n <= 3 && rc == ENDED_FAILED; n++) {
					rc = life_of(life, site, n, on);
					runs += rc == ENDED_FAILED;
				}
				if (rc == ENDED || rc == ENDED_FAILED)
					continue;
				print_error("%s:%d %s fails%s in life %u: it ends with %d\n", site->file, site->line,
					    site->call, on ? " for ever" : "", life, rc);
				bad++;
			}
	print_message("-- %u failures\n", runs);
	assert_int_equal(bad, 0);
}

static void texts_when_mpi_has_none_then_the_code_is_told_all_the_same(void **state)
{
	const struct mpi_site *site;

	(void)state;
	for (unsigned i = 0; (site = mpi_site(i)); i++)
		for (unsigned on = 0; on < 2; on++) {
			mpi_site_arm(site, 1, on);
			assert_int_not_equal(mpi_error_tell(MPI_ERR_OTHER, "a call"), 0);
			mpi_error_refuse(MPI_ERR_OTHER, "a call");
			(void)mpi_site_disarm();
		}
}

/* The launcher ends the job when a rank is gone so. */
static void abort_when_it_fails_then_the_process_ends_with_its_status(void **state)
{
	const struct mpi_site *site;
	unsigned ends = 0;

	(void)state;
	for (unsigned i = 0; (site = mpi_site(i)); i++)
		for (unsigned on = 0; on < 2; on++) {
			int status;
			pid_t child;

			if (strcmp(site->call, "MPI_Abort"))
				continue;
			child = fork();
			assert_true(child >= 0);
			if (!child) {
				mpi_site_arm(site, 1, on);
				mpi_job_abort(STATUS);
				_exit(0);
			}
			assert_int_equal(waitpid(child, &status, 0), child);
			assert_true(WIFEXITED(status) && WEXITSTATUS(status) == STATUS);
			ends++;
		}
	assert_int_equal(ends, 2);
}

/* A rank that knows MPI's version says goodbye to the launcher; a rank that cannot ask leaves that
 * to MPI_Finalize. */
static void version_when_mpi_does_not_tell_it_then_the_launcher_hears_nothing(void **state)
{
	static const char *const answers[] = {"cmd=barrier_out\n", "cmd=finalize_ack\n"};
	const struct mpi_job job = {.place = {.nodes = 2}};
	const struct mpi_site *site;
	unsigned asked = 0;
	char number[12], heard[64];
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	snprintf(number, sizeof(number), "%d", ends[1]);
	setenv("PMI_FD", number, 1);
	for (unsigned i = 0; (site = mpi_site(i)); i++)
		for (unsigned on = 0; on < 2; on++) {
			bool left, failed;

			for (unsigned answer = 0; answer < 2; answer++)
				assert_true(send(ends[0], answers[answer], strlen(answers[answer]), 0) > 0);
			mpi_site_arm(site, 1, on);
			left = mpi_leave(&job);
			failed = mpi_site_disarm();
			asked += failed;
			assert_int_equal(left, !failed);
			while (recv(ends[0], heard, sizeof(heard), MSG_DONTWAIT) > 0)
				assert_false(failed);
			while (recv(ends[1], heard, sizeof(heard), MSG_DONTWAIT) > 0)
				;
		}
	assert_int_equal(asked, 4);
	unsetenv("PMI_FD");
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(call_when_it_fails_inside_a_program_then_the_program_ends_as_it_would),
		cmocka_unit_test(texts_when_mpi_has_none_then_the_code_is_told_all_the_same),
		cmocka_unit_test(version_when_mpi_does_not_tell_it_then_the_launcher_hears_nothing),
		cmocka_unit_test(abort_when_it_fails_then_the_process_ends_with_its_status),
	};
	char node[64];

	snprintf(node, sizeof(node), "inside-%d", (int)getpid());
	setenv("LMDBIO_NODE", node, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
