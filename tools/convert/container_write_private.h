/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the parts of a container's writer. */
#ifndef LMDBIO_CONTAINER_WRITE_PRIVATE_H
#define LMDBIO_CONTAINER_WRITE_PRIVATE_H

#include "container/container_layout.h"
#include "container_write.h"
#include "util/thread.h"

#include <pthread.h>

/* container_options.c */

/* Fills in the options' defaults, and makes the header (LAYOUT_END bytes) of such a container.
 * Returns 0 or EINVAL. */
int options_settle(struct container_write_options *settled,
		   const struct container_write_options *options, uint8_t *header,
		   struct container_info *info);

/* container_jobs.c: compressing ahead of the file */

enum {
	JOB_BYTES = 1 << 20, /* of data in one job, or one chunk */
	JOB_CHUNKS = JOB_BYTES / CONTAINER_CHUNK_MIN,
};

/* Some neighbouring chunks, for one thread to compress and one write. */
struct job {
	uint8_t *in, *out; /* allocated at the first use */
	uint8_t *picked;   /* container_select() of `in` */
	uint64_t offset;   /* of `in` in the data */
	size_t filled;     /* bytes of data */
	size_t length;     /* of the frames, one behind the other in `out` */
	struct container_frame frames[JOB_CHUNKS];
	unsigned n;
	int error;
	bool done;
};

/* Jobs in a ring: [head, next) are being compressed or done, [next, put) wait, `put` is being
 * filled. Only the writer's thread moves `head` and `put`. */
struct jobs {
	const struct container_write_options *options;
	size_t capacity; /* bytes of data in a job */
	size_t n;
	struct job *ring;
	uint64_t head, next, put;
	pthread_mutex_t lock; /* guards `next`, `put`, every job's `done`, `spare` */
	pthread_cond_t one_done;
	struct crew crew;                    /* runs from the first job on */
	struct container_compressor **spare; /* compressors that no thread uses */
	size_t spares;
};

/* Returns 0 or ENOMEM. */
int jobs_open(struct jobs *jobs, const struct container_write_options *options);
void jobs_close(struct jobs *jobs);

/* Finds the job to fill. *job is NULL if all are taken. Returns 0 or ENOMEM. */
int jobs_fill(struct jobs *jobs, struct job **job);

/* Queues the filled job. Without threads, compresses it before this returns. */
void jobs_queue(struct jobs *jobs);

/* Finds the oldest jobs in an unbroken row of done ones, up to n. Returns how many. With `wait`,
 * waits for one at least if there are any. jobs_drop() frees the first n of them. */
size_t jobs_done(struct jobs *jobs, struct job **done, size_t n, bool wait);
void jobs_drop(struct jobs *jobs, size_t n);

/* container_tail.c: index pages until the file's end is written */

enum {
	LIST_MEMORY = 64, /* pages; the others go to a file */
	META_BYTES = 160, /* of a meta page: META_LOOK */
};

struct page_list {
	enum layout_kind kind;
	uint64_t seed;
	uint64_t pages;   /* complete */
	uint32_t entries; /* on the unfinished page */
	uint8_t page[LAYOUT_PAGE];
	uint8_t *memory;
	size_t room; /* of `memory`, pages */
	int fd;      /* -1: none yet */
	const char *temporary;
};

void list_open(struct page_list *list, enum layout_kind kind, uint64_t seed, const char *temporary);
void list_close(struct page_list *list);

/* Returns the place of the next entry of `size` bytes. The first entry sets the page's base. */
uint8_t *list_entry(struct page_list *list, size_t size, uint64_t base);

/* Completes the unfinished page, if there is one. Returns 0 or an errno. */
int list_seal(struct page_list *list);

typedef int (*list_take)(void *taker, const void *bytes, size_t length);

/* Hands all complete pages to `take` in large pieces. */
int list_empty(struct page_list *list, list_take take, void *taker);

/* The same for bytes of any length. */

enum { SPOOL_MEMORY = 256 << 10 /* bytes; the others go to a file */ };

struct spool {
	uint8_t *memory;
	size_t used;   /* of `memory` */
	uint64_t size; /* bytes in all */
	int fd;        /* -1: none yet */
	const char *temporary;
};

void spool_open(struct spool *spool, const char *temporary);
void spool_close(struct spool *spool);
int spool_append(struct spool *spool, const void *bytes, size_t length);

/* Hands all bytes to `take`, in large pieces. */
int spool_empty(struct spool *spool, list_take take, void *taker);

/* container_collect.c: copies of pages */

struct collect {
	const struct container_write_options *options;
	struct container_compressor *compressor; /* these four exist from the first page on */
	uint8_t *pages, *frame;
	uint32_t room, n; /* pages: of a full group, of the unfinished one */
	uint64_t copies;  /* pages in all */
	uint8_t metas[2][META_BYTES]; /* the beginning of both meta pages */
	uint16_t sum_size;            /* of LMDB 1.0: the size of a checksum, at the end of the
					 first page */
	struct page_list index;
	struct spool groups;
};

void collect_open(struct collect *collect, const struct container_write_options *options,
		  uint64_t seed);
void collect_close(struct collect *collect);

/* Adds page `number`, behind those before. Returns 0, ENOMEM or an errno. */
int collect_page(struct collect *collect, uint64_t number, const uint8_t *page);

/* Adds the pages in a piece of the data that container_select() has picked. */
int collect_picked(struct collect *collect, const void *data, size_t length, uint64_t offset,
		   const uint8_t *picked);

/* Ends the copies. Then collect_footer() fills in their part of the footer. */
int collect_end(struct collect *collect);
void collect_footer(const struct collect *collect, uint8_t *footer);

/* container_write.c */

struct container_writer {
	struct container_write_options options;
	struct container_info info; /* of the header */
	uint8_t header[LAYOUT_END];
	int fd;
	bool is_pipe;
	bool begun, finished;
	int error;
	uint64_t given;   /* bytes of data */
	uint64_t data;    /* bytes of data whose frames are written */
	uint64_t offset;  /* of the next frame */
	uint64_t content; /* hash_chain() so far */
	struct jobs jobs;
	struct page_list leaves, trees, chunks;
	struct collect copies;
	uint64_t next_copy; /* the least page number of container_write_copy() */
	bool in_tree;
	uint8_t tree[TREE_ENTRY]; /* of the last one begun */
	uint64_t n_trees, tree_leaves, tree_records;
};

/* Makes a writer without touching the file. Returns 0, EINVAL, ENOMEM. */
int writer_new(struct container_writer **writer, int fd,
	       const struct container_write_options *options);

/* Takes the next frame, which stands at writer->offset in the file. Returns 0 or errno. */
int writer_add(struct container_writer *writer, const struct container_frame *frame);

#endif
