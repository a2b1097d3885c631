/* SPDX-License-Identifier: OLDAP-2.8 */
/* Two readers of one file that share an arena, in one process. */
#ifndef LMDBIO_TESTS_STORE_FIXTURE_H
#define LMDBIO_TESTS_STORE_FIXTURE_H

#include "window/store.h"

enum { CHUNKS = 8, SIZE = CHUNKS * ARENA_CHUNK, LOW = 2 * ARENA_BLOCK };

/* A process of the node, as far as its arena is concerned. */
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

/* What the file holds. */
uint8_t byte_at(uint64_t offset);
/* Not 0: it cannot be had. */
int reader_open(struct reader *reader, struct fixture *f, enum store_kind kind, bool believe_cache);
void reader_close(struct reader *reader);
/* That a reader's window shows what the file holds. */
void assert_right(const struct reader *reader, uint64_t offset, uint64_t length);

enum { MAP_LINE = 512 };
/* What /proc/self/smaps says, behind a name as "VmFlags:", of the map that shows a place of a
 * reader's window. */
void reader_map_says(const struct reader *reader, uint64_t offset, const char *name,
		     char said[MAP_LINE]);

/* The kernel's maps that a reader's window is made of. */
int reader_maps(const struct reader *reader);

int store_setup(void **state);
/* The first reader believes what the kernel tells of its page cache. */
int store_setup_told(void **state);
int store_teardown(void **state);

#endif
