/* What only this file knows: what servers say to each other.
 *
 * A question is one message with the data set's whole identity and a chunk; its answer comes under
 * a tag that the question names: the chunk's bytes, or none at all if there are none to be had, so
 * that what comes too late cannot harm bytes that have come otherwise. A peer that does not answer
 * in time is not asked again before it has answered what it owes.
 */
#include "config.h"
#include "mpi/server_private.h"

#include "util/clock.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_ASK = 1, TAG_STOP, TAG_ANSWER = 16, TAG_ANSWERS = 16384, ASKS_AT_ONCE = 64 };
static const uint64_t late_ns = 1000000000;

struct question {
	int32_t version;
	int32_t tag;
	struct arena_identity identity;
	uint64_t changed_ns;
	uint64_t chunk;
	uint32_t urgent;
	uint32_t length; /* of the path */
	char path[SERVER_PATH];
};

enum { QUESTION_VERSION = 3 };

/* --- sending --------------------------------------------------------------------------------- */

static struct server_send *send_new(int peer)
{
	struct server_send *send = calloc(1, sizeof(*send));

	if (send) {
		send->peer = peer;
		send->request = MPI_REQUEST_NULL;
	}
	return send;
}

static bool is_in(const struct server_send *send, const struct server_set *set,
		  const uint64_t *chunk)
{
	while (send && (send->set != set || (chunk && send->chunk != *chunk)))
		send = send->next;
	return send;
}

bool server_peers_use(const struct server *server, const struct server_set *set)
{
	return is_in(server->sends, set, NULL) || is_in(server->strays, set, NULL);
}

/* A pin is counted once for this process, however many sends need it. */
static bool is_needed(const struct server *server, const struct server_set *set, uint64_t chunk)
{
	return is_in(server->sends, set, &chunk) || is_in(server->strays, set, &chunk);
}

/* It is in no list any more. */
static void send_free(struct server *server, struct server_send *send)
{
	if (send->buffer)
		server_buffer_release(server, send->buffer);
	if (send->set && !is_needed(server, send->set, send->chunk))
		arena_unpin(send->set->arena, send->chunk);
	free(send->message);
	free(send);
}

static bool send_begin(struct server *server, struct server_send *send, const void *bytes,
		       size_t length, int tag)
{
	if (MPI_Isend(bytes, (int)length, MPI_BYTE, send->peer, tag, server->comm, &send->request) !=
	    MPI_SUCCESS) {
		server->peers[send->peer].gone = true;
		send_free(server, send);
		return false;
	}
	send->next = server->sends;
	server->sends = send;
	return true;
}

static void answer_none(struct server *server, int to, int tag)
{
	struct server_send *send = send_new(to);

	if (send) /* else it waits in vain, and knows how long */
		(void)send_begin(server, send, NULL, 0, tag);
}

static void answer_buffer(struct server *server, const struct server_load *load, int to, int tag)
{
	struct server_send *send = send_new(to);
	uint64_t length = server_chunk_length(load->set, load->chunk);

	if (!send)
		return;
	send->buffer = load->buffer;
	send->buffer->users++;
	load->set->counts.answered_bytes += length;
	(void)send_begin(server, send, load->buffer->bytes, length, tag);
}

/* Straight out of the arena, whose chunk stays pinned meanwhile. false: it is not there. */
static bool answer_arena(struct server *server, struct server_set *set, uint64_t chunk, int to,
			 int tag)
{
	uint64_t first = chunk * ARENA_BLOCKS, length = server_chunk_length(set, chunk);
	struct server_send *send;

	if (!arena_present(set->arena, first, length / ARENA_BLOCK) || !(send = send_new(to)))
		return false;
	if (!arena_pin(set->arena, chunk)) {
		free(send);
		return false;
	}
	send->set = set;
	send->chunk = chunk;
	if (!arena_present(set->arena, first, length / ARENA_BLOCK)) {
		send_free(server, send);
		return false;
	}
	arena_touch(set->arena, chunk);
	set->counts.answered_bytes += length;
	(void)send_begin(server, send, arena_bytes(set->arena) + chunk * ARENA_CHUNK, length, tag);
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
		server_set_find(server, question->path, &question->identity, question->changed_ns);
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

bool server_ask(struct server *server, struct server_load *load)
{
	struct server_set *set = load->set;
	size_t path = strlen(set->path) + 1, length = offsetof(struct question, path) + path;
	struct server_peer *peer = &server->peers[load->owner];
	struct question *question;
	struct server_send *send;
	int tag = TAG_ANSWER + server->serial++ % TAG_ANSWERS;

	if (peer->gone || peer->strays || path > SERVER_PATH || !(send = send_new(load->owner)))
		return false;
	question = malloc(sizeof(*question));
	send->message = question;
	if (!question) {
		send_free(server, send);
		return false;
	}
	*question = (struct question){
		.version = QUESTION_VERSION,
		.tag = tag,
		.identity = set->identity,
		.changed_ns = set->changed_ns,
		.chunk = load->chunk,
		.urgent = load->urgent,
		.length = (uint32_t)path,
	};
	memcpy(question->path, set->path, path);
	if (MPI_Irecv(server_load_bytes(load), (int)server_chunk_length(set, load->chunk), MPI_BYTE,
		      load->owner, tag, server->comm, &load->answer) != MPI_SUCCESS) {
		peer->gone = true;
		send_free(server, send);
		return false;
	}
	if (send_begin(server, send, question, length, TAG_ASK))
		return true;
	MPI_Cancel(&load->answer);
	MPI_Request_free(&load->answer);
	return false;
}

/* Nobody waits for this answer any more; its memory does, because it may come yet. */
static void stray_make(struct server *server, struct server_load *load)
{
	struct server_send *stray = send_new(load->owner);

	if (!stray)
		return; /* wait on */
	if (load->place) {
		if (!arena_pin(load->set->arena, load->chunk)) {
			free(stray);
			return;
		}
		stray->set = load->set;
		stray->chunk = load->chunk;
	}
	stray->request = load->answer;
	stray->buffer = load->buffer;
	stray->buffer->is_stray = true;
	server->asks--;
	stray->next = server->strays;
	server->strays = stray;
	server->peers[load->owner].strays++;
	load->buffer = NULL;
	server_load_alone(server, load);
}

bool server_asked(struct server *server, struct server_load *load, uint64_t now)
{
	MPI_Status status;
	int there = 0, length = 0;

	if (MPI_Test(&load->answer, &there, &status) != MPI_SUCCESS) {
		server->peers[load->owner].gone = true;
		there = 1;
	} else if (there) {
		MPI_Get_count(&status, MPI_BYTE, &length);
	}
	if (!there && now - load->began > late_ns) {
		stray_make(server, load);
		return true;
	}
	if (!there)
		return false;
	if ((uint64_t)length == server_chunk_length(load->set, load->chunk)) {
		load->set->counts.asked_bytes += (uint64_t)length;
		server_load_land(server, load, 0);
	} else {
		server_buffer_release(server, load->buffer);
		load->buffer = NULL;
		server_load_alone(server, load);
	}
	return true;
}

void server_stop_peers(struct server *server)
{
	for (int peer = 0; server->comm != MPI_COMM_NULL && peer < server->place.nodes; peer++) {
		struct server_send *send = peer == server->place.node ? NULL : send_new(peer);

		if (send)
			(void)send_begin(server, send, NULL, 0, TAG_STOP);
	}
}

static bool list_step(struct server *server, struct server_send **link, bool strays)
{
	bool any = false;

	for (struct server_send *send; (send = *link);) {
		int there = 0;

		if (MPI_Test(&send->request, &there, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
			server->peers[send->peer].gone = true;
			there = 1;
		}
		if (!there) {
			link = &send->next;
			continue;
		}
		*link = send->next;
		if (strays)
			server->peers[send->peer].strays--;
		send_free(server, send);
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
