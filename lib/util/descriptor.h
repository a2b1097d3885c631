/* What only this file knows: how a library keeps a descriptor in a program that may close it. */
#ifndef LMDBIO_UTIL_DESCRIPTOR_H
#define LMDBIO_UTIL_DESCRIPTOR_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* A number that is not soon given to a file of a program that has closed what it did not open. */
static inline int descriptor_lift(int fd)
{
	enum { HIGH = 1000 };
	int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);

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

/* Whether it still is the file that it was. */
static inline bool descriptor_is(int fd, uint64_t device, uint64_t inode)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_dev == device && st.st_ino == inode;
}

#endif
