/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lets the emulated accelerators of a run end each step together, as an allreduce does. */
#ifndef BENCH_STEPS_H
#define BENCH_STEPS_H

#include <stdbool.h>
#include <stdint.h>

struct bench_steps;

/* Makes the memory in which `accelerators` processes meet. Returns 0, with a descriptor for the
 * processes to inherit, or an errno. */
int steps_make(unsigned accelerators, int *fd);

/* Maps the memory in one of these processes. Returns 0 or an errno. */
int steps_map(int fd, struct bench_steps **steps);
void steps_unmap(struct bench_steps *steps);

/* Waits until every accelerator has ended its step. `last`: the caller wants no further step, and
 * then there is none for any accelerator. Returns whether another step begins: the same for all. */
bool steps_wait(struct bench_steps *steps, bool last);

/* Ends the run at once: accelerators that wait, or come later, are told that no other step
 * begins. */
void steps_end(struct bench_steps *steps);

#endif
