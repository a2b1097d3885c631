/* What only this file knows: what a container's writer is made of. */
#ifndef LMDBIO_CONTAINER_WRITE_PRIVATE_H
#define LMDBIO_CONTAINER_WRITE_PRIVATE_H

#include "container/container_layout.h"
#include "container/container_write.h"

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
	pthread_mutex_t lock; /* of `next`, `put`, every job's `done`, `stop` */
	pthread_cond_t work;  /* next < put, or stop */
	pthread_cond_t one_done;
	bool stop;
	unsigned n_threads;
	pthread_t *threads;               /* from the first job on */
	struct container_compressor *own; /* where there are no threads */
};

/* 0 or ENOMEM. */
int jobs_open(struct jobs *jobs, const struct container_write_options *options);
void jobs_close(struct jobs *jobs);

/* The job to fill. *job is NULL when all are taken. 0 or ENOMEM. */
int jobs_fill(struct jobs *jobs, struct job **job);

/* It is filled. 0, or the errno that kept it from being compressed here. */
int jobs_queue(struct jobs *jobs);

/* The oldest jobs, as many as are done behind each other, up to n; how many. With `wait`, one at
 * least if there are any. jobs_drop() makes the first n of them free. */
size_t jobs_done(struct jobs *jobs, struct job **done, size_t n, bool wait);
void jobs_drop(struct jobs *jobs, size_t n);

/* container_tail.c: index pages until the file's end is there */

enum { LIST_MEMORY = 64 }; /* pages; the others are in a file */

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
