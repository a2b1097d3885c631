/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares two readers of one file that share an arena, in one process. */
#ifndef LMDBIO_TESTS_STORE_FIXTURE_H
#define LMDBIO_TESTS_STORE_FIXTURE_H

#include "window/store.h"

enum { CHUNKS = 8, SIZE = CHUNKS * ARENA_CHUNK, LOW = 2 * ARENA_BLOCK };

/* Simulates a process of the node, as far as its arena is concerned. */
struct reader {
	struct io io;
	uint8_t *base;
	struct store store;
};

struct fixture {
	int fd;
	struct identity identity;
	char node[32];
	struct reader first, second;
};

/* Returns the file's byte at an offset. */
uint8_t byte_at(uint64_t offset);
/* Returns 0, or not 0 if the store cannot be had. */
int reader_open(struct reader *reader, struct fixture *f, enum store_kind kind, bool believe_cache);
void reader_close(struct reader *reader);
/* Asserts that a reader's window shows the file's bytes. */
void assert_right(const struct reader *reader, uint64_t offset, uint64_t length);

enum { MAP_LINE = 512 };
/* Finds the map at an offset of a reader's window in /proc/self/smaps, and returns the text behind
 * a name such as "VmFlags:". */
void reader_map_says(const struct reader *reader, uint64_t offset, const char *name,
		     char said[MAP_LINE]);

/* Returns how many of the kernel's maps a reader's window is made of. */
int reader_maps(const struct reader *reader);

int store_setup(void **state);
/* A setup whose first reader believes what the kernel tells of its page cache. */
int store_setup_told(void **state);
int store_teardown(void **state);

#endif
