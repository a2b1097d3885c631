/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lets the ranks of a simulated job run in turn. */
#include "config.h"
#include "simulated_turns.h"

#include "mpi_simulated.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKS = 8 }; /* each rank's looks in vain before the job breaks */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t turn;
	int ranks, now;
	bool broken, hung, live[SIM_RANKS];
	unsigned vain[SIM_RANKS]; /* looks since the last progress */
	void (*run)(void *context, int rank);
	void *context;
} job = {.lock = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_COND_INITIALIZER};
static _Thread_local int self;
static _Thread_local bool has_turns;

static void turn_pass(void)
{
	for (int i = 1; i <= job.ranks; i++)
		if (job.live[(job.now + i) % job.ranks]) {
			job.now = (job.now + i) % job.ranks;
			break;
		}
	pthread_cond_broadcast(&job.turn);
}

static void turn_await(void)
{
	while (job.now != self)
		pthread_cond_wait(&job.turn, &job.lock);
}

void sim_enter(void)
{
	pthread_mutex_lock(&job.lock);
}

void sim_leave(void)
{
	pthread_mutex_unlock(&job.lock);
}

void sim_progress(void)
{
	if (has_turns)
		memset(job.vain, 0, sizeof(job.vain));
}

static bool all_wait(void)
{
	for (int rank = 0; rank < job.ranks; rank++)
		if (job.live[rank] && job.vain[rank] < LOOKS)
			return false;
	return true;
}

bool sim_look_in_vain(void)
{
	if (!has_turns)
		return !job.broken;
	job.vain[self]++;
	job.hung = job.hung || (!job.broken && all_wait());
	job.broken = job.broken || job.hung;
	if (!job.broken) {
		turn_pass();
		turn_await();
	}
	return !job.broken;
}

void sim_yield(void)
{
	if (!has_turns || job.broken)
		return;
	turn_pass();
	turn_await();
}

static void *rank_run(void *argument)
{
	self = *(int *)argument;
	has_turns = true;
	pthread_mutex_lock(&job.lock);
	turn_await();
	pthread_mutex_unlock(&job.lock);
	job.run(job.context, self);
	pthread_mutex_lock(&job.lock);
	job.live[self] = false;
	turn_pass();
	pthread_mutex_unlock(&job.lock);
	return NULL;
}

bool sim_run(int ranks, void (*run)(void *context, int rank), void *context)
{
	pthread_t threads[SIM_RANKS];
	int numbers[SIM_RANKS];

	job.ranks = ranks;
	job.now = 0;
	memset(job.vain, 0, sizeof(job.vain));
	job.broken = job.hung = false;
	job.run = run;
	job.context = context;
	for (int rank = 0; rank < ranks; rank++)
		job.live[rank] = true;
	for (int rank = 0; rank < ranks; rank++) {
		numbers[rank] = rank;
		if (pthread_create(&threads[rank], NULL, rank_run, &numbers[rank]))
			abort();
	}
	for (int rank = 0; rank < ranks; rank++)
		pthread_join(threads[rank], NULL);
	return !job.broken;
}

int sim_self(void)
{
	return self;
}

bool sim_is_broken(void)
{
	return job.broken;
}

bool sim_has_hung(void)
{
	return job.hung;
}

void sim_break(void)
{
	job.broken = true;
}
