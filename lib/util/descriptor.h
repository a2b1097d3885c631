/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps a library's descriptor in a program that may close it. */
#ifndef LMDBIO_UTIL_DESCRIPTOR_H
#define LMDBIO_UTIL_DESCRIPTOR_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A second descriptor of a number that is not soon given to a file of a program that has closed
 * what it did not open. -1: there is none. */
static inline int descriptor_twin(int fd)
{
	enum { HIGH = 1000 };

	return fcntl(fd, F_DUPFD_CLOEXEC, HIGH);
}

/* The same in place of the first, if there is one. */
static inline int descriptor_lift(int fd)
{
	int high = descriptor_twin(fd);

	if (high < 0)
		return fd;
	close(fd);
	return high;
}

/* Whether fewer than half of the descriptors that a process may have are in use: the others are for
 * the program, which opens data sets by the hundred and knows of none of ours. `fd`: any one. */
static inline bool descriptors_spare(int fd)
{
	int next = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	struct rlimit limit;

	if (next < 0)
		return false;
	close(next);
	return getrlimit(RLIMIT_NOFILE, &limit) || (rlim_t)next < limit.rlim_cur / 2;
}

/* Whether it still is the file that it was. Asked before each read, so a file system on a network
 * is not to ask its server for what does not change. */
static inline bool descriptor_is(int fd, uint64_t device, uint64_t inode)
{
	struct stat st;
#ifdef STATX_INO
	struct statx now;

	/* Some sandboxes know no statx(2). */
	if (!statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &now))
		return makedev(now.stx_dev_major, now.stx_dev_minor) == device &&
		       now.stx_ino == inode;
#endif
	return !fstat(fd, &st) && st.st_dev == device && st.st_ino == inode;
}

/* Closes what still is the file that it was: what has taken its place is the program's. */
static inline void descriptor_close(int fd, uint64_t device, uint64_t inode)
{
	if (fd >= 0 && descriptor_is(fd, device, inode))
		close(fd);
}

#endif
