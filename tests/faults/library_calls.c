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
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

struct table {
	_Atomic unsigned count;
	atomic_bool fired; /* in this process or a forked child */
	struct call_place places[CALL_PLACES];
};

extern const char __executable_start[], etext[];

static struct table *table;
static atomic_bool recording, armed, spared;
static struct {
	uintptr_t at;
	const char *name;
	unsigned n;
	bool on;
	_Atomic unsigned calls;
} fault;
static unsigned lacking;
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

void calls_arm(const struct call_place *place, unsigned n, bool on)
{
	fault.at = place->at;
	fault.name = place->name;
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

void calls_spare(bool spare)
{
	atomic_store(&spared, spare);
}

const char *calls_failing(void)
{
	return atomic_load(&armed) ? fault.name : NULL;
}

void calls_lack(unsigned what)
{
	lacking = what;
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

	if ((uintptr_t)caller >= (uintptr_t)etext || (uintptr_t)caller < (uintptr_t)__executable_start ||
	    atomic_load(&spared))
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
CALL(int, mprotect, (void *at, size_t length, int protection), (at, length, protection), -1, ENOMEM)
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
CALL(int, fstat, (int fd, struct stat *st), (fd, st), -1, EIO)
CALL(int, stat, (const char *path, struct stat *st), (path, st), -1, EIO)
CALL(int, fstatat, (int fd, const char *path, struct stat *st, int flags), (fd, path, st, flags), -1, EIO)
CALL(int, lstat, (const char *path, struct stat *st), (path, st), -1, EIO)
CALL(int, statvfs, (const char *path, struct statvfs *st), (path, st), -1, EIO)
CALL(int, fstatvfs, (int fd, struct statvfs *st), (fd, st), -1, EIO)
CALL(ssize_t, readlink, (const char *path, char *to, size_t n), (path, to, n), -1, EIO)
CALL(ssize_t, pwritev, (int fd, const struct iovec *from, int n, off_t offset), (fd, from, n, offset), -1, ENOSPC)
CALL(ssize_t, writev, (int fd, const struct iovec *from, int n), (fd, from, n), -1, ENOSPC)
CALL(int, posix_fallocate, (int fd, off_t offset, off_t length), (fd, offset, length), ENOSPC, errno)
CALL(int, posix_fadvise, (int fd, off_t offset, off_t length, int advice), (fd, offset, length, advice), EIO, errno)
CALL(off_t, lseek, (int fd, off_t offset, int from), (fd, offset, from), -1, EIO)
CALL(int, fsync, (int fd), (fd), -1, EIO)
CALL(int, fdatasync, (int fd), (fd), -1, EIO)
CALL(int, flock, (int fd, int how), (fd, how), -1, ENOLCK)
CALL(int, rename, (const char *from, const char *to), (from, to), -1, EIO)
CALL(int, unlink, (const char *path), (path), -1, EIO)
CALL(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags), -1, EIO)
CALL(int, rmdir, (const char *path), (path), -1, EIO)
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode), -1, ENOSPC)
CALL(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode), -1, ENOSPC)
CALL(int, mkostemp, (char *path, int flags), (path, flags), -1, EMFILE)
CALL(int, socketpair, (int domain, int type, int protocol, int *ends), (domain, type, protocol, ends), -1, EMFILE)
CALL(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t length),
     (fd, level, name, value, length), -1, ENOMEM)
CALL(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *length), (fd, level, name, value, length),
     -1, ENOMEM)
CALL(int, pthread_setspecific, (pthread_key_t key, const void *value), (key, value), ENOMEM, errno)
CALL(DIR *, fdopendir, (int fd), (fd), NULL, ENOMEM)
CALL(struct dirent *, readdir, (DIR *directory), (directory), NULL, EIO)
CALL(int, fflush, (FILE *file), (file), EOF, ENOSPC)
#ifdef HAVE_LIBURING
struct io_uring;
CALL(int, io_uring_submit_and_wait, (struct io_uring *ring, unsigned n), (ring, n), -EAGAIN, errno)
CALL(int, io_uring_register_iowq_max_workers, (struct io_uring *ring, unsigned *n), (ring, n), -EINVAL, errno)
#endif
CALL(int, statfs, (const char *path, struct statfs *st), (path, st), -1, EIO)
CALL(int, fstatfs, (int fd, struct statfs *st), (fd, st), -1, EIO)
CALL(ssize_t, readlinkat, (int fd, const char *path, char *to, size_t n), (fd, path, to, n), -1, EIO)
CALL(ssize_t, readahead, (int fd, off_t offset, size_t n), (fd, offset, n), -1, EIO)
CALL(ssize_t, getrandom, (void *bytes, size_t n, unsigned flags), (bytes, n, flags), -1, EAGAIN)
CALL(DIR *, opendir, (const char *path), (path), NULL, EMFILE)
CALL(char *, getcwd, (char *to, size_t n), (to, n), NULL, ENOMEM)

CALL(int, access, (const char *path, int mode), (path, mode), -1, EIO)
CALL(int, faccessat, (int fd, const char *path, int mode, int flags), (fd, path, mode, flags), -1,
     EIO)
CALL(int, dup2, (int from, int to), (from, to), -1, EMFILE)
CALL(FILE *, fdopen, (int fd, const char *how), (fd, how), NULL, ENOMEM)
CALL(int, setenv, (const char *name, const char *value, int over), (name, value, over), -1, ENOMEM)
CALL(int, eventfd, (unsigned first, int flags), (first, flags), -1, EMFILE)
CALL(int, epoll_create1, (int flags), (flags), -1, EMFILE)
CALL(int, epoll_ctl, (int fd, int what, int other, struct epoll_event *event),
     (fd, what, other, event), -1, ENOSPC)
CALL(ssize_t, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags), -1, ENOMEM)

/* A kernel or a sandbox that lacks something refuses it, the place's own failure aside. */
#define CALL_LACKED(type, name, parameters, arguments, failure, error, lacks, refuses) \
	type __real_##name parameters; \
	type __wrap_##name parameters; \
	type __wrap_##name parameters \
	{ \
		if (fails(__builtin_return_address(0), #name)) { \
			errno = (error); \
			return (failure); \
		} \
		if (lacking & (lacks)) { \
			refuses; \
		} \
		return __real_##name arguments; \
	}

static bool is_lacked_advice(int advice)
{
	return (lacking & LACK_REMOVE && advice == MADV_REMOVE) ||
	       (lacking & LACK_POPULATE && advice == MADV_POPULATE_READ);
}

CALL_LACKED(int, madvise, (void *at, size_t length, int advice), (at, length, advice), -1, ENOMEM,
	    LACK_REMOVE | LACK_POPULATE, if (is_lacked_advice(advice)) return (errno = EINVAL, -1))
CALL_LACKED(int, fallocate, (int fd, int mode, off_t offset, off_t length), (fd, mode, offset, length), -1, ENOSPC,
	    LACK_FALLOCATE, if (!mode) return (errno = EOPNOTSUPP, -1))
CALL_LACKED(int, mincore, (void *at, size_t length, unsigned char *out), (at, length, out), -1, EAGAIN, LACK_TOLD,
	    return (memset(out, 1, (length + 4095) / 4096), 0))
CALL_LACKED(int, renameat2, (int in, const char *from, int into, const char *to, unsigned flags),
	    (in, from, into, to, flags), -1, EIO, LACK_NOREPLACE, return (errno = EINVAL, -1))
CALL_LACKED(int, renameat, (int in, const char *from, int into, const char *to),
	    (in, from, into, to), -1, EIO, LACK_SEAL,
	    if (strstr(to, ".seal")) return (errno = EIO, -1))
CALL_LACKED(FILE *, fopen, (const char *path, const char *how), (path, how), NULL, EMFILE, LACK_NAMES,
	    if (strstr(path, "/net/unix")) return (errno = EACCES, NULL))
CALL_LACKED(int, statx, (int fd, const char *path, int flags, unsigned mask, struct statx *st),
	    (fd, path, flags, mask, st), -1, EIO, LACK_STATX, return (errno = ENOSYS, -1))
CALL_LACKED(int, fchmod, (int fd, mode_t mode), (fd, mode), -1, EIO, LACK_ATTRIBUTES,
	    return (errno = EPERM, -1))
CALL_LACKED(int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group), -1, EIO,
	    LACK_ATTRIBUTES, return (errno = ENOSYS, -1))
CALL_LACKED(int, futimens, (int fd, const struct timespec *times), (fd, times), -1, EIO,
	    LACK_ATTRIBUTES, return (errno = EOPNOTSUPP, -1))
#ifdef HAVE_LIBURING
CALL_LACKED(int, io_uring_queue_init, (unsigned n, struct io_uring *ring, unsigned flags), (n, ring, flags), -ENOMEM,
	    errno, LACK_RING, return -ENOSYS)
#endif

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_openat(int fd, const char *path, int flags, ...);
int __wrap_openat(int fd, const char *path, int flags, ...);
int __real_fcntl(int fd, int what, ...);
int __wrap_fcntl(int fd, int what, ...);
int __wrap_asprintf(char **text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What the compiler makes of such calls where it checks lengths. */
int __wrap___asprintf_chk(char **text, int flag, const char *format, ...) __attribute__((format(printf, 3, 4)));
ssize_t __wrap___pread_chk(int fd, void *bytes, size_t n, off_t offset, size_t room);
int __wrap___openat_2(int fd, const char *path, int flags);
ssize_t __real_getline(char **line, size_t *room, FILE *file);
ssize_t __wrap_getline(char **line, size_t *room, FILE *file);
ssize_t __wrap___getdelim(char **line, size_t *room, int end, FILE *file);

void *__real_mremap(void *at, size_t length, size_t longer, int flags, ...);
void *__wrap_mremap(void *at, size_t length, size_t longer, int flags, ...);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

/* A wait for another thread, or its end, is no call that fails. */
long __wrap_syscall(long number, ...)
{
	long words[6];
	va_list more;

	va_start(more, number);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		words[i] = va_arg(more, long);
	va_end(more);
	if (number != SYS_futex && (lacking & LACK_SYSCALLS || fails(__builtin_return_address(0), "syscall"))) {
		errno = ENOSYS;
		return -1;
	}
	return __real_syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

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
	if (!fails(__builtin_return_address(0), "open")) {
		if (!(lacking & LACK_TMPFILE) || (flags & O_TMPFILE) != O_TMPFILE)
			return __real_open(path, flags, mode);
		errno = EOPNOTSUPP;
		return -1;
	}
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
	if (!fails(__builtin_return_address(0), "openat") &&
	    !(lacking & LACK_DIRECTORY && !strcmp(path, ".") && !(flags & O_PATH)))
		return __real_openat(fd, path, flags, mode);
	errno = EMFILE;
	return -1;
}

void *__wrap_mremap(void *at, size_t length, size_t longer, int flags, ...)
{
	va_list more;
	void *to;

	va_start(more, flags);
	to = va_arg(more, void *);
	va_end(more);
	if (!fails(__builtin_return_address(0), "mremap"))
		return __real_mremap(at, length, longer, flags, to);
	errno = ENOMEM;
	return MAP_FAILED;
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

int __wrap___asprintf_chk(char **text, int flag, const char *format, ...)
{
	va_list more;
	int n = -1;

	(void)flag;
	va_start(more, format);
	if (!fails(__builtin_return_address(0), "asprintf"))
		n = vasprintf(text, format, more);
	va_end(more);
	return n;
}

ssize_t __wrap___pread_chk(int fd, void *bytes, size_t n, off_t offset, size_t room)
{
	if (n > room)
		abort();
	if (!fails(__builtin_return_address(0), "pread"))
		return __real_pread(fd, bytes, n, offset);
	errno = EIO;
	return -1;
}

int __wrap___openat_2(int fd, const char *path, int flags)
{
	if (!fails(__builtin_return_address(0), "openat") &&
	    !(lacking & LACK_DIRECTORY && !strcmp(path, ".") && !(flags & O_PATH)))
		return __real_openat(fd, path, flags);
	errno = EMFILE;
	return -1;
}

/* A file whose read fails says so to ferror(3). */
static ssize_t line_fails(FILE *file)
{
	enum { ERROR_SEEN = 0x20 };

	file->_flags |= ERROR_SEEN;
	errno = EIO;
	return -1;
}

ssize_t __wrap_getline(char **line, size_t *room, FILE *file)
{
	return fails(__builtin_return_address(0), "getline") ? line_fails(file) : getdelim(line, room, '\n', file);
}

ssize_t __wrap___getdelim(char **line, size_t *room, int end, FILE *file)
{
	return fails(__builtin_return_address(0), "getline") ? line_fails(file) : getdelim(line, room, end, file);
}
