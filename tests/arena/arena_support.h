/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the data set and the well-behaved reader of the arena's tests, and counts of what is
 * left. */
#ifndef LMDBIO_TESTS_ARENA_SUPPORT_H
#define LMDBIO_TESTS_ARENA_SUPPORT_H

#include "arena/arena.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns the node's name that keeps this test's arenas apart from those of tests that run at the
 * same time, or NULL. */
const char *test_node(void);

/* A data file whose words contain their own offsets. */
struct dataset {
	int fd;
	uint64_t chunks;
	struct identity identity;
};

struct dataset dataset_make(uint64_t chunks); /* ends the program on failure */
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

/* Brings the missing ones of these blocks, under a claim of the caller. Returns whether that
 * worked. */
bool reader_load(struct reader *reader, uint64_t first, uint64_t count);

/* Returns how many of these blocks differ from the file in the arena. */
uint64_t reader_wrong(const struct reader *reader, uint64_t first, uint64_t count);

/* Returns the memfd's inode: equal for two attachments to one arena. */
uint64_t arena_inode(const struct arena *arena);

/* Returns exactly how many bytes of the data region have memory. */
uint64_t arena_memory(const struct arena *arena);

/* Returns how many sockets have this arena's names: all, or only those that listen (the others are
 * connections that no process has accepted). */
unsigned names_left(const struct arena *arena, bool listening);

/* Returns how many processes have a descriptor or a map of a memfd with this inode. */
unsigned holders_left(uint64_t inode);
/* Whether no socket has one of the arena's names, and no process has the arena. */
bool nothing_left(const struct arena *arena, uint64_t inode);

/* The action of arena_step() in this process; NULL: none. */
extern void (*step_taken)(const char *step);

/* The action before each change to what processes share (arena_sites.h). */
struct arena_site;
extern void (*site_taken)(const struct arena_site *site);
void arena_site(const struct arena_site *site);

#endif
