/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a collective call which MPI reports as failed, and completes later, does not write to
 * its caller's memory.
 *
 * The ranks of a job are threads over simulated MPI. By the time the call completes, their memory
 * has another use.
 */
#include "config.h"
#include "mpi_simulated.h"
#include "mpi_sites.h"
#include "simulated_turns.h"

#include "mpi/mpi_wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 3, COUNT = 4, ANOTHER_USE = 0x5a };

/* A rank's own part, and behind it the combined parts of all ranks. */
struct memory {
	uint64_t mine[COUNT], all[COUNT * RANKS];
};

static struct memory memory[RANKS];
static int codes[RANKS];
static void (*made)(int rank); /* the call that all ranks make */

static void rank_bcasts(int rank)
{
	codes[rank] = mpi_bcast(memory[rank].mine, COUNT, MPI_UINT64_T, 0, sim_comm(rank));
}

static void rank_reduces(int rank)
{
	codes[rank] = mpi_allreduce(memory[rank].mine, memory[rank].all, COUNT, MPI_UINT64_T, MPI_SUM, sim_comm(rank));
}

static void rank_reduces_in_place(int rank)
{
	codes[rank] = mpi_allreduce(MPI_IN_PLACE, memory[rank].mine, COUNT, MPI_UINT64_T, MPI_SUM, sim_comm(rank));
}

static void rank_scans(int rank)
{
	codes[rank] = mpi_scan(memory[rank].mine, memory[rank].all, 1, MPI_UINT64_T, MPI_SUM, sim_comm(rank));
}

static void rank_gathers(int rank)
{
	codes[rank] = mpi_allgather(memory[rank].mine, memory[rank].all, COUNT, MPI_UINT64_T, RANKS, sim_comm(rank));
}

/* The first allocation of rank 1's call fails. */
static bool is_poor;
static _Thread_local bool has_none;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	if (!has_none)
		return __real_calloc(n, size);
	has_none = false;
	return NULL;
}

static void rank_run(void *context, int rank)
{
	(void)context;
	for (int i = 0; i < COUNT; i++)
		memory[rank].mine[i] = (uint64_t)(10 * rank + i);
	has_none = is_poor && rank == 1;
	made(rank);
	assert_false(has_none);
}

static void call_run(void (*call)(int rank))
{
	memset(memory, 0, sizeof(memory));
	made = call;
	sim_begin(RANKS);
	assert_true(sim_run(RANKS, rank_run, NULL));
}

static void all_succeed(void (*call)(int rank))
{
	call_run(call);
	sim_end();
	for (int rank = 0; rank < RANKS; rank++)
		assert_int_equal(codes[rank], MPI_SUCCESS);
}

static void results_are_right(void)
{
	all_succeed(rank_bcasts);
	for (int rank = 0; rank < RANKS; rank++)
		assert_memory_equal(memory[rank].mine, memory[0].mine, sizeof(memory[0].mine));
	assert_int_equal(memory[1].mine[3], 3);
	all_succeed(rank_reduces);
	for (int rank = 0; rank < RANKS; rank++)
		for (int i = 0; i < COUNT; i++) {
			assert_int_equal(memory[rank].all[i], 30 + 3 * i);
			assert_int_equal(memory[rank].mine[i], 10 * rank + i);
		}
	all_succeed(rank_reduces_in_place);
	for (int rank = 0; rank < RANKS; rank++)
		for (int i = 0; i < COUNT; i++)
			assert_int_equal(memory[rank].mine[i], 30 + 3 * i);
	all_succeed(rank_scans);
	for (int rank = 0; rank < RANKS; rank++)
		assert_int_equal(memory[rank].all[0], 10 * rank * (rank + 1) / 2);
	all_succeed(rank_gathers);
	for (int rank = 0; rank < RANKS; rank++)
		for (int i = 0; i < COUNT * RANKS; i++)
			assert_int_equal(memory[rank].all[i], 10 * (i / COUNT) + i % COUNT);
}

static void call_when_all_is_well_then_its_result_is_right(void **state)
{
	(void)state;
	results_are_right();
}

static void call_when_a_rank_has_no_memory_for_it_then_its_result_is_right(void **state)
{
	(void)state;
	is_poor = true;
	results_are_right();
	is_poor = false;
}

static const struct mpi_site *site_of_looks(void)
{
	const struct mpi_site *site;

	for (unsigned i = 0; (site = mpi_site(i)); i++)
		if (strstr(site->file, "/mpi_wait.c") && !strcmp(site->call, "MPI_Test"))
			return site;
	fail_msg("no look at a request");
	return NULL;
}

static void call_when_it_completes_late_then_memory_of_another_use_stays_as_it_is(void **state)
{
	static void (*const calls[])(int rank) = {rank_bcasts, rank_reduces, rank_reduces_in_place, rank_scans,
						  rank_gathers};
	const uint8_t *bytes = (const uint8_t *)memory;

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		mpi_site_arm(site_of_looks(), 1, true);
		call_run(calls[i]);
		assert_true(mpi_site_disarm());
		for (int rank = 0; rank < RANKS; rank++)
			assert_int_not_equal(codes[rank], MPI_SUCCESS);
		memset(memory, ANOTHER_USE, sizeof(memory));
		sim_end();
		for (size_t at = 0; at < sizeof(memory); at++)
			assert_int_equal(bytes[at], ANOTHER_USE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(call_when_all_is_well_then_its_result_is_right),
		cmocka_unit_test(call_when_a_rank_has_no_memory_for_it_then_its_result_is_right),
		cmocka_unit_test(call_when_it_completes_late_then_memory_of_another_use_stays_as_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
