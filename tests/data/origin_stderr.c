/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what the renamed archive of the original needs to run in a test
 * program that holds it outside our library: where it prints to, and the calls of libc that
 * our library looks into (lib/origin/origin_loan.c), here as they are. */
#include "origin_stderr.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

FILE *lmdbio_orig_stderr;

int lmdbio_orig_open(const char *path, int flags, ...);
ssize_t lmdbio_orig_pread(int fd, void *buffer, size_t length, off_t offset);
int lmdbio_orig_fstatfs(int fd, struct statfs *st);
void *lmdbio_orig_mmap(void *address, size_t length, int protection, int flags, int fd,
		       off_t offset);
int lmdbio_orig_munmap(void *address, size_t length);
int lmdbio_orig_pthread_mutex_destroy(pthread_mutex_t *mutex);

__attribute__((constructor)) static void origin_stderr_set(void)
{
	lmdbio_orig_stderr = stderr;
}

int lmdbio_orig_open(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	return open(path, flags, mode);
}

ssize_t lmdbio_orig_pread(int fd, void *buffer, size_t length, off_t offset)
{
	return pread(fd, buffer, length, offset);
}

int lmdbio_orig_fstatfs(int fd, struct statfs *st)
{
	return fstatfs(fd, st);
}

void *lmdbio_orig_mmap(void *address, size_t length, int protection, int flags, int fd,
		       off_t offset)
{
	return mmap(address, length, protection, flags, fd, offset);
}

int lmdbio_orig_munmap(void *address, size_t length)
{
	return munmap(address, length);
}

int lmdbio_orig_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
	return pthread_mutex_destroy(mutex);
}
