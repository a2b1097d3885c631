/* SPDX-License-Identifier: OLDAP-2.8 */
/* Counts late answers, and spaces out the questions to slow peers. */
#include "config.h"
#include "mpi/answer_pace.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

int pace_open(struct answer_pace *pace, int peers, unsigned window, unsigned patience)
{
	uint64_t bodies = (uint64_t)window * (unsigned)peers;

	*pace = (struct answer_pace){.peers = calloc((size_t)peers, sizeof(*pace->peers)),
				     .count = peers,
				     .window = window,
				     .late_least = PACE_LATE_LEAST * patience,
				     .late_most = PACE_LATE_MOST * patience,
				     .body_slow = PACE_BODY_SLOW * patience};
	pace->byte = bodies < PACE_BYTE_MOST / PACE_BYTE ? bodies * PACE_BYTE : PACE_BYTE_MOST;
	return pace->peers ? 0 : ENOMEM;
}

void pace_close(struct answer_pace *pace)
{
	free(pace->peers);
	pace->peers = NULL;
}

static void average(uint64_t *of, uint64_t took, uint64_t parts)
{
	*of = *of ? (*of * (parts - 1) + took) / parts : took + 1;
}

/* Returns takes * times, at least late_least and at most late_most; late_most if `takes` is not
 * known yet. */
static uint64_t bound(const struct answer_pace *pace, uint64_t takes, uint64_t times)
{
	if (!takes || takes * times > pace->late_most)
		return pace->late_most;
	return takes * times < pace->late_least ? pace->late_least : takes * times;
}

uint64_t pace_patience(const struct answer_pace *pace)
{
	uint64_t answers = bound(pace, pace->usual, PACE_USUALS),
		 reads = bound(pace, pace->read, PACE_READS);

	return answers < reads ? answers : reads;
}

/* Returns the mebibytes of a body, rounded up, at least 1. */
static uint64_t mebibytes(uint64_t bytes)
{
	return bytes ? ((bytes - 1) >> 20) + 1 : 1;
}

/* Returns the ns that a mebibyte of a body may take. */
static uint64_t usual_body(const struct answer_pace *pace)
{
	uint64_t usual = pace->body * PACE_BODIES;

	return usual > pace->body_slow ? usual : pace->body_slow;
}

/* Returns the ns that a mebibyte of a peer's bodies may take on average before the peer counts as
 * slow. */
static uint64_t slow_body(const struct answer_pace *pace)
{
	uint64_t reads = pace->read ? pace->read * PACE_BODIES : pace->late_most,
		 usual = usual_body(pace);

	return reads > usual ? reads : usual;
}

static uint64_t body_patience(const struct answer_pace *pace, uint64_t body)
{
	uint64_t bytes = body < UINT32_MAX ? body : UINT32_MAX, most = bytes * pace->byte;
	uint64_t usual = mebibytes(bytes) * usual_body(pace);

	return !pace->body || usual > most ? most : usual;
}

bool pace_is_late(const struct answer_pace *pace, const struct exchange_question *question, uint64_t now)
{
	return question->began < pace->peers[question->to].struck_at ||
	       now - question->heard_at > pace_patience(pace) + body_patience(pace, question->body);
}

bool pace_is_probe(const struct answer_pace *pace, int peer)
{
	return pace->peers[peer].strikes && !pace->peers[peer].good;
}

static void strike(struct pace_peer *at, uint64_t now)
{
	at->strikes++;
	at->struck_at = now;
	at->good = at->bodies = 0;
	at->body = 0;
}

static uint64_t fastest_body(const struct answer_pace *pace)
{
	uint64_t least = UINT64_MAX;

	for (int peer = 0; peer < pace->count; peer++)
		if (pace->peers[peer].body && pace->peers[peer].body < least)
			least = pace->peers[peer].body;
	return least < UINT64_MAX ? least : 0;
}

static unsigned window(const struct answer_pace *pace, const struct pace_peer *at)
{
	unsigned first = PACE_FIRST + at->good;

	return at->good == PACE_GOOD || pace->window == UINT_MAX || first > pace->window ? pace->window : first;
}

enum pace_turn pace_turn(const struct answer_pace *pace, int peer, uint64_t now)
{
	const struct pace_peer *at = &pace->peers[peer];

	if (at->late || now < at->rests_until || (pace_is_probe(pace, peer) && at->open))
		return PACE_PASS;
	return at->open < window(pace, at) ? PACE_ASK : PACE_WAIT;
}

void pace_asked(struct answer_pace *pace, int peer)
{
	pace->peers[peer].open++;
}

/* Questions that were open to a peer together are one round. The first late answer of a round
 * counts as an answer that took as long as its asker waited. So askers learn when the whole network
 * is slow, and one slow peer makes them little more patient. */
void pace_late(struct answer_pace *pace, const struct exchange_question *question, uint64_t now)
{
	struct pace_peer *at = &pace->peers[question->to];

	at->late++;
	if (question->began < at->struck_at)
		return;
	strike(at, now);
	average(&pace->usual, now - question->began, PACE_AVERAGE);
}

void pace_read(struct answer_pace *pace, uint64_t took)
{
	average(&pace->read, took, PACE_AVERAGE);
}

static uint64_t rest(const struct pace_peer *peer, uint64_t took)
{
	uint64_t ns = took * PACE_RESTS;

	for (unsigned i = 2; i < peer->strikes && ns < PACE_REST_MOST; i++)
		ns *= 2;
	return ns < PACE_REST_MOST ? ns : PACE_REST_MOST;
}

/* Bodies that were on their way together count once: a pause of the peer or the asker makes all of
 * them slow. */
static void body_came(struct answer_pace *pace, struct pace_peer *at, const struct exchange_question *question)
{
	uint64_t took = question->took / mebibytes(question->body), most = slow_body(pace) * 2;

	if (question->told_at < at->body_at)
		return;
	average(&at->body, took < most ? took : most, PACE_BODY_AVERAGE);
	at->body_at = question->told_at + question->took;
	at->bodies++;
	pace->body = fastest_body(pace);
}

/* Whether a probe was answered too slowly to end a probation. */
static bool is_slow(const struct answer_pace *pace, const struct pace_peer *at, uint64_t took)
{
	return at->body > usual_body(pace) || (took > pace->late_least / PACE_PROBES &&
					       took > pace->usual * PACE_USUALS / PACE_PROBES);
}

void pace_ended(struct answer_pace *pace, const struct exchange_question *question, uint64_t now, bool right)
{
	struct pace_peer *at = &pace->peers[question->to];
	uint64_t took = now - question->began;
	bool probe = pace_is_probe(pace, question->to);

	at->open--;
	at->late -= question->late;
	if (question->late && at->strikes > 1)
		at->rests_until = now + rest(at, took);
	if (!right || question->late)
		return;
	average(&pace->usual, took < pace->late_most ? took : pace->late_most, PACE_AVERAGE);
	if (question->began < at->struck_at)
		return;
	if (question->body)
		body_came(pace, at, question);
	if (probe && is_slow(pace, at, took)) {
		at->rests_until = now + rest(at, took);
	} else if (at->bodies >= PACE_BODIES_LEAST && at->body > slow_body(pace)) {
		strike(at, now);
	} else if (at->good < PACE_GOOD && ++at->good == PACE_GOOD) {
		at->strikes = 0;
	}
}
