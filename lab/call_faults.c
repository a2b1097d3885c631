/* SPDX-License-Identifier: OLDAP-2.8 */
/* Counts the calls of the armed kinds, and fails some of them. */
#include "call_faults.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>

static _Atomic unsigned armed; /* kinds */
static _Atomic bool goes_on, fired;
static _Atomic uint64_t at, calls;

void fault_arm(unsigned kinds, uint64_t n, bool on)
{
	calls = 0;
	fired = false;
	at = n;
	goes_on = on;
	armed = kinds;
}

bool fault_disarm(void)
{
	armed = 0;
	return fired;
}

uint64_t fault_calls(void)
{
	return calls;
}

static bool fails(enum fault_kind kind, int error)
{
	uint64_t n;

	if (!(armed & kind))
		return false;
	n = ++calls;
	if (n != at && !(goes_on && n > at))
		return false;
	fired = true;
	errno = error;
	return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_reallocarray(void *memory, size_t n, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
int __real_posix_memalign(void **memory, size_t alignment, size_t size);
char *__real_strdup(const char *text);
void *__real_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*run)(void *), void *argument);
int __real_open(const char *path, int flags, ...);
int __real_openat(int directory, const char *path, int flags, ...);
int __real_memfd_create(const char *name, unsigned flags);

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_reallocarray(void *memory, size_t n, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);
char *__wrap_strdup(const char *text);
void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*run)(void *), void *argument);
int __wrap_open(const char *path, int flags, ...);
int __wrap_openat(int directory, const char *path, int flags, ...);
int __wrap_memfd_create(const char *name, unsigned flags);

void *__wrap_malloc(size_t size)
{
	return fails(FAULT_MEMORY, ENOMEM) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return fails(FAULT_MEMORY, ENOMEM) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
	return fails(FAULT_MEMORY, ENOMEM) ? NULL : __real_realloc(memory, size);
}

void *__wrap_reallocarray(void *memory, size_t n, size_t size)
{
	return fails(FAULT_MEMORY, ENOMEM) ? NULL : __real_reallocarray(memory, n, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
	return fails(FAULT_MEMORY, ENOMEM) ? NULL : __real_aligned_alloc(alignment, size);
}

int __wrap_posix_memalign(void **memory, size_t alignment, size_t size)
{
	return fails(FAULT_MEMORY, ENOMEM) ? ENOMEM
					   : __real_posix_memalign(memory, alignment, size);
}

char *__wrap_strdup(const char *text)
{
	return fails(FAULT_MEMORY, ENOMEM) ? NULL : __real_strdup(text);
}

void *__wrap_mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset)
{
	return fails(FAULT_MAP, ENOMEM)
		       ? MAP_FAILED
		       : __real_mmap(address, length, protection, flags, fd, offset);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
			  void *(*run)(void *), void *argument)
{
	return fails(FAULT_THREAD, EAGAIN)
		       ? EAGAIN
		       : __real_pthread_create(thread, attributes, run, argument);
}

int __wrap_open(const char *path, int flags, ...)
{
	va_list more;
	mode_t mode;

	va_start(more, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
	va_end(more);
	return fails(FAULT_DESCRIPTOR, EMFILE) ? -1 : __real_open(path, flags, mode);
}

int __wrap_openat(int directory, const char *path, int flags, ...)
{
	va_list more;
	mode_t mode;

	va_start(more, flags);
	mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
	va_end(more);
	return fails(FAULT_DESCRIPTOR, EMFILE) ? -1 : __real_openat(directory, path, flags, mode);
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
	return fails(FAULT_DESCRIPTOR, EMFILE) ? -1 : __real_memfd_create(name, flags);
}
