/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what happens to words and bodies when the network, MPI or memory fails, over simulated
 * MPI. */
#include "config.h"
#include "mpi_simulated.h"
#include "mpi_sites.h"
#include "wire_fixture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool no_memory;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
	return no_memory ? NULL : __real_malloc(size);
}

/* Returns the site that sends or receives a body (`call`), or sends a word, by its place in the
 * order of the source. */
static const struct mpi_site *site(const char *call, unsigned which)
{
	const struct mpi_site *site, *found = NULL;
	int line = 0;

	for (unsigned round = 0; round <= which; round++) {
		found = NULL;
		for (unsigned i = 0; (site = mpi_site(i)); i++)
			if (strstr(site->file, "exchange_wire.c") && !strcmp(site->call, call) &&
			    site->line > line && (!found || site->line < found->line))
				found = site;
		assert_non_null(found);
		line = found->line;
	}
	return found;
}

enum { SENDS_BODY, SENDS_WORD };

static void question_when_all_is_well_then_it_is_answered_right(void **state)
{
	struct wire_world world;

	(void)state;
	world_begin(&world);
	assert_true(world_ask(&world, 0, 5));
	assert_true(world_settles(&world, 0));
	assert_int_equal(world.ranks[0].right, 1);
	assert_true(world_end(&world));
	assert_int_equal(world.ranks[1].sent, 1);
}

/* If the body were not received, its sender would wait for ever. */
static void body_when_its_word_is_lost_then_it_is_taken_and_all_end(void **state)
{
	struct wire_world world;

	(void)state;
	world_begin(&world);
	assert_true(world_ask(&world, 0, 5));
	sim_lose(0, true);
	assert_true(world_settles(&world, 0));
	assert_int_equal(world.ranks[0].error, ETIMEDOUT);
	assert_int_equal(world.ranks[0].lost, 1);
	assert_true(world_ask(&world, 0, 6));
	assert_true(world_settles(&world, 0));
	assert_int_equal(world.ranks[0].right, 1);
	assert_true(world_end(&world));
	assert_int_equal(world.ranks[1].sent, 2);
}

static void body_when_its_send_fails_then_its_word_is_not_sent_before(void **state)
{
	struct wire_world world;

	(void)state;
	world_begin(&world);
	assert_true(world_ask(&world, 0, 5));
	mpi_site_arm(site("MPI_Isend", SENDS_BODY), 1, true);
	for (unsigned i = 0; i < 4; i++)
		world_step(&world);
	assert_true(mpi_site_disarm());
	assert_int_equal(world.ranks[1].answers, 1);
	assert_false(world.ranks[0].wire.exchange.questions->coming);
	assert_true(world_settles(&world, 0));
	assert_int_equal(world.ranks[0].right, 1);
	assert_true(world_end(&world));
}

static void body_when_there_is_no_memory_for_it_then_it_is_taken_and_all_end(void **state)
{
	struct wire_world world;

	(void)state;
	world_begin(&world);
	assert_true(world_ask(&world, 0, 5));
	world_look(&world, 1);
	no_memory = true;
	world_look(&world, 0);
	no_memory = false;
	assert_true(world_settles(&world, 0));
	assert_int_equal(world.ranks[0].error, EBADMSG);
	assert_true(world_ask(&world, 0, 6));
	assert_true(world_settles(&world, 0));
	assert_int_equal(world.ranks[0].right, 1);
	assert_true(world_end(&world));
}

/* Words without a text use the wire's own memory, so questions that were never sent end, and the
 * ranks end together. */
static void word_when_no_rank_ever_has_memory_then_questions_end_and_all_end(void **state)
{
	struct wire_world world;

	(void)state;
	no_memory = true;
	world_begin(&world);
	for (int rank = 0; rank < WIRE_RANKS; rank++)
		assert_true(world_ask(&world, rank, 5));
	for (int rank = 0; rank < WIRE_RANKS; rank++) {
		assert_true(world_settles(&world, rank));
		assert_int_equal(world.ranks[rank].error, ETIMEDOUT);
		assert_int_equal(world.ranks[rank].ended, 1);
	}
	wire_note(&world.ranks[0].wire, 1);
	assert_true(world_end(&world));
	assert_int_equal(world.ranks[1].notes, 1);
	no_memory = false;
}

/* The answers have been sent. From then on there is no memory for a body or a word. */
static void bodies_when_memory_has_ended_then_they_are_taken_and_all_end(void **state)
{
	struct wire_world world;

	(void)state;
	world_begin(&world);
	for (uint64_t what = 0; what < 6; what++)
		assert_true(world_ask(&world, 0, what));
	world_look(&world, 1);
	no_memory = true;
	assert_true(world_settles(&world, 0));
	assert_int_equal(world.ranks[0].ended, 6);
	assert_int_equal(world.ranks[1].sent, 6);
	assert_true(world_end(&world));
	no_memory = false;
}

static void body_when_late_then_its_memory_stays_until_it_has_come(void **state)
{
	struct wire_world world;

	(void)state;
	world_begin(&world);
	sim_hold(0, false, true);
	assert_true(world_ask(&world, 0, 5));
	for (unsigned i = 0; i < 30; i++)
		world_step(&world);
	assert_int_equal(world.ranks[0].lost, 1);
	assert_int_equal(world.ranks[0].ended, 0);
	assert_false(exchange_may_ask(&world.ranks[0].wire.exchange, 1));
	sim_hold(0, false, false);
	assert_true(world_settles(&world, 0));
	assert_int_equal(world.ranks[0].error, 0);
	assert_true(world_end(&world));
}

static void send_when_it_fails_once_then_it_is_sent_again(void **state)
{
	(void)state;
	for (unsigned which = SENDS_BODY; which <= SENDS_WORD; which++)
		for (unsigned n = 1; n <= (which == SENDS_WORD ? 2 : 1); n++) {
			struct wire_world world;

			world_begin(&world);
			mpi_site_arm(site("MPI_Isend", which), n, false);
			assert_true(world_ask(&world, 0, 5));
			assert_true(world_settles(&world, 0));
			assert_true(mpi_site_disarm());
			assert_int_equal(world.ranks[0].right, 1);
			assert_int_equal(world.ranks[0].lost, 0);
			assert_true(world_end(&world));
		}
}

static void send_when_it_fails_for_ever_then_the_peer_is_gone(void **state)
{
	struct wire_world world;

	(void)state;
	world_begin(&world);
	mpi_site_arm(site("MPI_Isend", SENDS_WORD), 1, true);
	assert_true(world_ask(&world, 0, 5));
	assert_true(world_settles(&world, 0));
	assert_int_equal(world.ranks[0].error, EIO);
	assert_false(world_ask(&world, 0, 6));
	assert_true(mpi_site_disarm());
	assert_true(world_end(&world));
}

/* Both ranks ask, and a word of an answer is lost. Wrong results are reported, and each question
 * ends. After a call that has failed once, a further question is answered. Returns whether a call
 * has failed. */
static bool calls_fail(const struct mpi_site *each, unsigned n, bool on)
{
	struct wire_world world;
	bool fired;

	mpi_site_arm(each, n, on);
	world_begin(&world);
	if (!world_ask(&world, 0, 7)) { /* a call that begins a message has failed */
		fired = mpi_site_disarm();
		assert_true(world_end(&world));
		return fired;
	}
	sim_lose(0, true);
	for (unsigned i = 0; i < 30 && world.ranks[0].wire.exchange.questions; i++)
		world_step(&world);
	for (uint64_t what = 0; what < 4; what++) {
		(void)world_ask(&world, 0, what);
		(void)world_ask(&world, 1, what);
		world_step(&world);
	}
	for (unsigned i = 0; on && i < 200; i++)
		world_step(&world);
	fired = on && mpi_site_disarm();
	assert_true(world_settles(&world, 0) && world_settles(&world, 1));
	if (!on) {
		fired = mpi_site_disarm();
		assert_true(world_ask(&world, 0, 9));
		assert_true(world_settles(&world, 0));
		if (world.ranks[0].error && world.ranks[1].wire.exchange.ranks) /* it has begun */
			fail_msg("%s:%d %s fails for time %u: the next question fails with %d", each->file,
				 each->line, each->call, n, world.ranks[0].error);
	}
	if (!world_end(&world))
		fail_msg("%s:%d %s fails for time %u%s: ranks do not end", each->file, each->line, each->call,
			 n, on ? " and for ever" : "");
	return fired;
}

static void call_when_it_fails_then_questions_are_right_or_told_and_all_end(void **state)
{
	const struct mpi_site *each;
	unsigned sites = 0;

	(void)state;
	for (unsigned i = 0; (each = mpi_site(i)); i++)
		if (strstr(each->file, "exchange_wire.c") && strcmp(each->call, "MPI_Type_free"))
			for (unsigned on = 0; on < 2; on++)
				for (unsigned n = 1; n <= 40 && calls_fail(each, n, on); n++)
					sites += n == 1 && on;
	print_message("-- %u places that call MPI\n", sites);
	assert_true(sites >= 8);
}

/* As in a server to which MPI has given no communicator. */
static void question_when_the_exchange_was_never_opened_then_none_is_asked(void **state)
{
	struct exchange exchange = {0};

	(void)state;
	assert_false(exchange_may_ask(&exchange, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(question_when_all_is_well_then_it_is_answered_right),
		cmocka_unit_test(body_when_its_word_is_lost_then_it_is_taken_and_all_end),
		cmocka_unit_test(body_when_its_send_fails_then_its_word_is_not_sent_before),
		cmocka_unit_test(body_when_there_is_no_memory_for_it_then_it_is_taken_and_all_end),
		cmocka_unit_test(word_when_no_rank_ever_has_memory_then_questions_end_and_all_end),
		cmocka_unit_test(bodies_when_memory_has_ended_then_they_are_taken_and_all_end),
		cmocka_unit_test(body_when_late_then_its_memory_stays_until_it_has_come),
		cmocka_unit_test(send_when_it_fails_once_then_it_is_sent_again),
		cmocka_unit_test(send_when_it_fails_for_ever_then_the_peer_is_gone),
		cmocka_unit_test(call_when_it_fails_then_questions_are_right_or_told_and_all_end),
		cmocka_unit_test(question_when_the_exchange_was_never_opened_then_none_is_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
