/* SPDX-License-Identifier: OLDAP-2.8 */
/* Carries out what an exchange between ranks decides, by non-blocking calls of MPI.
 *
 * One thread calls all of this, and the payload's functions are called in it. Words go under a tag of
 * their own; a body goes under a tag that its question's number names. */
#ifndef LMDBIO_MPI_EXCHANGE_WIRE_H
#define LMDBIO_MPI_EXCHANGE_WIRE_H

#include "mpi/answer_pace.h"
#include "mpi/exchange.h"

#include <mpi.h>

/* What asks and answers. Texts and runs are only valid during the call. */
struct wire_payload {
	/* A question has come: owe it, or answer it, or let its asker wait in vain. */
	void (*asked)(void *owner, int from, uint64_t number, const void *text, size_t length);
	/* A body comes, of which the text tells: fills in the runs of memory that it is for, and returns
	 * how many; 0: there is no memory. */
	int (*place)(void *owner, struct exchange_question *question, const void *text,
		     size_t length, struct exchange_run *runs);
	/* The peer is silent: read storage. If the question is coming, its memory stays. */
	void (*lost)(void *owner, struct exchange_question *question, bool alive);
	/* The question is the payload's again. The text of an answer without a body, or NULL. */
	void (*ended)(void *owner, struct exchange_question *question, int error, const void *text,
		      size_t length);
	/* The body that was sent with `item` needs its memory no more. */
	void (*sent)(void *owner, void *item);
	void (*noted)(void *owner); /* or NULL */
};

/* A message on its way. */
struct wire_message {
	struct wire_message *next;
	MPI_Request request;
	enum wire_way { SEND_WORD, SEND_BODY, RECEIVE_BODY, LOOK_FOR_BODY } way;
	int peer, tag;
	bool begun; /* false: the call that begins it has failed, and is tried again */
	bool failed, anywhere;
	bool used;   /* of a spare */
	size_t came; /* bytes */
	/* Of a body that is sent; `after` is the answer's word, which is sent when the body's send has begun. */
	void *item;
	struct wire_message *after;
	/* Of one that is received: */
	struct exchange_question *question; /* NULL: none waits for it */
	struct exchange_run runs[EXCHANGE_RUNS];
	int n;                        /* 0: it goes to `word` */
	struct exchange_head word[1]; /* and what follows */
};

struct wire {
	struct exchange exchange;
	const struct wire_payload *payload;
	void *owner;
	MPI_Comm comm;
	MPI_Request end;
	int rank;
	unsigned deaf; /* calls that take words and have failed, without a word in between */
	bool broken; /* MPI fails: this rank does not end with the others. What is on its way keeps its memory. */
	/* For a word without text, and for a body, when there is no memory. While one is used no further word is taken
	 * or said. */
	struct wire_message spare_word, spare_body;
	struct wire_message *sends, *receives;
	uint64_t now; /* of the step */
	bool behind;  /* the step has not taken all words that have come: no peer is late by them */
};

/* The communicator is the wire's alone, and stays the caller's. Returns 0, or as exchange_open(); EIO: so does
 * a rank whose MPI fails. */
int wire_open(struct wire *wire, MPI_Comm comm, const struct exchange_rules *rules,
	      const struct wire_payload *payload, void *owner);
void wire_close(struct wire *wire);

/* Asks. `what`: the number by which both ranks know the answer's body. Returns false if the peer is
 * not to be asked: the question has not begun. */
bool wire_ask(struct wire *wire, struct exchange_question *question, int to, uint64_t what,
	      const void *text, size_t length);
/* Answers question `number` of a peer, with n runs of bytes and their exchange_sum() behind the text;
 * n 0: no bytes, and the sum is `what`. The payload's sent() follows for `item`, in any case. */
void wire_answer(struct wire *wire, int to, uint64_t number, const void *text, size_t length,
		 const struct exchange_run *runs, int n, uint64_t sum, void *item);
void wire_note(struct wire *wire, int to);

/* Takes what has come, and gives up what has not. Returns whether anything was done. */
bool wire_step(struct wire *wire, uint64_t now);
/* Calls late() for each open question whose answer has become late by this pace; late() sets question->late. Returns
 * whether there were any. */
bool wire_late(const struct wire *wire, const struct answer_pace *pace, uint64_t now,
	       void (*late)(void *owner, struct exchange_question *question));
/* Whether no question is open and no message is on its way. What MPI does not end of a peer that is gone is
 * not waited for. */
bool wire_is_idle(const struct wire *wire);
/* After exchange_stop(): whether no rank asks any more and all is sent; or MPI has failed, and the others know:
 * `broken` is set then, and memory that was handed over stays. */
bool wire_is_over(struct wire *wire);

/* Begins to send runs of memory as one message, or to receive them (`sends` is false). Returns an MPI code. */
int runs_begin(const struct exchange_run *runs, int n, int peer, int tag, MPI_Comm comm, bool sends,
	       MPI_Request *request);

#endif
