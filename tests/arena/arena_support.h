/* SPDX-License-Identifier: OLDAP-2.8 */
/* The data set and the well-behaved reader of the arena's tests. */
#ifndef LMDBIO_TESTS_ARENA_SUPPORT_H
#define LMDBIO_TESTS_ARENA_SUPPORT_H

#include "arena/arena.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The node's name that keeps this test's arenas apart from those of tests that run beside it, or
 * NULL. */
const char *test_node(void);

/* A data file whose every word tells its own offset. */
struct dataset {
	int fd;
	uint64_t chunks;
	struct identity identity;
};

struct dataset dataset_make(uint64_t chunks); /* ends the program when it cannot */
void dataset_close(struct dataset *dataset);

/* One process's (or thread's) way to the bytes: arena first, else the file itself. */
struct reader {
	struct arena *arena;
	const struct dataset *dataset;
	const uint8_t *map;          /* the arena's, read-only */
	uint64_t random;
	unsigned patience;           /* ms to wait for another's claim */
	_Atomic uint64_t *reads;     /* blocks read from the file into the arena */
	_Atomic uint64_t *direct;    /* chunks read past the arena */
	_Atomic uint64_t *wrong;     /* blocks that had other bytes than the file */
};

void reader_begin(struct reader *reader, struct arena *arena, const struct dataset *dataset);
void reader_end(struct reader *reader); /* unmaps; the arena stays */
uint64_t reader_random(struct reader *reader);

/* Reads `blocks` blocks of a chunk, from `block` on, as the window does it, and checks each. */
void reader_use(struct reader *reader, uint64_t chunk, unsigned block, unsigned blocks);

/* Brings the missing ones of these blocks, under a claim that the caller has; whether it could. */
bool reader_load(struct reader *reader, uint64_t first, uint64_t count);

/* How many of these blocks hold other bytes than the file in the arena. */
uint64_t reader_wrong(const struct reader *reader, uint64_t first, uint64_t count);

/* The inode of the memfd: equal when two attachments are to one arena. */
uint64_t arena_inode(const struct arena *arena);

/* Bytes of the data region that have memory, exactly. */
uint64_t arena_memory(const struct arena *arena);

/* How many sockets of this arena's names there are: all, or only those that listen (the rest are
 * connections that nobody has accepted). */
unsigned names_left(const struct arena *arena, bool listening);

/* The processes that have a descriptor or a map of a memfd of this inode. */
unsigned holders_left(uint64_t inode);
/* Whether there is neither a socket of an arena's names, nor a process that has the arena. */
bool nothing_left(const struct arena *arena, uint64_t inode);

/* What arena_step() does in this process; NULL: nothing. */
extern void (*step_taken)(const char *step);

/* What it does before each change of what processes share (arena_sites.h). */
struct arena_site;
extern void (*site_taken)(const struct arena_site *site);
void arena_site(const struct arena_site *site);

#endif
