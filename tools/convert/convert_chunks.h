/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shares out the work on a data file's chunks.
 *
 * A process has a share of them, `count` from `first` on. Its threads take the chunks one by one.
 */
#ifndef LMDBIO_TOOLS_CONVERT_CHUNKS_H
#define LMDBIO_TOOLS_CONVERT_CHUNKS_H

#include "convert.h"

/* Chunks, all but the last of the same size, and the work on each. */
struct chunk_work {
	uint64_t size;    /* bytes of all data */
	uint32_t chunk;   /* bytes, a power of two, 4096 or more */
	unsigned buffers; /* of a chunk's size that a worker needs */
	/* Works on one chunk: `buffers` lie behind each other, each aligned to 4096 bytes. Returns
	 * 0 or an exit status, which ends the work. Threads: several, each with other chunks and
	 * buffers. */
	int (*work)(void *to, uint8_t *buffers, uint64_t offset, size_t length);
	void *to;
};

struct chunk_share {
	uint64_t first, count;
};

/* Returns this process's share of `chunks` chunks: all of them, or its rank's part. */
struct chunk_share chunks_share(const struct convert *convert, uint64_t chunks);

/* Does this process's share with convert->threads threads. */
int chunks_run(struct convert *convert, const struct chunk_work *work);

/* The same with another share. */
int chunks_run_share(struct convert *convert, const struct chunk_work *work,
		     struct chunk_share share);

#endif
