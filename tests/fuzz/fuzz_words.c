/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that no bytes of another rank break an exchange: a question ends with the right answer or
 * an error, and when all messages have come, no receive, send or type of MPI is left.
 *
 * Rank 0 first asks rank 1 two questions. The input is a list of steps for rank 0
 * (fuzz_messages.h). A step is a word as it is, a word that is sealed anew, so that rank 0 accepts
 * its text, a body, or a second that passes. Its second byte chooses a body's tag, or the question
 * of a sealed word. */
#include "config.h"
#include "fuzz_driver.h"
#include "fuzz_messages.h"

#include "mpi/exchange_wire.h"
#include "util/checked.h"

#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
enum { STEP_WORD, STEP_SEALED, STEP_BODY, STEP_TIME, STEPS };
enum {
	QUESTIONS = 2,
	BODY = 48,
	MESSAGES = 64,
	WORD_MOST = 8000,
	BODIES = 16,
	DRAINS = 64,
	BODY_MOST = 1 << 20
};

const struct fuzz_weight fuzz_weight = {.stride = MESSAGE_HEAD + sizeof(struct exchange_head),
					.front = 20};

static const struct exchange_rules rules = {.silent_ns = SECOND, .owed_ns = SECOND};

struct asked {
	struct exchange_question question; /* first */
	bool open;
	uint8_t body[BODY];
};

struct debt {
	struct debt *next;
	struct exchange_debt debt;
};

static struct rank {
	struct wire wire;
	struct asked asked[QUESTIONS];
	struct debt *debts;
} self;

static void right_make(uint64_t what, uint8_t *bytes)
{
	for (size_t i = 0; i < BODY; i++)
		bytes[i] = (uint8_t)(what * 31 + i);
}

static void came_asked(void *owner, int from, uint64_t number, const void *text, size_t length)
{
	struct debt *debt = calloc(1, sizeof(*debt));
	uint64_t sum = 0;

	(void)owner;
	if (!debt)
		abort();
	for (size_t i = 0; i < length; i++) /* a sanitizer sees its end */
		sum += ((const uint8_t *)text)[i];
	debt->next = self.debts;
	self.debts = debt;
	exchange_owe(&self.wire.exchange, &debt->debt, from, number + (sum & 0), self.wire.now);
}

static int place(void *owner, struct exchange_question *question, const void *text, size_t length,
		 struct exchange_run *runs)
{
	(void)owner, (void)text;
	if (length % 2)
		return 0;
	runs[0] = (struct exchange_run){((struct asked *)question)->body, BODY / 2};
	runs[1] = (struct exchange_run){((struct asked *)question)->body + BODY / 2, BODY / 2};
	return 2;
}

static void lost(void *owner, struct exchange_question *question, bool alive)
{
	(void)owner, (void)alive;
	if (!question->lost || !((struct asked *)question)->open)
		abort();
}

static void ended(void *owner, struct exchange_question *question, int error, const void *text,
		  size_t length)
{
	struct asked *asked = (struct asked *)question;
	uint8_t right[BODY];

	(void)owner, (void)text, (void)length;
	if (!asked->open)
		abort();
	asked->open = false;
	right_make(question->what, right);
	if (!error && question->body && !question->lost && memcmp(asked->body, right, BODY))
		abort();
}

static void sent(void *owner, void *item)
{
	(void)owner, (void)item;
	abort(); /* no bodies are sent */
}

static const struct wire_payload payload = {
	.asked = came_asked, .place = place, .lost = lost, .ended = ended, .sent = sent};

static void sealed_send(uint8_t which, const uint8_t *bytes, size_t length)
{
	static union {
		struct exchange_head head;
		uint8_t bytes[WORD_MOST];
	} word;

	if (length < sizeof(word.head))
		return;
	memcpy(word.bytes, bytes, length);
	word.head.body %= BODY_MOST; /* a sanitizer takes long to mark more memory */
	exchange_seal(&word.head, (enum exchange_kind)word.head.kind,
		      which < QUESTIONS ? self.asked[which].question.number : word.head.number,
		      length - sizeof(word.head));
	message_send(word.bytes, length, SIM_WORDS);
}

static void step(uint8_t what, uint8_t which, const uint8_t *bytes, size_t length)
{
	switch (what % STEPS) {
	case STEP_WORD:
		message_send(bytes, length, SIM_WORDS);
		break;
	case STEP_SEALED:
		sealed_send(which, bytes, length);
		break;
	case STEP_BODY:
		message_send(bytes, length, 16 + which % BODIES);
		break;
	case STEP_TIME:
		self.wire.now += SECOND;
		break;
	}
	(void)wire_step(&self.wire, self.wire.now);
}

static void debts_pay(void)
{
	for (struct debt *debt = self.debts, *next; debt; debt = next) {
		next = debt->next;
		exchange_pay(&self.wire.exchange, &debt->debt);
		wire_answer(&self.wire, debt->debt.to, debt->debt.number, "none", 4, NULL, 0, 1, NULL);
		free(debt);
	}
	self.debts = NULL;
}

/* Ends rank 1: each receive of rank 0 gets a message, and rank 0 learns that rank 1 is gone. */
static void finish(void)
{
	exchange_stop(&self.wire.exchange);
	debts_pay();
	for (unsigned i = 0; i < DRAINS; i++) {
		struct sim_left left = sim_left();

		sim_answer(0);
		exchange_gone(&self.wire.exchange, 1);
		(void)wire_step(&self.wire, self.wire.now);
		if (!left.receives && !self.wire.exchange.questions && !self.wire.sends)
			break;
	}
	for (unsigned i = 0; i < QUESTIONS; i++)
		if (self.asked[i].open)
			abort();
	if (!wire_is_idle(&self.wire) || self.wire.sends || sim_left().types)
		abort();
	wire_close(&self.wire);
	sim_end();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	sim_begin(2);
	memset(&self, 0, sizeof(self));
	if (wire_open(&self.wire, sim_comm(0), &rules, &payload, &self))
		abort();
	(void)wire_step(&self.wire, SECOND);
	for (unsigned i = 0; i < QUESTIONS; i++) {
		self.asked[i].open = true;
		if (!wire_ask(&self.wire, &self.asked[i].question, 1, i + 1, "text", 4))
			abort();
	}
	messages_take(data, size, MESSAGES, WORD_MOST, step);
	finish();
	return 0;
}

/* --- the corpus ------------------------------------------------------------------------------- */

/* Puts an answer to question `which`, and its body, whose number is 1 or 2. */
static size_t put_answer(uint8_t *bytes, size_t at, uint8_t which, bool damaged)
{
	struct exchange_head head = {.kind = WORD_ANSWER, .body = BODY};
	uint8_t body[BODY];
	struct exchange_run run = {body, BODY};

	right_make(which + 1u, body);
	head.sum = exchange_sum(&run, 1, which + 1u);
	body[BODY - 1] ^= damaged;
	at = message_put(bytes, at, STEP_SEALED, which, &head, sizeof(head));
	return message_put(bytes, at, STEP_BODY, (uint8_t)(which + 1), body, BODY);
}

uint8_t *fuzz_example(unsigned number, size_t *size)
{
	enum { ROOM = 4096 };
	uint8_t *bytes = number < 8 ? calloc(1, ROOM) : NULL;
	struct exchange_head head = {.number = 7};
	size_t at = 0;

	if (!bytes)
		return NULL;
	if (number < 4) {
		at = put_answer(bytes, at, (uint8_t)(number % 2), number >= 2);
		at = message_put(bytes, at, STEP_TIME, 0, NULL, 0);
		at = put_answer(bytes, at, (uint8_t)(1 - number % 2), false);
	} else {
		head.kind = number == 4 ? WORD_ASK : number == 5 ? WORD_REMIND : number == 6 ? WORD_PAID : WORD_BEAT;
		at = message_put(bytes, at, STEP_TIME, 0, NULL, 0);
		at = message_put(bytes, at, STEP_TIME, 0, NULL, 0);
		at = message_put(bytes, at, STEP_SEALED, number == 6 ? 0 : QUESTIONS, &head,
				 sizeof(head));
		at = put_answer(bytes, at, 1, false);
	}
	*size = at;
	return bytes;
}
