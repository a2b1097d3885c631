/* SPDX-License-Identifier: OLDAP-2.8 */
/* Carries questions between two ranks. */
#include "config.h"
#include "wire_fixture.h"

#include "mpi_simulated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
enum { STEPS = 4000 }; /* 400 s: the longest pause between reminders is 64 s */

static const struct exchange_rules rules = {.silent_ns = SECOND, .owed_ns = SECOND};

struct asked {
	struct exchange_question question; /* must be the first member */
	uint64_t what;
	uint8_t body[WIRE_BODY];
};

static void body_make(uint64_t what, uint8_t *bytes)
{
	for (size_t i = 0; i < WIRE_BODY; i++)
		bytes[i] = (uint8_t)(what * 31 + i * 7 + i / 251);
}

static void asked_for(void *owner, int from, uint64_t number, const void *text, size_t length)
{
	struct wire_rank *rank = owner;
	struct exchange_run run = {NULL, WIRE_BODY};
	uint64_t what;

	if (length != sizeof(what))
		abort();
	memcpy(&what, text, sizeof(what));
	rank->answers++;
	run.bytes = calloc(1, WIRE_BODY);
	if (!run.bytes)
		abort();
	body_make(what, run.bytes);
	wire_answer(&rank->wire, from, number, NULL, 0, &run, 1, exchange_sum(&run, 1, what), run.bytes);
}

static int place(void *owner, struct exchange_question *question, const void *text, size_t length,
		 struct exchange_run *runs)
{
	(void)owner, (void)text, (void)length;
	runs[0] = (struct exchange_run){((struct asked *)question)->body, WIRE_BODY};
	return 1;
}

static void lost(void *owner, struct exchange_question *question, bool alive)
{
	(void)question, (void)alive;
	((struct wire_rank *)owner)->lost++;
}

static void ended(void *owner, struct exchange_question *question, int error, const void *text,
		  size_t length)
{
	struct asked *asked = (struct asked *)question;
	struct wire_rank *rank = owner;
	uint8_t right[WIRE_BODY];

	(void)text, (void)length;
	body_make(asked->what, right);
	if (!error && memcmp(right, asked->body, WIRE_BODY)) {
		printf("wrong bytes\n");
		abort();
	}
	rank->right += !error && !question->lost;
	rank->error = error;
	rank->ended++;
	free(asked);
}

static void sent(void *owner, void *item)
{
	((struct wire_rank *)owner)->sent++;
	free(item);
}

static void noted(void *owner)
{
	((struct wire_rank *)owner)->notes++;
}

static const struct wire_payload payload = {.asked = asked_for,
					    .place = place,
					    .lost = lost,
					    .ended = ended,
					    .sent = sent,
					    .noted = noted};

void world_begin(struct wire_world *world)
{
	*world = (struct wire_world){.now = SECOND};
	sim_begin(WIRE_RANKS);
	for (int i = 0; i < WIRE_RANKS; i++)
		(void)wire_open(&world->ranks[i].wire, sim_comm(i), &rules, &payload, &world->ranks[i]);
	world_step(world); /* tells the ranks the time */
}

bool world_ask(struct wire_world *world, int from, uint64_t what)
{
	struct asked *asked = calloc(1, sizeof(*asked));

	if (!asked)
		abort();
	asked->what = what;
	if (wire_ask(&world->ranks[from].wire, &asked->question, !from, what, &what, sizeof(what)))
		return true;
	free(asked);
	return false;
}

void world_look(struct wire_world *world, int rank)
{
	(void)wire_step(&world->ranks[rank].wire, world->now);
}

void world_step(struct wire_world *world)
{
	world->now += SECOND / 10;
	for (int i = 0; i < WIRE_RANKS; i++)
		world_look(world, i);
}

bool world_settles(struct wire_world *world, int rank)
{
	for (unsigned i = 0; i < STEPS && world->ranks[rank].wire.exchange.questions; i++)
		world_step(world);
	return !world->ranks[rank].wire.exchange.questions;
}

/* Whether MPI holds nothing of the ranks any more. */
static bool nothing_is_left(struct wire_world *world)
{
	struct sim_left left = {0};

	for (unsigned i = 0; i < STEPS; i++) {
		left = sim_left();
		if (!(left.sends + left.receives + left.messages))
			break;
		world_step(world);
	}
	return !(left.sends + left.receives + left.messages + left.types);
}

bool world_end(struct wire_world *world)
{
	unsigned over = 0;
	bool all;

	for (int i = 0; i < WIRE_RANKS; i++)
		exchange_stop(&world->ranks[i].wire.exchange);
	for (unsigned i = 0; i < STEPS && over < WIRE_RANKS; i++) {
		over = 0;
		world_step(world);
		for (int rank = 0; rank < WIRE_RANKS; rank++)
			over += wire_is_over(&world->ranks[rank].wire);
	}
	/* A rank that has ended alone receives nothing more. */
	if (world->ranks[0].wire.broken || world->ranks[1].wire.broken)
		sim_drop();
	all = nothing_is_left(world);
	for (int i = 0; i < WIRE_RANKS; i++)
		wire_close(&world->ranks[i].wire);
	sim_end();
	return over == WIRE_RANKS && all;
}
