/* SPDX-License-Identifier: OLDAP-2.8 */
/* Asks the servers of a job for chunks, and answers with chunks.
 *
 * A question is the data set's whole identity and a chunk. Its answer is the chunk's bytes, or no
 * bytes if the peer cannot bring them. exchange.c decides when a peer counts as silent and which
 * bytes are believed. */
#include "config.h"
#include "mpi/server_private.h"

#include "util/clock.h"
#include "util/list.h"
#include "util/settings.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A peer that waits for storage says so. A server waits for a peer no longer than a reader
 * waits. */
static const struct exchange_rules usual = {
	.silent_ns = CLOCK_SECOND, .owed_ns = 2 * CLOCK_SECOND, .beat_ns = CLOCK_SECOND / 10};

struct question {
	struct identity identity; /* job form */
	uint64_t chunk;
	uint32_t urgent;
	uint32_t passed; /* nodes of the chunk's order that have not answered the asker */
	uint32_t length; /* of the path */
	char path[SERVER_PATH];
};

struct server_question {
	struct exchange_question question; /* must be first */
	struct server_load *load;          /* NULL: no load waits for the answer */
	struct server_buffer *buffer;      /* where the answer comes to if no load waits, or NULL */
	uint64_t length;                   /* of the chunk */
};

/* --- memory that MPI may read ------------------------------------------------------------------ */

static struct server_hold *hold_new(struct server *server)
{
	struct server_hold *hold = calloc(1, sizeof(*hold));

	if (hold) {
		hold->next = server->holds;
		server->holds = hold;
	}
	return hold;
}

/* Whether a chunk is held; NULL: any chunk of the set. */
static bool is_held(const struct server *server, const struct server_set *set,
		    const uint64_t *chunk)
{
	const struct server_hold *hold = server->holds;

	while (hold && (hold->set != set || (chunk && hold->chunk != *chunk)))
		hold = hold->next;
	return hold;
}

bool server_peers_use(const struct server *server, const struct server_set *set)
{
	return is_held(server, set, NULL);
}

/* This process has one pin on a chunk, however many holds need it. */
static void hold_free(struct server *server, struct server_hold *hold)
{
	list_remove(server->holds, hold, next);
	if (hold->buffer)
		server_buffer_release(server, hold->buffer);
	if (hold->set && !is_held(server, hold->set, &hold->chunk))
		arena_unpin(hold->set->arena, hold->chunk);
	free(hold);
}

/* --- answering -------------------------------------------------------------------------------- */

static void answer_none(struct server *server, int to, uint64_t number, uint64_t chunk)
{
	wire_answer(&server->wire, to, number, NULL, 0, NULL, 0, chunk, NULL);
}

/* The bytes are a chunk's, in a buffer or in the arena. */
static void answer_chunk(struct server *server, struct server_hold *hold, struct server_set *set,
			 uint64_t chunk, uint8_t *bytes, int to, uint64_t number)
{
	struct exchange_run run = {bytes, server_chunk_length(set, chunk)};

	if (!set->sums[chunk])
		set->sums[chunk] = exchange_sum(&run, 1, chunk);
	set->counts.answered_bytes += run.length;
	wire_answer(&server->wire, to, number, NULL, 0, &run, 1, set->sums[chunk], hold);
}

static void answer_buffer(struct server *server, const struct server_load *load, int to,
			  uint64_t number)
{
	struct server_hold *hold = hold_new(server);

	if (!hold)
		return; /* the asker turns to another node when the answer is late */
	hold->buffer = load->buffer;
	hold->buffer->users++;
	answer_chunk(server, hold, load->set, load->chunk, load->buffer->bytes, to, number);
}

/* Answers straight out of the arena, where the chunk stays pinned meanwhile. Returns false if the
 * chunk is not there. */
static bool answer_arena(struct server *server, struct server_set *set, uint64_t chunk, int to,
			 uint64_t number)
{
	uint64_t first = chunk * ARENA_BLOCKS,
		 blocks = server_chunk_length(set, chunk) / ARENA_BLOCK;
	struct server_hold *hold;

	if (!arena_present(set->arena, first, blocks) || !(hold = hold_new(server)))
		return false;
	if (arena_pin(set->arena, chunk)) {
		hold->set = set;
		hold->chunk = chunk;
	}
	if (!hold->set || !arena_present(set->arena, first, blocks)) {
		hold_free(server, hold);
		return false;
	}
	arena_touch(set->arena, chunk);
	answer_chunk(server, hold, set, chunk, arena_bytes(set->arena) + chunk * ARENA_CHUNK, to,
		     number);
	return true;
}

static void ask_pay(struct server *server, struct server_load *load)
{
	struct server_ask *ask = load->asks;

	load->asks = ask->next;
	exchange_pay(&server->wire.exchange, &ask->debt);
	free(ask);
}

bool server_answer_there(struct server *server, struct server_load *load)
{
	for (; load->asks; ask_pay(server, load))
		if (!answer_arena(server, load->set, load->chunk, load->asks->debt.to,
				  load->asks->debt.number))
			return false;
	return true;
}

void server_answer_all(struct server *server, struct server_load *load, int error)
{
	for (; load->asks; ask_pay(server, load)) {
		int to = load->asks->debt.to;
		uint64_t number = load->asks->debt.number;

		if (load->buffered)
			answer_buffer(server, load, to, number);
		else if (error || !answer_arena(server, load->set, load->chunk, to, number))
			answer_none(server, to, number, load->chunk);
	}
}

static bool question_is_sound(const struct question *question, size_t length)
{
	size_t head = offsetof(struct question, path);

	return length > head && length <= sizeof(*question) && question->length == length - head &&
	       !question->path[question->length - 1];
}

/* Owes the answer until the chunk is here. Returns false if this node cannot bring it. */
static bool question_owe(struct server *server, struct server_set *set,
			 const struct question *question, int from, uint64_t number)
{
	struct server_load *load = server_want(server, set, question->chunk, question->urgent);
	struct server_ask *ask = load ? malloc(sizeof(*ask)) : NULL;

	if (!ask)
		return false;
	server_turns_believe(server, load, question->passed);
	exchange_owe(&server->wire.exchange, &ask->debt, from, number, server->wire.now);
	ask->next = load->asks;
	load->asks = ask;
	return true;
}

static void asked(void *owner, int from, uint64_t number, const void *text, size_t length)
{
	struct server *server = owner;
	struct question question;
	struct server_set *set;

	memcpy(&question, text, length < sizeof(question) ? length : sizeof(question));
	if (!question_is_sound(&question, length))
		return;
	set = server_set_find(server, question.path, &question.identity);
	if (set && question.chunk < arena_chunks(set->arena)) {
		set->used_at = server->wire.now;
		if (answer_arena(server, set, question.chunk, from, number) ||
		    question_owe(server, set, &question, from, number))
			return;
	}
	answer_none(server, from, number, question.chunk);
}

static void sent(void *owner, void *item)
{
	hold_free(owner, item);
}

static void noted(void *owner)
{
	((struct server *)owner)->stopped = true;
}

/* --- asking ----------------------------------------------------------------------------------- */

/* Returns NULL if the load's source cannot be asked. */
static struct server_question *question_ask(struct server *server, const struct server_load *load)
{
	struct question text = {
		.identity = identity_job(&load->set->identity),
		.chunk = load->chunk,
		.urgent = load->urgent,
		.passed = load->passed,
		.length = (uint32_t)strlen(load->set->path) + 1,
	};
	struct server_question *question = calloc(1, sizeof(*question));

	if (question && text.length <= SERVER_PATH) {
		memcpy(text.path, load->set->path, text.length);
		question->length = server_chunk_length(load->set, load->chunk);
		if (wire_ask(&server->wire, &question->question, load->source, load->chunk, &text,
			     offsetof(struct question, path) + text.length)) {
			pace_asked(&server->pace, load->source);
			return question;
		}
	}
	free(question);
	return NULL;
}

bool server_ask(struct server *server, struct server_load *load)
{
	struct server_question *question = question_ask(server, load);

	if (!question)
		return false;
	question->load = load;
	return true;
}

void server_probe(struct server *server, const struct server_load *load)
{
	(void)question_ask(server, load);
}

/* Never gives the arena's memory: a late and perhaps damaged body could come to a chunk that has
 * been read from storage and published meanwhile. Takes the buffer when the body comes, and not
 * with the question, so that few buffers are used, again and again. */
static int place(void *owner, struct exchange_question *asked, const void *text, size_t length,
		 struct exchange_run *runs)
{
	struct server_question *question = (struct server_question *)asked;
	struct server_load *load = question->load;
	struct server_buffer **buffer = load ? &load->buffer : &question->buffer;

	(void)text, (void)length;
	*buffer = server_buffer_take(owner);
	if (!*buffer)
		return 0;
	*runs = (struct exchange_run){(*buffer)->bytes, question->length};
	return 1;
}

/* The question keeps the buffer that the answer is coming to, because MPI may still write to it. */
static void question_leave(struct server *server, struct server_question *question)
{
	struct server_load *load = question->load;

	if (question->question.late)
		return;
	question->question.late = true;
	pace_late(&server->pace, &question->question, server->wire.now);
	if (!load)
		return;
	question->buffer = load->buffer;
	question->load = NULL;
	load->buffer = NULL;
	server_load_pass(server, load, false);
}

static void late(void *owner, struct exchange_question *asked)
{
	question_leave(owner, (struct server_question *)asked);
}

bool server_questions_late(struct server *server, uint64_t now)
{
	return wire_late(&server->wire, &server->pace, now, late);
}

static void lost(void *owner, struct exchange_question *asked, bool alive)
{
	(void)alive;
	late(owner, asked);
}

static void ended(void *owner, struct exchange_question *asked, int error, const void *text,
		  size_t length)
{
	struct server_question *question = (struct server_question *)asked;
	struct server_load *load = question->load;
	struct server *server = owner;

	(void)text, (void)length;
	if (question->buffer)
		server_buffer_release(server, question->buffer);
	pace_ended(&server->pace, asked, server->wire.now, !error);
	if (load && !error && asked->body) {
		load->set->counts.asked_bytes += asked->body;
		server_load_asked(server, load);
	} else if (load) {
		if (load->buffer)
			server_buffer_release(server, load->buffer);
		load->buffer = NULL;
		/* A node without the chunk has another version of the file, or cannot read it. Then
		 * this node reads storage. */
		server_load_pass(server, load, !error);
	}
	free(question);
}

/* --- the door --------------------------------------------------------------------------------- */

static const struct wire_payload payload = {
	.asked = asked, .place = place, .lost = lost, .ended = ended, .sent = sent, .noted = noted};

int server_peers_open(struct server *server, MPI_Comm comm)
{
	unsigned patience = settings_get()->patience;
	struct exchange_rules rules = exchange_patient(&usual, patience);
	int nodes = server->place.nodes, rc;
	/* Chunks that follow each other belong to many nodes. The window keeps a slow node from
	 * having all questions. */
	unsigned window = nodes > 1 ? SERVER_ASKS / (unsigned)(nodes - 1) + 2 : 1;

	rc = wire_open(&server->wire, comm, &rules, &payload, server);
	if (!rc)
		rc = pace_open(&server->pace, nodes, window, patience);
	if (rc) /* this server asks nothing, and ends with the other servers */
		exchange_stop(&server->wire.exchange);
	return rc;
}

void server_stop_peers(struct server *server)
{
	for (int peer = 0; server->comm != MPI_COMM_NULL && peer < server->place.nodes; peer++)
		if (peer != server->place.node)
			wire_note(&server->wire, peer);
}

bool server_peers_step(struct server *server, uint64_t now)
{
	return server->comm != MPI_COMM_NULL && wire_step(&server->wire, now);
}

bool server_peers_are_over(struct server *server)
{
	if (server->comm == MPI_COMM_NULL)
		return true;
	exchange_stop(&server->wire.exchange);
	return wire_is_over(&server->wire);
}
