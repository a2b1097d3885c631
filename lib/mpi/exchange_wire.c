/* SPDX-License-Identifier: OLDAP-2.8 */
/* Sends and receives the words and bodies of an exchange. */
#include "config.h"
#include "mpi/exchange_wire.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_WORD = 1, TAG_BODY = 16, TAG_BODIES = 16384, WORDS_AT_ONCE = 64, WORD_MOST = 8192 };

static int body_tag(uint64_t number)
{
	return TAG_BODY + (int)(number % TAG_BODIES);
}

/* `length`: bytes of the message's word, or of a body that is received in its place. */
static struct wire_message *message_new(int peer, size_t length)
{
	size_t within = sizeof(struct wire_message) - offsetof(struct wire_message, word);
	struct wire_message *message =
		malloc(sizeof(*message) + (length > within ? length - within : 0));

	if (message)
		*message = (struct wire_message){.request = MPI_REQUEST_NULL, .peer = peer};
	return message;
}

static struct wire_message *spare_take(struct wire_message *spare, int peer)
{
	if (spare->used)
		return NULL;
	*spare = (struct wire_message){.request = MPI_REQUEST_NULL, .peer = peer, .used = true};
	return spare;
}

static void message_free(struct wire_message *message)
{
	if (message && message->used)
		message->used = false;
	else
		free(message);
}

int wire_open(struct wire *wire, MPI_Comm comm, const struct exchange_rules *rules,
	      const struct wire_payload *payload, void *owner)
{
	int ranks = 0, rc;
	bool known;

	*wire = (struct wire){
		.payload = payload, .owner = owner, .comm = comm, .end = MPI_REQUEST_NULL};
	known = MPI_Comm_size(comm, &ranks) == MPI_SUCCESS &&
		MPI_Comm_rank(comm, &wire->rank) == MPI_SUCCESS;
	rc = exchange_open(&wire->exchange, known ? ranks : 0, rules);
	if (known)
		return rc;
	exchange_stop(&wire->exchange);
	return EIO;
}

void wire_close(struct wire *wire)
{
	exchange_close(&wire->exchange);
}

/* --- sending ---------------------------------------------------------------------------------- */

static void word_fill(struct wire_message *message, enum exchange_kind kind, uint64_t number,
		      const struct exchange_head *head, const void *text, size_t length)
{
	message->came = sizeof(*head) + length;
	*message->word = head ? *head : (struct exchange_head){0};
	if (length)
		memcpy(message->word + 1, text, length);
	exchange_seal(message->word, kind, number, length);
}

static struct wire_message *word_new(int to, enum exchange_kind kind, uint64_t number,
				     const struct exchange_head *head, const void *text,
				     size_t length)
{
	struct wire_message *message = message_new(to, sizeof(*head) + length);

	if (message)
		word_fill(message, kind, number, head, text, length);
	return message;
}

int runs_begin(const struct exchange_run *runs, int n, int peer, int tag, MPI_Comm comm, bool sends,
	       MPI_Request *request)
{
	MPI_Aint places[EXCHANGE_RUNS];
	int sizes[EXCHANGE_RUNS], rc;
	MPI_Datatype type;

	*request = MPI_REQUEST_NULL;
	for (int i = 0; i < n; i++) {
		rc = MPI_Get_address(runs[i].bytes, &places[i]);
		if (rc != MPI_SUCCESS)
			return rc;
		sizes[i] = (int)runs[i].length;
	}
	rc = MPI_Type_create_hindexed(n, sizes, places, MPI_BYTE, &type);
	if (rc != MPI_SUCCESS)
		return rc;
	rc = MPI_Type_commit(&type);
	if (rc == MPI_SUCCESS)
		rc = sends ? MPI_Isend(MPI_BOTTOM, 1, type, peer, tag, comm, request)
			   : MPI_Irecv(MPI_BOTTOM, 1, type, peer, tag, comm, request);
	MPI_Type_free(&type);
	return rc;
}

/* --- messages on their way -------------------------------------------------------------------- */

static int body_look(struct wire *wire, int from, int tag);

/* Whether a spare is free, or is blocked only by a peer that is gone. */
static bool spare_is_there(const struct wire *wire, const struct wire_message *spare)
{
	return !spare->used || exchange_is_gone(&wire->exchange, spare->peer);
}

/* The next step repeats a call that has failed. Calls that go on failing make the peer gone. */
static void message_begin(struct wire *wire, struct wire_message *message)
{
	int n = message->n ? message->n : 1, rc;

	if (message->way == LOOK_FOR_BODY && !spare_is_there(wire, &wire->spare_body))
		return;
	if (message->way == LOOK_FOR_BODY)
		rc = body_look(wire, message->peer, message->tag);
	else if (message->way == SEND_WORD)
		rc = MPI_Isend(message->word, (int)message->came, MPI_BYTE, message->peer, message->tag,
			       wire->comm, &message->request);
	else
		rc = runs_begin(message->runs, n, message->peer, message->tag, wire->comm,
				message->way == SEND_BODY, &message->request);
	message->begun = rc == MPI_SUCCESS;
	if (message->begun)
		return;
	message->request = MPI_REQUEST_NULL;
	exchange_failed(&wire->exchange, message->peer);
}

static void message_put(struct wire *wire, struct wire_message **list, struct wire_message *message,
			enum wire_way way, int tag)
{
	message->way = way;
	message->tag = tag;
	message->next = *list;
	*list = message;
	message_begin(wire, message);
}

static void word_send(struct wire *wire, struct wire_message *word)
{
	message_put(wire, &wire->sends, word, SEND_WORD, TAG_WORD);
}

/* A word without text. */
static void word_say(struct wire *wire, int to, enum exchange_kind kind, uint64_t number,
		     uint64_t body)
{
	const struct exchange_head head = {.body = body};
	struct wire_message *word = word_new(to, kind, number, &head, NULL, 0);

	if (!word && (word = spare_take(&wire->spare_word, to)))
		word_fill(word, kind, number, &head, NULL, 0);
	if (word)
		word_send(wire, word);
}

/* An asker that has the word waits for the body, so the send of the body begins first. */
static void word_follow(struct wire *wire, struct wire_message *body)
{
	struct wire_message *word = body->after;

	if (!word || !body->begun)
		return;
	body->after = NULL;
	word_send(wire, word);
}

/* Repeats calls that have failed. */
static void messages_again(struct wire *wire, struct wire_message *list)
{
	for (struct wire_message *message = list; message; message = message->next) {
		if (!message->begun && !exchange_is_gone(&wire->exchange, message->peer))
			message_begin(wire, message);
		word_follow(wire, message);
	}
}

bool wire_ask(struct wire *wire, struct exchange_question *question, int to, uint64_t what,
	      const void *text, size_t length)
{
	struct wire_message *word;

	if (!exchange_ask(&wire->exchange, question, to, what, wire->now))
		return false;
	word = word_new(to, WORD_ASK, question->number, NULL, text, length);
	if (word) /* without memory the question is like a lost word */
		word_send(wire, word);
	return true;
}

void wire_answer(struct wire *wire, int to, uint64_t number, const void *text, size_t length,
		 const struct exchange_run *runs, int n, uint64_t sum, void *item)
{
	struct exchange_head head = {.sum = sum};
	struct wire_message *word, *body = n ? message_new(to, 0) : NULL;

	for (int i = 0; i < n; i++)
		head.body += runs[i].length;
	word = word_new(to, WORD_ANSWER, number, &head, text, length);
	/* Without memory there is no answer: the asker gives up after a while and reads storage. */
	if (!word || (n && !body)) {
		free(word);
		free(body);
		if (item)
			wire->payload->sent(wire->owner, item);
		return;
	}
	if (!body) {
		word_send(wire, word);
		if (item)
			wire->payload->sent(wire->owner, item);
		return;
	}
	body->item = item;
	body->after = word;
	body->n = n;
	memcpy(body->runs, runs, (size_t)n * sizeof(*runs));
	message_put(wire, &wire->sends, body, SEND_BODY, body_tag(number));
	word_follow(wire, body);
}

void wire_note(struct wire *wire, int to)
{
	if (!exchange_note(&wire->exchange, to))
		word_say(wire, to, WORD_NOTE, 0, 0);
}

/* Tells the peers, which would otherwise wait for this rank in the barrier at the end. */
static void wire_break(struct wire *wire)
{
	wire->broken = true;
	exchange_leave(&wire->exchange, wire->rank);
}

/* Gives all peers up, because this rank can take no more words from any of them. */
static void wire_deafen(struct wire *wire)
{
	wire_break(wire);
	for (int rank = 0; rank < wire->exchange.ranks; rank++)
		if (rank != wire->rank)
			exchange_gone(&wire->exchange, rank);
}

/* --- receiving -------------------------------------------------------------------------------- */

/* Makes memory for a body that no question waits for, or that has no other memory. MPI cuts the
 * body if this memory is too small. */
static struct wire_message *receive_anywhere(struct wire *wire, int from, uint64_t body)
{
	size_t length = body < INT_MAX ? body : 0;
	struct wire_message *message = message_new(from, length);

	if (!message) {
		length = 0;
		message = spare_take(&wire->spare_body, from);
	}
	if (message) {
		message->anywhere = true;
		message->runs[0] = (struct exchange_run){(uint8_t *)message->word, length};
	}
	return message;
}

static struct wire_message *receive_placed(struct wire *wire, const struct exchange_action *action)
{
	struct wire_message *message = message_new(action->peer, 0);
	uint64_t length = 0;

	if (!message)
		return NULL;
	message->n = wire->payload->place(wire->owner, action->question, action->text,
					  action->length, message->runs);
	for (int i = 0; i < message->n; i++)
		length += message->runs[i].length;
	if (message->n && length == action->body)
		return message;
	message_free(message);
	return NULL;
}

static void body_receive(struct wire *wire, const struct exchange_action *action)
{
	bool waits = action->question && !action->question->lost;
	struct wire_message *message = waits ? receive_placed(wire, action) : NULL;

	if (!message)
		message = receive_anywhere(wire, action->peer, action->body);
	if (!message) /* a peer that is gone holds the spare; the ranks then end alone */
		return;
	message->question = action->question;
	message_put(wire, &wire->receives, message, RECEIVE_BODY, body_tag(action->number));
}

/* Receives a body that no question waits for, if it is there. Returns an MPI code. */
static int body_look(struct wire *wire, int from, int tag)
{
	struct exchange_action action = {.peer = from, .number = (uint64_t)(tag - TAG_BODY)};
	MPI_Status status;
	MPI_Count length = 0;
	int there = 0, rc = MPI_Iprobe(from, tag, wire->comm, &there, &status);

	if (rc != MPI_SUCCESS || !there)
		return rc;
	rc = MPI_Get_elements_x(&status, MPI_BYTE, &length);
	if (rc != MPI_SUCCESS)
		return rc;
	action.body = (uint64_t)length;
	body_receive(wire, &action);
	return MPI_SUCCESS;
}

/* A question has ended without its answer. Perhaps only the answer's word was lost. Its body, which
 * was sent before the word, must be received, or its sender could not end. */
static void body_drop(struct wire *wire, int from, uint64_t number)
{
	struct wire_message *look = message_new(from, 0);

	if (look)
		message_put(wire, &wire->receives, look, LOOK_FOR_BODY, body_tag(number));
	else if (body_look(wire, from, body_tag(number)) != MPI_SUCCESS)
		exchange_gone(&wire->exchange, from);
}

/* Carries an action out. Returns whether there was one. */
static bool act(struct wire *wire, struct exchange_action action)
{
	const struct wire_payload *payload = wire->payload;
	uint64_t number = action.question ? action.question->number : 0;

	switch (action.act) {
	case ACT_NOTHING:
		break;
	case ACT_SAY:
		word_say(wire, action.peer, action.kind, action.number, action.body);
		break;
	case ACT_ASKED:
		payload->asked(wire->owner, action.peer, action.number, action.text, action.length);
		break;
	case ACT_RECEIVE:
		body_receive(wire, &action);
		break;
	case ACT_LOST:
		payload->lost(wire->owner, action.question, action.alive);
		break;
	case ACT_ENDED:
		if (action.error == ETIMEDOUT)
			body_drop(wire, action.peer, number);
		payload->ended(wire->owner, action.question, action.error, action.text,
			       action.length);
		break;
	case ACT_NOTED:
		if (payload->noted)
			payload->noted(wire->owner);
		break;
	case ACT_QUIET:
		/* Not repeated: MPI may count the barriers differently in other ranks. */
		if (MPI_Ibarrier(wire->comm, &wire->end) != MPI_SUCCESS) {
			wire->end = MPI_REQUEST_NULL;
			wire_break(wire);
		}
		break;
	}
	return action.act != ACT_NOTHING;
}

/* Takes a word, if one has come. Returns an MPI code. */
static int word_take(struct wire *wire, int *there)
{
	uint8_t word[WORD_MOST];
	MPI_Status status;
	int length = 0, rc = MPI_Iprobe(MPI_ANY_SOURCE, TAG_WORD, wire->comm, there, &status);

	if (rc != MPI_SUCCESS || !*there)
		return rc;
	rc = MPI_Get_count(&status, MPI_BYTE, &length);
	if (rc == MPI_SUCCESS) /* last: after a failure above, a later step takes the word */
		rc = MPI_Recv(word, sizeof(word), MPI_BYTE, status.MPI_SOURCE, TAG_WORD, wire->comm, &status);
	if (rc == MPI_SUCCESS)
		(void)act(wire, exchange_word(&wire->exchange, status.MPI_SOURCE, word,
					      (size_t)length, wire->now));
	return rc;
}

/* Whether a word may be taken, or a tick made. The actions need no memory but the two spares. */
static bool may_act(const struct wire *wire)
{
	return spare_is_there(wire, &wire->spare_word) && spare_is_there(wire, &wire->spare_body);
}

static bool words_step(struct wire *wire)
{
	for (unsigned i = 0; i < WORDS_AT_ONCE && may_act(wire); i++) {
		int there = 0;

		if (word_take(wire, &there) != MPI_SUCCESS) {
			if (++wire->deaf == EXCHANGE_FAILURES)
				wire_deafen(wire);
			return i > 0;
		}
		if (!there)
			return i > 0;
		wire->deaf = 0;
	}
	wire->behind = true;
	return true;
}

/* Whether a message is over. MPI may still use the memory of a request that it has not given up. */
static bool is_over(struct wire *wire, struct wire_message *message)
{
	MPI_Status status;
	MPI_Count came = 0;
	int there = 0;

	if (!message->begun) {
		message->failed = exchange_is_gone(&wire->exchange, message->peer);
		return message->failed;
	}
	if (message->request != MPI_REQUEST_NULL &&
	    MPI_Test(&message->request, &there, &status) != MPI_SUCCESS) {
		if (!message->anywhere || message->request != MPI_REQUEST_NULL)
			exchange_failed(&wire->exchange, message->peer);
		message->failed = message->request == MPI_REQUEST_NULL;
		/* A word that is doubled does no harm. */
		message->begun = !message->failed || message->way != SEND_WORD;
		if (!message->begun)
			return exchange_is_gone(&wire->exchange, message->peer);
	}
	if (there && message->way == RECEIVE_BODY &&
	    MPI_Get_elements_x(&status, MPI_BYTE, &came) == MPI_SUCCESS)
		message->came = (size_t)came;
	return message->request == MPI_REQUEST_NULL;
}

/* Takes the next message that is over out of a list. */
static struct wire_message *messages_over(struct wire *wire, struct wire_message **link)
{
	for (struct wire_message *message; (message = *link); link = &message->next)
		if (is_over(wire, message)) {
			*link = message->next;
			return message;
		}
	return NULL;
}

bool wire_step(struct wire *wire, uint64_t now)
{
	struct wire_message *message;
	bool any;

	exchange_away(&wire->exchange, now - wire->now);
	wire->now = now;
	wire->behind = false;
	any = words_step(wire);
	messages_again(wire, wire->receives);
	messages_again(wire, wire->sends);
	while ((message = messages_over(wire, &wire->receives))) {
		any = true;
		if (message->question)
			(void)act(wire, exchange_body(&wire->exchange, message->question,
						      message->runs,
						      message->failed ? 0 : message->n,
						      message->came));
		message_free(message);
	}
	while ((message = messages_over(wire, &wire->sends))) {
		any = true;
		if (message->item)
			wire->payload->sent(wire->owner, message->item);
		message_free(message->after);
		message_free(message);
	}
	while (may_act(wire) && act(wire, exchange_tick(&wire->exchange, now)))
		any = true;
	return any;
}

static bool is_waited_for(const struct wire *wire, const struct wire_message *list)
{
	while (list && exchange_is_gone(&wire->exchange, list->peer))
		list = list->next;
	return list;
}

bool wire_late(const struct wire *wire, const struct answer_pace *pace, uint64_t now,
	       void (*late)(void *owner, struct exchange_question *question))
{
	struct exchange_question *question = wire->behind ? NULL : wire->exchange.questions;
	bool any = false;

	for (; question; question = question->next) {
		if (question->late || !pace_is_late(pace, question, now))
			continue;
		late(wire->owner, question);
		any = true;
	}
	return any;
}

bool wire_is_idle(const struct wire *wire)
{
	return !wire->exchange.tells && !exchange_has_questions(&wire->exchange) && !is_waited_for(wire, wire->sends) &&
	       !is_waited_for(wire, wire->receives);
}

bool wire_is_over(struct wire *wire)
{
	int there = 0;

	if (!wire->broken && wire->exchange.quiet &&
	    (wire->exchange.left || (wire->end != MPI_REQUEST_NULL &&
				     MPI_Test(&wire->end, &there, MPI_STATUS_IGNORE) != MPI_SUCCESS)))
		wire_break(wire);
	if (wire->broken)
		return wire_is_idle(wire);
	if (!wire->exchange.quiet || wire->end != MPI_REQUEST_NULL || !wire_is_idle(wire))
		return false;
	wire->broken = wire->exchange.questions || wire->sends || wire->receives;
	return true;
}
