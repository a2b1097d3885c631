/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks the plan that a rank of a job's batch loader makes for later epochs, while its threads keep
 * records by the older plan. There is one rank, over simulated MPI. */
#include "config.h"
#include "mpi/peer_private.h"

#include "mpi_simulated.h"
#include "simulated_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RECORDS = 64, VALUE = 300 << 10 /* bytes */, ROOM = RECORDS / 2 * VALUE, PLANNED = 8 };

static struct {
	struct peer_job *job;
	bool keeps; /* the other units are kept while memory for the list is asked for */
} test;

/* Simulates a thread that keeps a record of a unit whose role it has looked at before. */
static void unit_keep(struct peer_unit *unit)
{
	if (unit->role == ROLE_NONE && !unit->records)
		unit->records = calloc(test.job->store.unit_records, sizeof(struct peer_kept));
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

/* Leaves room behind what was asked for, so that a list that grows too long harms nothing here. */
void *__wrap_calloc(size_t n, size_t size)
{
	/* The list is for the one unit that was counted, and one more: each with its time. */
	static const size_t listed = 2, each = 2 * sizeof(uint64_t);

	if (test.keeps && n == listed && size == each)
		for (uint64_t i = 0; i < test.job->store.units; i++)
			unit_keep(&test.job->store.at[i]);
	return __real_calloc(n + RECORDS, size);
}

static int plan_first(void **state)
{
	const struct order_spec spec = {
		.records = RECORDS, .batch = 4, .policy = ORDER_SHUFFLE, .seed = 3};
	const struct peer_size size = {.bytes = (uint64_t)RECORDS * VALUE, .room = {ROOM}};
	const struct index_kept kept = {0};
	struct peer_planned planned;
	struct mpi_job place;

	(void)state;
	sim_begin(1);
	test.job = job_new("plan");
	assert_non_null(test.job);
	assert_int_equal(mpi_job_place(&place, sim_comm(0)), MPI_SUCCESS);
	test.job->ranks = 1;
	test.job->peers = calloc(1, sizeof(*test.job->peers));
	assert_non_null(test.job->peers);
	assert_int_equal(peer_plan(test.job, &place, &spec, &size, &kept, &planned), 0);
	assert_in_range(planned.records, 1, RECORDS - 3);
	assert_int_equal(mpi_job_leave(&place), MPI_SUCCESS);
	return 0;
}

static int plan_free(void **state)
{
	(void)state;
	job_free(test.job);
	sim_end();
	return 0;
}

static void
plan_when_units_come_while_it_lists_the_stale_then_the_list_holds_those_counted(void **state)
{
	struct peer_store *store = &test.job->store;
	uint64_t unit = 0;

	(void)state;
	while (store->at[unit].role != ROLE_NONE)
		unit++;
	unit_keep(&store->at[unit]);
	test.job->plan.epoch = PLANNED;
	assert_true(peer_plan_is_old(test.job));
	pthread_mutex_lock(&test.job->lock);
	test.keeps = true;
	peer_plan_again(test.job);
	test.keeps = false;
	pthread_mutex_unlock(&test.job->lock);
	assert_int_equal(store->stale_count, 1);
	assert_int_equal(store->stale[0], unit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			plan_when_units_come_while_it_lists_the_stale_then_the_list_holds_those_counted,
			plan_first, plan_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
