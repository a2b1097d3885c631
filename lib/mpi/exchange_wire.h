/* SPDX-License-Identifier: OLDAP-2.8 */
/* Carries out what an exchange between ranks decides, by non-blocking calls of MPI.
 *
 * One thread calls all these functions, and they call the payload's in the same thread. Words have
 * a tag of their own; a body has the tag that the number of its question gives. */
#ifndef LMDBIO_MPI_EXCHANGE_WIRE_H
#define LMDBIO_MPI_EXCHANGE_WIRE_H

#include "mpi/answer_pace.h"
#include "mpi/exchange.h"

#include <mpi.h>

/* The calls of a payload, which asks and answers. Texts and runs are valid only during a call. */
struct wire_payload {
	/* A question has come. Owe the answer, give it, or let the asker wait in vain. */
	void (*asked)(void *owner, int from, uint64_t number, const void *text, size_t length);
	/* A body is coming, which the text describes. Fills in the runs of memory for it, and
	 * returns their number; 0: there is no memory. */
	int (*place)(void *owner, struct exchange_question *question, const void *text,
		     size_t length, struct exchange_run *runs);
	/* The peer is silent: read storage. If the question is coming, its memory stays. */
	void (*lost)(void *owner, struct exchange_question *question, bool alive);
	/* The question is the payload's again. `text`: of an answer without a body, or NULL. */
	void (*ended)(void *owner, struct exchange_question *question, int error, const void *text,
		      size_t length);
	/* The send of a body no longer needs its memory. `item`: wire_answer()'s. */
	void (*sent)(void *owner, void *item);
	void (*noted)(void *owner); /* or NULL */
};

/* A message on its way. */
struct wire_message {
	struct wire_message *next;
	MPI_Request request;
	enum wire_way { SEND_WORD, SEND_BODY, RECEIVE_BODY, LOOK_FOR_BODY } way;
	int peer, tag;
	bool begun; /* the call that begins it has worked; otherwise a later step repeats it */
	bool failed, anywhere;
	bool used;   /* a spare is in use */
	size_t came; /* bytes */
	/* Of a body that is sent. `after`: the answer's word, sent when the body's send has
	 * begun. */
	void *item;
	struct wire_message *after;
	/* Of a body that is received: */
	struct exchange_question *question; /* NULL: no question waits for the body */
	struct exchange_run runs[EXCHANGE_RUNS];
	int n;                        /* 0: the body goes to `word` */
	struct exchange_head word[1]; /* and the text behind it */
};

struct wire {
	struct exchange exchange;
	const struct wire_payload *payload;
	void *owner;
	MPI_Comm comm;
	MPI_Request end;
	int rank;
	unsigned deaf; /* failed calls to take words, without a word in between */
	bool broken;   /* MPI fails: this rank ends alone; messages under way keep their memory */
	/* For a word without text and for a body, when there is no memory. While one of them is
	 * used, no further word is taken or said. */
	struct wire_message spare_word, spare_body;
	struct wire_message *sends, *receives;
	uint64_t now; /* time of the step */
	bool behind;  /* the step has left words unread: these make no peer late */
};

/* The communicator is for this wire alone, and stays the caller's. Returns 0, or as
 * exchange_open(); or EIO, with the same consequence, if MPI fails. */
int wire_open(struct wire *wire, MPI_Comm comm, const struct exchange_rules *rules,
	      const struct wire_payload *payload, void *owner);
void wire_close(struct wire *wire);

/* Asks. `what`: the number by which both ranks know the answer's body. Returns false if the peer
 * must not be asked; then the question has not begun. */
bool wire_ask(struct wire *wire, struct exchange_question *question, int to, uint64_t what,
	      const void *text, size_t length);
/* Answers question `number` of a peer with a text and n runs of bytes. `sum`: their exchange_sum();
 * n 0: there are no bytes, and `sum` is the question's `what`. The payload's sent() follows for
 * `item`, in any case. */
void wire_answer(struct wire *wire, int to, uint64_t number, const void *text, size_t length,
		 const struct exchange_run *runs, int n, uint64_t sum, void *item);
void wire_note(struct wire *wire, int to);

/* Takes what has come, and gives up what takes too long. Returns whether anything was done. */
bool wire_step(struct wire *wire, uint64_t now);
/* Calls late() for each open question whose answer has become late by this pace; late() sets
 * question->late. Returns whether there were any. */
bool wire_late(const struct wire *wire, const struct answer_pace *pace, uint64_t now,
	       void (*late)(void *owner, struct exchange_question *question));
/* Whether no question is open and no message is on its way. Messages of a peer that is gone do not
 * count, because MPI may never end them. */
bool wire_is_idle(const struct wire *wire);
/* After exchange_stop(): whether this rank may end. Either no rank asks any more and all is sent,
 * or MPI has failed and the other ranks know. If `broken` is set then, memory that was handed over
 * must stay. */
bool wire_is_over(struct wire *wire);

/* Begins to send runs of memory as one message, or to receive them (`sends` is false). Returns an
 * MPI code. */
int runs_begin(const struct exchange_run *runs, int n, int peer, int tag, MPI_Comm comm, bool sends,
	       MPI_Request *request);

#endif
