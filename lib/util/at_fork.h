/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs what each layer does when the program forks, in one order. */
#ifndef LMDBIO_UTIL_AT_FORK_H
#define LMDBIO_UTIL_AT_FORK_H

#include <stdbool.h>
#include <sys/types.h>

/* The places in the order, from the top layer down. Before a fork the prepare steps run from the
 * first place to the last, which is the order of the locks; after it the steps of the parent or of
 * the child run from the last place to the first. A new user adds its place here. */
enum fork_place {
	FORK_LOADERS,    /* lib/loader: the list of open loaders */
	FORK_DISK_TIERS, /* lib/loader: open stage files */
	FORK_ENV,        /* lib/env: environments, with the locks of all layers below */
	FORK_ARENAS,     /* lib/arena: this process's arenas */
	FORK_PURSE,      /* lib/arena: the budget's lines */
	FORK_KEEPER,     /* lib/arena: the keeper, which waits for nothing */
	FORK_STATS,      /* lib/util: counters */
	FORK_PLACES,
};

/* A step may be NULL. In the child only async-signal-safe calls are allowed: other threads of the
 * parent may have held any lock that no prepare step takes. */
struct fork_steps {
	void (*prepare)(void);
	void (*parent)(void);
	void (*child)(void);
};

/* Registers the steps of a place; `steps` must have static storage. Registering a place again
 * changes nothing. A fork that is under way in another thread runs either all steps of a place or
 * none that depends on its prepare step. Threads: any. */
void at_fork(enum fork_place place, const struct fork_steps *steps);

/* The number of forks between the program's start and this process. It tells a child from its
 * parent without a system call. Changes only in a child, before all other steps. */
extern unsigned fork_generation;
/* This process's number, as getpid() returns it, without a system call. In a child made by a bare
 * system call it is the parent's number. */
extern pid_t fork_process;

/* Whether this process is a child made by a bare system call: no step has run in it, and its memory
 * describes its parent. Makes one system call. */
bool fork_was_missed(void);

#endif
