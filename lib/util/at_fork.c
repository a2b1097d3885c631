/* SPDX-License-Identifier: OLDAP-2.8 */
/* Registers one set of handlers with the C library, and runs the table of steps from it.
 *
 * glibc runs handlers in the order in which they were registered, which would be the order in
 * which a program happens to use the layers. The table's order is fixed.
 */
#include "util/at_fork.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

unsigned fork_generation;
pid_t fork_process;

static _Atomic(const struct fork_steps *) table[FORK_PLACES];
/* The table as the prepare steps of this thread's fork have found it. */
static _Thread_local const struct fork_steps *prepared[FORK_PLACES];

void at_fork(enum fork_place place, const struct fork_steps *steps)
{
	atomic_store(&table[place], steps);
}

static void prepare(void)
{
	for (int place = 0; place < FORK_PLACES; place++) {
		prepared[place] = atomic_load(&table[place]);
		if (prepared[place] && prepared[place]->prepare)
			prepared[place]->prepare();
	}
}

static void in_parent(void)
{
	for (int place = FORK_PLACES; place--;)
		if (prepared[place] && prepared[place]->parent)
			prepared[place]->parent();
}

static void in_child(void)
{
	fork_generation++;
	fork_process = getpid();
	for (int place = FORK_PLACES; place--;)
		if (prepared[place] && prepared[place]->child)
			prepared[place]->child();
}

bool fork_was_missed(void)
{
	return fork_process != getpid();
}

/* pthread_atfork() can fail only for want of memory. */
__attribute__((constructor)) static void begin(void)
{
	fork_process = getpid();
	(void)pthread_atfork(prepare, in_parent, in_child);
}
