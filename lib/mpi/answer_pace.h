/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides when an answer of a peer counts as late, which peers are slow, and how often these are asked.
 *
 * The asker of a late answer turns to another node, and leaves the question open. A peer that is late or slow goes on
 * probation: it is asked one question at a time, a probe for whose answer no reader waits, and rests after each slow
 * one. So a slow peer costs its readers one wait, and a peer that was slow for a moment is asked again at once.
 * doc/decisions/exchange.md has the bounds and the measurements behind them.
 *
 * This file knows no MPI, clock, thread or lock: times come in. */
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
#define PACE_BYTE_MOST UINT64_C(1000) /* which more than a hundred bodies share */
#define PACE_BODY_SLOW UINT64_C(60000000) /* no mebibyte of a body is slow that takes less: 140 Mbit/s */

enum {
	PACE_USUALS = 8,
	PACE_READS = 16,
	PACE_BODIES = 8,
	PACE_BODIES_LEAST = 2, /* bodies, one after another, after which a peer may count as slow */
	PACE_RESTS = 16,
	PACE_AVERAGE = 16,
	PACE_PROBES = 4, /* the part of the patience in which a probe is answered that ends a probation */
	PACE_BODY_AVERAGE = 4,
	PACE_FIRST = 2,  /* questions that a peer may have before it has answered one */
	PACE_GOOD = 16, /* answers in time that end all memory of late ones */
};

struct pace_peer {
	unsigned open, late;	/* questions; of them those that are late */
	unsigned strikes;	/* times at which it was late or slow */
	unsigned good;		/* answers in time since the last of them; 0: the peer is on probation */
	unsigned bodies;	/* since then */
	uint64_t body;		/* ns that a mebibyte of them takes, moving average; 0: none has come */
	uint64_t body_at;	/* ns of exchange.listened: when the last one that counts came */
	uint64_t struck_at;	/* ns: when the last round began */
	uint64_t rests_until;	/* ns */
};

struct answer_pace {
	struct pace_peer *peers;
	int count;
	unsigned window;	/* questions that one peer may have; UINT_MAX: any number, from the first on */
	uint64_t late_least, late_most, body_slow; /* ns: the bounds above, times the patience */
	uint64_t byte;		/* ns that a byte of a body may take, where a peer answers all that may ask it at once */
	uint64_t usual;		/* ns that answers take, or are waited for, moving average; 0: none has come */
	uint64_t read;		/* the same of this node's reads of storage; 0: not known, or of no matter */
	uint64_t body;		/* the least of the peers' averages; 0: none has come */
};

enum pace_turn {
	PACE_ASK,
	PACE_WAIT, /* it has as many questions as a peer may have */
	PACE_PASS, /* it is slow: another node is to be asked */
};

/* `patience`: what the bounds are multiplied by, 1 or more. Returns 0 or ENOMEM. */
int pace_open(struct answer_pace *pace, int peers, unsigned window, unsigned patience);
void pace_close(struct answer_pace *pace);

/* How long nothing may be heard of an answer that is in time. */
uint64_t pace_patience(const struct answer_pace *pace);
/* Whether the answer of an open question is late. All of a peer are that were asked for before one was. */
bool pace_is_late(const struct answer_pace *pace, const struct exchange_question *question, uint64_t now);
enum pace_turn pace_turn(const struct answer_pace *pace, int peer, uint64_t now);

void pace_asked(struct answer_pace *pace, int peer);
/* A question has just become late. */
void pace_late(struct answer_pace *pace, const struct exchange_question *question, uint64_t now);
/* Whether the next question to a peer is a probe: the asker turns to another node at once. */
bool pace_is_probe(const struct answer_pace *pace, int peer);
/* A read of storage has taken so many nanoseconds. */
void pace_read(struct answer_pace *pace, uint64_t took);
/* A question is over. `right`: it has brought its answer. */
void pace_ended(struct answer_pace *pace, const struct exchange_question *question, uint64_t now, bool right);

#endif
