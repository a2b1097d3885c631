/* SPDX-License-Identifier: OLDAP-2.8 */
/* Readers of a soak: which there are, how they are disturbed, and when one hangs. */
#include "soak.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct soak_role {
	const char *name;
	enum soak_kind kind;
	const char *store; /* LMDBIO_STORE */
	bool stays;        /* its environment stays open; else it is opened anew after each rest */
	bool mortal;       /* is killed now and then */
};

static const struct soak_role roles[] = {
	{"cache, written, stays", SOAK_LIVE, "cache", true, false},
	{"arena, written, stays", SOAK_LIVE, "arena", true, false},
	{"cache, replaced, reopens", SOAK_PLAIN, "cache", false, false},
	{"arena, replaced, reopens", SOAK_PLAIN, "arena", false, false},
	{"container, replaced, stays", SOAK_PACKED, "auto", true, false},
	{"container, replaced, reopens", SOAK_PACKED, "auto", false, false},
	{"cache, written, killed", SOAK_LIVE, "cache", false, true},
	{"arena, written, killed", SOAK_LIVE, "arena", false, true},
	{"arena, replaced, killed", SOAK_PLAIN, "arena", false, true},
	{"container, replaced, killed", SOAK_PACKED, "auto", false, true},
};

enum {
	ROLES = sizeof(roles) / sizeof(roles[0]),
	KILL_PERMILLE = 60, /* of looks */
	STOP_PERMILLE = 60,
	STOPPED_MOST = 3,   /* at once */
	STOPPED_LOOKS = 20, /* at most */
	END_LOOKS = SOAK_LOOKS_PATIENCE,
};

/* By enum soak_kind: what readers call them, and the folders. */
static const char *const kind_names[] = {"live", "plain", "packed"};

bool soak_place_lives_long(const struct soak_place *place)
{
	return !place->role->mortal;
}

const char *soak_place_name(const struct soak_place *place)
{
	return place->role->name;
}

/* A reader that is killed has another setting each time. */
static void set_environment(struct soak *soak, const struct soak_role *role, uint64_t drawn)
{
	static const char *const ways[] = {"auto", "pread", "direct"};
	char temporary[SOAK_PATH];

	snprintf(temporary, sizeof(temporary), "%s/tmp", soak->scratch);
	setenv("TMPDIR", temporary, 1);
	setenv("LMDBIO_STORE", role->store, 1);
	setenv("LMDBIO_MEMORY", "8M", 1);
	if (!role->mortal)
		return;
	setenv("LMDBIO_IO", ways[drawn % 3], 1);
	if (drawn / 3 % 8 == 0)
		setenv("LMDBIO_SHARE", "0", 1);
	if (drawn / 24 % 4 == 0)
		setenv("LMDBIO_PREFETCH", "0", 1);
}

static void become_reader(struct soak *soak, unsigned slot, uint64_t drawn)
{
	const struct soak_role *role = soak->places[slot].role;
	char program[SOAK_PATH], board[SOAK_PATH], path[SOAK_PATH], number[16], records[16],
		data_seed[32], seed[32], how[32];

	snprintf(program, sizeof(program), "%s/soak_reader", soak->programs);
	snprintf(board, sizeof(board), "%s/board", soak->scratch);
	snprintf(path, sizeof(path), "%s/%s", soak->scratch, kind_names[role->kind]);
	snprintf(number, sizeof(number), "%u", slot);
	snprintf(records, sizeof(records), "%u", soak->options.records);
	snprintf(data_seed, sizeof(data_seed), "%llu", (unsigned long long)soak->options.seed);
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)drawn);
	snprintf(how, sizeof(how), "%s:%u", role->stays ? "stays" : "opens", soak->options.one_in);
	set_environment(soak, role, drawn);
	execl(program, program, board, number, kind_names[role->kind], path, records, data_seed,
	      seed, how, (char *)NULL);
	_exit(127);
}

static void start(struct soak *soak, unsigned slot)
{
	struct soak_place *place = &soak->places[slot];
	uint64_t drawn = random_next(&soak->random);

	fflush(NULL);
	place->pid = fork();
	if (place->pid == 0)
		become_reader(soak, slot, drawn);
	if (place->pid < 0) {
		soak_fail(soak, "fork: %s", strerror(errno));
		place->pid = 0;
	}
	place->stopped = false;
	place->unchanged = 0;
	soak->counts.started++;
}

void soak_places_start(struct soak *soak)
{
	soak->n_places = ROLES;
	for (unsigned i = 0; i < ROLES; i++) {
		soak->places[i].role = &roles[i];
		start(soak, i);
	}
}

static void go_on(struct soak_place *place)
{
	kill(place->pid, SIGCONT);
	place->stopped = false;
}

/* Its place has another reader at the next look. */
static void kill_one(struct soak *soak)
{
	struct soak_place *place = &soak->places[random_below(&soak->random, soak->n_places)];

	if (!place->role->mortal || !place->pid)
		return;
	kill(place->pid, SIGKILL);
	waitpid(place->pid, NULL, 0);
	place->pid = 0;
	place->stopped = false;
	soak->counts.killed++;
}

static void stop_one(struct soak *soak)
{
	struct soak_place *place = &soak->places[random_below(&soak->random, soak->n_places)];
	uint64_t looks = 1 + random_below(&soak->random, STOPPED_LOOKS);
	unsigned stopped = 0;

	for (unsigned i = 0; i < soak->n_places; i++)
		stopped += soak->places[i].stopped;
	if (place->stopped || !place->pid || stopped == STOPPED_MOST)
		return;
	kill(place->pid, SIGSTOP);
	place->stopped = true;
	place->until = soak->counts.looks + looks;
	soak->counts.stopped++;
}

static void look_for_hang(struct soak *soak, unsigned slot)
{
	static const char *const task_names[SOAK_TASKS] = {"opening", "gets", "scan",    "hints",
							   "numbers", "fork", "threads", "loader",
							   "hold",    "rest"};
	struct soak_place *place = &soak->places[slot];
	uint64_t progress = soak->board->slots[slot].progress;

	if (progress != place->progress) {
		place->progress = progress;
		place->unchanged = 0;
		return;
	}
	if (place->stopped || !place->pid)
		return;
	if (++place->unchanged > place->longest)
		place->longest = place->unchanged;
	if (place->unchanged == SOAK_LOOKS_PATIENCE)
		soak_fail(soak, "a reader (%s) hangs in %s: process %d", place->role->name,
			  task_names[soak->board->slots[slot].task % SOAK_TASKS], (int)place->pid);
}

void soak_places_step(struct soak *soak)
{
	if (random_below(&soak->random, 1000) < KILL_PERMILLE)
		kill_one(soak);
	if (random_below(&soak->random, 1000) < STOP_PERMILLE)
		stop_one(soak);
	for (unsigned i = 0; i < soak->n_places; i++) {
		struct soak_place *place = &soak->places[i];

		if (place->stopped && soak->counts.looks >= place->until)
			go_on(place);
		if (!place->pid)
			start(soak, i);
		look_for_hang(soak, i);
		if (soak->board->slots[i].wrong)
			soak_fail(soak, "a reader (%s): %s", place->role->name,
				  soak->board->slots[i].complaint);
	}
}

void soak_places_ended(struct soak *soak, pid_t pid, int status)
{
	for (unsigned i = 0; i < soak->n_places; i++) {
		struct soak_place *place = &soak->places[i];

		if (place->pid != pid)
			continue;
		place->pid = 0;
		if (status && !soak->board->slots[i].wrong)
			soak_fail(soak, "a reader (%s) ended with status %#x", place->role->name,
				  (unsigned)status);
		else if (!soak->board->stop && !soak->board->slots[i].wrong)
			soak_fail(soak, "a reader (%s) ended by itself", place->role->name);
	}
}

static bool any_left(const struct soak *soak)
{
	for (unsigned i = 0; i < soak->n_places; i++)
		if (soak->places[i].pid)
			return true;
	return false;
}

void soak_places_end(struct soak *soak)
{
	const struct timespec look = {.tv_nsec = SOAK_LOOK_MS * 1000000L};
	int status;
	pid_t pid;

	soak->board->stop = 1;
	for (unsigned i = 0; i < soak->n_places; i++)
		if (soak->places[i].pid)
			go_on(&soak->places[i]);
	for (unsigned i = 0; i < END_LOOKS && any_left(soak); i++) {
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
			soak_places_ended(soak, pid, status);
		nanosleep(&look, NULL);
	}
	for (unsigned i = 0; i < soak->n_places; i++) {
		if (!soak->places[i].pid)
			continue;
		soak_fail(soak, "a reader (%s) does not come to its end", roles[i].name);
		kill(soak->places[i].pid, SIGKILL);
	}
}
