/* SPDX-License-Identifier: OLDAP-2.8 */
/* Answers other ranks' questions when all units that they name have been read, from memory or
 * from the disk, and tracks what is on its way to others. */
#include "config.h"
#include "mpi/peer_private.h"

#include "loader/loader_ready.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { TALKS_AT_ONCE = 64 };
static const uint64_t beat_ns = 250000000;

struct peer_answer {
	struct peer_answer *next;
	int to, tag;
	bool urged;
	uint64_t beat_at; /* ns */
	struct peer_read read;
};

struct peer_send {
	struct peer_send *next;
	MPI_Request request;
	void *owned[PEER_ASKS];
};

/* --- sending ---------------------------------------------------------------------------------- */

static void send_put(struct peer_job *job, struct peer_send *send)
{
	send->next = job->sends;
	job->sends = send;
}

/* Sends bytes, which are malloc'ed, and freed in any case. false: MPI does not. */
static bool send_bytes(struct peer_job *job, int to, int tag, void *bytes, size_t length)
{
	struct peer_send *send = calloc(1, sizeof(*send));

	if (!send || MPI_Isend(bytes, (int)length, MPI_BYTE, to, tag, job->comm, &send->request) !=
			     MPI_SUCCESS) {
		free(send);
		free(bytes);
		return false;
	}
	send->owned[0] = bytes;
	send_put(job, send);
	return true;
}

bool talk_send(struct peer_job *job, int to, const struct peer_talk *talk)
{
	struct peer_talk *copy = malloc(sizeof(*copy));

	if (!copy)
		return false;
	*copy = *talk;
	return send_bytes(job, to, TAG_TALK, copy, sizeof(*copy));
}

/* Runs of memory as one thing to send or receive. */
static int runs_type(uint8_t *const *runs, const int *lengths, int n, MPI_Datatype *type)
{
	MPI_Aint places[PEER_ASKS];
	int sizes[PEER_ASKS], count = 0, rc;

	for (int i = 0; i < n; i++) {
		if (!lengths[i])
			continue;
		MPI_Get_address(runs[i], &places[count]);
		sizes[count++] = lengths[i];
	}
	rc = MPI_Type_create_hindexed(count, sizes, places, MPI_BYTE, type);
	return rc == MPI_SUCCESS ? MPI_Type_commit(type) : rc;
}

static void owned_free(void *const *owned, int n)
{
	for (int i = 0; i < n && owned; i++)
		free(owned[i]);
}

/* Sends n runs of bytes as one message; some may be empty, not all. `owned`: what is freed when
 * they have been sent, in any case, n of them or NULL. Returns an MPI code. */
static int runs_send(struct peer_job *job, int to, int tag, uint8_t *const *runs,
		     const int *lengths, void *const *owned, int n)
{
	struct peer_send *send = calloc(1, sizeof(*send));
	MPI_Datatype type;
	int rc = send ? runs_type(runs, lengths, n, &type) : MPI_ERR_NO_MEM;

	if (rc == MPI_SUCCESS) {
		rc = MPI_Isend(MPI_BOTTOM, 1, type, to, tag, job->comm, &send->request);
		MPI_Type_free(&type);
	}
	if (rc == MPI_SUCCESS) {
		for (int i = 0; i < n && owned; i++)
			send->owned[i] = owned[i];
		send_put(job, send);
	} else {
		owned_free(owned, n);
		free(send);
	}
	return rc;
}

int runs_receive(struct peer_job *job, int from, int tag, uint8_t *const *runs, const int *lengths,
		 int n, MPI_Request *request)
{
	MPI_Datatype type;
	int rc = runs_type(runs, lengths, n, &type);

	if (rc != MPI_SUCCESS)
		return rc;
	rc = MPI_Irecv(MPI_BOTTOM, 1, type, from, tag, job->comm, request);
	MPI_Type_free(&type);
	return rc;
}

bool sends_step(struct peer_job *job)
{
	bool any = false;

	for (struct peer_send **link = &job->sends, *send; (send = *link);) {
		int there = 0;

		/* What MPI cannot send it does not send later either. */
		if (MPI_Test(&send->request, &there, MPI_STATUS_IGNORE) == MPI_SUCCESS && !there) {
			link = &send->next;
			continue;
		}
		*link = send->next;
		owned_free(send->owned, PEER_ASKS);
		free(send);
		any = true;
	}
	return any;
}

/* --- being asked ------------------------------------------------------------------------------ */

/* Whether all that can be had of the units is there. A unit that was not read yet is read now,
 * in quiet times too: the rank that asks has a consumer that waits. Under the job lock. */
static bool units_are_here(struct peer_job *job, struct peer_answer *answer)
{
	bool urged = answer->urged, ready = true;

	answer->urged = true;
	for (int i = 0; i < answer->read.n; i++) {
		uint64_t record = answer->read.each[i].record;
		uint64_t number = peer_store_unit(&job->store, record);
		const struct peer_unit *unit = &job->store.at[number];

		if (unit->role != ROLE_HOME || unit->state == UNIT_READY ||
		    peer_store_holds(&job->store, record))
			continue;
		if (unit->state == UNIT_LOADING) {
			fill_hurry(job, number);
			ready = false;
		} else if (urged ? !job->fillers.stopping : fill_urgently(job, number)) {
			ready = false;
		}
	}
	return ready;
}

/* Without a look at the disk itself, which may take long: what has its place there may be there. */
static bool is_on_disk(const struct peer_job *job, const struct peer_answer *answer)
{
	const struct peer_store *store = &job->store;

	for (int i = 0; i < answer->read.n; i++) {
		uint64_t record = answer->read.each[i].record;

		if (store->at[peer_store_unit(store, record)].on_disk &&
		    !peer_store_holds(store, record))
			return true;
	}
	return false;
}

/* Whether there is nothing to wait for any more. Under the job lock. */
static bool is_ready(struct peer_job *job, struct peer_answer *answer)
{
	if (answer->read.under_way)
		return answer->read.done;
	if (!units_are_here(job, answer))
		return false;
	if (!is_on_disk(job, answer))
		return true;
	disks_put(job, &answer->read);
	return false;
}

/* What is in memory is taken when it is sent. */
static void answer_send(struct peer_job *job, struct peer_answer *answer)
{
	struct peer_told *told = calloc(1, sizeof(*told));
	uint8_t *runs[PEER_ASKS] = {0};
	void *owned[PEER_ASKS] = {0};
	int lengths[PEER_ASKS] = {0}, n = answer->read.n;
	bool any = false;

	if (told)
		told->version = TALK_VERSION;
	for (const struct peer_answer *other = job->answers; told && other; other = other->next)
		told->load++;
	for (int i = 0; i < n; i++) {
		struct tier_fetch *fetch = &answer->read.each[i];
		const struct tier_record *found = &fetch->found;

		if (!answer->read.done)
			fetch->error = peer_store_take(&job->store, fetch->record, &fetch->found);
		owned[i] = fetch->error ? NULL : found->memory;
		if (!fetch->error && found->data.mv_size + found->key.mv_size > INT_MAX)
			fetch->error = EFBIG;
		if (told)
			told->each[i].error = fetch->error;
		if (!told || fetch->error)
			continue;
		told->each[i].data = (uint32_t)found->data.mv_size;
		told->each[i].key = (uint32_t)found->key.mv_size;
		runs[i] = found->data.mv_data;
		lengths[i] = (int)(found->data.mv_size + found->key.mv_size);
		told->each[i].sum = sealed_sum(runs[i], (size_t)lengths[i], fetch->record);
		any |= lengths[i] > 0;
		job->counts.answered += (uint64_t)lengths[i];
		if (job->store.at[peer_store_unit(&job->store, fetch->record)].role != ROLE_HOME)
			job->counts.copies += (uint64_t)lengths[i];
	}
	if (!told) { /* it waits in vain, and knows how long */
		owned_free(owned, n);
		return;
	}
	if (send_bytes(job, answer->to, answer->tag, told, sizeof(*told)) && any)
		(void)runs_send(job, answer->to, answer->tag + 1, runs, lengths, owned, n);
	else
		owned_free(owned, n);
}

/* Copies: MPI may not send bits that change meanwhile. */
static void bits_send(struct peer_job *job, int to, int tag)
{
	size_t words = ready_words(job->store.units);
	uint64_t *bits = malloc(words * sizeof(*bits) + 1);

	for (size_t i = 0; i < words && bits; i++)
		bits[i] = __atomic_load_n(&job->store.ready[i], __ATOMIC_ACQUIRE);
	if (bits)
		(void)send_bytes(job, to, tag, bits, words * sizeof(*bits));
}

static bool talk_is_sound(const struct peer_job *job, const struct peer_talk *talk)
{
	bool sound = talk->version == TALK_VERSION && talk->n >= 0 && talk->n <= PEER_ASKS &&
		     talk->tag >= TAG_FIRST && talk->tag < TAG_FIRST + TAG_COUNT;

	for (int i = 0; sound && i < talk->n; i++)
		sound = talk->records[i] < job->store.records;
	return sound;
}

static void talk_take(struct peer_job *job, const struct peer_talk *talk, int from, uint64_t now)
{
	struct peer_answer *answer;

	if (!talk_is_sound(job, talk))
		return;
	if (talk->kind == TALK_BEAT)
		job->peers[from].heard_at = now;
	if (talk->kind == TALK_BITS)
		bits_send(job, from, talk->tag);
	if (talk->kind != TALK_ASK || !(answer = calloc(1, sizeof(*answer))))
		return;
	answer->to = from;
	answer->tag = talk->tag;
	answer->beat_at = now;
	answer->read.n = talk->n;
	for (int i = 0; i < talk->n; i++)
		answer->read.each[i].record = talk->records[i];
	answer->next = job->answers;
	job->answers = answer;
}

bool talks_step(struct peer_job *job, uint64_t now)
{
	struct peer_talk talk;
	MPI_Status status;
	int there = 0, length;

	for (unsigned i = 0; i < TALKS_AT_ONCE; i++) {
		if (MPI_Iprobe(MPI_ANY_SOURCE, TAG_TALK, job->comm, &there, &status) !=
			    MPI_SUCCESS ||
		    !there)
			return i > 0;
		if (MPI_Recv(&talk, sizeof(talk), MPI_BYTE, status.MPI_SOURCE, TAG_TALK, job->comm,
			     &status) != MPI_SUCCESS)
			continue;
		MPI_Get_count(&status, MPI_BYTE, &length);
		if (length == sizeof(talk))
			talk_take(job, &talk, status.MPI_SOURCE, now);
	}
	return true;
}

bool answers_step(struct peer_job *job, uint64_t now)
{
	bool any = false;

	for (struct peer_answer **link = &job->answers, *answer; (answer = *link);) {
		bool ready;

		pthread_mutex_lock(&job->lock);
		if (!job->begun) {
			job->begun = true;
			crew_wake_all(&job->fillers);
		}
		ready = is_ready(job, answer);
		pthread_mutex_unlock(&job->lock);
		if (ready) {
			*link = answer->next;
			answer_send(job, answer);
			free(answer);
			any = true;
			continue;
		}
		if (now - answer->beat_at > beat_ns) {
			struct peer_talk beat = {
				.version = TALK_VERSION, .kind = TALK_BEAT, .tag = TAG_FIRST};

			answer->beat_at = now;
			(void)talk_send(job, answer->to, &beat);
		}
		link = &answer->next;
	}
	return any;
}
