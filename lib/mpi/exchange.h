/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides what ranks that ask each other for bytes say and believe, and when they stop waiting.
 *
 * A question and its answer are each one word: a head and a text that only the payload reads. The
 * bytes of an answer, its body, follow as a message of their own.
 *
 *   asker     ask --> open --(answer)--> coming --(body)--> ended
 *                      |                   |
 *                      +----- silence -----+--> lost: the payload reads storage instead. The peer
 *                                               owes, and is asked nothing until the question ends.
 *   answerer  ask --> debt, which beats while the answer waits for storage --> answer
 *
 * A message that is lost, late, doubled, reordered or damaged costs a read of storage.
 * doc/decisions/exchange.md has the rules and their reasons.
 *
 * This file knows no MPI, clock, thread or lock: words and times come in, actions go out. The
 * caller (exchange_wire.c; tests/mpi/exchange_test.c) carries the actions out in their order. */
#ifndef LMDBIO_MPI_EXCHANGE_H
#define LMDBIO_MPI_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXCHANGE_VERSION = 2, EXCHANGE_RUNS = 16, EXCHANGE_FAILURES = 8 };

enum exchange_kind { WORD_ASK, WORD_ANSWER, WORD_BEAT, WORD_REMIND, WORD_PAID, WORD_NOTE, WORD_GONE };

/* The head of each word. A rank ignores words of another version. */
struct exchange_head {
	uint32_t version, kind;
	uint64_t number; /* of the question, by its asker's count */
	uint64_t body;   /* bytes that follow an answer; or the number of a reminder */
	uint64_t sum;    /* of the body, as exchange_sum() */
	uint64_t check;  /* of the head with this field 0, and of the text */
};

/* Nanoseconds. A peer that owes an answer is silent when silent_ns have passed since its last word,
 * or owed_ns since the question. A rank says every beat_ns that it owes an answer; 0: never. */
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

/* A question of this rank's. The payload owns the struct, and keeps it until the question has
 * ended. */
struct exchange_question {
	struct exchange_question *next;
	uint64_t number, what, began, remind_at, pause;
	/* When its peer last said that it owes the answer, or `began`. Times when this rank did not
	 * listen are added. */
	uint64_t heard_at;
	uint64_t told_at;   /* time of exchange.listened at which the answer announced its body */
	uint64_t took;      /* ns of exchange.listened from told_at until the body came */
	uint64_t body, sum; /* as the answer has announced them */
	int to;
	bool coming; /* the body is under way to the payload's memory */
	bool late;   /* the payload no longer waits for the answer, and has set this */
	bool lost;
};

/* An answer that this rank owes. The payload owns the struct. */
struct exchange_debt {
	struct exchange_debt *next;
	uint64_t number, said_at;
	int to;
};

struct exchange_peer {
	uint64_t heard_at;
	unsigned owing;    /* lost questions: the peer is asked nothing until they have ended */
	bool gone;         /* the peer cannot be reached, or says that it is gone */
	bool told, tell;   /* the peer knows that this rank is gone; a word about that is due */
	bool note;         /* a note to the peer is due */
	unsigned failures; /* of calls, since the last word from the peer */
	/* This rank is not quiet until the reply to its last reminder has come. Otherwise the reply
	 * would come to a rank that no longer looks. */
	uint64_t reminders, replied, remind_at, pause;
};

struct exchange {
	struct exchange_rules rules;
	struct exchange_peer *peers;
	int ranks;
	uint64_t serial;
	uint64_t listened; /* ns in which this rank has listened: of each pause at most 10 ms */
	struct exchange_question *questions;
	struct exchange_debt *debts;
	bool closed, quiet;
	bool left;      /* a peer has said that it is gone: the ranks do not end together */
	unsigned tells; /* words that are due by the peers' `tell` and `note` */
};

enum exchange_act {
	ACT_NOTHING,
	ACT_SAY,     /* send a word without text: kind and number, to the peer */
	ACT_ASKED,   /* a question has come: owe it, or answer it */
	ACT_RECEIVE, /* receive a body: to a coming question's memory, or anywhere */
	ACT_LOST,    /* stop waiting for a question; its memory stays if the question is coming */
	ACT_ENDED,   /* a question is over, with an error or 0; the machine has forgotten it */
	ACT_NOTED,   /* a note has come */
	ACT_QUIET,   /* this rank will ask nothing more: say so to all ranks */
};

struct exchange_action {
	enum exchange_act act;
	enum exchange_kind kind;
	int peer, error;
	bool alive; /* a word of the lost question's peer has come recently */
	uint64_t number, body;
	struct exchange_question *question; /* NULL: no question waits for this body */
	const uint8_t *text;                /* in the word that came */
	size_t length;
};

/* Returns 0 or ENOMEM. Then this rank asks and answers nothing, and still ends with all ranks. */
int exchange_open(struct exchange *exchange, int ranks, const struct exchange_rules *rules);
void exchange_close(struct exchange *exchange);

/* Returns the sum of a body. `what`: the number by which both ranks know the body. Threads: any. */
uint64_t exchange_sum(const struct exchange_run *runs, int n, uint64_t what);
/* Seals a word whose text stands behind its head. */
void exchange_seal(struct exchange_head *word, enum exchange_kind kind, uint64_t number,
		   size_t length);

/* Nanoseconds since the last word from a peer. */
uint64_t exchange_silence(const struct exchange *exchange, int peer, uint64_t now);

/* This rank did not listen for `ns`. If that is more than a beat, the time makes no question
 * late. */
void exchange_away(struct exchange *exchange, uint64_t ns);
/* Whether a peer may be asked. exchange_ask() then opens the question, and the caller sends it. */
bool exchange_may_ask(const struct exchange *exchange, int to);
bool exchange_ask(struct exchange *exchange, struct exchange_question *question, int to,
		  uint64_t what, uint64_t now);
/* Begin and end a debt, which lasts from ACT_ASKED until the answer is said, or none will be. */
void exchange_owe(struct exchange *exchange, struct exchange_debt *debt, int to, uint64_t number,
		  uint64_t now);
void exchange_pay(struct exchange *exchange, struct exchange_debt *debt);

/* Has exchange_tick() say a note to a peer. Returns false without memory for the peers. */
bool exchange_note(struct exchange *exchange, int to);

/* Events. Each function returns one action. */
struct exchange_action exchange_word(struct exchange *exchange, int from, const void *word,
				     size_t length, uint64_t now);
/* A body has come: `came` bytes in n runs; n 0: it went elsewhere, or failed. */
struct exchange_action exchange_body(struct exchange *exchange, struct exchange_question *question,
				     const struct exchange_run *runs, int n, size_t came);
/* Time has passed. The caller repeats the call until it returns ACT_NOTHING. */
struct exchange_action exchange_tick(struct exchange *exchange, uint64_t now);
/* A peer cannot be reached. */
void exchange_gone(struct exchange *exchange, int peer);
bool exchange_is_gone(const struct exchange *exchange, int peer);
/* A call to send to a peer or to receive from it has failed. A peer is gone after EXCHANGE_FAILURES
 * such calls without a word from it in between. */
void exchange_failed(struct exchange *exchange, int peer);
/* This rank ends alone. exchange_tick() returns ACT_SAY for each peer but `self`. */
void exchange_leave(struct exchange *exchange, int self);
/* Whether a question is open. Questions whose body comes from a peer that is gone do not count. */
bool exchange_has_questions(const struct exchange *exchange);
/* This rank asks no more. ACT_QUIET follows when no question is left and each reminder has its
 * reply. */
void exchange_stop(struct exchange *exchange);

#endif
