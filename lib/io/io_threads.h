/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lets helper threads do the reads of a back end. */
#ifndef LMDBIO_IO_THREADS_H
#define LMDBIO_IO_THREADS_H

#include "io/io.h"

struct io_threads;

/* Takes all n requests. *pool reads through io's back end, and is made where there is none yet. Where no thread can
 * be had the requests are read before it returns. Returns 0, or ENOMEM: none is taken. One thread at a time may call
 * this and the functions below. */
int io_threads_submit(struct io_threads **pool, struct io *io, struct io_request *const *requests, size_t n);

/* As io_wait(); min must not be more than what is in flight. */
size_t io_threads_wait(struct io_threads *pool, struct io_request **requests, size_t min,
	size_t max);

/* Joins the threads. What was submitted must have been waited for. NULL is fine. */
void io_threads_free(struct io_threads *pool);

/* In a forked child, instead of io_threads_free(): the threads and locks are the parent's. *pool is NULL
 * then. */
void io_threads_forget(struct io_threads **pool);

#endif
