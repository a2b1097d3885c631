/* SPDX-License-Identifier: OLDAP-2.8 */
/* Brings a question for records, or for a peer's bits, to its answer, and lets the readers of a
 * lost question go on to storage. */
#include "config.h"
#include "mpi/peer_private.h"

#include "loader/loader_ready.h"
#include "util/log.h"
#include "util/settings.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds from one question for a peer's bits to the next: at least, and so many more for each
 * byte of all ranks' bits. */
static const uint64_t bits_every = 500000000, bits_byte_ns = 100;

enum { AVERAGE = 8, BITS_MEMORY = 64 << 20 };

struct peer_ask *ask_new(struct peer_job *job, uint32_t to, struct peer_wait *wait)
{
	struct peer_ask *ask = calloc(1, sizeof(*ask));

	if (!ask)
		return NULL;
	ask->to = to;
	ask->wait = wait;
	job->peers[to].queued++;
	return ask;
}

void ask_add(struct peer_ask *ask, struct tier_fetch *fetch)
{
	ask->each[ask->talk.n] = fetch;
	ask->talk.records[ask->talk.n++] = fetch->record;
}

/* Tells the reader that waits what has come. Under the job lock. */
static void ask_tell(struct peer_ask *ask, int error)
{
	for (uint32_t i = 0; i < ask->talk.n && ask->wait; i++) {
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
	for (uint32_t i = 0; i < ask->talk.n; i++)
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

static void ask_end(struct peer_job *job, struct peer_ask *ask, int error)
{
	if (ask->talk.n)
		job->peers[ask->to].queued--;
	pthread_mutex_lock(&job->lock);
	ask_tell(ask, error);
	pthread_mutex_unlock(&job->lock);
	ask_free(ask);
}

/* --- asking ----------------------------------------------------------------------------------- */

/* Tells the readers whether a rank may be asked. */
static void pace_tell(struct peer_job *job, uint32_t rank)
{
	struct peer *peer = &job->peers[rank];

	peer->silent = !exchange_may_ask(&job->wire.exchange, (int)rank) ||
		       pace_turn(&job->pace, (int)rank, UINT64_MAX) != PACE_ASK;
	peer->rests_until = job->pace.peers[rank].rests_until;
}

/* Lets the readers go on to storage. */
static void readers_leave(struct peer_job *job, struct peer_ask *ask)
{
	pthread_mutex_lock(&job->lock);
	ask_tell(ask, ETIMEDOUT);
	pthread_mutex_unlock(&job->lock);
}

static void ask_start(struct peer_job *job, struct peer_ask *ask)
{
	if (pace_turn(&job->pace, (int)ask->to, job->wire.now) != PACE_ASK ||
	    !wire_ask(&job->wire, &ask->question, (int)ask->to, talk_sum(&ask->talk), &ask->talk,
		      talk_length(ask->talk.n))) {
		ask_end(job, ask, ESHUTDOWN);
		return;
	}
	if (pace_is_probe(&job->pace, (int)ask->to))
		readers_leave(job, ask);
	pace_asked(&job->pace, (int)ask->to);
	pace_tell(job, ask->to);
}

/* Which copies there are changes little by little, so the service asks for the bits now and then,
 * at 10 MB a second in all. If there are too many ranks to remember the bits of each, readers ask
 * homes alone. */
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
		ask_start(job, ask);
	}
}

void asks_step(struct peer_job *job, uint64_t now)
{
	struct peer_ask *asked, *next;

	pthread_mutex_lock(&job->lock);
	asked = job->asked;
	job->asked = NULL;
	pthread_mutex_unlock(&job->lock);
	if (asked && !job->over)
		bits_ask(job, now);
	for (; asked; asked = next) {
		next = asked->next;
		ask_start(job, asked);
	}
}

/* --- answers ---------------------------------------------------------------------------------- */

/* Readers may look at the bits meanwhile. A bit that is too old costs a question. */
static void bits_came(struct peer_job *job, struct peer_ask *ask)
{
	struct peer *peer = &job->peers[ask->to];
	uint64_t *words = peer->ready;

	if (!words) {
		peer->ready = ask->bits;
		ask->bits = NULL;
		return;
	}
	for (size_t i = 0; i < ready_words(job->store.units); i++)
		__atomic_store_n(&words[i], ask->bits[i], __ATOMIC_RELEASE);
}

static bool told_take(struct peer_ask *ask, const void *text, size_t length)
{
	if (!text || length != told_length(ask->talk.n))
		return false;
	memcpy(&ask->told, text, length);
	return true;
}

/* Bytes come straight into the samples' own memory. */
static int ask_place(void *owner, struct exchange_question *question, const void *text,
		     size_t length, struct exchange_run *runs)
{
	struct peer_ask *ask = (struct peer_ask *)question;
	struct peer_job *job = owner;
	int n = 0;

	if (ask->bits) {
		runs[0].bytes = (uint8_t *)ask->bits;
		runs[0].length = ready_words(job->store.units) * sizeof(*ask->bits);
		return 1;
	}
	if (!told_take(ask, text, length))
		return 0;
	job->peers[ask->to].load = (unsigned)ask->told.load;
	for (uint32_t i = 0; i < ask->talk.n; i++) {
		uint64_t size = (uint64_t)ask->told.each[i].data + ask->told.each[i].key;

		if (ask->told.each[i].error)
			continue;
		ask->memory[i] = size <= INT_MAX ? malloc(size + 1) : NULL;
		if (!ask->memory[i])
			return 0;
		if (size)
			runs[n++] = (struct exchange_run){ask->memory[i], size};
		job->counts.received += size;
	}
	return n;
}

/* The answer is late or lost: its readers go on to storage. */
static void ask_leave(struct peer_job *job, struct peer_ask *ask, bool alive)
{
	if (ask->question.late)
		return;
	pace_late(&job->pace, &ask->question, job->wire.now);
	ask->question.late = true;
	if (!job->late++ && settings_get()->verbose)
		log_line("%s: rank %u does not answer in time; its records are read from storage",
			 job->name, ask->to);
	pace_tell(job, ask->to);
	if (ask->bits)
		return;
	job->counts.given_up++;
	job->counts.owed += alive;
	readers_leave(job, ask);
}

static void ask_lost(void *owner, struct exchange_question *question, bool alive)
{
	struct peer_job *job = owner;

	ask_leave(job, (struct peer_ask *)question, alive);
	job->peers[question->to].silent = true;
	job->failed = true;
}

static void ask_late(void *owner, struct exchange_question *question)
{
	ask_leave(owner, (struct peer_ask *)question, true);
}

bool asks_late(struct peer_job *job, uint64_t now)
{
	return wire_late(&job->wire, &job->pace, now, ask_late);
}

/* Records without a byte have no body. */
static void ask_ended(void *owner, struct exchange_question *question, int error, const void *text,
		      size_t length)
{
	struct peer_ask *ask = (struct peer_ask *)question;
	struct peer_job *job = owner;
	struct peer *peer = &job->peers[ask->to];
	uint64_t ns = job->wire.now - question->began;

	pace_ended(&job->pace, question, job->wire.now, !error && ask->talk.n);
	job->late -= question->late;
	pace_tell(job, ask->to);
	if (ask->bits) {
		if (!error)
			bits_came(job, ask);
		ask_free(ask);
		return;
	}
	peer->pace = peer->pace ? (peer->pace * (AVERAGE - 1) + ns) / AVERAGE : ns + 1;
	if (!error && !question->body) {
		error = told_take(ask, text, length) ? 0 : EBADMSG;
		for (uint32_t i = 0; i < ask->talk.n && !error; i++) {
			if (ask->told.each[i].error)
				continue;
			ask->memory[i] = calloc(1, 1);
			error = ask->told.each[i].data || ask->told.each[i].key ? EBADMSG
				: ask->memory[i]                               ? 0
									       : ENOMEM;
		}
	}
	ask_end(job, ask, error);
}

const struct wire_payload peer_payload = {.asked = answer_asked,
					  .place = ask_place,
					  .lost = ask_lost,
					  .ended = ask_ended,
					  .sent = answer_sent};

void asks_drop(struct peer_job *job)
{
	for (struct exchange_question *question = job->wire.exchange.questions; question;
	     question = question->next)
		ask_lost(job, question, false);
}
