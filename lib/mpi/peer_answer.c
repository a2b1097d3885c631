/* SPDX-License-Identifier: OLDAP-2.8 */
/* Answers other ranks' questions when all units that they name have been read, from memory or from
 * the disk. Threads of this file's own read the disk: the service makes all calls of MPI and must
 * not wait for the disk, and the loader, with its threads, may be closed before the last question
 * comes. */
#include "config.h"
#include "mpi/peer_private.h"

#include "loader/loader_ready.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct peer_answer {
	struct peer_answer *next,
		*next_read; /* among all answers; among those to read from the disk */
	struct exchange_debt debt;
	bool urged;
	bool reads, done; /* a thread reads the disk for it, or has; under the job lock */
	uint64_t sum;     /* talk_sum() of the question */
	int n;
	struct tier_fetch each[PEER_ASKS];
};

/* Whether all records that can be had of the units are here. A unit that was not read yet is read
 * now, in quiet times too, because a consumer waits on the rank that asks. Under the job lock. */
static bool units_are_here(struct peer_job *job, struct peer_answer *answer)
{
	bool urged = answer->urged, ready = true;

	answer->urged = true;
	for (int i = 0; i < answer->n; i++) {
		uint64_t record = answer->each[i].record;
		uint64_t number = peer_store_unit(&job->store, record);
		const struct peer_unit *unit = &job->store.at[number];

		if (unit->role != ROLE_HOME || unit->state == UNIT_READY ||
		    peer_store_holds(&job->store, record))
			continue;
		if (unit->state == UNIT_LOADING) {
			fill_hurry(job, number);
			ready = false;
		} else if (urged ? fills_read(job) : fill_urgently(job, number)) {
			ready = false;
		}
	}
	return ready;
}

/* Whether a record may be on the disk, because its place is there. Does not look at the disk
 * itself, which may take long. */
static bool is_on_disk(const struct peer_job *job, const struct peer_answer *answer)
{
	const struct peer_store *store = &job->store;

	for (int i = 0; i < answer->n; i++) {
		uint64_t record = answer->each[i].record;

		if (store->at[peer_store_unit(store, record)].on_disk &&
		    !peer_store_holds(store, record))
			return true;
	}
	return false;
}

/* --- from the disk ---------------------------------------------------------------------------- */

static void read_each(struct peer_job *job, struct peer_answer *answer)
{
	for (int i = 0; i < answer->n; i++) {
		struct tier_fetch *fetch = &answer->each[i];

		fetch->error = peer_store_take(&job->store, fetch->record, &fetch->found);
		if (fetch->error == ENOENT)
			fetch->error = peer_store_read(&job->store, fetch->record, &fetch->found);
	}
}

/* A step of the crew. */
static uint64_t disk_step(void *owner)
{
	struct peer_job *job = owner;
	struct peer_answer *answer = job->disks.first;

	if (!answer)
		return CLOCK_NEVER;
	job->disks.first = answer->next_read;
	if (!job->disks.first)
		job->disks.last = &job->disks.first;
	pthread_mutex_unlock(&job->lock);
	read_each(job, answer);
	pthread_mutex_lock(&job->lock);
	answer->done = true;
	service_wake(job);
	return 0;
}

const struct crew_work disk_work = {.name = "lmdbio-disk", .step = disk_step};

static void disks_put(struct peer_job *job, struct peer_answer *answer)
{
	answer->reads = true;
	*job->disks.last = answer;
	job->disks.last = &answer->next_read;
	crew_wake(&job->disks.crew);
}

int disks_start(struct peer_job *job)
{
	return job->store.disk ? crew_start(&job->disks.crew, PEER_DISKS) : 0;
}

/* --- answering -------------------------------------------------------------------------------- */

/* Whether the answer waits for nothing any more. Under the job lock. */
static bool is_ready(struct peer_job *job, struct peer_answer *answer)
{
	if (answer->reads)
		return answer->done;
	if (!units_are_here(job, answer))
		return false;
	if (!is_on_disk(job, answer))
		return true;
	disks_put(job, answer);
	return false;
}

/* Takes records that are in memory only now, when they are sent. */
static void answer_send(struct peer_job *job, struct peer_answer *answer)
{
	struct exchange_run runs[PEER_ASKS];
	struct peer_told told = {0};
	int n = 0;

	for (const struct peer_answer *other = job->answers; other; other = other->next)
		told.load++;
	for (int i = 0; i < answer->n; i++) {
		struct tier_fetch *fetch = &answer->each[i];
		const struct tier_record *found = &fetch->found;
		size_t length;

		if (!answer->done)
			fetch->error = peer_store_take(&job->store, fetch->record, &fetch->found);
		if (fetch->error)
			fetch->found.memory = NULL;
		length = fetch->error ? 0 : found->data.mv_size + found->key.mv_size;
		if (length > INT_MAX)
			fetch->error = EFBIG;
		told.each[i].error = fetch->error;
		if (fetch->error)
			continue;
		told.each[i].data = (uint32_t)found->data.mv_size;
		told.each[i].key = (uint32_t)found->key.mv_size;
		if (length)
			runs[n++] = (struct exchange_run){found->data.mv_data, length};
		job->counts.answered += length;
		if (job->store.at[peer_store_unit(&job->store, fetch->record)].role != ROLE_HOME)
			job->counts.copies += length;
	}
	wire_answer(&job->wire, answer->debt.to, answer->debt.number, &told,
		    told_length((uint32_t)answer->n), runs, n, exchange_sum(runs, n, answer->sum),
		    answer);
}

void answer_sent(void *owner, void *item)
{
	struct peer_answer *answer = item;

	(void)owner;
	for (int i = 0; i < answer->n; i++)
		free(answer->each[i].found.memory);
	free(answer);
}

void answers_drop(struct peer_job *job)
{
	struct peer_answer *answer;

	while ((answer = job->answers)) {
		job->answers = answer->next;
		answer_sent(job, answer);
	}
}

/* Sends a copy: MPI may not send bits that change meanwhile. */
static void bits_send(struct peer_job *job, struct peer_answer *answer, int to, uint64_t number)
{
	size_t words = ready_words(job->store.units);
	uint64_t *bits = malloc(words * sizeof(*bits) + 1);
	struct exchange_run run = {(uint8_t *)bits, words * sizeof(*bits)};

	answer->n = 1;
	answer->each[0].found.memory = bits;
	for (size_t i = 0; i < words && bits; i++)
		bits[i] = __atomic_load_n(&job->store.ready[i], __ATOMIC_ACQUIRE);
	if (bits)
		wire_answer(&job->wire, to, number, NULL, 0, &run, 1,
			    exchange_sum(&run, 1, answer->sum), answer);
	else
		answer_sent(job, answer);
}

static bool talk_is_sound(const struct peer_job *job, const struct peer_talk *talk, size_t length)
{
	bool sound = length >= talk_length(0) && talk->n <= PEER_ASKS &&
		     length == talk_length(talk->n);

	for (uint32_t i = 0; sound && i < talk->n; i++)
		sound = talk->records[i] < job->store.records;
	return sound;
}

void answer_asked(void *owner, int from, uint64_t number, const void *text, size_t length)
{
	struct peer_job *job = owner;
	struct peer_talk talk = {0};
	struct peer_answer *answer;

	memcpy(&talk, text, length < sizeof(talk) ? length : sizeof(talk));
	if (!talk_is_sound(job, &talk, length) || !(answer = calloc(1, sizeof(*answer))))
		return;
	answer->sum = talk_sum(&talk);
	if (!talk.n) {
		bits_send(job, answer, from, number);
		return;
	}
	answer->n = (int)talk.n;
	for (uint32_t i = 0; i < talk.n; i++)
		answer->each[i].record = talk.records[i];
	exchange_owe(&job->wire.exchange, &answer->debt, from, number, job->wire.now);
	answer->next = job->answers;
	job->answers = answer;
}

bool answers_step(struct peer_job *job)
{
	bool any = false;

	for (struct peer_answer **link = &job->answers, *answer; (answer = *link);) {
		bool ready;

		pthread_mutex_lock(&job->lock);
		fill_begin(job);
		ready = is_ready(job, answer);
		pthread_mutex_unlock(&job->lock);
		if (!ready) {
			link = &answer->next;
			continue;
		}
		*link = answer->next;
		exchange_pay(&job->wire.exchange, &answer->debt);
		answer_send(job, answer);
		any = true;
	}
	return any;
}
