/* SPDX-License-Identifier: OLDAP-2.8 */
/* The workers of a program that keeps what they have read, for the tests
 * of what stays and of what it takes in the program. */
#pragma once

#include "arena_children.h"
#include "arena_support.h"

#include "arena/arena_private.h"

enum {
	WORKER_CHUNKS = 12,
	WORKER_BUDGET = 20, /* chunks */
	WORKER_BLOCKS = WORKER_CHUNKS * ARENA_BLOCKS,
	WORKER_DESCRIPTORS = 2048, /* none has a higher number */
};

/* What all read; main() makes and closes it. */
extern struct dataset worker_data;

/* A setup of cmocka's: another file than the test before had. */
int worker_next_file(void **state);

/* What a worker opens its arena with. */
struct arena_options worker_options(bool share);

void worker_read_all(struct control *control, struct arena *arena);

/* The body of a worker. An even number closes what it has opened, an odd one is killed. */
void worker_run(struct control *control, unsigned number);

/* One worker, from its start to its end. */
void worker_run_once(struct control *control, unsigned number);

/* The body of one that does not read. */
void worker_do_nothing(struct control *control, unsigned number);

/* The body of a parent: two workers at once, three times, and all have the same memory. */
void worker_come_and_go(struct control *control, unsigned number);

/* Blocks that a worker which comes now reads from the file. */
uint64_t worker_reads(struct control *control);

/* The caller's sockets: how many, and the first ones' numbers. */
unsigned worker_sockets(int *fds, uint64_t *inodes, unsigned most);
