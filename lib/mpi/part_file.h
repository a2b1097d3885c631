/* SPDX-License-Identifier: OLDAP-2.8 */
/* Describes a node's part of a data set in a file on its local disk: where its bytes lie, and when
 * a reader believes them.
 *
 * A sparse file, DIR/NAME/part-NODE-of-NODES, NAME as env/staged.h says. Numbers are in this
 * machine's order: the file never leaves it.
 *
 *   0     the data's bytes at their own offsets, in chunks of 1 MiB (the last one may be shorter);
 *         holes where other nodes have the chunk
 *   end   where the data ends, on a border of 4 KiB: a head of 104 bytes, which seals the part
 *          0  8  "lmdbioP2"
 *          8  4  the node that the part was made for
 *         12  4  the number of nodes
 *         16  8  bytes of the data
 *         24 64  struct identity of the original's file, job form: of a container, if the data was
 *                in one
 *         88  8  chunks in the part
 *         96  8  XXH3-64 of the rows, seeded with that of the 96 bytes before
 *   +104  a row of 16 bytes for each chunk, in the data's order
 *          0  8  its number
 *          8  8  XXH3-64 of its bytes
 *
 * Nothing follows. A reader knows all of the head but the number of chunks, and compares it. The
 * length must follow from that number. Rows must rise and lie inside of the data. Readers check
 * chunks when they read them. */
#ifndef LMDBIO_MPI_PART_FILE_H
#define LMDBIO_MPI_PART_FILE_H

#include "env/staged.h"

#include <stdbool.h>
#include <stdint.h>

/* Names a part of a data set. */
struct part_identity {
	struct identity original; /* of the file */
	uint64_t size; /* bytes of the data, more than 0 */
	int node, nodes;
};

struct part_file {
	int fd;        /* -1: none is open */
	uint64_t size; /* bytes of the data */
	uint64_t count;
	struct part_row *rows;
};

/* "part-NODE-of-NODES" and the final 0. */
enum { PART_NAME = 40 };
void part_file_name(const struct part_identity *identity, char name[PART_NAME]);

/* Return where the head stands, and the length of a part of `count` chunks, in bytes. */
uint64_t part_file_head(uint64_t size);
uint64_t part_file_length(uint64_t size, uint64_t count);

/* Writes a chunk's bytes, and its row as the part's `index`th, into a part that is being made. Any
 * number of processes may do so, each for its own chunks. Returns 0 or an errno. */
int part_file_put(int fd, uint64_t size, uint64_t index, uint64_t chunk, const void *bytes);

/* Writes the head, after all chunks and rows. Returns 0, EIO (the rows are not what part_file_put()
 * has written) or an errno. */
int part_file_seal(int fd, const struct part_identity *identity, uint64_t count);

/* Opens the part below `directory`. Returns 0; ENOENT (there is no part); EPERM (other users can
 * change the part, or a directory above it); EBADMSG (the file is not what its name says); another
 * errno. The caller closes a part that was opened. */
int part_file_open(struct part_file *part, const char *directory,
		   const struct part_identity *identity);

/* part_file_has(): whether a chunk is in the part. part_file_is(): whether its bytes are `bytes`,
 * which have the chunk's length. */
bool part_file_has(const struct part_file *part, uint64_t chunk);
bool part_file_is(const struct part_file *part, uint64_t chunk, const void *bytes);

void part_file_close(struct part_file *part);

#endif
