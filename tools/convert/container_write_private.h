/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what a container's writer is made of. */
#ifndef LMDBIO_CONTAINER_WRITE_PRIVATE_H
#define LMDBIO_CONTAINER_WRITE_PRIVATE_H

#include "container/container_layout.h"
#include "container_write.h"
#include "util/thread.h"

#include <pthread.h>

/* container_options.c */

/* The options with every default in its place, and the header (LAYOUT_END bytes) of a container
 * that has them. 0 or EINVAL. */
int options_settle(struct container_write_options *settled,
		   const struct container_write_options *options, uint8_t *header,
		   struct container_info *info);

/* container_jobs.c: compressing ahead of the file */

enum {
	JOB_BYTES = 1 << 20, /* of data in one job, or one chunk */
	JOB_CHUNKS = JOB_BYTES / CONTAINER_CHUNK_MIN,
};

/* Some neighbouring chunks, which one thread compresses and one write takes. */
struct job {
	uint8_t *in, *out; /* from the first use on */
	uint8_t *picked;   /* container_select() of `in` */
	uint64_t offset;   /* of `in` in the data */
	size_t filled;     /* bytes of data */
	size_t length;     /* of the frames, which stand behind each other in `out` */
	struct container_frame frames[JOB_CHUNKS];
	unsigned n;
	int error;
	bool done;
};

/* Jobs in a ring: [head, next) are being compressed or done, [next, put) wait, `put` is being
 * filled. `head` and `put` move in the writer's thread alone. */
struct jobs {
	const struct container_write_options *options;
	size_t capacity; /* bytes of data in a job */
	size_t n;
	struct job *ring;
	uint64_t head, next, put;
	pthread_mutex_t lock; /* of `next`, `put`, every job's `done`, `spare` */
	pthread_cond_t one_done;
	struct crew crew; /* from the first job on */
	struct container_compressor **spare; /* that no thread uses */
	size_t spares;
};

/* 0 or ENOMEM. */
int jobs_open(struct jobs *jobs, const struct container_write_options *options);
void jobs_close(struct jobs *jobs);

/* The job to fill. *job is NULL when all are taken. 0 or ENOMEM. */
int jobs_fill(struct jobs *jobs, struct job **job);

/* It is filled. Where there are no threads it is compressed before this returns. */
void jobs_queue(struct jobs *jobs);

/* The oldest jobs, as many as are done behind each other, up to n; how many. With `wait`, one at
 * least if there are any. jobs_drop() makes the first n of them free. */
size_t jobs_done(struct jobs *jobs, struct job **done, size_t n, bool wait);
void jobs_drop(struct jobs *jobs, size_t n);

/* container_tail.c: index pages until the file's end is there */

enum {
	LIST_MEMORY = 64, /* pages; the others are in a file */
	META_BYTES = 160, /* of a meta page: META_LOOK */
};

struct page_list {
	enum layout_kind kind;
	uint64_t seed;
	uint64_t pages;   /* complete */
	uint32_t entries; /* on the page that is being filled */
	uint8_t page[LAYOUT_PAGE];
	uint8_t *memory;
	size_t room; /* of `memory`, pages */
	int fd;      /* -1: none yet */
	const char *temporary;
};

void list_open(struct page_list *list, enum layout_kind kind, uint64_t seed, const char *temporary);
void list_close(struct page_list *list);

/* The place of the next entry of `size` bytes; the page's base is set with its first. */
uint8_t *list_entry(struct page_list *list, size_t size, uint64_t base);

/* The page that is being filled is complete. Nothing to do: 0. Else 0 or an errno. */
int list_seal(struct page_list *list);

typedef int (*list_take)(void *taker, const void *bytes, size_t length);

/* Hands all complete pages to `take` in large pieces. */
int list_empty(struct page_list *list, list_take take, void *taker);

/* Bytes of any length, in the same way. */

enum { SPOOL_MEMORY = 256 << 10 /* bytes; the others are in a file */ };

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
	struct container_compressor *compressor; /* all these from the first page on */
	uint8_t *pages, *frame;
	uint32_t room, n; /* pages of a group: a full one, of that which is being filled */
	uint64_t copies;  /* pages in all */
	uint8_t metas[2][META_BYTES]; /* the beginning of both meta pages */
	uint16_t sum_size;            /* of LMDB 1.0: what the first one ends with */
	struct page_list index;
	struct spool groups;
};

void collect_open(struct collect *collect, const struct container_write_options *options,
		  uint64_t seed);
void collect_close(struct collect *collect);

/* Page `number`, more than those before. 0, ENOMEM or an errno. */
int collect_page(struct collect *collect, uint64_t number, const uint8_t *page);

/* Those of the pages in a piece of the data that container_select() has picked. */
int collect_picked(struct collect *collect, const void *data, size_t length, uint64_t offset,
		   const uint8_t *picked);

/* There are no more. Then what the footer tells of them. */
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
	uint64_t data;    /* of them, whose frames are written */
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

/* Everything but the file. 0, EINVAL, ENOMEM. */
int writer_new(struct container_writer **writer, int fd,
	       const struct container_write_options *options);

/* The next frame stands at writer->offset in the file. 0 or errno. */
int writer_add(struct container_writer *writer, const struct container_frame *frame);

#endif
