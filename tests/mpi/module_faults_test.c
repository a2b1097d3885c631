/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that where lmdbio itself has begun MPI each failing call is reported, or costs nothing.
 * The job begins, makes a file together, brings a data set to its nodes, serves them and ends; in a
 * further test, ranks join a program's job.
 *
 * The ranks of two nodes are threads over simulated MPI, and make the module's calls as the
 * commands do. Each call of MPI fails for the n-th time, n from 1 until none does: once, and for
 * ever.
 */
#include "config.h"
#include "mpi_simulated.h"
#include "mpi_sites.h"
#include "simulated_job.h"
#include "simulated_turns.h"

#include "env_fixture.h"

#include "mpi/mpi_job.h"
#include "mpi/mpi_module.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 4, NODES = 2, RECORDS = 3, VALUE = 1 << 20, PART = 1000, TIMES = 10, TRIES = 4 };
#ifdef __SANITIZE_ADDRESS__
enum { EACH = 3, FASTER = 1 }; /* the plain build tries more */
#else
enum { EACH = 6, FASTER = 2 };
#endif

extern const struct mpi_module lmdbio_mpi_module;

struct outcome {
	int rc;      /* the first failing call's code */
	bool wrong;  /* a call has returned 0 without doing its work */
	bool served; /* until the end */
};

static struct {
	struct place place;
	char file[300];
	const char *paths[2];
	char names[NODES][64];
	int level;
	unsigned run, times; /* number of failures, or 0 */
	struct outcome ranks[RANKS];
} test;

static size_t value_make(void *bytes, uint64_t i)
{
	memset(bytes, (int)i + 1, VALUE);
	return VALUE;
}

/* Writes each rank's part. */
static size_t part_make(char *bytes, int rank)
{
	size_t length = (size_t)PART * (size_t)rank; /* rank 0 writes nothing */

	memset(bytes, 'a' + rank, length);
	return length;
}

static bool is_collected(const char *all, size_t total)
{
	char part[PART * RANKS];
	size_t at = 0;

	for (int rank = 0; rank < RANKS; at += part_make(part, rank++))
		if (total < at + part_make(part, rank) || memcmp(all + at, part, part_make(part, rank)))
			return false;
	return total == at;
}

static bool file_is_whole(void)
{
	char all[PART * RANKS * RANKS];
	int fd = open(test.file, O_RDONLY | O_CLOEXEC);
	ssize_t n = pread(fd, all, sizeof(all), 0);

	close(fd);
	return n >= 0 && is_collected(all, (size_t)n);
}

/* The ranks write a file as a conversion does. */
static int share(const struct mpi_sharing *sharing, int rank, struct outcome *outcome)
{
	char part[PART * RANKS];
	uint64_t before = 0, all = 0;
	size_t length = part_make(part, rank), total = 0;
	void *collected = NULL;
	int word = rank ? 0 : 4711, rc, closed;

	rc = sharing->agree(sharing->tell(&word, sizeof(word)));
	outcome->wrong |= !rc && word != 4711;
	if (!rc)
		rc = sharing->collect(part, length, &collected, &total);
	outcome->wrong |= !rc && !rank && !is_collected(collected, total);
	free(collected);
	rc = sharing->agree(rc);
	if (!rc)
		rc = sharing->agree(sharing->place(length, &before, &all));
	outcome->wrong |= !rc && (before != PART * (uint64_t)(rank * (rank - 1) / 2) || all != PART * 6);
	if (!rc)
		rc = sharing->agree(sharing->open(test.file));
	if (!rc)
		rc = sharing->agree(sharing->write(part, length, before));
	closed = sharing->agree(sharing->close());
	rc = rc ? rc : closed;
	outcome->wrong |= !rc && !file_is_whole();
	return rc;
}

static bool is_over(void *context)
{
	const bool *over = context;

	return *over;
}

static int serve(const struct mpi_module *module, const struct mpi_place *at, struct outcome *outcome)
{
	struct lmdbio_stage_report report = {.size = sizeof(report)};
	bool over = false;
	struct mpi_work work = {.node = test.names[at->node],
				.fd = -1,
				.look = is_over,
				.context = &over,
				.paths = test.paths,
				.fills = true};
	int rc = module->serve_begin(&work), filled, served;

	filled = module->serve_fill(&work, &report);
	outcome->wrong |= !rc && !filled && (report.ranks != RANKS || report.nodes != NODES);
	if (filled == ECONNABORTED)
		module->abort(2);
	over = true;
	served = module->serve(&work);
	outcome->served = !served;
	return rc ? rc : filled ? filled : served;
}

static void rank_run(void *context, int rank)
{
	const struct mpi_module *module = &lmdbio_mpi_module;
	struct outcome *outcome = &test.ranks[rank];
	struct mpi_place at = {0};
	int rc, ended;

	(void)context;
	*outcome = (struct outcome){.rc = module->begin(true, &at)};
	if (outcome->rc)
		return;
	outcome->wrong = at.rank != rank || at.ranks != RANKS || at.nodes != NODES || at.node != rank % NODES ||
			 at.node_ranks != RANKS / NODES || at.node_rank != rank / NODES;
	rc = module->gather();
	if (!rc)
		rc = share(module->sharing, rank, outcome);
	outcome->rc = rc;
	(void)module->is_pmi1();
	rc = serve(module, &at, outcome);
	if (!outcome->served)
		module->abort(2);
	ended = module->end();
	if (ended == ECONNABORTED)
		module->abort(2);
	outcome->rc = outcome->rc ? outcome->rc : rc ? rc : ended;
}

/* Whether a failure of this call costs nothing: the call only asks for a text, or leaves something
 * that ends with the job. Memory that MPI may still use after a server breaks off is kept as
 * well. */
static bool costs_nothing(const struct mpi_site *site)
{
	return strstr(site->file, "exchange_wire.c") || strstr(site->call, "free") || strstr(site->call, "Error_string") || strstr(site->call, "errhandler") ||
	       strstr(site->call, "version");
}

/* Returns what went wrong, or NULL. */
static const char *job_run(const struct mpi_site *site, unsigned n, bool on, bool *failed)
{
	const char *then = NULL;
	bool broke, told = false, served = true;
	unsigned handles;

	sim_begin(RANKS);
	sim_library(false, test.level);
	test.run++; /* for a new node name: a server that breaks off keeps what MPI may still use */
	for (int node = 0; node < NODES; node++)
		snprintf(test.names[node], sizeof(test.names[node]), "module-%d-%d-%u", (int)getpid(), node, test.run);
	assert_int_equal(truncate(test.file, 0), 0);
	if (site && test.times)
		mpi_site_arm_times(site, n, test.times);
	else if (site)
		mpi_site_arm(site, n, on);
	broke = !sim_run(RANKS, rank_run, NULL);
	*failed = site && mpi_site_disarm();
	handles = sim_handles();
	for (int rank = 0; rank < RANKS; rank++) {
		told = told || test.ranks[rank].rc;
		served = served && test.ranks[rank].served;
		if (test.ranks[rank].wrong)
			then = "a call says 0 and gives something else";
	}
	if (told && !*failed)
		then = "a rank fails without a reason";
	if (broke && !told)
		then = "ranks wait for each other, and no rank says why";
	if (handles && !told && (!*failed || !costs_nothing(site)))
		then = "handles of MPI are left";
	if (!on && *failed && broke && !strcmp(site->call, "MPI_Isend"))
		then = "ranks wait for one that has not said a word";
	if (site && strstr(site->file, "mpi_over.c") && sim_has_hung())
		then = "ranks wait for one that has given up";
	sim_end();
	return then;
}

/* This job reaches no other sites. A failing MPI_Abort ends the process. */
static bool is_met(const struct mpi_site *site)
{
	return strcmp(site->call, "MPI_Abort") != 0 && !strstr(site->file, "/stage") && !strstr(site->file, "/peer") &&
	       !strstr(site->file, "mpi_index") && !strstr(site->file, "mpi_loader") && !strstr(site->file, "mpi_inside");
}

static void call_when_it_fails_in_a_job_of_the_commands_then_it_is_told_or_costs_nothing(void **state)
{
	static const struct mpi_sweep sweep = {.run = job_run,
					       .is_met = is_met,
					       .each = EACH,
					       .faster = FASTER,
					       .once = true,
					       .ever = true};
	unsigned bad = 0;
	bool failed;

	(void)state;
	assert_ptr_equal(job_run(NULL, 0, false, &failed), NULL);
	for (int rank = 0; rank < RANKS; rank++)
		assert_int_equal(test.ranks[rank].rc, 0);
	print_message("-- %u failures\n", mpi_sites_sweep(&sweep, &bad));
	assert_int_equal(bad, 0);
}

/* Calls between ranks fail a few times, but not so often that a rank gives up. */
static void message_when_it_is_sent_again_and_again_then_the_job_ends_well(void **state)
{
	const struct mpi_site *site;
	unsigned runs = 0;
	bool failed = true;

	(void)state;
	for (unsigned i = 0; (site = mpi_site(i)); i++)
		for (unsigned n = 1; strstr(site->file, "mpi_over.c") && n <= TRIES; n += TRIES - 1) {
			test.times = TIMES;
			assert_ptr_equal(job_run(site, n, false, &failed), NULL);
			assert_true(failed);
			for (int rank = 0; rank < RANKS; rank++)
				assert_int_equal(test.ranks[rank].rc, 0);
			runs++;
		}
	test.times = 0;
	assert_int_equal(runs, 6);
}

/* --- ranks of a program's job ----------------------------------------------------------------- */

static _Thread_local bool no_memory;
static int without; /* the rank that has no memory; -1: none */

void *__real_malloc(size_t length);
void *__wrap_malloc(size_t length);

void *__wrap_malloc(size_t length)
{
	return no_memory ? NULL : __real_malloc(length);
}

static void rank_adopt(void *context, int rank)
{
	struct outcome *outcome = &test.ranks[rank];

	(void)context;
	no_memory = rank == without;
	outcome->rc = mpi_job_adopt(sim_comm(rank));
	no_memory = false;
	outcome->wrong = !outcome->rc && (mpi_job_get()->place.ranks != RANKS || mpi_job_get()->place.nodes != NODES);
	if (!outcome->rc)
		(void)mpi_job_return();
}

/* Returns how many ranks have joined. */
static int adopt_run(const struct mpi_site *site, unsigned n, bool on, bool *failed)
{
	int joined = 0;

	sim_begin(RANKS);
	if (site)
		mpi_site_arm(site, n, on);
	(void)sim_run(RANKS, rank_adopt, NULL);
	*failed = site && mpi_site_disarm();
	for (int rank = 0; rank < RANKS; rank++) {
		joined += !test.ranks[rank].rc;
		assert_false(test.ranks[rank].wrong);
	}
	if (!*failed)
		assert_int_equal(sim_handles(), 0);
	sim_end();
	return joined;
}

static void memory_when_a_rank_has_none_to_join_then_all_go_on_without(void **state)
{
	bool failed;

	(void)state;
	without = -1;
	assert_int_equal(adopt_run(NULL, 0, false, &failed), RANKS);
	assert_false(sim_has_hung());
	for (without = 0; without < RANKS; without++) {
		assert_int_equal(adopt_run(NULL, 0, false, &failed), 0);
		assert_false(sim_has_hung());
	}
	without = -1;
}

/* Other ranks may wait for this one in a call that it could not begin. But no rank goes on to wait
 * for it at the end, unless the job ends. */
static void call_when_it_fails_as_ranks_join_then_all_have_joined_or_none(void **state)
{
	const struct mpi_site *site;
	unsigned runs = 0;

	(void)state;
	without = -1;
	for (unsigned i = 0; (site = mpi_site(i)); i++)
		for (unsigned on = 0; on < 2; on++) {
			bool failed = true;

			for (unsigned n = 1; failed && strcmp(site->call, "MPI_Comm_free") != 0; n++) {
				int joined = adopt_run(site, n, on, &failed);

				runs += failed;
				if (sim_is_broken() && !sim_has_hung())
					continue;
				if (joined != 0 && joined != RANKS)
					print_error("%s:%d %s fails for time %u%s: %d of %d join\n", site->file, site->line,
						    site->call, n, on ? " and for ever" : "", joined, RANKS);
				assert_true(joined == 0 || joined == RANKS);
				if (strstr(site->file, "mpi_over.c") && !on)
					assert_int_equal(joined, RANKS);
			}
		}
	print_message("-- %u failures\n", runs);
	assert_true(runs > 0);
}

static void threads_when_mpi_has_too_few_then_all_ranks_are_told(void **state)
{
	const struct mpi_site *site;
	bool failed;

	(void)state;
	test.level = MPI_THREAD_SERIALIZED;
	for (unsigned i = 0; (site = mpi_site(i)); i++)
		for (unsigned on = 0; on < 2; on++) {
			if (strcmp(site->call, "MPI_Finalize") != 0 && i)
				continue;
			(void)job_run(site, 1, on, &failed);
			for (int rank = 0; rank < RANKS; rank++)
				assert_int_equal(test.ranks[rank].rc, ENOTSUP);
		}
	test.level = MPI_THREAD_MULTIPLE;
}

/* The ranks run on two machines, each with a network of its own. */
int __real_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st);

int __wrap_stat(const char *path, struct stat *st)
{
	int rc = __real_stat(path, st);

	if (!strcmp(path, "/proc/self/ns/net"))
		st->st_ino = (ino_t)(1 + sim_self() % NODES);
	return rc;
}

static int set_begin(void **state)
{
	(void)state;
	place_make(&test.place);
	place_put_records(&test.place, RECORDS, VALUE, value_make);
	test.paths[0] = test.place.data;
	test.level = MPI_THREAD_MULTIPLE;
	snprintf(test.file, sizeof(test.file), "%s/made", test.place.directory);
	close(open(test.file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	return 0;
}

static int set_end(void **state)
{
	(void)state;
	unlink(test.file);
	place_remove(&test.place);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(call_when_it_fails_in_a_job_of_the_commands_then_it_is_told_or_costs_nothing),
		cmocka_unit_test(message_when_it_is_sent_again_and_again_then_the_job_ends_well),
		cmocka_unit_test(memory_when_a_rank_has_none_to_join_then_all_go_on_without),
		cmocka_unit_test(call_when_it_fails_as_ranks_join_then_all_have_joined_or_none),
		cmocka_unit_test(threads_when_mpi_has_too_few_then_all_ranks_are_told),
	};

	return cmocka_run_group_tests(tests, set_begin, set_end);
}
