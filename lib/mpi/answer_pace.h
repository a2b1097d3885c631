/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides when an answer of a peer counts as late, which peers are slow, and how often these are
 * asked.
 *
 * The asker of a late answer turns to another node, and leaves the question open. A peer that is
 * late or slow goes on probation: it gets one question at a time, a probe for whose answer no
 * reader waits, and rests after each slow answer. So a slow peer costs its readers one wait, and a
 * peer that was slow for a moment is asked again at once. doc/decisions/exchange.md has the bounds
 * and the measurements behind them.
 *
 * This file knows no MPI, clock, thread or lock: callers pass the times. */
#ifndef LMDBIO_MPI_ANSWER_PACE_H
#define LMDBIO_MPI_ANSWER_PACE_H

#include "mpi/exchange.h"

#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds. */
#define PACE_LATE_LEAST UINT64_C(250000000)
#define PACE_LATE_MOST UINT64_C(1000000000)
#define PACE_REST_MOST UINT64_C(64000000000)
#define PACE_BYTE UINT64_C(8) /* of a body, at 1 Gbit/s */
#define PACE_BYTE_MOST  UINT64_C(1000)     /* the same for 125 bodies or more that share it */
#define PACE_BODY_SLOW  UINT64_C(60000000) /* ns that a mebibyte may always take: 140 Mbit/s */

enum {
	PACE_USUALS = 8,
	PACE_READS = 16,
	PACE_BODIES = 8,
	PACE_BODIES_LEAST = 2, /* bodies, one after another, after which a peer may count as slow */
	PACE_RESTS = 16,
	PACE_AVERAGE = 16,
	PACE_PROBES = 4, /* a probe answered in 1 / this of the patience ends a probation */
	PACE_BODY_AVERAGE = 4,
	PACE_FIRST = 2, /* questions that a peer may have before it has answered one */
	PACE_GOOD = 16, /* answers in time after which earlier strikes are forgotten */
};

struct pace_peer {
	unsigned open, late;    /* open questions; late ones among them */
	unsigned strikes;       /* how often the peer was late or slow */
	unsigned good;          /* answers in time since the last strike; 0: on probation */
	unsigned bodies;        /* bodies received since the last strike */
	uint64_t body;          /* ns that a mebibyte of these takes, moving average; 0: none yet */
	uint64_t body_at;       /* ns of exchange.listened: when the last body that counts came */
	uint64_t struck_at;	/* ns: when the last round began */
	uint64_t rests_until;	/* ns */
};

struct answer_pace {
	struct pace_peer *peers;
	int count;
	unsigned window; /* most questions of one peer; UINT_MAX: never any limit */
	uint64_t late_least, late_most, body_slow; /* ns: the bounds above, times the patience */
	uint64_t byte;  /* ns that a byte of a body may take if a peer answers all askers */
	uint64_t usual; /* ns of an answer or a wait for it, moving average; 0: none yet */
	uint64_t read;  /* the same for this node's reads; 0: unknown or irrelevant */
	uint64_t body;  /* the least of the peers' averages; 0: no body yet */
};

enum pace_turn {
	PACE_ASK,
	PACE_WAIT, /* the peer has as many questions as it may have */
	PACE_PASS, /* the peer is late or slow: ask another node */
};

/* `patience`: a factor for the bounds, at least 1. Returns 0 or ENOMEM. */
int pace_open(struct answer_pace *pace, int peers, unsigned window, unsigned patience);
void pace_close(struct answer_pace *pace);

/* Returns for how many ns an asker may hear nothing of an answer before it is late. */
uint64_t pace_patience(const struct answer_pace *pace);
/* Whether an open question's answer is late. A strike makes late all answers owed before it. */
bool pace_is_late(const struct answer_pace *pace, const struct exchange_question *question, uint64_t now);
enum pace_turn pace_turn(const struct answer_pace *pace, int peer, uint64_t now);

void pace_asked(struct answer_pace *pace, int peer);
/* Notes that a question has just become late. */
void pace_late(struct answer_pace *pace, const struct exchange_question *question, uint64_t now);
/* Whether the next question to a peer is a probe: the asker turns to another node at once. */
bool pace_is_probe(const struct answer_pace *pace, int peer);
/* Notes that a read of storage took `took` ns. */
void pace_read(struct answer_pace *pace, uint64_t took);
/* Notes that a question is over. `right`: it brought its answer. */
void pace_ended(struct answer_pace *pace, const struct exchange_question *question, uint64_t now, bool right);

#endif
