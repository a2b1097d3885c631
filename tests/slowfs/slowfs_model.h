/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: how to ask for the time that a read takes on the modelled storage. */
#ifndef SLOWFS_MODEL_H
#define SLOWFS_MODEL_H

#include <pthread.h>
#include <stdint.h>

struct slowfs_model {
	pthread_mutex_t lock;
	uint64_t latency_ns;	/* of each request; overlaps with the others' */
	uint64_t bytes_per_sec; /* shared by all requests; 0: unlimited */
	uint64_t busy_until_ns; /* CLOCK_MONOTONIC; the shared link is reserved up to here */
};

void slowfs_model_init(struct slowfs_model *model);

/* Both may be called while requests are under way; those keep the slots that they have. */
void slowfs_model_set_latency(struct slowfs_model *model, uint64_t microseconds);
void slowfs_model_set_bandwidth(struct slowfs_model *model, uint64_t mib_per_sec);

uint64_t slowfs_model_latency(struct slowfs_model *model);   /* microseconds */
uint64_t slowfs_model_bandwidth(struct slowfs_model *model); /* MiB per second */

uint64_t slowfs_model_now(void); /* nanoseconds of CLOCK_MONOTONIC */

/* Returns when a request of so many bytes that arrived at that time would have been served. */
void slowfs_model_wait(struct slowfs_model *model, uint64_t arrival, uint64_t bytes);

#endif
