/* SPDX-License-Identifier: OLDAP-2.8 */
/* Simulates the calls of MPI that an exchange between ranks makes. */
#include "config.h"
#include "mpi_simulated.h"

#include "simulated_job.h"
#include "simulated_turns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COMM = 1000, REQUEST = 1000, TYPE = 1000, REQUESTS = 4096, PIECES = 16, QUEUES = 2 };
enum { TYPES = 1024 }; /* more than a run makes, because a test may make each release fail */

/* Where the bytes of a message lie. */
struct layout {
	bool used;
	int n;
	struct {
		uint8_t *at;
		size_t length;
	} pieces[PIECES];
	size_t length;
};

struct request {
	bool used, done, is_send;
	struct collective *collective; /* the call of all ranks, or NULL */
	int context, rank, peer, tag;
	struct layout layout; /* of a receive, or of a send that is not eager */
	size_t came;
	int rc;
};

struct message {
	struct message *next;
	int context, from, to, tag;
	bool late, damaged;
	size_t length;
	uint8_t *bytes;       /* NULL: they are in the sender's memory */
	struct request *send; /* the send that ends when the message is taken, or NULL */
};

static struct {
	int ranks;
	struct layout types[TYPES];
	struct message *messages;
	bool hold[SIM_RANKS][QUEUES], cut[SIM_RANKS];
	bool lose[SIM_RANKS][QUEUES], damage[SIM_RANKS][QUEUES];
} sim;
static struct request requests[REQUESTS];
static int requests_end; /* behind the last request in use */

static void impossible(const char *what)
{
	printf("simulated MPI: %s\n", what);
	abort();
}

void sim_begin(int ranks)
{
	sim_end();
	memset(&sim, 0, sizeof(sim));
	memset(requests, 0, (size_t)requests_end * sizeof(*requests));
	requests_end = 0;
	sim.ranks = ranks;
	sim_job_begin(ranks);
}

/* A detached service thread may have made the last call of MPI: the lock orders this function after
 * it. */
void sim_end(void)
{
	sim_enter();
	for (struct message *message = sim.messages, *next; message; message = next) {
		next = message->next;
		free(message->bytes);
		free(message);
	}
	sim.messages = NULL;
	sim_job_end();
	sim_leave();
}

struct sim_left sim_left(void)
{
	struct sim_left left = {0};

	for (int i = 0; i < requests_end; i++) {
		left.sends += requests[i].used && requests[i].is_send;
		left.receives += requests[i].used && !requests[i].is_send && !requests[i].collective;
	}
	for (int i = 0; i < TYPES; i++)
		left.types += sim.types[i].used;
	for (const struct message *message = sim.messages; message; message = message->next)
		left.messages++;
	return left;
}

MPI_Comm sim_comm(int rank)
{
	return COMM + rank;
}

/* --- the network ------------------------------------------------------------------------------ */

static int queue_of(bool words)
{
	return words ? 0 : 1;
}

void sim_hold(int to, bool words, bool held)
{
	sim.hold[to][queue_of(words)] = held;
	for (struct message *message = sim.messages; message && !held; message = message->next)
		if (message->to == to && (message->tag == SIM_WORDS) == words)
			message->late = false;
}

static bool is_held(const struct message *message)
{
	return sim.cut[message->from] || sim.cut[message->to] ||
	       sim.hold[message->to][queue_of(message->tag == SIM_WORDS)];
}

void sim_cut(int rank, bool cut)
{
	sim.cut[rank] = cut;
	for (struct message *message = sim.messages; message; message = message->next)
		if (message->from == rank || message->to == rank)
			message->late = is_held(message);
}

void sim_pass(int rank, unsigned n)
{
	for (struct message *message = sim.messages; message && n; message = message->next) {
		if (!message->late || (message->from != rank && message->to != rank))
			continue;
		message->late = false;
		n--;
	}
}

void sim_lose(int to, bool word)
{
	sim.lose[to][queue_of(word)] = true;
}

void sim_damage(int to, bool word)
{
	sim.damage[to][queue_of(word)] = true;
}

static struct message *message_find(int context, int from, int to, int tag)
{
	struct message *message = sim.messages;

	while (message && (message->late || message->context != context || message->to != to ||
			   (tag != MPI_ANY_TAG && message->tag != tag) ||
			   (from != MPI_ANY_SOURCE && message->from != from)))
		message = message->next;
	return message;
}

static void message_free(struct message *gone)
{
	struct message **link = &sim.messages;

	while (*link != gone)
		link = &(*link)->next;
	*link = gone->next;
	free(gone->bytes);
	free(gone);
}

static void gather(const struct layout *layout, uint8_t *to)
{
	for (int i = 0; i < layout->n; i++) {
		if (!layout->pieces[i].length)
			continue;
		memcpy(to, layout->pieces[i].at, layout->pieces[i].length);
		to += layout->pieces[i].length;
	}
}

/* Copies as many bytes as there is room for. */
static void scatter(const struct layout *layout, const uint8_t *from, size_t length)
{
	for (int i = 0; i < layout->n && length; i++) {
		size_t piece = layout->pieces[i].length < length ? layout->pieces[i].length : length;

		if (!piece)
			continue;
		memcpy(layout->pieces[i].at, from, piece);
		from += piece;
		length -= piece;
	}
}

static void take(struct request *receive, struct message *message)
{
	if (!message->bytes) {
		message->bytes = calloc(1, message->length);
		if (!message->bytes)
			impossible("no memory");
		gather(&message->send->layout, message->bytes);
	}
	if (message->damaged)
		message->bytes[message->length - 1] ^= 1;
	receive->came = message->length < receive->layout.length ? message->length : receive->layout.length;
	receive->rc = message->length > receive->layout.length ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
	receive->peer = message->from;
	receive->tag = message->tag;
	scatter(&receive->layout, message->bytes, receive->came);
	receive->done = true;
	if (message->send)
		message->send->done = true;
	message_free(message);
}

static void deliver(void)
{
	for (int i = 0; i < requests_end; i++) {
		struct request *request = &requests[i];
		struct message *message;

		if (!request->used || request->done || request->is_send || request->collective)
			continue;
		message = message_find(request->context, request->peer, request->rank, request->tag);
		if (message)
			take(request, message);
	}
}

void sim_answer(int rank)
{
	deliver();
	for (int i = 0; i < requests_end; i++) {
		struct request *request = &requests[i];
		MPI_Request sent;
		int there;

		if (!request->used || request->done || request->is_send || request->collective ||
		    request->rank != rank)
			continue;
		MPI_Isend("", 1, MPI_BYTE, rank, request->tag, sim_comm(request->peer), &sent);
		MPI_Test(&sent, &there, MPI_STATUS_IGNORE);
	}
}

void sim_drop(void)
{
	while (sim.messages) {
		if (sim.messages->send)
			sim.messages->send->done = true;
		message_free(sim.messages);
	}
}

/* --- the calls -------------------------------------------------------------------------------- */

static struct request *request_new(MPI_Comm comm, MPI_Request *handle)
{
	int i = 0;

	while (i < REQUESTS && requests[i].used)
		i++;
	if (i == REQUESTS)
		impossible("more requests than it has");
	requests_end = i < requests_end ? requests_end : i + 1;
	requests[i] = (struct request){.used = true, .context = sim_context(comm), .rank = sim_rank(comm)};
	*handle = REQUEST + i;
	return &requests[i];
}

static struct layout layout_of(const void *bytes, int count, MPI_Datatype type)
{
	if (type == MPI_BYTE)
		return (struct layout){.n = 1,
				       .pieces = {{(uint8_t *)(uintptr_t)bytes, (size_t)count}},
				       .length = (size_t)count};
	if (bytes != MPI_BOTTOM || count != 1 || !sim.types[type - TYPE].used)
		impossible("a datatype that it does not know");
	return sim.types[type - TYPE];
}

static bool flag_take(bool *flag)
{
	bool was = *flag;

	*flag = false;
	return was;
}

int MPI_Isend(const void *bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
	      MPI_Request *handle)
{
	struct request *send = request_new(comm, handle);
	int queue = queue_of(tag == SIM_WORDS);
	struct message *message, **last = &sim.messages;

	send->is_send = true;
	send->layout = layout_of(bytes, count, type);
	if (flag_take(&sim.lose[to][queue])) {
		send->done = true;
		return MPI_SUCCESS;
	}
	message = calloc(1, sizeof(*message));
	if (!message)
		impossible("no memory");
	*message = (struct message){.context = send->context,
				    .from = send->rank,
				    .to = to,
				    .tag = tag,
				    .damaged = flag_take(&sim.damage[to][queue]),
				    .length = send->layout.length};
	message->late = is_held(message);
	if (message->length <= SIM_EAGER) {
		message->bytes = calloc(1, message->length + 1);
		if (!message->bytes)
			impossible("no memory");
		gather(&send->layout, message->bytes);
		send->done = true;
	} else {
		message->send = send;
	}
	while (*last)
		last = &(*last)->next;
	*last = message;
	sim_progress();
	return MPI_SUCCESS;
}

int MPI_Irecv(void *bytes, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
	      MPI_Request *handle)
{
	struct request *receive = request_new(comm, handle);

	receive->layout = layout_of(bytes, count, type);
	receive->peer = from;
	receive->tag = tag;
	return MPI_SUCCESS;
}

static void status_fill(MPI_Status *status, int from, int tag, size_t length)
{
	if (status == MPI_STATUS_IGNORE)
		return;
	*status = (MPI_Status){.count_lo = (int)length, .MPI_SOURCE = from, .MPI_TAG = tag};
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *there, MPI_Status *status)
{
	const struct message *message;

	deliver();
	message = message_find(sim_context(comm), from, sim_rank(comm), tag);
	*there = message != NULL;
	if (!message)
		sim_yield();
	else
		status_fill(status, message->from, tag, message->length);
	return MPI_SUCCESS;
}

int MPI_Recv(void *bytes, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
	     MPI_Status *status)
{
	struct message *message = message_find(sim_context(comm), from, sim_rank(comm), tag);
	struct request receive = {.layout = layout_of(bytes, count, type)};

	if (!message)
		impossible("a receive that blocks");
	take(&receive, message);
	status_fill(status, receive.peer, tag, receive.came);
	return receive.rc;
}

/* Withdraws the message of a send. */
static void request_drop(const struct request *request)
{
	struct message *message = sim.messages;

	while (message && message->send != request)
		message = message->next;
	if (message)
		message_free(message);
}

int MPI_Test(MPI_Request *handle, int *there, MPI_Status *status)
{
	struct request *request;

	if (*handle == MPI_REQUEST_NULL) {
		*there = true;
		return MPI_SUCCESS;
	}
	request = &requests[*handle - REQUEST];
	if (!request->used)
		impossible("a request that has ended");
	deliver();
	*there = request->collective ? sim_collected(request->collective, request->rank, &request->rc)
				     : request->done;
	if (!*there && sim_look_in_vain())
		return MPI_SUCCESS;
	if (!*there) { /* the request's operation fails, and its memory is free */
		request->rc = MPI_ERR_OTHER;
		if (request->collective)
			sim_uncollected(request->collective, request->rank);
		request_drop(request);
	}
	sim_progress();
	status_fill(status, request->peer, request->tag, request->came);
	request->used = false;
	*handle = MPI_REQUEST_NULL;
	return request->rc;
}

MPI_Request sim_request(MPI_Comm comm, struct collective *collective)
{
	MPI_Request handle;

	request_new(comm, &handle)->collective = collective;
	return handle;
}

int MPI_Ibarrier(MPI_Comm comm, MPI_Request *handle)
{
	*handle = sim_request(comm, sim_barrier(comm));
	return MPI_SUCCESS;
}

int MPI_Get_count(const MPI_Status *status, MPI_Datatype type, int *count)
{
	(void)type;
	*count = status->count_lo;
	return MPI_SUCCESS;
}

int MPI_Get_elements_x(const MPI_Status *status, MPI_Datatype type, MPI_Count *count)
{
	(void)type;
	*count = status->count_lo;
	return MPI_SUCCESS;
}

int MPI_Get_address(const void *location, MPI_Aint *address)
{
	*address = (MPI_Aint)location;
	return MPI_SUCCESS;
}

int MPI_Type_create_hindexed(int n, const int sizes[], const MPI_Aint places[], MPI_Datatype of,
			     MPI_Datatype *type)
{
	int i = 0;

	while (i < TYPES && sim.types[i].used)
		i++;
	if (i == TYPES || n > PIECES || of != MPI_BYTE)
		impossible("a datatype that it has no room for");
	sim.types[i] = (struct layout){.used = true, .n = n};
	for (int piece = 0; piece < n; piece++) {
		sim.types[i].pieces[piece].at = (uint8_t *)places[piece];
		sim.types[i].pieces[piece].length = (size_t)sizes[piece];
		sim.types[i].length += (size_t)sizes[piece];
	}
	*type = TYPE + i;
	return MPI_SUCCESS;
}

int MPI_Type_commit(MPI_Datatype *type)
{
	(void)type;
	return MPI_SUCCESS;
}

int MPI_Type_free(MPI_Datatype *type)
{
	sim.types[*type - TYPE].used = false;
	return MPI_SUCCESS;
}

/* Does not wait for the receive: such messages have no bytes. */
int MPI_Send(const void *bytes, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
	MPI_Request request;
	int there, rc = MPI_Isend(bytes, count, type, to, tag, comm, &request);

	return rc == MPI_SUCCESS ? MPI_Test(&request, &there, MPI_STATUS_IGNORE) : rc;
}
