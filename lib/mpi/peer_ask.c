/* SPDX-License-Identifier: OLDAP-2.8 */
/* Brings a question for records, or for a peer's bits, to its answer, and gives up one that is not
 * answered.
 *
 * A rank that is silent for a second while it owes an answer, or that owes one for ten, is not
 * asked any more before it has answered; meanwhile storage is read. One that waits for storage
 * itself says so four times a second.
 */
#include "config.h"
#include "mpi/peer_private.h"

#include "loader/loader_ready.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/settings.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds. */
static const uint64_t silent_ns = 1000000000, owed_ns = 10000000000, bits_every = 500000000,
		      bits_byte_ns = 100;

enum { AVERAGE = 8, BITS_MEMORY = 64 << 20 };

struct peer_ask {
	struct peer_ask *next;
	uint32_t to;
	int n, tag;
	bool has_told;
	uint64_t began;
	struct peer_wait *wait; /* NULL: no reader waits for it any more */
	struct tier_fetch *each[PEER_ASKS];
	uint64_t records[PEER_ASKS];
	uint8_t *memory[PEER_ASKS];
	struct peer_told told;
	uint64_t *bits; /* of a question for those */
	MPI_Request request;
};

struct peer_ask *ask_new(struct peer_job *job, uint32_t to, struct peer_wait *wait)
{
	struct peer_ask *ask = calloc(1, sizeof(*ask));

	if (!ask)
		return NULL;
	ask->to = to;
	ask->wait = wait;
	ask->request = MPI_REQUEST_NULL;
	job->peers[to].queued++;
	return ask;
}

void ask_add(struct peer_ask *ask, struct tier_fetch *fetch)
{
	ask->each[ask->n] = fetch;
	ask->records[ask->n++] = fetch->record;
}

bool ask_is_full(const struct peer_ask *ask)
{
	return ask->n == PEER_ASKS;
}

uint32_t ask_peer(const struct peer_ask *ask)
{
	return ask->to;
}

struct peer_ask **ask_next(struct peer_ask *ask)
{
	return &ask->next;
}

/* Tells the reader that waits. Under the job lock. */
static void ask_tell(struct peer_ask *ask, int error)
{
	for (int i = 0; i < ask->n && ask->wait; i++) {
		struct tier_fetch *fetch = ask->each[i];
		uint32_t data = ask->told.each[i].data, key = ask->told.each[i].key;

		fetch->error = error ? error : ask->told.each[i].error;
		if (fetch->error)
			continue;
		fetch->found = (struct tier_record){.memory = ask->memory[i],
						    .data = {data, ask->memory[i]},
						    .key = {key, ask->memory[i] + data}};
		ask->memory[i] = NULL;
	}
	if (ask->wait && !--ask->wait->left)
		pthread_cond_signal(&ask->wait->done);
	ask->wait = NULL;
}

static void ask_free(struct peer_ask *ask)
{
	for (int i = 0; i < ask->n; i++)
		free(ask->memory[i]);
	free(ask->bits);
	free(ask);
}

void asks_put(struct peer_job *job, struct peer_ask *asks)
{
	for (struct peer_ask *ask = asks, *next; ask; ask = next) {
		next = ask->next;
		if (job->gone) {
			ask_tell(ask, ESHUTDOWN);
			ask_free(ask);
		} else {
			ask->next = job->asked;
			job->asked = ask;
		}
	}
	if (asks)
		service_wake(job);
}

/* It is in no list any more. */
static void ask_end(struct peer_job *job, struct peer_ask *ask, int error)
{
	struct peer *peer = &job->peers[ask->to];
	bool stray = !ask->wait && !ask->bits;

	if (!ask->bits)
		peer->queued--;
	pthread_mutex_lock(&job->lock);
	ask_tell(ask, error);
	pthread_mutex_unlock(&job->lock);
	if (stray && peer->strays && !--peer->strays)
		peer->silent = false;
	ask_free(ask);
}

/* No reader waits for this answer any more; the memory that it would come into stays. */
static void ask_give_up(struct peer_job *job, struct peer_ask *ask)
{
	struct peer *peer = &job->peers[ask->to];

	if (ask->bits || !ask->wait)
		return;
	if (settings_get()->verbose && !peer->silent)
		log_line("%s: rank %u does not answer; its records are read from storage",
			 job->name, ask->to);
	job->counts.given_up++;
	peer->strays++;
	peer->silent = true;
	job->failed = true;
	pthread_mutex_lock(&job->lock);
	ask_tell(ask, ETIMEDOUT);
	pthread_mutex_unlock(&job->lock);
}

/* --- asking ----------------------------------------------------------------------------------- */

/* false: it has ended. */
static bool ask_start(struct peer_job *job, struct peer_ask *ask, uint64_t now)
{
	struct peer_talk talk = {
		.version = TALK_VERSION,
		.kind = ask->bits ? TALK_BITS : TALK_ASK,
		.tag = TAG_FIRST + 2 * (job->serial++ % (TAG_COUNT / 2)),
		.n = ask->n,
	};
	size_t words = ready_words(job->store.units);
	int rc;

	if (job->over || job->peers[ask->to].silent) {
		ask_end(job, ask, ESHUTDOWN);
		return false;
	}
	ask->began = now;
	ask->tag = talk.tag;
	memcpy(talk.records, ask->records, sizeof(talk.records));
	if (ask->bits)
		rc = MPI_Irecv(ask->bits, (int)words, MPI_UINT64_T, (int)ask->to, ask->tag,
			       job->comm, &ask->request);
	else
		rc = MPI_Irecv(&ask->told, sizeof(ask->told), MPI_BYTE, (int)ask->to, ask->tag,
			       job->comm, &ask->request);
	if (rc != MPI_SUCCESS || !talk_send(job, (int)ask->to, &talk)) {
		if (rc == MPI_SUCCESS) {
			MPI_Cancel(&ask->request);
			MPI_Wait(&ask->request, MPI_STATUS_IGNORE);
		}
		ask_end(job, ask, EIO);
		return false;
	}
	ask->next = job->asks;
	job->asks = ask;
	return true;
}

/* Which copies there are changes little by little, so it is looked at now and then: at 10 MB a
 * second in all. Where there are too many ranks to remember it of each, homes alone are asked. */
static void bits_ask(struct peer_job *job, uint64_t now)
{
	size_t words = ready_words(job->store.units);
	uint64_t all = words * sizeof(uint64_t) * (uint64_t)job->ranks;
	uint64_t every = bits_every + all * bits_byte_ns;

	if (all > BITS_MEMORY)
		return;
	for (int rank = 0; rank < job->ranks; rank++) {
		struct peer *peer = &job->peers[rank];
		struct peer_ask *ask;

		if (rank == job->rank || !peer->has_copies || peer->silent ||
		    now - peer->ready_at < every)
			continue;
		ask = calloc(1, sizeof(*ask));
		if (!ask || !(ask->bits = calloc(words + 1, sizeof(*ask->bits)))) {
			free(ask);
			return;
		}
		peer->ready_at = now;
		ask->to = (uint32_t)rank;
		(void)ask_start(job, ask, now);
	}
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Readers may look meanwhile: a bit that is too old costs a question. */
static void bits_came(struct peer_job *job, struct peer_ask *ask)
{
	struct peer *peer = &job->peers[ask->to];
	uint64_t *words = peer->ready;

	if (!words) {
		peer->ready = ask->bits;
		ask->bits = NULL;
		ask->n = 0;
		free(ask);
		return;
	}
	for (size_t i = 0; i < ready_words(job->store.units); i++)
		__atomic_store_n(&words[i], ask->bits[i], __ATOMIC_RELEASE);
	ask_free(ask);
}

/* What was told is what comes next, straight into the samples' own memory. Returns 1: it is under
 * way; 0: nothing comes; -1: it cannot be received. */
static int data_receive(struct peer_job *job, struct peer_ask *ask)
{
	int lengths[PEER_ASKS] = {0};
	bool any = false;

	for (int i = 0; i < ask->n; i++) {
		uint64_t size = (uint64_t)ask->told.each[i].data + ask->told.each[i].key;

		if (ask->told.each[i].error)
			continue;
		ask->memory[i] = size <= INT_MAX ? malloc(size + 1) : NULL;
		if (!ask->memory[i])
			return -1;
		lengths[i] = (int)size;
		any |= size > 0;
		job->counts.received += size;
	}
	if (!any)
		return 0;
	return runs_receive(job, (int)ask->to, ask->tag + 1, ask->memory, lengths, ask->n,
			    &ask->request) == MPI_SUCCESS
		       ? 1
		       : -1;
}

/* Of an answer that its sender's end has broken off MPI may say that it has come. */
static void data_check(struct peer_ask *ask)
{
	for (int i = 0; i < ask->n; i++) {
		size_t size = (size_t)ask->told.each[i].data + ask->told.each[i].key;

		if (!ask->told.each[i].error && ask->memory[i] &&
		    ask->told.each[i].sum != sealed_sum(ask->memory[i], size, ask->records[i]))
			ask->told.each[i].error = EBADMSG;
	}
}

static void note_answer(struct peer_job *job, const struct peer_ask *ask, uint64_t now)
{
	struct peer *peer = &job->peers[ask->to];
	uint64_t ns = now - ask->began;

	peer->heard_at = now;
	if (!ask->has_told)
		peer->load = ask->told.load;
	peer->pace = peer->pace ? (peer->pace * (AVERAGE - 1) + ns) / AVERAGE : ns + 1;
}

/* Looks at one question. true: it has ended, or something has come; *ended says which. */
static bool ask_step(struct peer_job *job, struct peer_ask *ask, uint64_t now, bool *ended)
{
	struct peer *peer = &job->peers[ask->to];
	uint64_t heard = peer->heard_at > ask->began ? peer->heard_at : ask->began;
	int there = 0, more = 0;

	*ended = false;
	if (ask->request != MPI_REQUEST_NULL &&
	    MPI_Test(&ask->request, &there, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
		/* It stays, given up: what MPI still does with its memory is not known. */
		ask->request = MPI_REQUEST_NULL;
		ask_give_up(job, ask);
		return true;
	}
	if (!there) {
		if (ask->wait && (now - heard > silent_ns || now - ask->began > owed_ns)) {
			job->counts.owed += now - heard <= silent_ns;
			ask_give_up(job, ask);
		}
		return false;
	}
	if (ask->bits) {
		peer->heard_at = now;
		*ended = true;
		bits_came(job, ask);
		return true;
	}
	note_answer(job, ask, now);
	if (ask->has_told) {
		data_check(ask);
	} else {
		ask->has_told = true;
		more = ask->told.version == TALK_VERSION ? data_receive(job, ask) : 0;
	}
	if (more < 0)
		ask_give_up(job, ask);
	if (more)
		return true;
	*ended = true;
	ask_end(job, ask, ask->told.version == TALK_VERSION ? 0 : EBADMSG);
	return true;
}

bool asks_step(struct peer_job *job, uint64_t now)
{
	struct peer_ask *asked, *next;
	bool any, ended;

	pthread_mutex_lock(&job->lock);
	asked = job->asked;
	job->asked = NULL;
	pthread_mutex_unlock(&job->lock);
	any = asked != NULL;
	if (any && !job->over)
		bits_ask(job, now);
	for (; asked; asked = next) {
		next = asked->next;
		(void)ask_start(job, asked, now);
	}
	for (struct peer_ask **link = &job->asks, *ask; (ask = *link);) {
		next = ask->next;
		any |= ask_step(job, ask, now, &ended);
		if (ended)
			*link = next;
		else
			link = &ask->next;
	}
	return any;
}

void asks_drop(struct peer_job *job)
{
	for (struct peer_ask *ask = job->asks; ask; ask = ask->next)
		ask_give_up(job, ask);
	job->asks = NULL;
}
