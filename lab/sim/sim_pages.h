/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares a node's page cache as programs see it that map a file: faults, read-ahead, waits.
 *
 * Each reader is a process with a map and a read-ahead state of its own; all readers of a node
 * share the page cache. pages_touch() moves the reader's clock on to when the page is mapped. A
 * caller touches with the reader whose clock is behind the others', so that no reader sees the
 * future.
 *
 * Two kinds of kernel: one reads around a fault and then ahead as Linux 6 does (mm/filemap.c,
 * mm/readahead.c); the other brings whole blocks of a parallel file system, and the next one behind
 * a reader that goes from block to block.
 */
#ifndef LMDBIO_LAB_SIM_PAGES_H
#define LMDBIO_LAB_SIM_PAGES_H

#include <stdbool.h>
#include <stdint.h>

enum { PAGES_SIZE = 4096 };

struct pages_kernel {
	bool blocks;     /* brings whole blocks; else Linux's read-ahead */
	uint32_t window; /* pages of a block, or the most that one read-ahead takes */
	uint32_t around; /* neighbours that a fault maps too, if they are there; 1: none */
	double fault;    /* seconds: a fault whose page is in memory */
	double wakeup;   /* seconds: each sleeping reader of the node, at each page that comes */
	double latency;  /* seconds: a request to storage */
	double rate;     /* bytes a second that storage gives this node */
};

struct pages_reader {
	double now;
	uint64_t faults, waits; /* waits: faults for a page that was not in memory yet */
	uint64_t block;         /* that it touched last, plus 1 */
	uint64_t after;         /* the page after the last one that it read() */
	uint64_t ra_start;
	uint32_t ra_size, ra_async, ra_miss;
	uint8_t *mapped; /* [page] */
};

struct pages {
	struct pages_kernel kernel;
	uint64_t n;      /* pages of the file */
	double *ready;   /* [page]: when it is in memory; INFINITY: it has not been asked for */
	uint8_t *marked; /* [page]: what its first touch causes; sim_pages.c */
	struct pages_reader *readers;
	uint32_t readers_n;
	double storage_free, lock_free;
	uint64_t requests;
	double bytes; /* from storage */
};

/* Returns 0 or ENOMEM. pages_close() frees it in either case. */
int pages_open(struct pages *pages, const struct pages_kernel *kernel, uint64_t n,
	       uint32_t readers);
void pages_close(struct pages *pages);

void pages_touch(struct pages *pages, struct pages_reader *reader, uint64_t page);
/* read() of so many pages, on Linux. */
void pages_read(struct pages *pages, struct pages_reader *reader, uint64_t first, uint64_t n);

#endif
