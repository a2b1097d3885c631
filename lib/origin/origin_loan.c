/* SPDX-License-Identifier: OLDAP-2.8 */
/* Receives the original's calls of open(2), pread(2), fstatfs(2), mmap(2), munmap(2) and
 * pthread_mutex_destroy(3).
 *
 * lmdbio looks at a data file before the original may open it, and reads through a map of its own.
 * Opening and mapping a small environment twice would cost half as much again. So the original gets
 * the descriptor and the bytes that lmdbio looked at, and lmdbio uses the original's map too. For a
 * file that the original does not understand, it gets two meta pages in memory instead. No map
 * begins inside a page: that marks these pages when the original unmaps them, and makes madvise(2)
 * refuse them.
 *
 * The original asks for the file system and the kernel's release, because fdatasync(2) of kernels
 * before 3.6 is wrong on ext3 and ext4 (mdb.c, BROKEN_FDATASYNC). A file opened for reading is never
 * synced, so the original gets no answer and asks no further.
 *
 * LMDB 0.9.26 to 0.9.31 destroy a lock file's mutexes when the last process closes it (ITS#9278;
 * 0.9.32 took it back, ITS#10095). A process that waits for the file's lock meanwhile takes the
 * mutexes for valid: each mdb_txn_begin() then returns EINVAL. On Linux destroying a mutex frees
 * nothing.
 */
#include "origin/origin_loan.h"

#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef ORIGIN_LIBRARY

enum { SMALLEST_PAGE = 4096 /* of a machine's, bytes */ };

static _Thread_local struct origin_loan *current;

bool origin_takes_loans(const struct origin *origin)
{
	return origin == origin_built_in();
}

void origin_loan_begin(struct origin_loan *loan)
{
	loan->lent = -1;
	if (!loan->has_lock)
		loan->lock = -1;
	current = loan;
}

void origin_loan_end(void)
{
	current = NULL;
}

int lmdbio_orig_open(const char *path, int flags, ...);
ssize_t lmdbio_orig_pread(int fd, void *buffer, size_t length, off_t offset);
int lmdbio_orig_fstatfs(int fd, struct statfs *st);
void *lmdbio_orig_mmap(void *address, size_t length, int protection, int flags, int fd,
		       off_t offset);
int lmdbio_orig_munmap(void *address, size_t length);
int lmdbio_orig_pthread_mutex_destroy(pthread_mutex_t *mutex);

int lmdbio_orig_open(const char *path, int flags, ...)
{
	struct origin_loan *loan = current;
	va_list arguments;
	mode_t mode;
	int fd;

	if (loan && loan->fd >= 0 && flags == O_RDONLY && !strcmp(path, loan->path)) {
		fd = loan->lent = loan->fd;
		loan->fd = -1;
		return fd;
	}
	if (loan && loan->has_lock && flags & O_CREAT) {
		loan->has_lock = false;
		return loan->lock;
	}
	va_start(arguments, flags);
	mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	fd = open(path, flags, mode);
	/* An environment opened for reading creates only the lock file. */
	if (loan && flags & O_CREAT)
		loan->lock = fd;
	return fd;
}

ssize_t lmdbio_orig_pread(int fd, void *buffer, size_t length, off_t offset)
{
	const struct origin_loan_bytes *seen;

	for (size_t i = 0; current && fd == current->lent && i < 2; i++) {
		seen = &current->seen[i];
		if (seen->length == length && seen->offset == (uint64_t)offset) {
			memcpy(buffer, seen->bytes, length);
			return (ssize_t)length;
		}
	}
	return pread(fd, buffer, length, offset);
}

int lmdbio_orig_fstatfs(int fd, struct statfs *st)
{
	if (!current)
		return fstatfs(fd, st);
	/* The original looks at the type, whatever the call returns. */
	memset(st, 0, sizeof(*st));
	return 0;
}

void *lmdbio_orig_mmap(void *address, size_t length, int protection, int flags, int fd,
		       off_t offset)
{
	void *map;

	if (current && current->stand_in && fd == current->lent)
		return (void *)(uintptr_t)current->stand_in;
	map = mmap(address, length, protection, flags, fd, offset);
	/* The lock file's map is for writing too, and is left out. */
	if (current && map != MAP_FAILED && protection == PROT_READ && offset == 0) {
		current->map = map;
		current->length = length;
	}
	return map;
}

int lmdbio_orig_munmap(void *address, size_t length)
{
	return (uintptr_t)address % SMALLEST_PAGE ? 0 : munmap(address, length);
}

int lmdbio_orig_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	(void)mutex;
	return 0;
}

#else

bool origin_takes_loans(const struct origin *origin)
{
	(void)origin;
	return false;
}

void origin_loan_begin(struct origin_loan *loan)
{
	if (!loan->has_lock)
		loan->lock = -1;
}

void origin_loan_end(void)
{
}

#endif
