/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads bytes of a data set through one of several back ends.
 *
 * This is the one door of the layer: io_*() below check every range and count every request. A back
 * end (struct io_ops) may rely on it, and only the door calls it.
 *
 * Adding a back end takes: a file io_<name>.c with a const, designated struct io_ops; a row in
 * io.c's table; a line in lib/Makemodule.am; a row in tests/contract/io_contract.c; a paragraph in
 * doc/lmdbio.7 under LMDBIO_IO. io_memory.c is the smallest one.
 */
#ifndef LMDBIO_IO_H
#define LMDBIO_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One read. The caller owns it from before io_submit() until io_wait() has handed it back. */
struct io_request {
	uint64_t offset; /* bytes from the start of the file */
	size_t length;   /* bytes wanted, more than 0 */
	void *buffer;    /* offset, length and buffer are aligned as io_alignment() says */
	size_t done;     /* bytes that came: less than length only at the end of the file */
	int error;       /* 0, or the errno of the read */
	bool cache_only; /* the caller wants the bytes in the page cache, and their neighbours soon:
			    the buffer's bytes do not matter */
	void *tag;       /* the caller's own */
	struct io_request *next; /* the back end's, while it has the request */
};

struct io;

struct io_ops {
	const char *name;
	/* Makes io->state. The door has set everything else in *io. Returns 0 or errno. */
	int (*open)(struct io *io);
	/* Reads at most length bytes, as pread(2) does: short only for a good reason. */
	ssize_t (*read)(struct io *io, void *buffer, size_t length, uint64_t offset);
	/* Tells how many bytes can be read. Returns 0 or errno. NULL here: as many as the file, or
	 * the io below, has. */
	int (*size)(struct io *io, uint64_t *size);
	/* Has the kernel keep a range and its neighbours in its page cache, without a copy. Returns
	 * true when it has read them, false if the range is still to be read. NULL here: this back
	 * end cannot do that. */
	bool (*keep)(struct io *io, uint64_t offset, size_t length);
	/* Takes n requests; they complete in any order. Returns 0 or errno (then it took none). */
	int (*submit)(struct io *io, struct io_request *const *requests, size_t n);
	/* Waits for `min` requests, and hands back up to `max` completed ones. Returns how many. */
	size_t (*wait)(struct io *io, struct io_request **requests, size_t min, size_t max);
	/* First call in a forked child: forgets the parent's threads and requests, and touches no
	 * lock. NULL here: there are none. */
	void (*forked)(struct io *io);
	/* Ends the threads that submit() has started; nothing is in flight. NULL here: it starts
	 * none. */
	void (*rest)(struct io *io);
	void (*close)(struct io *io);
};

/* What the back end has done since it was opened. */
struct io_counts {
	uint64_t reads;    /* synchronous reads, each once, however many short ones it took */
	uint64_t requests; /* asynchronous reads taken */
	uint64_t bytes;    /* read, by both kinds */
	uint64_t errors;   /* reads and requests that failed */
};

/* An open data set through one back end. Threads: any number may call io_read(); io_submit() and
 * io_wait() belong to one thread at a time. Fork: the child may go on with every call. Requests in
 * flight stay the parent's: in the child they are neither in flight nor handed back. Their buffers
 * should be shared memory, or MADV_DONTFORK: before Linux 5.12 a fork may divert a direct read from
 * private memory. */
struct io {
	const struct io_ops *ops;
	void *state;         /* the back end's */
	int fd;              /* the data file, or -1 */
	uint64_t device, inode; /* ... and which file that is */
	const void *bytes;   /* the memory back end's file, else NULL */
	uint64_t bytes_size; /* of `bytes` */
	struct io *below;    /* the io under a stacked back end, else NULL */
	size_t alignment;    /* of offset, length and buffer, in bytes: 1 or a power of two */
	size_t in_flight;    /* submitted, not yet handed back */
	bool local;          /* io_open_chosen() knows the file system as a local one */
	unsigned generation; /* fork_generation of the process that opened it, or last used it */
	struct io_counts counts;
};

/* Opens a back end ("pread", "direct", "direct-threads") over a descriptor, which stays the
 * caller's and must outlive the io. Makes no thread or ring before the first io_submit(). If the
 * program closes the descriptor all the same, and opens another file in its place, every read is
 * EBADF and brings no byte of that file. Returns 0, EINVAL for an unknown name, EBADF, or the errno
 * of the back end. */
int io_open_file(struct io *io, const char *backend, int fd);

/* Names the back end for a file: the one that suits its file system, or `wanted` (not if that is
 * NULL, "" or "auto"); where this file cannot be read directly, "pread". *why is a short phrase for
 * people; both strings are static. Returns 0, EBADF, or EINVAL (no such back end); *name and *why
 * are set in any case. */
int io_choose(int fd, const char *wanted, const char **name, const char **why);

/* Chooses a back end and opens it; where another one fails, "pread". Returns 0, or as io_choose()
 * and io_open_file(). */
int io_open_chosen(struct io *io, int fd, const char *wanted, const char **name, const char **why);

/* Opens a back end over `size` bytes of memory, which stay the caller's (unit tests). Returns 0. */
int io_open_memory(struct io *io, const void *bytes, uint64_t size);

/* Bytes, 1 or a power of two: offset, length and buffer of every read must be multiples of it. A
 * read may end beyond the end of the file, so round lengths up. */
size_t io_alignment(const struct io *io);

/* Makes memory for reads of any back end: page-aligned, and not inherited by forked children, so
 * that a fork cannot divert a direct read in flight. NULL: no memory. A forked child must forget
 * the buffer. */
void *io_buffer_new(size_t length);
/* Asks for huge pages under a buffer of io_buffer_new() that has 2 MiB or more. Has no effect where
 * the kernel gives none on request; pages that were touched before stay small. */
void io_buffer_huge(void *buffer, size_t length);
void io_buffer_free(void *buffer, size_t length);

/* Reads the whole range, going on after short reads and EINTR. *done is less than length only at
 * the end of the file. Returns 0 or errno (EINVAL: range or alignment); *done is set always. */
int io_read(struct io *io, void *buffer, size_t length, uint64_t offset, size_t *done);

/* Asynchronous reads: submit, then wait. io_submit() returns 0 or errno (then none was taken);
 * io_wait() returns how many requests it put into `requests`: at least min(min, in flight), at
 * most max. A min of 0 does not block. */
int io_submit(struct io *io, struct io_request *const *requests, size_t n);
size_t io_wait(struct io *io, struct io_request **requests, size_t min, size_t max);

/* Ends threads that wait for requests; io_submit() starts them again. Has no effect while a request
 * is in flight. In the thread of io_submit(). */
void io_rest(struct io *io);

/* Has the kernel keep a range and its neighbours in its page cache, and waits for that, as for a
 * cache_only request. Returns false if the range is still to be read. Any thread. */
bool io_keep(struct io *io, uint64_t offset, size_t length);

/* Bytes in the file now. Returns 0 or errno. */
int io_size(struct io *io, uint64_t *size);

/* A copy of the counters, which other threads may be changing. */
struct io_counts io_counted(const struct io *io);

/* Waits for the requests in flight, which it does not hand back, and frees everything. Does nothing
 * to an io that failed to open, or is closed. */
void io_close(struct io *io);

#endif
