/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares workers of a program that keeps what they have read, for the tests of what stays and of
 * which descriptors the program has. */
#pragma once

#include "arena_children.h"
#include "arena_support.h"

#include "arena/arena_private.h"

enum {
	WORKER_CHUNKS = 12,
	WORKER_BUDGET = 20, /* chunks */
	WORKER_BLOCKS = WORKER_CHUNKS * ARENA_BLOCKS,
	WORKER_DESCRIPTORS = 2048, /* no descriptor has a higher number */
};

/* The set that all workers read; main() makes and closes it. */
extern struct dataset worker_data;

/* A test's setup: the next test uses another file. */
int worker_next_file(void **state);

/* Returns a worker's options for its arena. */
struct arena_options worker_options(bool share);

void worker_read_all(struct control *control, struct arena *arena);

/* The body of a worker. With an even number it closes what it has opened, with an odd one it is
 * killed. */
void worker_run(struct control *control, unsigned number);

/* Runs one worker from its start to its end. */
void worker_run_once(struct control *control, unsigned number);

/* The body of a worker that does not read. */
void worker_do_nothing(struct control *control, unsigned number);

/* The body of a parent: two workers at once, three times, which all have the same memory. */
void worker_come_and_go(struct control *control, unsigned number);

/* Returns how many blocks a worker that comes now reads from the file. */
uint64_t worker_reads(struct control *control);

/* Returns how many sockets the caller has, and the first ones' numbers. */
unsigned worker_sockets(int *fds, uint64_t *inodes, unsigned most);
