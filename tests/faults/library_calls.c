/* SPDX-License-Identifier: OLDAP-2.8 */
/* Stands before the calls of the C library that ask for memory, files, threads and descriptors. */
#include "config.h"
#include "library_calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>

struct table {
	_Atomic unsigned count;
	atomic_bool fired; /* in this process or a forked child */
	struct call_place places[CALL_PLACES];
};

extern const char __executable_start[], etext[];

static struct table *table;
static atomic_bool recording, armed;
static struct {
	uintptr_t at;
	unsigned n;
	bool on;
	_Atomic unsigned calls;
} fault;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void *__real_mmap(void *at, size_t length, int protection, int flags, int fd, off_t offset);

void calls_begin(void)
{
	table = __real_mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (table == MAP_FAILED)
		abort();
}

void calls_end(void)
{
	munmap(table, sizeof(*table));
}

void calls_record(bool record)
{
	atomic_store(&recording, record);
}

void calls_arm(uintptr_t at, unsigned n, bool on)
{
	fault.at = at;
	fault.n = n;
	fault.on = on;
	atomic_store(&fault.calls, 0);
	atomic_store(&table->fired, false);
	atomic_store(&armed, true);
}

bool calls_disarm(void)
{
	atomic_store(&armed, false);
	return atomic_load(&table->fired);
}

const struct call_place *calls_place(unsigned number)
{
	return number < atomic_load(&table->count) ? &table->places[number] : NULL;
}

static void note(uintptr_t at, const char *name)
{
	unsigned i = 0, count;

	pthread_mutex_lock(&lock);
	count = atomic_load(&table->count);
	while (i < count && table->places[i].at != at)
		i++;
	if (i == count && i < CALL_PLACES) {
		table->places[i] = (struct call_place){.at = at, .name = name};
		atomic_store(&table->count, i + 1);
	}
	if (i < CALL_PLACES)
		table->places[i].calls++;
	pthread_mutex_unlock(&lock);
}

static bool fails(const void *caller, const char *name)
{
	uintptr_t at = (uintptr_t)caller - (uintptr_t)__executable_start;
	unsigned calls;

	if ((uintptr_t)caller >= (uintptr_t)etext || (uintptr_t)caller < (uintptr_t)__executable_start)
		return false;
	if (atomic_load(&recording))
		note(at, name);
	if (!atomic_load(&armed) || at != fault.at)
		return false;
	calls = atomic_fetch_add(&fault.calls, 1) + 1;
	if (calls != fault.n && !(fault.on && calls > fault.n))
		return false;
	atomic_store(&table->fired, true);
	return true;
}

#define CALL(type, name, parameters, arguments, failure, error) \
	type __real_##name parameters; \
	type __wrap_##name parameters; \
	type __wrap_##name parameters \
	{ \
		if (!fails(__builtin_return_address(0), #name)) \
			return __real_##name arguments; \
		errno = (error); \
		return (failure); \
	}

CALL(void *, malloc, (size_t size), (size), NULL, ENOMEM)
CALL(void *, calloc, (size_t n, size_t size), (n, size), NULL, ENOMEM)
CALL(void *, realloc, (void *at, size_t size), (at, size), NULL, ENOMEM)
CALL(void *, reallocarray, (void *at, size_t n, size_t size), (at, n, size), NULL, ENOMEM)
CALL(void *, aligned_alloc, (size_t to, size_t size), (to, size), NULL, ENOMEM)
CALL(int, posix_memalign, (void **at, size_t to, size_t size), (at, to, size), ENOMEM, errno)
CALL(char *, strdup, (const char *text), (text), NULL, ENOMEM)
CALL(char *, strndup, (const char *text, size_t n), (text, n), NULL, ENOMEM)
CALL(char *, realpath, (const char *path, char *real), (path, real), NULL, EIO)
CALL(void *, mmap, (void *at, size_t length, int protection, int flags, int fd, off_t offset),
     (at, length, protection, flags, fd, offset), MAP_FAILED, ENOMEM)
CALL(int, madvise, (void *at, size_t length, int advice), (at, length, advice), -1, ENOMEM)
CALL(int, mincore, (void *at, size_t length, unsigned char *out), (at, length, out), -1, EAGAIN)
CALL(int, pthread_create, (pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *argument),
     (thread, how, run, argument), EAGAIN, errno)
CALL(int, pthread_key_create, (pthread_key_t *key, void (*end)(void *)), (key, end), EAGAIN, errno)
CALL(int, memfd_create, (const char *name, unsigned flags), (name, flags), -1, EMFILE)
CALL(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1, EMFILE)
CALL(int, bind, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length), -1, EADDRINUSE)
CALL(int, listen, (int fd, int backlog), (fd, backlog), -1, EADDRINUSE)
CALL(int, connect, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length), -1, ECONNREFUSED)
CALL(int, accept4, (int fd, struct sockaddr *address, socklen_t *length, int flags), (fd, address, length, flags), -1,
     EMFILE)
CALL(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), -1, EIO)
CALL(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags), -1, EIO)
CALL(ssize_t, pread, (int fd, void *bytes, size_t n, off_t offset), (fd, bytes, n, offset), -1, EIO)
CALL(ssize_t, preadv2, (int fd, const struct iovec *to, int n, off_t offset, int flags), (fd, to, n, offset, flags), -1,
     EIO)
CALL(ssize_t, pwrite, (int fd, const void *bytes, size_t n, off_t offset), (fd, bytes, n, offset), -1, ENOSPC)
CALL(ssize_t, read, (int fd, void *bytes, size_t n), (fd, bytes, n), -1, EIO)
CALL(ssize_t, write, (int fd, const void *bytes, size_t n), (fd, bytes, n), -1, ENOSPC)
CALL(int, ftruncate, (int fd, off_t length), (fd, length), -1, ENOSPC)
CALL(int, fallocate, (int fd, int mode, off_t offset, off_t length), (fd, mode, offset, length), -1, ENOSPC)
CALL(int, fchmod, (int fd, mode_t mode), (fd, mode), -1, EIO)
CALL(int, fstat, (int fd, struct stat *st), (fd, st), -1, EIO)
CALL(int, stat, (const char *path, struct stat *st), (path, st), -1, EIO)
CALL(int, fstatat, (int fd, const char *path, struct stat *st, int flags), (fd, path, st, flags), -1, EIO)
CALL(int, statx, (int fd, const char *path, int flags, unsigned mask, struct statx *st), (fd, path, flags, mask, st), -1,
     EIO)
CALL(int, fstatfs, (int fd, struct statfs *st), (fd, st), -1, EIO)
CALL(ssize_t, readlinkat, (int fd, const char *path, char *to, size_t n), (fd, path, to, n), -1, EIO)
CALL(ssize_t, readahead, (int fd, off_t offset, size_t n), (fd, offset, n), -1, EIO)
CALL(ssize_t, getrandom, (void *bytes, size_t n, unsigned flags), (bytes, n, flags), -1, EAGAIN)
CALL(DIR *, opendir, (const char *path), (path), NULL, EMFILE)
CALL(FILE *, fopen, (const char *path, const char *how), (path, how), NULL, EMFILE)
CALL(char *, getcwd, (char *to, size_t n), (to, n), NULL, ENOMEM)

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_openat(int fd, const char *path, int flags, ...);
int __wrap_openat(int fd, const char *path, int flags, ...);
int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...);
int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static mode_t mode_of(int flags, va_list more)
{
	return flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

int __wrap_open(const char *path, int flags, ...)
{
	va_list more;
	mode_t mode;

	va_start(more, flags);
	mode = mode_of(flags, more);
	va_end(more);
	if (!fails(__builtin_return_address(0), "open"))
		return __real_open(path, flags, mode);
	errno = EMFILE;
	return -1;
}

int __wrap_openat(int fd, const char *path, int flags, ...)
{
	va_list more;
	mode_t mode;

	va_start(more, flags);
	mode = mode_of(flags, more);
	va_end(more);
	if (!fails(__builtin_return_address(0), "openat"))
		return __real_openat(fd, path, flags, mode);
	errno = EMFILE;
	return -1;
}

int __wrap_fcntl(int fd, int what, ...)
{
	va_list more;
	void *argument;

	va_start(more, what);
	argument = va_arg(more, void *);
	va_end(more);
	if (!fails(__builtin_return_address(0), "fcntl"))
		return __real_fcntl(fd, what, argument);
	errno = what == F_DUPFD_CLOEXEC || what == F_DUPFD ? EMFILE : EIO;
	return -1;
}

int __wrap_asprintf(char **text, const char *format, ...)
{
	va_list more;
	int n = -1;

	va_start(more, format);
	if (!fails(__builtin_return_address(0), "asprintf"))
		n = vasprintf(text, format, more);
	va_end(more);
	return n;
}
