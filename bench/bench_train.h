/* SPDX-License-Identifier: OLDAP-2.8 */
/* Computes which records an emulated accelerator reads in which step. */
#ifndef BENCH_TRAIN_H
#define BENCH_TRAIN_H

#include "bench_keys.h"

enum { TRAIN_ROUNDS = 3 }; /* batches of each reader in a run, at least; the first does not count */

struct train_order {
	uint64_t records, batch, accelerators, seed;
};

/* Returns the steps of all accelerators until the records are used up; a remainder is not read. */
static inline uint64_t train_steps(const struct train_order *order)
{
	return order->records / (order->batch * order->accelerators);
}

/* Returns the record at place `i` of an accelerator's batch of step `step`. Within an epoch no
 * record comes twice, and each epoch has an order of its own. */
static inline uint64_t train_record(const struct train_order *order, uint64_t accelerator,
				    uint64_t step, uint64_t i)
{
	uint64_t steps = train_steps(order), epoch = step / steps;
	uint64_t place = (step % steps * order->accelerators + accelerator) * order->batch + i;

	return bench_permute(place, order->records, bench_mix(order->seed) + epoch);
}

#endif
