/* SPDX-License-Identifier: OLDAP-2.8 */
/* Defines the C library's calls anew. They pass on all but a few calls.
 *
 * The memory calls use glibc's own names, because dlsym() itself allocates memory. System calls are
 * made directly.
 */
#undef _FORTIFY_SOURCE /* it defines some of these names inline */
#include "chance_faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#ifdef HAVE_LIBURING
#include <liburing.h>
#endif

static struct chance_counts nowhere, *_Atomic counts = &nowhere;
static _Atomic uint64_t chance_seed, number, failures;
static _Atomic uint32_t chance_one_in;
static _Atomic int pauses;

void chance_set(uint64_t seed, uint32_t one_in, struct chance_counts *to)
{
	chance_seed = seed;
	counts = to;
	chance_one_in = one_in;
}

void chance_pause(void)
{
	pauses++;
}

void chance_go_on(void)
{
	pauses--;
}

uint64_t chance_failed(void)
{
	return failures;
}

/* The same as random_mix() of tests/data. */
static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* Returns 0, or a number that decides how the call fails. */
static uint64_t fails(enum chance_kind kind)
{
	uint32_t one_in = chance_one_in;
	uint64_t drawn;

	if (!one_in || pauses)
		return 0;
	(void)atomic_fetch_add(&counts->calls[kind], 1);
	drawn = mix(chance_seed + atomic_fetch_add(&number, 1));
	if (drawn % one_in)
		return 0;
	(void)atomic_fetch_add(&counts->failed[kind], 1);
	(void)atomic_fetch_add(&failures, 1);
	return drawn / one_in | 1;
}

static bool fails_with(enum chance_kind kind, int error)
{
	if (!fails(kind))
		return false;
	errno = error;
	return true;
}

#pragma GCC visibility push(default) /* the libraries find these names, too */

/* --- memory ---------------------------------------------------------------------------------- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
	return fails_with(CHANCE_MEMORY, ENOMEM) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	return fails_with(CHANCE_MEMORY, ENOMEM) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size)
{
	return fails_with(CHANCE_MEMORY, ENOMEM) ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return fails_with(CHANCE_MEMORY, ENOMEM) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
	void *got = fails(CHANCE_MEMORY) ? NULL : __libc_memalign(alignment, size);

	if (!got)
		return ENOMEM;
	*memory = got;
	return 0;
}

/* --- maps and threads ------------------------------------------------------------------------ */

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	if (fails_with(CHANCE_MAP, ENOMEM))
		return MAP_FAILED;
	return (void *)syscall(SYS_mmap, address, length, protection, flags, fd, offset);
}

typedef int create_call(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
			void *argument);
static create_call *real_create;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
		   void *argument)
{
	return fails(CHANCE_THREAD) ? EAGAIN : real_create(thread, attributes, run, argument);
}

/* --- descriptors ----------------------------------------------------------------------------- */

static int open_at(int directory, const char *path, int flags, mode_t mode)
{
	if (fails_with(CHANCE_DESCRIPTOR, EMFILE))
		return -1;
	return (int)syscall(SYS_openat, directory, path, flags, mode);
}

static mode_t mode_of(int flags, va_list more)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
	va_list more;
	mode_t mode;

	va_start(more, flags);
	mode = mode_of(flags, more);
	va_end(more);
	return open_at(AT_FDCWD, path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...)
{
	va_list more;
	mode_t mode;

	va_start(more, flags);
	mode = mode_of(flags, more);
	va_end(more);
	return open_at(directory, path, flags, mode);
}

int __openat_2(int directory, const char *path, int flags);
int __openat_2(int directory, const char *path, int flags)
{
	return open_at(directory, path, flags, 0);
}

int memfd_create(const char *name, unsigned flags)
{
	return fails_with(CHANCE_DESCRIPTOR, EMFILE) ? -1
						     : (int)syscall(SYS_memfd_create, name, flags);
}

int socket(int domain, int type, int protocol)
{
	return fails_with(CHANCE_DESCRIPTOR, EMFILE)
		       ? -1
		       : (int)syscall(SYS_socket, domain, type, protocol);
}

/* --- reads and writes ------------------------------------------------------------------------ */

enum {
	BLOCK = 4096,           /* bytes; a short direct read ends at a block */
	LONG_LEAST = 2 * BLOCK, /* bytes; shorter reads of files are complete or fail */
};

static size_t shortened(size_t length)
{
	return length / 2 / BLOCK * BLOCK;
}

/* Returns true, with errno, if a read must fail at once. May instead make *length shorter. */
static bool read_fails(size_t *length)
{
	uint64_t how = fails(CHANCE_READ) >> 1;

	if (!how)
		return false;
	if (*length >= LONG_LEAST && how % 3 == 2) {
		*length = shortened(*length);
		return false;
	}
	errno = *length >= LONG_LEAST && how % 3 == 1 ? EINTR : EIO;
	return true;
}

ssize_t pread(int fd, void *buffer, size_t length, off_t offset)
{
	return read_fails(&length) ? -1 : syscall(SYS_pread64, fd, buffer, length, offset);
}

ssize_t __pread_chk(int fd, void *buffer, size_t length, off_t offset, size_t room);
ssize_t __pread_chk(int fd, void *buffer, size_t length, off_t offset, size_t room)
{
	if (length > room)
		abort();
	return pread(fd, buffer, length, offset);
}

ssize_t preadv2(int fd, const struct iovec *parts, int n, off_t offset, int flags)
{
	struct iovec first = *parts;

	if (read_fails(&first.iov_len))
		return -1;
	if (first.iov_len != parts->iov_len)
		return syscall(SYS_preadv2, fd, &first, 1, offset, 0, flags);
	return syscall(SYS_preadv2, fd, parts, n, offset, 0, flags);
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
	if (fails_with(CHANCE_WRITE, ENOSPC))
		return -1;
	return syscall(SYS_pwrite64, fd, bytes, length, offset);
}

#ifdef HAVE_LIBURING
typedef int submit_call(struct io_uring *ring, unsigned wait_nr);
static submit_call *real_submit;

enum { READ_LEAST = 512 }; /* bytes; a shorter completion is no read of storage */

/* The kernel has read the bytes; this changes the completion. */
int io_uring_submit_and_wait(struct io_uring *ring, unsigned wait_nr)
{
	int rc = real_submit(ring, wait_nr);
	struct io_uring_cqe *completion;
	unsigned head;

	io_uring_for_each_cqe(ring, head, completion)
	{
		uint64_t how = completion->res < READ_LEAST ? 0 : fails(CHANCE_READ) >> 1;

		if (how && completion->res >= LONG_LEAST && how % 3 == 2)
			completion->res = (int)shortened((size_t)completion->res);
		else if (how)
			completion->res = -EIO;
	}
	return rc;
}
#endif

#pragma GCC visibility pop

static __attribute__((constructor)) void find_next(void)
{
	void *found = dlsym(RTLD_NEXT, "pthread_create");

	memcpy(&real_create, &found, sizeof(found));
#ifdef HAVE_LIBURING
	found = dlsym(RTLD_NEXT, "io_uring_submit_and_wait");
	memcpy(&real_submit, &found, sizeof(found));
#endif
}
