/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the state machine of questions, answers, silence and reminders between ranks. */
#include "config.h"
#include "mpi/exchange.h"

#include "util/hash.h"
#include "util/list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PAUSES = 64 }; /* the longest pause between two reminders, in silent_ns */

static const uint64_t LISTENS_NS = 10000000; /* twice the sleep of a rank that waits for answers */

static const struct exchange_action nothing = {.act = ACT_NOTHING};

struct exchange_rules exchange_patient(const struct exchange_rules *rules, unsigned patience)
{
	return (struct exchange_rules){.silent_ns = rules->silent_ns * patience,
				       .owed_ns = rules->owed_ns * patience,
				       .beat_ns = rules->beat_ns};
}

int exchange_open(struct exchange *exchange, int ranks, const struct exchange_rules *rules)
{
	*exchange = (struct exchange){.rules = *rules};
	exchange->peers = calloc((size_t)ranks, sizeof(*exchange->peers));
	if (exchange->peers)
		exchange->ranks = ranks;
	exchange->closed = !exchange->peers;
	return exchange->peers ? 0 : ENOMEM;
}

void exchange_close(struct exchange *exchange)
{
	free(exchange->peers);
	exchange->peers = NULL;
}

/* --- words ------------------------------------------------------------------------------------ */

uint64_t exchange_sum(const struct exchange_run *runs, int n, uint64_t what)
{
	for (int i = 0; i < n; i++)
		what = hash_seeded(runs[i].bytes, runs[i].length, what);
	return what;
}

static uint64_t check_of(const struct exchange_head *head, const void *text, size_t length)
{
	struct exchange_head copy = *head;

	copy.check = 0;
	return hash_seeded(text, length, hash_bytes(&copy, sizeof(copy)));
}

void exchange_seal(struct exchange_head *word, enum exchange_kind kind, uint64_t number,
		   size_t length)
{
	word->version = EXCHANGE_VERSION;
	word->kind = kind;
	word->number = number;
	word->check = check_of(word, word + 1, length);
}

static struct exchange_action say(enum exchange_kind kind, int to, uint64_t number, uint64_t body)
{
	return (struct exchange_action){
		.act = ACT_SAY, .kind = kind, .peer = to, .number = number, .body = body};
}

/* Returns the pause before the next reminder. */
static uint64_t longer(const struct exchange *exchange, uint64_t pause)
{
	uint64_t least = exchange->rules.silent_ns;

	return pause < least ? least : pause < PAUSES * least ? 2 * pause : pause;
}

/* `number`: a lost question's, or 0. */
static struct exchange_action remind(struct exchange *exchange, int to, uint64_t number,
				     uint64_t now)
{
	struct exchange_peer *peer = &exchange->peers[to];

	peer->pause = longer(exchange, peer->pause);
	peer->remind_at = now + peer->pause;
	return say(WORD_REMIND, to, number, ++peer->reminders);
}

/* Whether a reply to a reminder is missing. */
static bool is_unsettled(const struct exchange_peer *peer)
{
	return !peer->gone && peer->replied < peer->reminders;
}

/* --- questions -------------------------------------------------------------------------------- */

uint64_t exchange_silence(const struct exchange *exchange, int peer, uint64_t now)
{
	return now - exchange->peers[peer].heard_at;
}

void exchange_away(struct exchange *exchange, uint64_t ns)
{
	exchange->listened += ns < LISTENS_NS ? ns : LISTENS_NS;
	if (!exchange->rules.beat_ns || ns <= exchange->rules.beat_ns)
		return;
	for (struct exchange_question *question = exchange->questions; question; question = question->next)
		question->heard_at += ns;
}

bool exchange_may_ask(const struct exchange *exchange, int to)
{
	const struct exchange_peer *peer = exchange->peers ? &exchange->peers[to] : NULL;

	return peer && !exchange->closed && !peer->gone && !peer->owing;
}

bool exchange_ask(struct exchange *exchange, struct exchange_question *question, int to,
		  uint64_t what, uint64_t now)
{
	if (!exchange_may_ask(exchange, to))
		return false;
	*question = (struct exchange_question){.next = exchange->questions,
					       .number = ++exchange->serial,
					       .what = what,
					       .began = now,
					       .heard_at = now,
					       .to = to};
	exchange->questions = question;
	return true;
}

static struct exchange_question *question_find(const struct exchange *exchange, int to,
					       uint64_t number)
{
	struct exchange_question *question = exchange->questions;

	while (question && (question->number != number || question->to != to))
		question = question->next;
	return question;
}

static struct exchange_action question_end(struct exchange *exchange,
					   struct exchange_question *question, int error)
{
	list_remove(exchange->questions, question, next);
	exchange->peers[question->to].owing -= question->lost;
	return (struct exchange_action){
		.act = ACT_ENDED, .peer = question->to, .question = question, .error = error};
}

static struct exchange_action question_lose(struct exchange *exchange,
					    struct exchange_question *question, uint64_t now,
					    bool alive)
{
	question->lost = true;
	question->pause = exchange->rules.silent_ns;
	question->remind_at = now + question->pause;
	exchange->peers[question->to].owing++;
	return (struct exchange_action){
		.act = ACT_LOST, .peer = question->to, .question = question, .alive = alive};
}

/* Acts on silence, a due reminder, or a peer that is gone. */
static struct exchange_action question_tick(struct exchange *exchange,
					    struct exchange_question *question, uint64_t now)
{
	const struct exchange_rules *rules = &exchange->rules;
	const struct exchange_peer *peer = &exchange->peers[question->to];
	uint64_t heard = peer->heard_at > question->began ? peer->heard_at : question->began;

	if (peer->gone && !question->coming)
		return question_end(exchange, question, EIO);
	if (!question->lost && (peer->gone || now - heard > rules->silent_ns ||
				now - question->began > rules->owed_ns))
		return question_lose(exchange, question, now,
				     !peer->gone && now - heard <= rules->silent_ns);
	if (!question->lost || question->coming || now < question->remind_at)
		return nothing;
	question->pause = longer(exchange, question->pause);
	question->remind_at = now + question->pause;
	return remind(exchange, question->to, question->number, now);
}

/* --- debts ------------------------------------------------------------------------------------ */

void exchange_owe(struct exchange *exchange, struct exchange_debt *debt, int to, uint64_t number,
		  uint64_t now)
{
	*debt = (struct exchange_debt){
		.next = exchange->debts, .number = number, .said_at = now, .to = to};
	exchange->debts = debt;
}

void exchange_pay(struct exchange *exchange, struct exchange_debt *debt)
{
	list_remove(exchange->debts, debt, next);
}

static bool owes(const struct exchange *exchange, int to, uint64_t number)
{
	const struct exchange_debt *debt = exchange->debts;

	while (debt && (debt->number != number || debt->to != to))
		debt = debt->next;
	return debt;
}

/* --- what has happened ------------------------------------------------------------------------ */

/* If the question is coming already, its answer was doubled on the way, and perhaps its body too.
 * So the body is received, for no question. */
static struct exchange_action answer_take(struct exchange *exchange,
					  const struct exchange_head *head,
					  struct exchange_action came)
{
	struct exchange_question *question = question_find(exchange, came.peer, head->number);

	came.body = head->body;
	came.act = head->body ? ACT_RECEIVE : ACT_NOTHING;
	if (!question || question->coming)
		return came;
	came.question = question;
	if (!head->body) {
		int error = head->sum == question->what ? 0 : EBADMSG;
		struct exchange_action ended = question_end(exchange, question, error);

		ended.text = came.text;
		ended.length = came.length;
		return ended;
	}
	question->body = head->body;
	question->sum = head->sum;
	question->coming = true;
	question->told_at = exchange->listened;
	return came;
}

static void reply_take(struct exchange_peer *peer, uint64_t reminder)
{
	peer->replied = reminder > peer->replied ? reminder : peer->replied;
}

struct exchange_action exchange_word(struct exchange *exchange, int from, const void *word,
				     size_t length, uint64_t now)
{
	struct exchange_action came = {.act = ACT_NOTHING, .peer = from};
	struct exchange_question *question;
	struct exchange_head head;

	if (length < sizeof(head))
		return nothing;
	memcpy(&head, word, sizeof(head));
	came.number = head.number;
	came.text = (const uint8_t *)word + sizeof(head);
	came.length = length - sizeof(head);
	if (head.version != EXCHANGE_VERSION || head.check != check_of(&head, came.text, came.length))
		return nothing;
	exchange->left = exchange->left || head.kind == WORD_GONE;
	if (from >= exchange->ranks) /* without memory for peers, this rank owes nothing */
		return head.kind == WORD_REMIND ? say(WORD_PAID, from, head.number, head.body) : nothing;
	exchange->peers[from].heard_at = now;
	exchange->peers[from].failures = 0;
	switch ((enum exchange_kind)head.kind) {
	case WORD_ASK:
		came.act = owes(exchange, from, head.number) ? ACT_NOTHING : ACT_ASKED;
		return came;
	case WORD_ANSWER:
		return answer_take(exchange, &head, came);
	case WORD_REMIND:
		return say(owes(exchange, from, head.number) ? WORD_BEAT : WORD_PAID, from,
			   head.number, head.body);
	case WORD_PAID:
		reply_take(&exchange->peers[from], head.body);
		question = question_find(exchange, from, head.number);
		return question && question->lost && !question->coming
			       ? question_end(exchange, question, ETIMEDOUT)
			       : nothing;
	case WORD_NOTE:
		came.act = ACT_NOTED;
		return came;
	case WORD_GONE:
		exchange->peers[from].told = true;
		exchange_gone(exchange, from);
		break;
	case WORD_BEAT:
		reply_take(&exchange->peers[from], head.body);
		question = question_find(exchange, from, head.number);
		if (question)
			question->heard_at = now;
		break;
	}
	return nothing;
}

struct exchange_action exchange_body(struct exchange *exchange, struct exchange_question *question,
				     const struct exchange_run *runs, int n, size_t came)
{
	bool right = n && came == question->body &&
		     question->sum == exchange_sum(runs, n, question->what);

	question->took = exchange->listened - question->told_at;
	return question_end(exchange, question, right ? 0 : EBADMSG);
}

bool exchange_note(struct exchange *exchange, int to)
{
	if (to >= exchange->ranks)
		return false;
	exchange->tells += !exchange->peers[to].note;
	exchange->peers[to].note = true;
	return true;
}

static struct exchange_action tell(struct exchange *exchange)
{
	bool *due, gone;
	int to = 0;

	while (!exchange->peers[to].tell && !exchange->peers[to].note)
		to++;
	gone = exchange->peers[to].tell;
	due = gone ? &exchange->peers[to].tell : &exchange->peers[to].note;
	*due = false;
	exchange->tells--;
	return say(gone ? WORD_GONE : WORD_NOTE, to, 0, 0);
}

struct exchange_action exchange_tick(struct exchange *exchange, uint64_t now)
{
	if (exchange->tells)
		return tell(exchange);
	for (struct exchange_question *question = exchange->questions; question;
	     question = question->next) {
		struct exchange_action action = question_tick(exchange, question, now);

		if (action.act != ACT_NOTHING)
			return action;
	}
	for (struct exchange_debt *debt = exchange->debts; exchange->rules.beat_ns && debt;
	     debt = debt->next)
		if (now - debt->said_at > exchange->rules.beat_ns) {
			debt->said_at = now;
			return say(WORD_BEAT, debt->to, debt->number, 0);
		}
	if (!exchange->closed || exchange->quiet || exchange_has_questions(exchange))
		return nothing;
	for (int peer = 0; peer < exchange->ranks; peer++)
		if (is_unsettled(&exchange->peers[peer]))
			return now < exchange->peers[peer].remind_at ? nothing
								      : remind(exchange, peer, 0, now);
	exchange->quiet = true;
	return (struct exchange_action){.act = ACT_QUIET};
}

static void tell_later(struct exchange *exchange, struct exchange_peer *peer)
{
	if (peer->told)
		return;
	peer->told = peer->tell = true;
	exchange->tells++;
}

void exchange_gone(struct exchange *exchange, int peer)
{
	if (peer >= exchange->ranks)
		return;
	exchange->peers[peer].gone = true;
	tell_later(exchange, &exchange->peers[peer]);
}

void exchange_leave(struct exchange *exchange, int self)
{
	for (int peer = 0; peer < exchange->ranks; peer++)
		if (peer != self)
			tell_later(exchange, &exchange->peers[peer]);
}

bool exchange_is_gone(const struct exchange *exchange, int peer)
{
	return peer >= exchange->ranks || exchange->peers[peer].gone;
}

void exchange_failed(struct exchange *exchange, int peer)
{
	if (peer < exchange->ranks && ++exchange->peers[peer].failures == EXCHANGE_FAILURES)
		exchange_gone(exchange, peer);
}

bool exchange_has_questions(const struct exchange *exchange)
{
	const struct exchange_question *question = exchange->questions;

	while (question && question->coming && exchange_is_gone(exchange, question->to))
		question = question->next;
	return question;
}

void exchange_stop(struct exchange *exchange)
{
	exchange->closed = true;
}
