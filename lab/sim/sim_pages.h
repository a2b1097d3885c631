/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares a node's page cache as seen by programs that map a file: faults, read-ahead, waits.
 *
 * Each reader is a process with its own map and read-ahead state; all readers of a node share the
 * page cache. pages_touch() moves the reader's clock on to when the page is mapped. A caller
 * touches with the reader whose clock is furthest behind, so that no reader sees the future.
 *
 * There are two kinds of kernel. One reads around a fault and then ahead, as Linux 6 does
 * (mm/filemap.c, mm/readahead.c). The other reads whole blocks of a parallel file system, and the
 * next block behind a reader that goes from block to block.
 */
#ifndef LMDBIO_LAB_SIM_PAGES_H
#define LMDBIO_LAB_SIM_PAGES_H

#include <stdbool.h>
#include <stdint.h>

enum { PAGES_SIZE = 4096 };

struct pages_kernel {
	bool blocks;     /* reads whole blocks; else Linux's read-ahead */
	uint32_t window; /* pages of a block, or the most of one read-ahead */
	uint32_t around; /* neighbours that a fault also maps if in memory; 1: none */
	double fault;    /* seconds: a fault on a page in memory */
	double wakeup;   /* seconds: each sleeping reader of the node, at each arriving page */
	double latency;  /* seconds: a request to storage, on average */
	double spread;   /* a request takes `latency` times 1 - spread to 1 + spread */
	double late;     /* seconds: a reader that has waited goes on up to this much later */
	double rate;     /* bytes a second that storage gives this node */
};

struct pages_reader {
	double now;
	uint64_t faults, waits; /* waits: faults on a page that was not in memory yet */
	uint64_t block;         /* the block it touched last, plus 1 */
	uint64_t after;         /* the page after the last one that it read() */
	uint64_t ra_start;
	uint32_t ra_size, ra_async, ra_miss;
	uint8_t *mapped; /* [page] */
};

struct pages {
	struct pages_kernel kernel;
	uint64_t n;      /* pages of the file */
	double *ready;   /* [page]: when it is in memory; INFINITY: not requested */
	uint8_t *marked; /* [page]: the effect of its first touch; sim_pages.c */
	struct pages_reader *readers;
	uint32_t readers_n;
	double storage_free, lock_free;
	uint64_t requests;
	double bytes; /* from storage */
};

/* Returns 0 or ENOMEM. pages_close() frees the pages in either case. */
int pages_open(struct pages *pages, const struct pages_kernel *kernel, uint64_t n,
	       uint32_t readers);
void pages_close(struct pages *pages);

void pages_touch(struct pages *pages, struct pages_reader *reader, uint64_t page);
/* Models a read() of `n` pages, on Linux. */
void pages_read(struct pages *pages, struct pages_reader *reader, uint64_t first, uint64_t n);

#endif
