/* SPDX-License-Identifier: OLDAP-2.8 */
/* The time that a read takes on the modelled storage. */
#ifndef SLOWFS_MODEL_H
#define SLOWFS_MODEL_H

#include <pthread.h>
#include <stdint.h>

struct slowfs_model {
	pthread_mutex_t lock;
	uint64_t latency_ns;	/* of each request; overlaps with the others' */
	uint64_t bytes_per_sec; /* shared by all requests; 0: unlimited */
	uint64_t busy_until_ns; /* CLOCK_MONOTONIC; the shared link is reserved up to here */
	pthread_cond_t let_go;
	uint64_t hold;	/* requests wait until so many are here; 0: no request waits */
	uint64_t held;	/* requests that wait for others */
	uint64_t round; /* counts how often waiting requests were let go */
	uint64_t gate; /* bytes that may still be read before requests wait; UINT64_MAX: no limit */
};

void slowfs_model_init(struct slowfs_model *model);

/* Both may be called while requests are under way; those keep the slots that they have. */
void slowfs_model_set_latency(struct slowfs_model *model, uint64_t microseconds);
void slowfs_model_set_bandwidth(struct slowfs_model *model, uint64_t mib_per_sec);

uint64_t slowfs_model_latency(struct slowfs_model *model);   /* microseconds */
uint64_t slowfs_model_bandwidth(struct slowfs_model *model); /* MiB per second */

uint64_t slowfs_model_now(void); /* nanoseconds of CLOCK_MONOTONIC */

/* The next requests wait for each other until so many have arrived, once. 0 lets all go on. */
void slowfs_model_set_hold(struct slowfs_model *model, uint64_t requests);

/* Once requests have asked for so many bytes, all later ones wait until this is called again. UINT64_MAX
 * lets all go on. */
void slowfs_model_set_gate(struct slowfs_model *model, uint64_t bytes);

/* Returns when a request of so many bytes that arrived at that time would have been served: the
 * nanoseconds from its arrival that the model gave it, which it waited for at least. */
uint64_t slowfs_model_wait(struct slowfs_model *model, uint64_t arrival, uint64_t bytes);

#endif
