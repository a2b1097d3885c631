/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lets the emulated accelerators of a run end each step together, as an allreduce does. */
#ifndef BENCH_STEPS_H
#define BENCH_STEPS_H

#include <stdbool.h>
#include <stdint.h>

struct bench_steps;

/* Makes the memory in which `accelerators` processes meet, behind a descriptor that they inherit.
 * Returns 0 or an errno. */
int steps_make(unsigned accelerators, int *fd);

/* Maps it in one of these processes. Returns 0 or an errno. */
int steps_map(int fd, struct bench_steps **steps);
void steps_unmap(struct bench_steps *steps);

/* Waits until every accelerator has ended its step. `last`: the caller wants no further one, which
 * then holds for all. Returns whether another step begins: the same for all of them. */
bool steps_wait(struct bench_steps *steps, bool last);

/* Ends the run at once: accelerators that wait, and those that come, are told that no other step
 * begins. */
void steps_end(struct bench_steps *steps);

#endif
