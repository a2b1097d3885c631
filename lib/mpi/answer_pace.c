/* SPDX-License-Identifier: OLDAP-2.8 */
/* Counts late answers, and spaces out the questions to slow peers. */
#include "config.h"
#include "mpi/answer_pace.h"

#include <errno.h>
#include <stdlib.h>

int pace_open(struct answer_pace *pace, int peers, unsigned window)
{
	uint64_t bodies = (uint64_t)window * (unsigned)peers;

	*pace = (struct answer_pace){.peers = calloc((size_t)peers, sizeof(*pace->peers)), .window = window};
	pace->byte = bodies < PACE_BYTE_MOST / PACE_BYTE ? bodies * PACE_BYTE : PACE_BYTE_MOST;
	return pace->peers ? 0 : ENOMEM;
}

void pace_close(struct answer_pace *pace)
{
	free(pace->peers);
	pace->peers = NULL;
}

static void average(uint64_t *of, uint64_t took)
{
	*of = *of ? (*of * (PACE_AVERAGE - 1) + took) / PACE_AVERAGE : took + 1;
}

/* So many times what something takes, within the bounds. */
static uint64_t bound(uint64_t takes, uint64_t times)
{
	if (!takes || takes * times > PACE_LATE_MOST)
		return PACE_LATE_MOST;
	return takes * times < PACE_LATE_LEAST ? PACE_LATE_LEAST : takes * times;
}

uint64_t pace_patience(const struct answer_pace *pace)
{
	uint64_t answers = bound(pace->usual, PACE_USUALS), reads = bound(pace->read, PACE_READS);

	return answers < reads ? answers : reads;
}

/* Each mebibyte that a body has begun counts. */
static uint64_t mebibytes(uint64_t bytes)
{
	return (bytes >> 20) + 1;
}

static uint64_t body_patience(const struct answer_pace *pace, uint64_t body)
{
	uint64_t bytes = body < UINT32_MAX ? body : UINT32_MAX, most = bytes * pace->byte;
	uint64_t usual = mebibytes(bytes) * pace->body * PACE_BODIES;

	return !pace->body || usual > most ? most : usual;
}

bool pace_is_late(const struct answer_pace *pace, int peer, uint64_t heard_at, uint64_t body, uint64_t now)
{
	return pace->peers[peer].late || now - heard_at > pace_patience(pace) + body_patience(pace, body);
}

bool pace_is_probe(const struct answer_pace *pace, int peer)
{
	return pace->peers[peer].strikes && !pace->peers[peer].good;
}

void pace_body(struct answer_pace *pace, uint64_t bytes, uint64_t took)
{
	average(&pace->body, (took < PACE_LATE_MOST ? took : PACE_LATE_MOST) / mebibytes(bytes) + 1);
}

enum pace_turn pace_turn(const struct answer_pace *pace, int peer, uint64_t now)
{
	const struct pace_peer *at = &pace->peers[peer];

	if (at->late || now < at->rests_until || (pace_is_probe(pace, peer) && at->open))
		return PACE_PASS;
	return at->open < pace->window ? PACE_ASK : PACE_WAIT;
}

void pace_asked(struct answer_pace *pace, int peer)
{
	pace->peers[peer].open++;
}

/* Questions that were open together are one round, of which the first counts as an answer that took as long as it was
 * waited for: so askers learn when all of a network is slow, and one slow peer makes them little more patient. */
void pace_late(struct answer_pace *pace, int peer, uint64_t began, uint64_t now)
{
	struct pace_peer *at = &pace->peers[peer];

	at->late++;
	at->good = 0;
	if (at->strikes && began < at->struck_at)
		return;
	at->strikes++;
	at->struck_at = now;
	average(&pace->usual, now - began);
}

void pace_read(struct answer_pace *pace, uint64_t took)
{
	average(&pace->read, took);
}

static uint64_t rest(const struct pace_peer *peer, uint64_t took)
{
	uint64_t ns = took * PACE_RESTS;

	for (unsigned i = 2; i < peer->strikes && ns < PACE_REST_MOST; i++)
		ns *= 2;
	return ns < PACE_REST_MOST ? ns : PACE_REST_MOST;
}

/* Whether a probe was answered too slowly to end a probation. */
static bool is_slow(const struct answer_pace *pace, uint64_t took)
{
	return took > PACE_LATE_LEAST / PACE_PROBES && took > pace->usual * PACE_USUALS / PACE_PROBES;
}

void pace_ended(struct answer_pace *pace, int peer, uint64_t began, uint64_t now, bool late, bool right)
{
	struct pace_peer *at = &pace->peers[peer];
	uint64_t took = now - began;

	at->open--;
	at->late -= late;
	if (late && at->strikes > 1)
		at->rests_until = now + rest(at, took);
	if (!right || late)
		return;
	average(&pace->usual, took < PACE_LATE_MOST ? took : PACE_LATE_MOST);
	if (!at->strikes || began < at->struck_at)
		return;
	if (!at->good && is_slow(pace, took))
		at->rests_until = now + rest(at, took);
	else if (++at->good == PACE_GOOD)
		at->strikes = at->good = 0;
}
