/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a failing call of MPI during staging is reported, or costs nothing: no rank holds
 * wrong bytes, waits for ever or leaves anything behind.
 *
 * The ranks of two nodes stage a data set to memory over simulated MPI, with each reader. Each call
 * that they make fails for the n-th time, n from 1 until none does: once, and for ever. In a real
 * job, other ranks would then wait in vain until the job is ended; in the simulation these waits
 * fail as soon as no rank can go on.
 */
#include "config.h"
#include "mpi_simulated.h"
#include "mpi_sites.h"
#include "simulated_job.h"
#include "simulated_turns.h"

#include "env_fixture.h"

#include "arena/arena.h"
#include "mpi/stage_target.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdbio_mpi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 4, RECORDS = 3, VALUE = 1 << 20, BUFFER = 256 << 10 };
#ifdef __SANITIZE_ADDRESS__
enum { EACH = 2, FASTER = 1 }; /* the plain build tries more */
#else
enum { EACH = 5, FASTER = 2 };
#endif

/* The struct as stage.c defines it, so that the arena's bytes can be compared. */
struct lmdbio_stage_hold {
	struct arena *arena;
};

static struct {
	struct place place;
	uint8_t *bytes; /* of its data file */
	size_t length;
	struct lmdbio_stage_options options;
	int rc[RANKS];
	bool whole[RANKS];
} test;

static size_t value_make(void *bytes, uint64_t i)
{
	uint64_t *words = bytes;

	for (size_t at = 0; at < VALUE / sizeof(*words); at++)
		words[at] = (i * VALUE + at) * UINT64_C(0x9e3779b97f4a7c15);
	return VALUE;
}

static bool is_whole(const struct lmdbio_stage_hold *hold)
{
	size_t metas = 2 * 4096, blocks = (test.length - metas) / ARENA_BLOCK;

	return arena_present(hold->arena, metas / ARENA_BLOCK, blocks) &&
	       !memcmp(arena_bytes(hold->arena) + metas, test.bytes + metas, blocks * ARENA_BLOCK);
}

static void rank_run(void *context, int rank)
{
	struct lmdbio_stage_options options = test.options;
	struct lmdbio_stage_hold *hold = NULL;

	(void)context;
	options.hold = &hold;
	test.rc[rank] = lmdbio_mpi_stage(sim_comm(rank), test.place.directory, &options);
	test.whole[rank] = hold && is_whole(hold);
	lmdbio_mpi_stage_release(hold);
}

/* Whether a failure of this call leaves something behind. */
static bool gives_back(const struct mpi_site *site)
{
	return strstr(site->call, "free") || strstr(site->call, "close");
}

/* Returns what went wrong, or NULL. */
static const char *stage_run(const struct mpi_site *site, unsigned n, bool on, bool *failed)
{
	struct sim_left left;
	const char *then = NULL;
	unsigned handles;

	sim_begin(RANKS);
	if (site)
		mpi_site_arm(site, n, on);
	(void)sim_run(RANKS, rank_run, NULL);
	*failed = site && mpi_site_disarm();
	left = sim_left();
	handles = sim_handles();
	for (int rank = 0; rank < RANKS; rank++) {
		if (!test.rc[rank] && !test.whole[rank])
			then = "a rank holds wrong bytes and returns 0";
		if (test.rc[rank] && (!*failed || (!on && !strcmp(site->call, "MPI_Test"))))
			then = "a rank fails without a reason";
	}
	if (!*failed && left.sends + left.receives + left.messages + left.types)
		then = "messages are left";
	if (handles && (!*failed || !gives_back(site)))
		then = "handles of MPI are left";
	sim_end();
	return then;
}

/* Staging reaches no other sites. */
static bool is_met(const struct mpi_site *site)
{
	return strstr(site->file, "/stage") || strstr(site->file, "/mpi_wait") || strstr(site->file, "/mpi_job") ||
	       strstr(site->file, "/mpi_error");
}

static void calls_fail(void)
{
	static const struct mpi_sweep sweep = {.run = stage_run,
					       .is_met = is_met,
					       .each = EACH,
					       .faster = FASTER,
					       .once = true,
					       .ever = true};
	unsigned bad = 0;
	bool failed;

	assert_null(stage_run(NULL, 0, false, &failed));
	for (int rank = 0; rank < RANKS; rank++)
		assert_true(test.whole[rank]);
	print_message("-- %u failures\n", mpi_sites_sweep(&sweep, &bad));
	assert_int_equal(bad, 0);
}

/* One rank's n-th allocation of the staging fails: how many are left until then; 0: none fails. */
enum { POOR = 1 };
static unsigned malloc_left;

void *__real_malloc(size_t length);
void *__wrap_malloc(size_t length);

void *__wrap_malloc(size_t length)
{
	if (malloc_left && sim_self() == POOR && !--malloc_left)
		return NULL;
	return __real_malloc(length);
}

static void memory_when_one_rank_has_none_then_all_ranks_return_the_same(void **state)
{
	bool failed = true;

	(void)state;
	for (unsigned n = 1; failed; n++) {
		sim_begin(RANKS);
		malloc_left = n;
		assert_true(sim_run(RANKS, rank_run, NULL));
		failed = !malloc_left;
		malloc_left = 0;
		assert_int_equal(sim_handles(), 0);
		sim_end();
		for (int rank = 0; rank < RANKS; rank++) {
			assert_int_equal(test.rc[rank], test.rc[0]);
			assert_true(test.rc[rank] || test.whole[rank]);
			assert_true(failed || !test.rc[rank]);
		}
		assert_true(!failed || n > 3 || test.rc[POOR] == ENOMEM); /* these find the nodes */
	}
}

/* The ranks run on two machines, each with a network of its own. */
static bool machines;

int __real_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st);

int __wrap_stat(const char *path, struct stat *st)
{
	int rc = __real_stat(path, st);

	if (machines && !strcmp(path, "/proc/self/ns/net"))
		st->st_ino = (ino_t)(1 + sim_self() % 2);
	return rc;
}

static int set_begin(void **state)
{
	int fd;

	(void)state;
	setenv("MPIR_CVAR_NUM_CLIQUES", "2", 1);
	place_make(&test.place);
	place_put_records(&test.place, RECORDS, VALUE, value_make);
	fd = open(test.place.data, O_RDONLY | O_CLOEXEC);
	test.length = (size_t)lseek(fd, 0, SEEK_END);
	test.bytes = calloc(1, test.length);
	assert_non_null(test.bytes);
	assert_int_equal(pread(fd, test.bytes, test.length, 0), test.length);
	close(fd);
	test.options = (struct lmdbio_stage_options){
		.size = sizeof(test.options), .target = LMDBIO_STAGE_MEMORY, .buffer = BUFFER};
	return 0;
}

static int set_end(void **state)
{
	(void)state;
	free(test.bytes);
	place_remove(&test.place);
	return 0;
}

static void call_when_it_fails_in_a_staging_by_posix_then_it_is_told_or_costs_nothing(void **state)
{
	(void)state;
	test.options.reader = LMDBIO_STAGE_POSIX;
	calls_fail();
}

static void call_when_it_fails_on_machines_then_it_is_told_or_costs_nothing(void **state)
{
	(void)state;
	unsetenv("MPIR_CVAR_NUM_CLIQUES");
	machines = true;
	calls_fail();
	machines = false;
	setenv("MPIR_CVAR_NUM_CLIQUES", "2", 1);
}

static void call_when_it_fails_in_a_staging_by_turns_then_it_is_told_or_costs_nothing(void **state)
{
	(void)state;
	test.options.group = LMDBIO_STAGE_MEASURED;
	calls_fail();
}

static void call_when_it_fails_in_a_staging_by_mpiio_then_it_is_told_or_costs_nothing(void **state)
{
	(void)state;
	test.options.group = 0;
	test.options.reader = LMDBIO_STAGE_MPIIO;
	test.options.hints = "key=value";
	calls_fail();
}

static void call_when_it_fails_in_a_staging_together_then_it_is_told_or_costs_nothing(void **state)
{
	(void)state;
	test.options.reader = LMDBIO_STAGE_COLLECTIVE;
	calls_fail();
}

/* Shows a copy of the data set, lets another job replace it if `other`, and takes it away again.
 * Returns whether a sealed copy is there then. */
static bool undone(bool other)
{
	char directory[240], seal[600], copy[500], command[2100];
	struct stage_source source = {.mode = 0644};
	struct lmdbio_stage_options options = {.target = LMDBIO_STAGE_SHARED,
					       .directory = directory};
	struct mpi_job job = {0};
	struct stage_target target = {.ops = &stage_directory,
				      .source = &source,
				      .options = &options,
				      .job = &job,
				      .fd = -1,
				      .top.fd = -1,
				      .place.fd = -1};
	int fd = open(test.place.data, O_RDONLY | O_CLOEXEC);
	bool copied;

	snprintf(directory, sizeof(directory), "%s/staged", test.place.directory);
	assert_int_equal(mkdir(directory, 0700), 0);
	assert_int_equal(staged_identify(fd, &source.original), 0);
	close(fd);
	assert_int_equal(stage_directory.name(&target), 0);
	assert_int_equal(stage_directory.make(&target), 0);
	assert_int_equal(stage_directory.put(&target, 0, test.bytes, test.length), 0);
	assert_int_equal(stage_directory.show(&target), 0);
	snprintf(copy, sizeof(copy), "%s/%s/%s", directory, target.name, target.final);
	snprintf(seal, sizeof(seal), "%s.seal", copy);
	snprintf(command, sizeof(command), "cp '%s' '%s.other' && mv '%s.other' '%s'", copy, copy,
		 copy, copy);
	if (other)
		assert_int_equal(system(command), 0);
	stage_directory.undo(&target);
	stage_directory.close(&target);
	copied = !access(copy, F_OK);
	assert_int_equal(!access(seal, F_OK), copied);
	snprintf(command, sizeof(command), "rm -rf '%s'", directory);
	assert_int_equal(system(command), 0);
	return copied;
}

static void copy_when_another_job_has_replaced_it_then_undo_leaves_it(void **state)
{
	(void)state;
	assert_false(undone(false));
	assert_true(undone(true));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_when_one_rank_has_none_then_all_ranks_return_the_same),
		cmocka_unit_test(
			call_when_it_fails_in_a_staging_by_posix_then_it_is_told_or_costs_nothing),
		cmocka_unit_test(call_when_it_fails_on_machines_then_it_is_told_or_costs_nothing),
		cmocka_unit_test(
			call_when_it_fails_in_a_staging_by_turns_then_it_is_told_or_costs_nothing),
		cmocka_unit_test(
			call_when_it_fails_in_a_staging_by_mpiio_then_it_is_told_or_costs_nothing),
		cmocka_unit_test(
			call_when_it_fails_in_a_staging_together_then_it_is_told_or_costs_nothing),
		cmocka_unit_test(copy_when_another_job_has_replaced_it_then_undo_leaves_it),
	};

	return cmocka_run_group_tests(tests, set_begin, set_end);
}
