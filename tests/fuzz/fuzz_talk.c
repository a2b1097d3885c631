/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that no bytes of another rank break a rank that keeps records for its peers, or a server:
 * questions of any text, and answers that declare anything about their bodies, which are up to 3
 * MiB long.
 *
 * Rank 0 is real: a server of chunks (first byte odd), or a keeper of records, which first asks
 * rank 1 for some records. Rank 1 sends the keeper the input, a list of messages (fuzz_messages.h):
 * a question, an answer or a second that passes; the number of rank 0's question; and the text. An
 * answer's text begins with its body's length (4 bytes) and flags for false fields (1). For the
 * server the input is a list of changes to a right question, 8 bytes each. */
#include "config.h"
#include "fuzz_driver.h"
#include "fuzz_messages.h"

#include "env_fixture.h"

#include "mpi/peer_private.h"
#include "mpi/server_private.h"
#include "util/checked.h"
#include "util/clock.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
enum { TALK_RECORDS, TALK_ANSWER, TALK_TIME, TALKS, TO_SERVER = 1 };
enum { LIE_SUM = 1, LIE_LENGTH = 2, BODY_FIRST = 4, NO_BODY = 8 };
enum { ANSWER_HEAD = 5, MESSAGES = 32, ASKS = 2, EACH = 3, RECORDS = 100, UNIT = 8, DRAINS = 64 };
enum { TEXT_MOST = 4096, BODY_MOST = 3 << 20, VALUE_MOST = 1 << 20, FIRST_NUMBER = 1000 };

const struct fuzz_weight fuzz_weight = {.stride = 16, .front = 16, .mutations = 1500, .most = 20000};

static const struct exchange_rules rules = {.silent_ns = SECOND, .owed_ns = SECOND};

/* --- rank 0 ------------------------------------------------------------------------------------- */

static struct {
	struct peer_job *job;
	struct peer_wait wait;
	uint64_t numbers[ASKS], whats[ASKS];
	struct tier_fetch fetches[ASKS][EACH];
	uint64_t now, next;
} self;

/* The server lives as long as the process, with all of a small data set in its memory. */
static struct server server;

static size_t value_make(void *bytes, uint64_t i)
{
	memset(bytes, (int)i + 1, VALUE_MOST);
	return VALUE_MOST;
}

static void server_start(void)
{
	static struct place place;

	place_make(&place);
	place_put_records(&place, 3, VALUE_MOST, value_make);
	server.node = "fuzzed";
	/* The only rank reads all chunks itself. */
	server.place = (struct mpi_place){.ranks = 1, .nodes = 1, .node_ranks = 1};
	server.comm = MPI_COMM_NULL;
	server.epoll = server.listener = -1;
	if (server_set_open(&server, place.data))
		abort();
	for (uint64_t chunk = 0; chunk < arena_chunks(server.sets->arena); chunk++) {
		struct server_load *load = server_want(&server, server.sets, chunk, true);

		if (load && !load->queued)
			abort();
	}
	while (!server_is_idle(&server)) {
		(void)server_loads_step(&server, clock_now());
		sched_yield();
	}
	place_remove(&place);
}

static void keeper_open(void)
{
	struct peer_job *job = job_new("fuzzed");
	MDB_val key = {3, (void *)(uintptr_t) "key"}, data = {5, (void *)(uintptr_t) "value"};

	if (!job)
		abort();
	job->ranks = 2;
	job->peers = calloc(2, sizeof(*job->peers));
	if (!job->peers || peer_store_open_units(&job->store, RECORDS, UNIT))
		abort();
	job->store.limit = 1 << 20;
	for (uint64_t unit = 0; unit < job->store.units; unit += 2) {
		job->store.at[unit].role = unit % 4 ? ROLE_COPY : ROLE_HOME;
		job->store.at[unit].state = UNIT_READY;
		(void)peer_store_keep(&job->store, unit * UNIT, &key, &data);
	}
	if (wire_open(&job->wire, sim_comm(0), &rules, &peer_payload, job) ||
	    pace_open(&job->pace, 2, ASKS, 1))
		abort();
	(void)wire_step(&job->wire, SECOND);
	memset(&self, 0, sizeof(self));
	self.job = job;
	self.now = SECOND;
	self.next = FIRST_NUMBER;
	pthread_cond_init(&self.wait.done, NULL);
	self.wait.left = ASKS;
}

static void ask(void)
{
	struct peer_ask *all[ASKS];

	for (unsigned which = 0; which < ASKS; which++) {
		struct peer_ask *one = ask_new(self.job, 1, &self.wait);

		if (!one)
			abort();
		for (unsigned i = 0; i < (which ? EACH : 1); i++) {
			self.fetches[which][i].record = UNIT + which + i * UNIT;
			ask_add(one, &self.fetches[which][i]);
		}
		self.whats[which] = talk_sum(&one->talk);
		all[which] = one;
	}
	for (unsigned which = 0; which < ASKS; which++) {
		pthread_mutex_lock(&self.job->lock);
		asks_put(self.job, all[which]);
		pthread_mutex_unlock(&self.job->lock);
		asks_step(self.job, self.now);
		self.numbers[which] = all[which]->question.number;
	}
}

/* --- rank 1 ------------------------------------------------------------------------------------- */

static void word_send(enum exchange_kind kind, uint64_t number, uint64_t body, uint64_t sum, const uint8_t *text,
		      size_t length)
{
	static union {
		struct exchange_head head;
		uint8_t bytes[sizeof(struct exchange_head) + 2 * TEXT_MOST];
	} word;

	word.head = (struct exchange_head){.body = body, .sum = sum};
	memcpy(word.bytes + sizeof(word.head), text, length);
	exchange_seal(&word.head, kind, number, length);
	message_send(word.bytes, sizeof(word.head) + length, SIM_WORDS);
}

/* Bounds the lengths that an answer declares for each record: rank 0 allocates that memory. */
static void told_bound(uint8_t *text, size_t length)
{
	for (size_t at = offsetof(struct peer_told, each); at + sizeof(((struct peer_told *)0)->each[0]) <= length;
	     at += sizeof(((struct peer_told *)0)->each[0])) {
		store32(text + at + 4, load32(text + at + 4) % VALUE_MOST);
		store32(text + at + 8, load32(text + at + 8) % VALUE_MOST);
	}
}

static void answer_send(unsigned which, const uint8_t *bytes, size_t length)
{
	static uint8_t body[BODY_MOST + 1], text[TEXT_MOST];
	struct exchange_run run = {body, 0};
	uint8_t how;
	int tag;

	if (length < ANSWER_HEAD)
		return;
	run.length = load32(bytes) % BODY_MOST;
	how = bytes[4];
	length -= ANSWER_HEAD;
	memcpy(text, bytes + ANSWER_HEAD, length);
	told_bound(text, length);
	memset(body, (int)which + 'a', run.length);
	tag = 16 + (int)self.numbers[which];
	if (how & BODY_FIRST && !(how & NO_BODY))
		message_send(body, run.length + !!(how & LIE_LENGTH), tag);
	word_send(WORD_ANSWER, self.numbers[which], run.length,
		  exchange_sum(&run, 1, self.whats[which] + (how & LIE_SUM)), text, length);
	if (!(how & (BODY_FIRST | NO_BODY)))
		message_send(body, run.length + !!(how & LIE_LENGTH), tag);
}

static void step(uint8_t what, uint8_t which, const uint8_t *bytes, size_t length)
{
	switch (what % TALKS) {
	case TALK_RECORDS:
		word_send(WORD_ASK, self.next++, 0, 0, bytes, length);
		break;
	case TALK_ANSWER:
		answer_send(which % ASKS, bytes, length);
		break;
	default:
		self.now += SECOND;
	}
	(void)wire_step(&self.job->wire, self.now);
	(void)answers_step(self.job);
}

/* Ends rank 1: each receive of rank 0 gets a message, messages to rank 1 are dropped, and rank 0
 * learns that rank 1 is gone. */
static void wire_end(struct wire *wire)
{
	exchange_stop(&wire->exchange);
	for (unsigned i = 0; i < DRAINS; i++) {
		sim_answer(0);
		sim_drop();
		exchange_gone(&wire->exchange, 1);
		(void)wire_step(wire, self.now);
		if (!sim_left().receives && !wire->exchange.questions && !wire->sends)
			break;
	}
	if (wire->sends || wire->exchange.questions || sim_left().types)
		abort();
	wire_close(wire);
}

static void keeper_end(void)
{
	self.job->over = true;
	(void)answers_step(self.job);
	if (self.job->answers)
		abort();
	wire_end(&self.job->wire);
}

/* Reads each byte of the records that have come, so that a sanitizer checks their memory. */
static void look_at_fetches(void)
{
	uint64_t sum = 0;

	if (self.wait.left)
		abort();
	for (unsigned which = 0; which < ASKS; which++)
		for (unsigned i = 0; i < (which ? EACH : 1); i++) {
			const struct tier_fetch *fetch = &self.fetches[which][i];

			if (fetch->error)
				continue;
			for (size_t at = 0; at < fetch->found.data.mv_size; at++)
				sum += ((const uint8_t *)fetch->found.data.mv_data)[at];
			for (size_t at = 0; at < fetch->found.key.mv_size; at++)
				sum += ((const uint8_t *)fetch->found.key.mv_data)[at];
			free(fetch->found.memory);
		}
	if (sum == UINT64_MAX)
		abort();
}

static void keeper_run(const uint8_t *data, size_t size)
{
	keeper_open();
	ask();
	messages_take(data, size, MESSAGES, TEXT_MOST, step);
	keeper_end();
	look_at_fetches();
	pthread_cond_destroy(&self.wait.done);
	job_free(self.job);
}

/* Sends the server questions: the right identity and path, with the input's changes. */
static void server_run(const uint8_t *data, size_t size)
{
	struct question {
		struct identity identity;
		uint64_t chunk;
		uint32_t urgent, passed, length;
		char path[SERVER_PATH];
	} text = {.identity = identity_job(&server.sets->identity)};
	size_t whole = offsetof(struct question, path) + strlen(server.sets->path) + 1;
	uint64_t number = FIRST_NUMBER;

	server.comm = sim_comm(0);
	if (server_peers_open(&server, server.comm))
		abort();
	strcpy(text.path, server.sets->path);
	text.length = (uint32_t)strlen(text.path) + 1;
	(void)server_peers_step(&server, SECOND);
	for (unsigned n = 0; n < MESSAGES && size >= 8; n++, data += 8, size -= 8) {
		struct question told = text;
		size_t at = load16(data + 2) % sizeof(told);
		uint32_t value = load32(data + 4);

		/* The input chooses a chunk, four bytes at any offset, and the right length of the
		 * text or another. */
		told.chunk = data[0] % 4u;
		if (data[1] & 1)
			memcpy((uint8_t *)&told + at, &value, sizeof(told) - at < 4 ? sizeof(told) - at : 4);
		word_send(WORD_ASK, number++, 0, 0, (const uint8_t *)&told,
			  data[1] & 2 ? load16(data + 6) % sizeof(told) : whole);
		(void)server_peers_step(&server, SECOND);
	}
	wire_end(&server.wire);
	pace_close(&server.pace);
	server.comm = MPI_COMM_NULL;
	if (server.holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!server.sets)
		server_start();
	if (!size)
		return 0;
	sim_begin(2);
	if (*data & TO_SERVER)
		server_run(data + 1, size - 1);
	else
		keeper_run(data + 1, size - 1);
	sim_end();
	return 0;
}

/* --- the corpus ------------------------------------------------------------------------------- */

/* Puts an answer with records of `each` bytes. */
static size_t put_answer(uint8_t *bytes, size_t at, uint8_t which, uint32_t each, uint8_t how)
{
	unsigned n = which ? EACH : 1;
	uint8_t text[ANSWER_HEAD + sizeof(struct peer_told)] = {0};
	struct peer_told told = {.load = which};

	store32(text, n * each);
	text[4] = how;
	for (unsigned i = 0; i < n; i++) {
		told.each[i].data = each - each / 3;
		told.each[i].key = each / 3;
	}
	memcpy(text + ANSWER_HEAD, &told, told_length(n));
	return message_put(bytes, at, TALK_ANSWER, which, text, ANSWER_HEAD + told_length(n));
}

uint8_t *fuzz_example(unsigned number, size_t *size)
{
	static const uint32_t sizes[] = {30, 3000, 900000, 0};
	enum { ROOM = 4096, EXAMPLES = 14 };
	uint8_t *bytes = number < EXAMPLES ? calloc(1, ROOM) : NULL;
	struct peer_talk talk = {.n = number % 3, .records = {0, 2 * UNIT, 77}};
	size_t at = 1;

	if (!bytes)
		return NULL;
	if (number < 8) {
		at = put_answer(bytes, at, number % 2, sizes[number / 2], number == 2 ? BODY_FIRST : 0);
		at = message_put(bytes, at, TALK_TIME, 0, NULL, 0);
		at = put_answer(bytes, at, 1 - number % 2, sizes[number / 2], number == 3 ? LIE_SUM : 0);
	} else if (number < 11) {
		at = message_put(bytes, at, TALK_RECORDS, 0, &talk, talk_length(talk.n));
		at = message_put(bytes, at, TALK_TIME, 0, NULL, 0);
		at = put_answer(bytes, at, 0, 300, NO_BODY);
	} else {
		bytes[0] = TO_SERVER;
		for (unsigned i = 0; i < 4; i++, at += 8) {
			bytes[at] = (uint8_t)i;
			bytes[at + 1] = (uint8_t)(number - 11);
			store32(bytes + at + 4, number * i * 9000);
		}
	}
	*size = at;
	return bytes;
}
