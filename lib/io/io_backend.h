/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the door offers to its back ends, and lists them. */
#ifndef LMDBIO_IO_BACKEND_H
#define LMDBIO_IO_BACKEND_H

#include "io/io.h"

#include "util/descriptor.h"

#include <errno.h>

extern const struct io_ops io_pread_ops;
extern const struct io_ops io_direct_ops;
extern const struct io_ops io_direct_threads_ops;
extern const struct io_ops io_memory_ops;

/* Reads on from the first *done bytes, which are there, to the end of the range or of the file.
 * Any thread. Returns 0 or errno; *done grows in both cases. */
int io_read_rest(struct io *io, void *buffer, size_t length, uint64_t offset, size_t *done);

/* Opens a back end on top of another io. Returns 0 or the errno of the back end. */
int io_open_stacked(struct io *io, const struct io_ops *ops, struct io *below);

/* Whether a descriptor still is io's file; sets errno if not. Ask before taking bytes from it: the
 * program may have closed it, and its number may be another file's now. */
static inline bool io_is_ours(const struct io *io, int fd)
{
	if (descriptor_is(fd, io->device, io->inode))
		return true;
	errno = EBADF;
	return false;
}

/* Returns the name, of static storage, if a back end for files has it; else NULL. */
const char *io_backend_name(const char *name);

/* io_threads.c: helper threads do the reads of a back end. */

struct io_threads;

/* Takes all n requests. *pool reads through io's back end, and is made if there is none yet. If no
 * thread can be started, it reads the requests before it returns. Returns 0, or ENOMEM: it took
 * none. One thread at a time may call this and the functions below. */
int io_threads_submit(struct io_threads **pool, struct io *io, struct io_request *const *requests,
		      size_t n);

/* As io_wait(); min must not be more than the requests in flight. */
size_t io_threads_wait(struct io_threads *pool, struct io_request **requests, size_t min,
		       size_t max);

/* Joins the threads. All requests must have been waited for. NULL is fine. */
void io_threads_free(struct io_threads *pool);

/* In a forked child, instead of io_threads_free(): forgets the threads and locks, which are the
 * parent's. Sets *pool to NULL. */
void io_threads_forget(struct io_threads **pool);

#endif
