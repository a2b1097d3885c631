/* SPDX-License-Identifier: OLDAP-2.8 */
/* How long a read takes on the modelled storage.
 *
 * A request first waits its latency, alongside all others, and then occupies the one shared link
 * for its bytes. The link is a virtual clock: each arrival reserves the next free slot on it and
 * sleeps until that slot ends. Latency is the same for all, so arrivals are served in order. */
#include "slowfs_model.h"

#include <errno.h>
#include <time.h>

#define NS_PER_SEC UINT64_C(1000000000)
#define NS_PER_US  UINT64_C(1000)
#define MIB	   (UINT64_C(1) << 20)

uint64_t slowfs_model_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

void slowfs_model_init(struct slowfs_model *model)
{
	*model = (struct slowfs_model){.lock = PTHREAD_MUTEX_INITIALIZER,
				       .let_go = PTHREAD_COND_INITIALIZER,
				       .gate = UINT64_MAX};
}

/* The clock starts anew, or a former setting's reservations would go on being paid for. */
void slowfs_model_set_latency(struct slowfs_model *model, uint64_t microseconds)
{
	pthread_mutex_lock(&model->lock);
	model->latency_ns = microseconds * NS_PER_US;
	model->busy_until_ns = 0;
	pthread_mutex_unlock(&model->lock);
}

void slowfs_model_set_bandwidth(struct slowfs_model *model, uint64_t mib_per_sec)
{
	pthread_mutex_lock(&model->lock);
	model->bytes_per_sec = mib_per_sec * MIB;
	model->busy_until_ns = 0;
	pthread_mutex_unlock(&model->lock);
}

uint64_t slowfs_model_latency(struct slowfs_model *model)
{
	uint64_t latency_ns;

	pthread_mutex_lock(&model->lock);
	latency_ns = model->latency_ns;
	pthread_mutex_unlock(&model->lock);
	return latency_ns / NS_PER_US;
}

uint64_t slowfs_model_bandwidth(struct slowfs_model *model)
{
	uint64_t bytes_per_sec;

	pthread_mutex_lock(&model->lock);
	bytes_per_sec = model->bytes_per_sec;
	pthread_mutex_unlock(&model->lock);
	return bytes_per_sec / MIB;
}

/* Bytes of one request are at most a few MiB: the product stays far below 2^64. */
static uint64_t model_reserve(struct slowfs_model *model, uint64_t arrival, uint64_t bytes)
{
	uint64_t end;

	pthread_mutex_lock(&model->lock);
	end = arrival + model->latency_ns;
	if (model->bytes_per_sec > 0) {
		if (end < model->busy_until_ns)
			end = model->busy_until_ns;
		end += bytes * NS_PER_SEC / model->bytes_per_sec;
		model->busy_until_ns = end;
	}
	pthread_mutex_unlock(&model->lock);
	return end;
}

static void model_let_go(struct slowfs_model *model)
{
	model->hold = 0;
	model->held = 0;
	model->round++;
	pthread_cond_broadcast(&model->let_go);
}

void slowfs_model_set_hold(struct slowfs_model *model, uint64_t requests)
{
	pthread_mutex_lock(&model->lock);
	model_let_go(model);
	model->hold = requests;
	pthread_mutex_unlock(&model->lock);
}

static void model_gather(struct slowfs_model *model)
{
	uint64_t round;

	pthread_mutex_lock(&model->lock);
	round = model->round;
	if (model->hold > 0 && ++model->held == model->hold)
		model_let_go(model);
	while (model->hold > 0 && model->round == round)
		pthread_cond_wait(&model->let_go, &model->lock);
	pthread_mutex_unlock(&model->lock);
}

void slowfs_model_set_gate(struct slowfs_model *model, uint64_t bytes)
{
	pthread_mutex_lock(&model->lock);
	model->gate = bytes;
	pthread_cond_broadcast(&model->let_go);
	pthread_mutex_unlock(&model->lock);
}

static void model_pass_gate(struct slowfs_model *model, uint64_t bytes)
{
	pthread_mutex_lock(&model->lock);
	while (model->gate == 0)
		pthread_cond_wait(&model->let_go, &model->lock);
	if (model->gate != UINT64_MAX)
		model->gate -= bytes < model->gate ? bytes : model->gate;
	pthread_mutex_unlock(&model->lock);
}

uint64_t slowfs_model_wait(struct slowfs_model *model, uint64_t arrival, uint64_t bytes)
{
	struct timespec ts;
	uint64_t end;

	model_pass_gate(model, bytes);
	end = model_reserve(model, arrival, bytes);
	ts = (struct timespec){
		.tv_sec = (time_t)(end / NS_PER_SEC),
		.tv_nsec = (long)(end % NS_PER_SEC),
	};
	model_gather(model);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		continue;
	return end - arrival;
}
