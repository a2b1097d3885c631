/* SPDX-License-Identifier: OLDAP-2.8 */
/* The servers of a job: what they say to each other.
 *
 * A question is one message with the data set's whole identity and a chunk; its answer comes under
 * a tag that the question names: the chunk's bytes, or none at all if there are none to be had, so
 * that what comes too late cannot harm bytes that have come otherwise. Their sum comes with them,
 * for of a peer that dies MPI may say that all of it has come. A peer that does not answer in time
 * is not asked again before it has answered what it owes.
 */
#include "config.h"
#include "mpi/server_private.h"

#include "util/clock.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_ASK = 1, TAG_STOP, TAG_ANSWER = 16, TAG_ANSWERS = 8192, ASKS_AT_ONCE = 64 };
static const uint64_t late_ns = 1000000000;

struct question {
	int32_t version;
	int32_t tag;
	struct identity identity; /* job form */
	uint64_t chunk;
	uint32_t urgent;
	uint32_t length; /* of the path */
	char path[SERVER_PATH];
};

enum { QUESTION_VERSION = 5 };

/* --- sending --------------------------------------------------------------------------------- */

static struct server_message *message_new(int peer)
{
	struct server_message *message = calloc(1, sizeof(*message));

	if (message) {
		message->peer = peer;
		sealed_init(&message->sealed);
	}
	return message;
}

static bool is_in(const struct server_message *message, const struct server_set *set,
		  const uint64_t *chunk)
{
	while (message && (message->set != set || (chunk && message->chunk != *chunk)))
		message = message->next;
	return message;
}

bool server_peers_use(const struct server *server, const struct server_set *set)
{
	return is_in(server->sends, set, NULL) || is_in(server->strays, set, NULL);
}

/* A pin is counted once for this process, however many messages need it. */
static bool is_needed(const struct server *server, const struct server_set *set, uint64_t chunk)
{
	return is_in(server->sends, set, &chunk) || is_in(server->strays, set, &chunk);
}

/* It is in no list any more. */
static void message_free(struct server *server, struct server_message *message)
{
	if (message->buffer)
		server_buffer_release(server, message->buffer);
	if (message->set && !is_needed(server, message->set, message->chunk))
		arena_unpin(message->set->arena, message->chunk);
	free(message->words);
	free(message);
}

/* What was begun is looked at in message_is_over(), be it on its way or not. */
static bool send_put(struct server *server, struct server_message *message)
{
	message->next = server->sends;
	server->sends = message;
	if (message->sealed.failed)
		server->peers[message->peer].gone = true;
	return !message->sealed.failed;
}

static bool message_is_over(struct server *server, struct server_message *message)
{
	bool over = sealed_is_over(&message->sealed);

	if (message->sealed.failed)
		server->peers[message->peer].gone = true;
	return over;
}

/* A few words, or none. */
static bool words_send(struct server *server, struct server_message *message, size_t length,
		       int tag)
{
	sealed_send_bare(&message->sealed, message->words, length, message->peer, tag,
			 server->comm);
	return send_put(server, message);
}

static void answer_none(struct server *server, int to, int tag)
{
	struct server_message *message = message_new(to);

	if (!message) /* it waits in vain, and knows how long */
		return;
	sealed_send(&message->sealed, NULL, 0, 0, to, tag, server->comm);
	(void)send_put(server, message);
}

/* The bytes are a chunk's, wherever they stand. */
static void answer_chunk(struct server *server, struct server_message *message,
			 struct server_set *set, uint64_t chunk, const void *bytes, int tag)
{
	uint64_t length = server_chunk_length(set, chunk);

	if (!set->sums[chunk])
		set->sums[chunk] = sealed_sum(bytes, length, chunk);
	set->counts.answered_bytes += length;
	sealed_send(&message->sealed, bytes, length, set->sums[chunk], message->peer, tag,
		    server->comm);
	(void)send_put(server, message);
}

static void answer_buffer(struct server *server, const struct server_load *load, int to, int tag)
{
	struct server_message *message = message_new(to);

	if (!message)
		return;
	message->buffer = load->buffer;
	message->buffer->users++;
	answer_chunk(server, message, load->set, load->chunk, load->buffer->bytes, tag);
}

/* Straight out of the arena, whose chunk stays pinned meanwhile. false: it is not there. */
static bool answer_arena(struct server *server, struct server_set *set, uint64_t chunk, int to,
			 int tag)
{
	uint64_t first = chunk * ARENA_BLOCKS,
		 blocks = server_chunk_length(set, chunk) / ARENA_BLOCK;
	struct server_message *message;

	if (!arena_present(set->arena, first, blocks) || !(message = message_new(to)))
		return false;
	if (!arena_pin(set->arena, chunk)) {
		free(message);
		return false;
	}
	message->set = set;
	message->chunk = chunk;
	if (!arena_present(set->arena, first, blocks)) {
		message_free(server, message);
		return false;
	}
	arena_touch(set->arena, chunk);
	answer_chunk(server, message, set, chunk, arena_bytes(set->arena) + chunk * ARENA_CHUNK,
		     tag);
	return true;
}

bool server_answer_there(struct server *server, struct server_load *load)
{
	while (load->asks) {
		struct server_ask *ask = load->asks;

		if (!answer_arena(server, load->set, load->chunk, ask->from, ask->tag))
			return false;
		load->asks = ask->next;
		free(ask);
	}
	return true;
}

void server_answer_all(struct server *server, struct server_load *load, int error)
{
	while (load->asks) {
		struct server_ask *ask = load->asks;

		load->asks = ask->next;
		if (load->buffered)
			answer_buffer(server, load, ask->from, ask->tag);
		else if (error ||
			 !answer_arena(server, load->set, load->chunk, ask->from, ask->tag))
			answer_none(server, ask->from, ask->tag);
		free(ask);
	}
}

/* --- being asked ----------------------------------------------------------------------------- */

static void question_answer(struct server *server, const struct question *question, int from)
{
	struct server_set *set =
		server_set_find(server, question->path, &question->identity);
	struct server_load *load;
	struct server_ask *ask;

	if (!set || question->chunk >= arena_chunks(set->arena)) {
		answer_none(server, from, question->tag);
		return;
	}
	set->used_at = clock_now();
	if (answer_arena(server, set, question->chunk, from, question->tag))
		return;
	load = server_want(server, set, question->chunk, question->urgent);
	ask = load && load->state != LOAD_ASKING ? malloc(sizeof(*ask)) : NULL;
	if (!ask) {
		answer_none(server, from, question->tag);
		return;
	}
	*ask = (struct server_ask){.next = load->asks, .from = from, .tag = question->tag};
	load->asks = ask;
}

static bool question_is_sound(const struct question *question, int length)
{
	size_t head = offsetof(struct question, path);

	return length > (int)head && question->version == QUESTION_VERSION &&
	       question->length == (size_t)length - head && question->tag >= TAG_ANSWER &&
	       question->tag < TAG_ANSWER + TAG_ANSWERS && !question->path[question->length - 1];
}

static bool questions_step(struct server *server)
{
	struct question question;
	MPI_Status status;
	int there = 0, length;

	for (unsigned i = 0; i < ASKS_AT_ONCE; i++) {
		if (MPI_Iprobe(MPI_ANY_SOURCE, TAG_ASK, server->comm, &there, &status) !=
			    MPI_SUCCESS ||
		    !there)
			return i > 0;
		if (MPI_Recv(&question, sizeof(question), MPI_BYTE, status.MPI_SOURCE, TAG_ASK,
			     server->comm, &status) != MPI_SUCCESS)
			continue;
		MPI_Get_count(&status, MPI_BYTE, &length);
		if (question_is_sound(&question, length))
			question_answer(server, &question, status.MPI_SOURCE);
	}
	return true;
}

static void stops_step(struct server *server)
{
	MPI_Status status;
	int there = 0;

	if (MPI_Iprobe(MPI_ANY_SOURCE, TAG_STOP, server->comm, &there, &status) == MPI_SUCCESS && there &&
	    MPI_Recv(NULL, 0, MPI_BYTE, status.MPI_SOURCE, TAG_STOP, server->comm, &status) == MPI_SUCCESS)
		server->stopped = true;
}

/* --- asking ---------------------------------------------------------------------------------- */

/* What the owner will say, under which tag; NULL: it cannot be asked. */
static struct server_message *answer_expect(struct server *server, const struct server_load *load,
					    int tag)
{
	struct server_message *answer = message_new(load->owner);

	if (answer && !sealed_receive(&answer->sealed, server_load_bytes(load),
				      server_chunk_length(load->set, load->chunk), load->owner, tag,
				      server->comm)) {
		server->peers[load->owner].gone = true;
		free(answer);
		return NULL;
	}
	return answer;
}

bool server_ask(struct server *server, struct server_load *load)
{
	struct server_set *set = load->set;
	size_t path = strlen(set->path) + 1, length = offsetof(struct question, path) + path;
	struct server_peer *peer = &server->peers[load->owner];
	struct question *question;
	struct server_message *message;
	int tag = TAG_ANSWER + server->serial++ % TAG_ANSWERS;

	if (peer->gone || peer->strays || path > SERVER_PATH ||
	    !(message = message_new(load->owner)))
		return false;
	message->words = question = malloc(sizeof(*question));
	load->answer = question ? answer_expect(server, load, tag) : NULL;
	if (!load->answer) {
		message_free(server, message);
		return false;
	}
	*question = (struct question){
		.version = QUESTION_VERSION,
		.tag = tag,
		.identity = identity_job(&set->identity),
		.chunk = load->chunk,
		.urgent = load->urgent,
		.length = (uint32_t)path,
	};
	memcpy(question->path, set->path, path);
	if (words_send(server, message, length, TAG_ASK))
		return true;
	sealed_cancel(&load->answer->sealed);
	free(load->answer);
	load->answer = NULL;
	return false;
}

/* No load waits for this answer any more; its memory stays, because it may come yet. */
static void stray_make(struct server *server, struct server_load *load)
{
	struct server_message *stray = load->answer;

	if (load->place) {
		if (!arena_pin(load->set->arena, load->chunk))
			return; /* wait on */
		stray->set = load->set;
		stray->chunk = load->chunk;
	}
	stray->buffer = load->buffer;
	stray->buffer->is_stray = true;
	server->asks--;
	stray->next = server->strays;
	server->strays = stray;
	server->peers[load->owner].strays++;
	load->answer = NULL;
	load->buffer = NULL;
	server_load_alone(server, load);
}

bool server_asked(struct server *server, struct server_load *load, uint64_t now)
{
	struct server_message *answer = load->answer;
	uint64_t length = server_chunk_length(load->set, load->chunk);

	if (!message_is_over(server, answer)) {
		if (now - load->began <= late_ns)
			return false;
		stray_make(server, load);
		return true;
	}
	load->answer = NULL;
	if (sealed_is_right(&answer->sealed, server_load_bytes(load), length, load->chunk)) {
		load->set->counts.asked_bytes += length;
		server_load_land(server, load, 0);
	} else {
		server_buffer_release(server, load->buffer);
		load->buffer = NULL;
		server_load_alone(server, load);
	}
	free(answer);
	return true;
}

void server_stop_peers(struct server *server)
{
	for (int peer = 0; server->comm != MPI_COMM_NULL && peer < server->place.nodes; peer++) {
		struct server_message *message =
			peer == server->place.node ? NULL : message_new(peer);

		if (message)
			(void)words_send(server, message, 0, TAG_STOP);
	}
}

static bool list_step(struct server *server, struct server_message **link, bool strays)
{
	bool any = false;

	for (struct server_message *message; (message = *link);) {
		if (!message_is_over(server, message)) {
			link = &message->next;
			continue;
		}
		*link = message->next;
		if (strays)
			server->peers[message->peer].strays--;
		message_free(server, message);
		any = true;
	}
	return any;
}

bool server_peers_step(struct server *server)
{
	bool any;

	if (server->comm == MPI_COMM_NULL)
		return false;
	any = questions_step(server);
	stops_step(server);
	any |= list_step(server, &server->sends, false);
	any |= list_step(server, &server->strays, true);
	return any;
}
