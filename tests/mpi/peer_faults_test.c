/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks failing calls of MPI while ranks open a loader or an index together, keep records for each
 * other, and close. All ranks report a failure by the same code, or it costs nothing: every record
 * comes with its right bytes.
 *
 * The ranks of two nodes are threads over simulated MPI, and so are their services. Each call fails
 * for the n-th time, n from 1 until none does: once, and for ever.
 */
#include "config.h"
#include "job_records.h"
#include "mpi_simulated.h"
#include "mpi_sites.h"
#include "simulated_job.h"
#include "simulated_turns.h"

#include "env_fixture.h"

#include "origin/origin_find.h"
#include "util/clock.h"

#include <errno.h>
#include <limits.h>
#include <lmdbio_mpi.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
	RANKS = JOB_RANKS,
	RECORDS = 400,
	EACH = 3,
	WIRE_MOST = 2,
	WAITS_MOST = 90,
	PATIENCE = 20000 /* ms */
};

int __real_nanosleep(const struct timespec *pause, struct timespec *left);

static struct {
	struct place place, copy;
	const struct place *last; /* what the last rank opens */
	unsigned threads; /* without those of the ranks */
	struct outcome ranks[RANKS];
} test;

static void rank_loads(void *context, int rank)
{
	struct lmdbio_loader_options options = {.size = sizeof(options),
						.batch = JOB_BATCH,
						.order = LMDBIO_ORDER_SHUFFLE,
						.seed = 3};
	struct outcome *outcome = &test.ranks[rank];
	struct lmdbio_loader *loader;
	int failed = 0;

	(void)context;
	*outcome = (struct outcome){0};
	outcome->opened = lmdbio_mpi_loader_open(sim_comm(rank), &loader, test.place.directory, 0, NULL, &options);
	if (outcome->opened)
		return;
	for (uint64_t epoch = 0; epoch < 2 && !outcome->read; epoch++)
		outcome->read = job_read_epoch(loader, epoch, outcome, &failed);
	outcome->wrong |= failed != 0;
	loader_close(loader);
}

static void rank_indexes(void *context, int rank)
{
	(void)context;
	test.ranks[rank] = (struct outcome){0};
	job_read_index(sim_comm(rank), (rank == RANKS - 1 ? test.last : &test.place)->directory,
		       &test.ranks[rank]);
}

/* Whether the services of all ranks end, whatever their loaders returned. */
static bool services_end(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (unsigned ms = 0; job_threads() > test.threads && ms < PATIENCE; ms++)
		__real_nanosleep(&pause, NULL);
	return job_threads() <= test.threads;
}

/* Whether a failure of this call leaves something behind. A service that breaks off keeps what MPI
 * may still use. */
static bool gives_back(const struct mpi_site *site)
{
	return strstr(site->call, "free") || strstr(site->call, "finalize") || strstr(site->file, "exchange_wire.c");
}

static const char *judge(const struct mpi_site *site, bool on, bool failed, bool broke)
{
	unsigned records = 0;
	const char *then = NULL;

	for (int rank = 0; rank < RANKS; rank++) {
		const struct outcome *outcome = &test.ranks[rank];

		records += outcome->records;
		if (outcome->wrong)
			then = "wrong bytes";
		if (!broke && outcome->opened != test.ranks[0].opened)
			then = "ranks are told different codes";
		if (!failed && (outcome->opened || outcome->read))
			then = "a rank fails without a reason";
		if (outcome->read)
			then = "a read fails";
	}
	if (!broke && !test.ranks[0].opened && records != 2 * RECORDS)
		then = "records are missing";
	if (broke && (!failed || (!on && !strcmp(site->call, "MPI_Test"))))
		then = "ranks wait for each other";
	return then;
}

/* The next service gets no thread; the others' services, which wait, are cancelled. */
static bool threadless;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	if (!threadless || sim_sessions() < RANKS)
		return __real_pthread_create(thread, attributes, run, argument);
	threadless = false; /* the last rank has a session and needs a thread now */
	return EAGAIN;
}

/* The function of each rank. */
static void (*rank_does)(void *, int);

static const char *job_run(const struct mpi_site *site, unsigned n, bool on, bool *failed)
{
	const char *then;
	bool broke;

	sim_begin(RANKS);
	if (site)
		mpi_site_arm(site, n, on);
	broke = !sim_run(RANKS, rank_does, NULL);
	if (!services_end())
		fail_msg("%s:%d %s fails for time %u%s: a service does not end", site ? site->file : "",
			 site ? site->line : 0, site ? site->call : "", n, on ? " and for ever" : "");
	*failed = site && mpi_site_disarm();
	then = judge(site, on, *failed, broke);
	if (!then && sim_handles() && !(*failed && (gives_back(site) || broke)))
		then = "handles of MPI are left";
	sim_end();
	return then;
}

static unsigned most(const struct mpi_site *site)
{
	return strstr(site->file, "exchange_wire.c") ? WIRE_MOST
						     : UINT_MAX; /* wire_test covers more */
}

/* When the last wait of all fails, no rank can tell another: an index over copies has 96. */
static unsigned most_over_copies(const struct mpi_site *site)
{
	return strcmp(site->call, "MPI_Test") ? UINT_MAX : WAITS_MOST;
}

/* These jobs reach no other sites. */
static bool is_met(const struct mpi_site *site)
{
	static const char *const files[] = {"peer_", "mpi_index", "mpi_loader", "mpi_wait", "mpi_error", "mpi_job", "exchange_wire"};
	bool met = false;

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		met = met || strstr(site->file, files[i]);
	return met;
}

static void calls_fail(void (*run)(void *, int), unsigned (*most_of)(const struct mpi_site *))
{
	const struct mpi_sweep sweep = {.run = job_run,
					.is_met = is_met,
					.most = most_of,
					.each = EACH,
					.faster = 1,
					.once = true,
					.ever = true};
	unsigned bad = 0;
	bool failed;

	rank_does = run;
	assert_ptr_equal(job_run(NULL, 0, false, &failed), NULL);
	print_message("-- %u failures\n", mpi_sites_sweep(&sweep, &bad));
	assert_int_equal(bad, 0);
}

static void call_when_it_fails_in_a_loader_of_all_ranks_then_records_are_right_or_it_is_told(void **state)
{
	(void)state;
	calls_fail(rank_loads, most);
}

static void call_when_it_fails_in_an_index_of_all_ranks_then_it_is_right_or_told(void **state)
{
	(void)state;
	calls_fail(rank_indexes, most);
}

static void call_when_it_fails_in_an_index_over_copies_then_it_is_right_or_told(void **state)
{
	(void)state;
	test.last = &test.copy;
	calls_fail(rank_indexes, most_over_copies);
	test.last = &test.place;
}

static void service_when_a_rank_has_no_thread_for_it_then_all_are_told(void **state)
{
	const struct mpi_site *site;
	bool failed;

	(void)state;
	rank_does = rank_loads;
	for (unsigned i = 0; (site = mpi_site(i)); i++)
		for (unsigned on = 0; on < 2; on++) {
			if (!gives_back(site) || strstr(site->file, "exchange_wire.c"))
				continue;
			threadless = true;
			(void)job_run(site, 1, on, &failed);
			for (int rank = 0; rank < RANKS; rank++)
				assert_int_equal(test.ranks[rank].opened, EAGAIN);
		}
}

/* exit() does not wait for services in that case; there are none here. */
static void
exit_when_mpi_does_not_say_whether_it_has_begun_and_ended_then_the_process_ends(void **state)
{
	const struct mpi_site *site;
	unsigned ends = 0;

	(void)state;
	rank_does = rank_loads;
	for (unsigned i = 0; (site = mpi_site(i)); i++)
		for (unsigned on = 0; on < 2; on++) {
			int status;
			pid_t child;

			if (!strstr(site->file, "peer_service.c") ||
			    (strcmp(site->call, "MPI_Finalized") &&
			     strcmp(site->call, "MPI_Initialized")))
				continue;
			fflush(NULL);
			child = fork();
			assert_true(child >= 0);
			if (!child) {
				bool failed;

				(void)alarm(60);
				if (job_run(NULL, 0, false, &failed))
					_exit(1);
				mpi_site_arm(site, 1, on);
				exit(0);
			}
			assert_int_equal(waitpid(child, &status, 0), child);
			assert_int_equal(status, 0);
			ends++;
		}
	assert_true(ends >= 6);
}

/* A program without MPI_THREAD_MULTIPLE reads everything by itself. */
static void threads_when_mpi_has_few_then_records_come_all_the_same(void **state)
{
	(void)state;
	sim_begin(RANKS);
	sim_library(true, MPI_THREAD_SINGLE);
	assert_true(sim_run(RANKS, rank_loads, NULL));
	assert_ptr_equal(judge(NULL, false, false, false), NULL);
	assert_int_equal(sim_handles(), 0);
	sim_end();
}

static struct origin_front front;

static int set_begin(void **state)
{
	char command[600];

	(void)state;
	setenv("MPIR_CVAR_NUM_CLIQUES", "2", 1);
	origin_front_come(&front);
	test.threads = job_threads();
	place_make(&test.place);
	place_put_records(&test.place, RECORDS, JOB_VALUE, job_value_make);
	test.last = &test.place;
	place_make(&test.copy);
	snprintf(command, sizeof(command), "cp '%s' '%s'", test.place.data, test.copy.data);
	return system(command);
}

static int set_end(void **state)
{
	(void)state;
	sim_begin(1);
	sim_program_ends(); /* exit() waits for no service in vain */
	origin_front_go(&front);
	place_remove(&test.place);
	place_remove(&test.copy);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			call_when_it_fails_in_an_index_of_all_ranks_then_it_is_right_or_told),
		cmocka_unit_test(
			call_when_it_fails_in_an_index_over_copies_then_it_is_right_or_told),
		cmocka_unit_test(
			call_when_it_fails_in_a_loader_of_all_ranks_then_records_are_right_or_it_is_told),
		cmocka_unit_test(service_when_a_rank_has_no_thread_for_it_then_all_are_told),
		cmocka_unit_test(
			exit_when_mpi_does_not_say_whether_it_has_begun_and_ended_then_the_process_ends),
		cmocka_unit_test(threads_when_mpi_has_few_then_records_come_all_the_same),
	};

	return cmocka_run_group_tests(tests, set_begin, set_end);
}
