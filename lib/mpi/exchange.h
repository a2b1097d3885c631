/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides what ranks that ask each other for bytes say and believe, and when they stop waiting.
 *
 * A question and its answer are each one word: a head and a text that only the payload reads. The bytes of an
 * answer, its body, follow as a message of their own.
 *
 *   asker     ask --> open --(answer)--> coming --(body)--> ended
 *                      |                   |
 *                      +----- silence -----+--> lost: the payload reads storage instead. The peer
 *                                               owes, and is asked nothing, until the question ends.
 *   answerer  ask --> debt, which beats while the answer waits for storage --> answer
 *
 * Whatever is lost, late, doubled, reordered or damaged costs a read of storage. doc/decisions/exchange.md has the
 * rules and their reasons.
 *
 * This file knows no MPI, clock, thread or lock: words and times come in, actions go out. The caller
 * (exchange_wire.c; tests/mpi/exchange_test.c) carries the actions out in their order. */
#ifndef LMDBIO_MPI_EXCHANGE_H
#define LMDBIO_MPI_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXCHANGE_VERSION = 2, EXCHANGE_RUNS = 16, EXCHANGE_FAILURES = 8 };

enum exchange_kind { WORD_ASK, WORD_ANSWER, WORD_BEAT, WORD_REMIND, WORD_PAID, WORD_NOTE, WORD_GONE };

/* The head of each word, between ranks of one version. */
struct exchange_head {
	uint32_t version, kind;
	uint64_t number; /* of the question; its asker's */
	uint64_t body;   /* bytes that follow an answer; which reminder this is, or replies to */
	uint64_t sum;    /* of the body, as exchange_sum() */
	uint64_t check;  /* of the head, this field being 0, and the text */
};

/* Nanoseconds. A peer that owes an answer is silent after silent_ns without a word from it, and in any
 * case owed_ns after the question. It says each beat_ns that it owes one; 0: never. */
struct exchange_rules {
	uint64_t silent_ns, owed_ns, beat_ns;
};

/* The same rules with both bounds multiplied. */
struct exchange_rules exchange_patient(const struct exchange_rules *rules, unsigned patience);

/* Bytes of a body, in pieces. */
struct exchange_run {
	uint8_t *bytes;
	size_t length;
};

/* A question of this rank's, in a struct of the payload's that stays until the question has ended. */
struct exchange_question {
	struct exchange_question *next;
	uint64_t number, what, began, remind_at, pause;
	/* When its peer has last said that it owes the answer; or `began`. Times in which this rank has not listened
	 * are added. */
	uint64_t heard_at;
	uint64_t told_at;   /* of exchange.listened: when the answer has announced its body */
	uint64_t took;      /* ns of exchange.listened from then until the body has come */
	uint64_t body, sum; /* that the answer has announced */
	int to;
	bool coming; /* the body is under way to the payload's memory */
	bool late;   /* the payload waits for it no more, and has said so here */
	bool lost;
};

/* An answer that this rank owes, in a struct of the payload's. */
struct exchange_debt {
	struct exchange_debt *next;
	uint64_t number, said_at;
	int to;
};

struct exchange_peer {
	uint64_t heard_at;
	unsigned owing; /* lost questions: the peer is asked nothing before they have ended */
	bool gone;      /* it cannot be reached, or says that it is gone */
	bool told, tell; /* knows that this rank is gone for it; is to be told */
	bool note;       /* is to get one */
	unsigned failures; /* of calls, since the last word from it */
	/* Until a reply to the last reminder has come this rank is not quiet: the reply would come to a
	 * rank that looks no more. */
	uint64_t reminders, replied, remind_at, pause;
};

struct exchange {
	struct exchange_rules rules;
	struct exchange_peer *peers;
	int ranks;
	uint64_t serial;
	uint64_t listened; /* ns, without most of any pause of this rank's that is long */
	struct exchange_question *questions;
	struct exchange_debt *debts;
	bool closed, quiet;
	bool left; /* a peer has said that it is gone: there is no end together */
	unsigned tells; /* words of the peers' `tell` and `note` */
};

enum exchange_act {
	ACT_NOTHING,
	ACT_SAY,     /* send a word without text: kind and number, to the peer */
	ACT_ASKED,   /* a question has come: owe it, or answer it */
	ACT_RECEIVE, /* take a body of an answer: to the question's memory, if it is coming; else anywhere */
	ACT_LOST,    /* stop waiting for a question, whose memory stays if it is coming */
	ACT_ENDED,   /* a question is over, with an error or 0; the machine has forgotten it */
	ACT_NOTED,   /* a note has come */
	ACT_QUIET,   /* this rank asks no more: say so to all */
};

struct exchange_action {
	enum exchange_act act;
	enum exchange_kind kind;
	int peer, error;
	bool alive; /* a lost question's peer has said of late that it owes */
	uint64_t number, body;
	struct exchange_question *question; /* NULL: no question waits for this body */
	const uint8_t *text;                /* in the word that came */
	size_t length;
};

/* Returns 0; or ENOMEM, after which this rank asks and answers nothing, and still ends with the others. */
int exchange_open(struct exchange *exchange, int ranks, const struct exchange_rules *rules);
void exchange_close(struct exchange *exchange);

/* The sum of a body of which both ranks know by a number what it is. Any thread. */
uint64_t exchange_sum(const struct exchange_run *runs, int n, uint64_t what);
/* Seals a word whose text stands behind its head. */
void exchange_seal(struct exchange_head *word, enum exchange_kind kind, uint64_t number,
		   size_t length);

/* Nanoseconds since the last word from a peer. */
uint64_t exchange_silence(const struct exchange *exchange, int peer, uint64_t now);

/* So long after the last call this rank listens: where that is more than a beat, no question is late by it. */
void exchange_away(struct exchange *exchange, uint64_t ns);
/* Whether a peer may be asked; the question is open then, and is to be said. */
bool exchange_may_ask(const struct exchange *exchange, int to);
bool exchange_ask(struct exchange *exchange, struct exchange_question *question, int to,
		  uint64_t what, uint64_t now);
/* From ACT_ASKED until the answer is said, or there will be none. */
void exchange_owe(struct exchange *exchange, struct exchange_debt *debt, int to, uint64_t number,
		  uint64_t now);
void exchange_pay(struct exchange *exchange, struct exchange_debt *debt);

/* ACT_SAY of a note to a peer follows. Returns false if this rank has no memory for its peers. */
bool exchange_note(struct exchange *exchange, int to);

/* What has happened. Each returns one action. */
struct exchange_action exchange_word(struct exchange *exchange, int from, const void *word,
				     size_t length, uint64_t now);
/* A coming question's body: `came` bytes of it, in n runs; or a body that was taken anywhere, n 0. */
struct exchange_action exchange_body(struct exchange *exchange, struct exchange_question *question,
				     const struct exchange_run *runs, int n, size_t came);
/* Time has passed: to be called until it returns ACT_NOTHING. */
struct exchange_action exchange_tick(struct exchange *exchange, uint64_t now);
/* A peer cannot be reached. */
void exchange_gone(struct exchange *exchange, int peer);
bool exchange_is_gone(const struct exchange *exchange, int peer);
/* A call to send to a peer, or to receive from it, has failed. A peer is gone after EXCHANGE_FAILURES of these
 * without a word from it in between. */
void exchange_failed(struct exchange *exchange, int peer);
/* This rank ends alone: ACT_SAY follows for each peer but `self`. */
void exchange_leave(struct exchange *exchange, int self);
/* Whether a question is open. A body that comes from a peer that is gone is not waited for. */
bool exchange_has_questions(const struct exchange *exchange);
/* This rank asks no more. ACT_QUIET follows when no question is left and each reminder has its reply. */
void exchange_stop(struct exchange *exchange);

#endif
