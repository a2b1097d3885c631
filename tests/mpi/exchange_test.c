/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks the state machine of questions and answers between ranks in simulated networks.
 *
 * A schedule is a few ranks that ask each other while words and bodies are lost, late, doubled,
 * reordered or damaged, ranks stop for a while or for ever, and answers take long. Then the network
 * heals, and all ranks end. A schedule follows from the seed and its number:
 *   exchange_test [--seed=N] [--first=N] [--count=N]
 * With TESTS_LONG=1 there are a million of them. */
#include "config.h"
#include "mpi/exchange.h"

#include "simulated_network.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 20000, COUNT_LONG = 1000000 };
enum { RANKS = NETWORK_RANKS, QUESTIONS = 10, DEBTS = 64, BODY = NETWORK_BODY };
#define MS UINT64_C(1000000)
enum { TICK = 50, FAULTY = 4000, CALM = 400000 }; /* milliseconds */

enum tally {
	SCHEDULES, CALM_SCHEDULES, ASKED, REFUSED, RIGHT, EMPTY, LOST, LOST_COMING, BAD, TIMED_OUT, GONE,
	REMINDED, BEATEN, PAID, PACKETS_LOST, PACKETS_DOUBLED, PACKETS_DAMAGED, DRAINED, STOPPED, DIED,
	MISTAKEN, ENDED_TOGETHER, TALLIES
};
static const char *const tally_names[] = {
	"schedules", "of them without faults", "questions", "not asked", "answered right",
	"of them without a body", "lost", "of them coming", "with a wrong sum", "paid without an answer",
	"to ranks that are gone", "reminders", "beats", "words that a debt is paid", "messages lost",
	"doubled", "damaged", "bodies taken anywhere", "ranks stopped", "ranks dead",
	"answers that are for another question", "jobs ended"
};
static uint64_t tallies[TALLIES];

struct asked {
	struct exchange_question question;
	bool used, told, placed;
	uint64_t what, at; /* ms: when to ask it; UINT64_MAX: it has been asked */
	int to;
	struct exchange_run runs[3];
	int n;
	uint8_t memory[BODY];
};

struct debt {
	struct exchange_debt debt;
	bool used;
	uint64_t what, ready_at; /* ms */
};

/* A posted receive, or a body for which no receive is posted yet. */
struct landing {
	bool used, posted;
	int from;
	uint64_t number;
	struct asked *asked; /* the body's question; NULL: none, it is dropped */
	size_t length;
	uint8_t bytes[BODY];
};

struct rank {
	struct exchange exchange;
	struct asked asked[QUESTIONS];
	struct debt debts[DEBTS];
	struct landing landings[DEBTS];
	uint64_t heard[RANKS]; /* ns */
	uint64_t stops_at, goes_at, dies_at, stop_at; /* ms; stop_at: asks no more */
	unsigned quiet;
};

static struct world {
	uint64_t number, now; /* now: ms */
	struct random_stream random;
	int ranks;
	bool slow, calm, detects;
	struct rank rank[RANKS];
	struct network network;
} world;
static uint64_t seed = 1;

static void fail_at(int line, const char *what)
{
	printf("line %d: %s\nagain: exchange_test --seed=%llu --first=%llu --count=1\n", line, what,
	       (unsigned long long)seed, (unsigned long long)world.number);
	exit(1);
}

#define CHECK(condition) ((condition) ? (void)0 : fail_at(__LINE__, #condition))

static bool is_dead(const struct rank *rank)
{
	return world.now >= rank->dies_at;
}

static bool runs(const struct rank *rank)
{
	return !is_dead(rank) && (world.now < rank->stops_at || world.now >= rank->goes_at);
}

/* A dead rank's packets are taken off the network, too. */
static bool is_open(int rank)
{
	return runs(&world.rank[rank]) || is_dead(&world.rank[rank]);
}

static void word_send(int from, int to, struct exchange_head head, enum exchange_kind kind,
		      uint64_t number, const uint64_t *text)
{
	struct packet packet = {.from = from, .to = to, .length = sizeof(head) + (text ? 8 : 0)};
	struct {
		struct exchange_head head;
		uint64_t text;
	} word = {head, text ? *text : 0};

	exchange_seal(&word.head, kind, number, text ? 8 : 0);
	memcpy(packet.bytes, &word, packet.length);
	CHECK(network_send(&world.network, packet));
}

static int body_runs(uint64_t what, uint8_t *bytes, struct exchange_run *to)
{
	size_t length = body_length(what), first = length / 3;

	if (!length)
		return 0;
	to[0] = (struct exchange_run){bytes, first};
	to[1] = (struct exchange_run){bytes + first, length - first};
	return 2;
}

static void ask(int from, struct asked *asked)
{
	struct rank *rank = &world.rank[from];

	asked->at = UINT64_MAX;
	if (!exchange_ask(&rank->exchange, &asked->question, asked->to, asked->what, world.now * MS)) {
		tallies[REFUSED]++;
		return;
	}
	tallies[ASKED]++;
	asked->used = true;
	word_send(from, asked->to, (struct exchange_head){0}, WORD_ASK, asked->question.number, &asked->what);
}

static void answer(int from, struct debt *debt)
{
	struct exchange_debt paid = debt->debt;
	struct packet body = {.is_body = true, .from = from, .to = paid.to, .number = paid.number};
	struct exchange_run to[2];
	int n;

	exchange_pay(&world.rank[from].exchange, &debt->debt);
	debt->used = false;
	if (!world.calm && random_percent(&world.random, 2)) {
		debt->what++;
		tallies[MISTAKEN]++;
	}
	body_make(debt->what, body.bytes);
	n = body_runs(debt->what, body.bytes, to);
	body.length = body_length(debt->what);
	word_send(from, paid.to,
		  (struct exchange_head){.body = body.length, .sum = exchange_sum(to, n, debt->what)},
		  WORD_ANSWER, paid.number, &debt->what);
	if (n)
		CHECK(network_send(&world.network, body));
}

static void owe(struct rank *rank, int to, uint64_t number, uint64_t what)
{
	unsigned i = 0;

	for (unsigned j = 0; j < DEBTS; j++)
		CHECK(!rank->debts[j].used || rank->debts[j].debt.to != to ||
		      rank->debts[j].debt.number != number);
	while (i < DEBTS && rank->debts[i].used)
		i++;
	CHECK(i < DEBTS);
	rank->debts[i].used = true;
	rank->debts[i].what = what;
	rank->debts[i].ready_at = world.now + random_below(&world.random, 60);
	if (world.now < FAULTY && world.slow && random_percent(&world.random, 30))
		rank->debts[i].ready_at += random_below(&world.random, FAULTY);
	exchange_owe(&rank->exchange, &rank->debts[i].debt, to, number, world.now * MS);
}

static struct asked *asked_of(struct exchange_question *question)
{
	return (struct asked *)(void *)((uint8_t *)question - offsetof(struct asked, question));
}

static void act(int self, struct exchange_action action);

static void landing_end(int self, struct landing *landing)
{
	struct rank *rank = &world.rank[self];
	struct asked *asked = landing->asked;
	size_t room = 0, from = 0;

	landing->used = false;
	if (!asked) {
		tallies[DRAINED]++;
		return;
	}
	CHECK(asked->used);
	for (int i = 0; i < asked->n && asked->placed; i++) {
		size_t length = asked->runs[i].length;

		length = length < landing->length - from ? length : landing->length - from;
		memcpy(asked->runs[i].bytes, landing->bytes + from, length);
		from += length;
		room += asked->runs[i].length;
	}
	act(self, exchange_body(&rank->exchange, &asked->question, asked->runs,
				asked->placed && room ? asked->n : 0, landing->length));
}

/* Joins a posted receive with a body. */
static void land(int self, struct landing wanted)
{
	struct rank *rank = &world.rank[self];
	unsigned i = 0;

	for (unsigned j = 0; j < DEBTS; j++) {
		struct landing *other = &rank->landings[j];

		if (!other->used || other->posted == wanted.posted || other->from != wanted.from ||
		    other->number != wanted.number)
			continue;
		if (wanted.posted) {
			other->asked = wanted.asked;
		} else {
			other->length = wanted.length;
			memcpy(other->bytes, wanted.bytes, BODY);
		}
		landing_end(self, other);
		return;
	}
	while (i < DEBTS && rank->landings[i].used)
		i++;
	CHECK(i < DEBTS);
	rank->landings[i] = wanted;
	rank->landings[i].used = true;
}

static void receive(int self, const struct exchange_action *action)
{
	struct asked *asked = action->question ? asked_of(action->question) : NULL;

	CHECK(action->body > 0);
	if (asked) {
		CHECK(asked->used && action->question->coming);
		asked->n = body_runs(asked->what, asked->memory, asked->runs);
		asked->placed = !asked->question.lost && body_length(asked->what) == action->body &&
				!random_percent(&world.random, world.calm ? 0 : 3);
	}
	land(self, (struct landing){
			   .posted = true, .from = action->peer, .number = action->number, .asked = asked});
}

static void ended(struct asked *asked, const struct exchange_action *action)
{
	uint8_t right[BODY];

	CHECK(asked->used);
	asked->used = false;
	body_make(asked->what, right);
	if (!action->error && !asked->question.lost) {
		size_t length = body_length(asked->what);

		CHECK(!length == !asked->question.coming);
		CHECK(!length || asked->placed);
		CHECK(!memcmp(asked->memory, right, length));
		CHECK(length || !memcmp(action->text, &asked->what, sizeof(asked->what)));
		tallies[RIGHT]++;
		tallies[EMPTY] += !length;
	}
	CHECK(!asked->told == !asked->question.lost);
	tallies[BAD] += action->error == EBADMSG;
	tallies[TIMED_OUT] += action->error == ETIMEDOUT;
	tallies[GONE] += action->error == EIO;
	CHECK(!action->error || !world.calm);
}

/* Whether the rank has a reason to give up the question. */
static bool has_a_reason(const struct rank *rank, const struct exchange_action *action)
{
	uint64_t ns = world.now * MS, heard = rank->heard[action->peer];
	const struct exchange_rules *rules = &rank->exchange.rules;
	bool gone = rank->exchange.peers[action->peer].gone;

	heard = heard > action->question->began ? heard : action->question->began;
	CHECK(action->alive == (!gone && ns - heard <= rules->silent_ns));
	return gone || ns - heard > rules->silent_ns || ns - action->question->began > rules->owed_ns;
}

static void act(int self, struct exchange_action action)
{
	struct rank *rank = &world.rank[self];
	uint64_t what = 0;

	switch (action.act) {
	case ACT_NOTHING:
		break;
	case ACT_SAY:
		tallies[REMINDED] += action.kind == WORD_REMIND;
		tallies[BEATEN] += action.kind == WORD_BEAT;
		tallies[PAID] += action.kind == WORD_PAID;
		word_send(self, action.peer, (struct exchange_head){.body = action.body},
			  action.kind, action.number, NULL);
		break;
	case ACT_ASKED:
		CHECK(action.length == sizeof(what));
		memcpy(&what, action.text, sizeof(what));
		owe(rank, action.peer, action.number, what);
		break;
	case ACT_RECEIVE:
		receive(self, &action);
		break;
	case ACT_LOST:
		CHECK(!world.calm && asked_of(action.question)->used);
		CHECK(!asked_of(action.question)->told);
		asked_of(action.question)->told = true;
		CHECK(has_a_reason(rank, &action));
		tallies[LOST]++;
		tallies[LOST_COMING] += action.question->coming;
		CHECK(!exchange_may_ask(&rank->exchange, action.peer));
		break;
	case ACT_ENDED:
		ended(asked_of(action.question), &action);
		break;
	case ACT_NOTED:
		CHECK(!"a note that no rank has sent");
		break;
	case ACT_QUIET:
		rank->quiet++;
		break;
	}
}

static void packet_arrive(struct packet *packet)
{
	struct packet came = *packet;
	struct rank *rank = &world.rank[came.to];
	struct landing body;
	uint64_t ns = world.now * MS;

	packet->used = false;
	if (is_dead(rank))
		return;
	if (!came.is_body) {
		if (!came.damaged)
			rank->heard[came.from] = ns;
		act(came.to, exchange_word(&rank->exchange, came.from, came.bytes, came.length, ns));
		return;
	}
	body = (struct landing){.from = came.from, .number = came.number, .length = came.length};
	memcpy(body.bytes, came.bytes, sizeof(body.bytes));
	land(came.to, body);
}

/* What holds after each look at the time. */
static void rank_check(struct rank *rank)
{
	const struct exchange_rules *rules = &rank->exchange.rules;
	unsigned owing[RANKS] = {0};

	for (unsigned i = 0; i < QUESTIONS; i++) {
		const struct exchange_question *question = &rank->asked[i].question;
		uint64_t heard = rank->heard[question->to], ns = world.now * MS;

		if (!rank->asked[i].used)
			continue;
		owing[question->to] += question->lost;
		if (question->lost)
			continue;
		heard = heard > question->began ? heard : question->began;
		CHECK(ns - heard <= rules->silent_ns && ns - question->began <= rules->owed_ns);
		CHECK(!rank->exchange.peers[question->to].gone);
	}
	for (int peer = 0; peer < world.ranks; peer++)
		CHECK(exchange_may_ask(&rank->exchange, peer) ==
		      (!owing[peer] && !rank->exchange.peers[peer].gone && !rank->exchange.closed));
}

/* A rank learns that another is dead, and later that what it receives from there has failed. */
static void dead_detect(int self)
{
	struct rank *rank = &world.rank[self];

	for (int peer = 0; peer < world.ranks; peer++) {
		if (world.now < world.rank[peer].dies_at || world.now - world.rank[peer].dies_at < 700)
			continue;
		exchange_gone(&rank->exchange, peer);
		if (world.now - world.rank[peer].dies_at < 1500)
			continue;
		for (unsigned i = 0; i < DEBTS; i++)
			if (rank->landings[i].used && rank->landings[i].posted &&
			    rank->landings[i].from == peer)
				landing_end(self, &rank->landings[i]);
	}
}

static void rank_step(int self)
{
	struct rank *rank = &world.rank[self];
	struct exchange_action action;

	for (unsigned i = 0; i < QUESTIONS; i++)
		if (world.now >= rank->asked[i].at)
			ask(self, &rank->asked[i]);
	for (unsigned i = 0; i < DEBTS; i++)
		if (rank->debts[i].used && world.now >= rank->debts[i].ready_at)
			answer(self, &rank->debts[i]);
	if (world.detects)
		dead_detect(self);
	if (world.now >= rank->stop_at)
		exchange_stop(&rank->exchange);
	do {
		action = exchange_tick(&rank->exchange, world.now * MS);
		act(self, action);
	} while (action.act != ACT_NOTHING);
	rank_check(rank);
}

static void rank_make(int self, const struct exchange_rules *rules, bool stops)
{
	struct rank *rank = &world.rank[self];
	struct random_stream *random = &world.random;

	*rank = (struct rank){.stops_at = UINT64_MAX, .dies_at = UINT64_MAX};
	CHECK(!exchange_open(&rank->exchange, world.ranks, rules));
	rank->stop_at = random_between(random, FAULTY / 2, 3 * FAULTY);
	for (unsigned i = 0; i < QUESTIONS; i++)
		rank->asked[i] = (struct asked){
			.what = random_next(random),
			.at = random_percent(random, 80) ? random_below(random, FAULTY) : UINT64_MAX,
			.to = (int)((uint64_t)self + 1 +
				    random_below(random, (uint64_t)world.ranks - 1)) %
			      world.ranks};
	if (stops && random_percent(random, 20)) {
		rank->stops_at = random_below(random, FAULTY);
		rank->goes_at = rank->stops_at + random_below(random, FAULTY);
		tallies[STOPPED]++;
	}
}

static void world_make(uint64_t number)
{
	struct exchange_rules rules = {1000 * MS, 1000 * MS, 0};
	struct random_stream *random = &world.random;

	memset(&world, 0, sizeof(world));
	world.number = number;
	*random = random_start(seed, number);
	world.network.random = random;
	world.network.heals_at = FAULTY;
	world.ranks = (int)random_between(random, 2, RANKS);
	world.calm = random_percent(random, 5);
	world.network.delay = (unsigned)random_below(random, 100);
	if (random_percent(random, 50))
		rules = (struct exchange_rules){1000 * MS, 3000 * MS, 250 * MS};
	if (!world.calm) {
		world.network.lose = random_percent(random, 50) ? (unsigned)random_below(random, 40) : 0;
		world.network.twice = random_percent(random, 50) ? (unsigned)random_below(random, 40) : 0;
		world.network.damage = random_percent(random, 50) ? (unsigned)random_below(random, 40) : 0;
		world.network.reorders = random_percent(random, 50);
		world.slow = random_percent(random, 50);
		world.detects = random_percent(random, 70);
		if (random_percent(random, 30))
			world.network.delay *= 30;
	}
	rules = exchange_patient(&rules, number % 8 ? 1 : 3);
	for (int self = 0; self < world.ranks; self++)
		rank_make(self, &rules, !world.calm);
	if (!world.calm && random_percent(random, 20)) {
		world.rank[random_below(random, (uint64_t)world.ranks)].dies_at =
			random_below(random, FAULTY);
		tallies[DIED]++;
	}
	tallies[SCHEDULES]++;
	tallies[CALM_SCHEDULES] += world.calm;
}

/* Whether a dead rank owes this one a reply, and this one does not know of the death. */
static bool owed_by_the_dead(const struct rank *rank)
{
	for (int peer = 0; peer < world.ranks; peer++)
		if (is_dead(&world.rank[peer]) && !rank->exchange.peers[peer].gone &&
		    rank->exchange.peers[peer].replied < rank->exchange.peers[peer].reminders)
			return true;
	return false;
}

/* Whether the rank waits for nothing that could still end. */
static bool is_done(const struct rank *rank)
{
	if (is_dead(rank))
		return true;
	for (unsigned i = 0; i < QUESTIONS; i++) {
		const struct asked *asked = &rank->asked[i];
		bool to_dead = is_dead(&world.rank[asked->to]);

		/* No rank will ever send more about the question. */
		if (asked->used && !(to_dead && !world.detects && asked->question.lost))
			return false;
	}
	return runs(rank) && world.now >= rank->stop_at &&
	       (rank->quiet || rank->exchange.questions || owed_by_the_dead(rank));
}

/* A receive whose body was lost never ends by itself: the transport breaks it off after a while. */
static void bodies_break_off(int self)
{
	struct rank *rank = &world.rank[self];

	for (unsigned i = 0; i < DEBTS; i++)
		if (rank->landings[i].used && rank->landings[i].posted)
			landing_end(self, &rank->landings[i]);
}

static void schedule_run(uint64_t number)
{
	bool done = false;
	unsigned quiet = 0;
	int dead = 0;

	world_make(number);
	for (world.now = 0; !done && world.now < CALM; world.now += TICK) {
		struct packet *packet;

		world.network.now = world.now;
		while ((packet = network_due(&world.network, is_open)))
			packet_arrive(packet);
		done = world.now > FAULTY;
		for (int self = 0; self < world.ranks; self++) {
			if (world.now > 2 * FAULTY && !is_dead(&world.rank[self]) &&
			    world.now % (FAULTY / 2) == 0)
				bodies_break_off(self);
			if (runs(&world.rank[self]))
				rank_step(self);
			done &= is_done(&world.rank[self]);
		}
	}
	CHECK(done);
	tallies[PACKETS_LOST] += world.network.lost;
	tallies[PACKETS_DOUBLED] += world.network.doubled;
	tallies[PACKETS_DAMAGED] += world.network.damaged;
	for (int self = 0; self < world.ranks; self++) {
		struct rank *rank = &world.rank[self];

		CHECK(rank->quiet <= 1);
		CHECK(rank->quiet == !rank->exchange.questions || is_dead(rank) ||
		      owed_by_the_dead(rank));
		quiet += rank->quiet;
		dead += is_dead(rank);
		exchange_close(&rank->exchange);
	}
	if (!dead) {
		CHECK(quiet == (unsigned)world.ranks);
		if (network_is_sound(
			    &world.network)) /* no word is left for a rank that has ended */
			CHECK(!network_has_words(&world.network));
		tallies[ENDED_TOGETHER]++;
	}
}

int main(int argc, char **argv)
{
	static const struct option known[] = {
		{"seed", 1, NULL, 's'}, {"first", 1, NULL, 'f'}, {"count", 1, NULL, 'c'}, {0}};
	uint64_t first = 0, count = getenv("TESTS_LONG") ? COUNT_LONG : COUNT;
	int option;

	while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
		if (option == 's')
			seed = strtoull(optarg, NULL, 0);
		else if (option == 'f')
			first = strtoull(optarg, NULL, 0);
		else if (option == 'c')
			count = strtoull(optarg, NULL, 0);
		else
			return 2;
	}
	printf("seed %llu, schedules %llu to %llu\n", (unsigned long long)seed,
	       (unsigned long long)first, (unsigned long long)(first + count - 1));
	for (uint64_t number = first; number < first + count; number++)
		schedule_run(number);
	for (int i = 0; i < TALLIES; i++) {
		printf("%12llu %s\n", (unsigned long long)tallies[i], tally_names[i]);
		if (!tallies[i] && count >= COUNT) {
			printf("none of these has happened\n");
			return 1;
		}
	}
	return 0;
}
