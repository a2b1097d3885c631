/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps a library's descriptor in a program that may close it. */
#ifndef LMDBIO_UTIL_DESCRIPTOR_H
#define LMDBIO_UTIL_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Duplicates a descriptor under a number of at least 1000. Programs that close descriptors they did
 * not open do not soon give such a number to a file of their own. Returns -1 on failure. */
static inline int descriptor_twin(int fd)
{
	enum { HIGH = 1000 };

	return fcntl(fd, F_DUPFD_CLOEXEC, HIGH);
}

/* Moves a descriptor to such a number, if there is one. Returns the descriptor to use. */
static inline int descriptor_lift(int fd)
{
	int high = descriptor_twin(fd);

	if (high < 0)
		return fd;
	close(fd);
	return high;
}

/* Whether fewer than half of the process's descriptors are in use. The other half is for the
 * program, which may open data sets by the hundred and does not know lmdbio's. A second descriptor
 * of a data file would tell too, but to close it drops the program's own fcntl(2) locks on that
 * file. */
static inline bool descriptors_spare(void)
{
	int next = open("/", O_PATH | O_CLOEXEC);
	struct rlimit limit;

	if (next < 0)
		return false;
	close(next);
	return getrlimit(RLIMIT_NOFILE, &limit) || (rlim_t)next < limit.rlim_cur / 2;
}

/* Whether the process may open `count` more descriptors. */
static inline bool descriptors_free(int count)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return true;
	for (rlim_t fd = 0; count > 0 && fd < limit.rlim_cur; fd++)
		count -= fcntl((int)fd, F_GETFD) < 0;
	return count <= 0;
}

/* The file that a descriptor leads to, and its size in bytes. */
struct descriptor_file {
	uint64_t device, inode, size;
};

/* Asks the kernel which file a descriptor leads to. `flags`: of statx(2); AT_STATX_DONT_SYNC avoids
 * a request to a file server. fstat(2) returns the times too. On Linux 6.13 and later, the next
 * change of a file whose times were returned costs an update of its inode. Returns false, with
 * errno, if the kernel cannot tell. */
static inline bool descriptor_look(int fd, int flags, struct descriptor_file *file)
{
	struct stat st;
#ifdef STATX_INO
	struct statx now;

	/* Some sandboxes do not support statx(2). */
	if (!statx(fd, "", AT_EMPTY_PATH | flags, STATX_INO | STATX_SIZE, &now)) {
		*file = (struct descriptor_file){
			makedev(now.stx_dev_major, now.stx_dev_minor), now.stx_ino, now.stx_size};
		return true;
	}
#else
	(void)flags;
#endif
	if (fstat(fd, &st))
		return false;
	*file = (struct descriptor_file){st.st_dev, st.st_ino, (uint64_t)st.st_size};
	return true;
}

/* Whether open() has failed for want of descriptors or memory: the file may be there. */
static inline bool descriptor_is_short(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM;
}

/* Whether a descriptor still leads to its file; asked before each read. If not, sets errno: EBADF
 * if it leads to another file, or why the kernel cannot tell. */
static inline bool descriptor_is(int fd, uint64_t device, uint64_t inode)
{
#ifdef AT_STATX_DONT_SYNC
	const int flags = AT_STATX_DONT_SYNC;
#else
	const int flags = 0;
#endif
	struct descriptor_file file;

	if (!descriptor_look(fd, flags, &file))
		return false;
	if (file.device == device && file.inode == inode)
		return true;
	errno = EBADF;
	return false;
}

/* Closes a descriptor if it still leads to its file: any other file is the program's. */
static inline void descriptor_close(int fd, uint64_t device, uint64_t inode)
{
	if (fd >= 0 && descriptor_is(fd, device, inode))
		close(fd);
}

/* A descriptor that lmdbio keeps, and the file that it led to. */
struct descriptor_kept {
	int fd; /* -1: none */
	uint64_t device, inode;
};

/* Keeps `fd`, under a high number if there is one. Returns 0, or an errno; `fd` is closed then. */
static inline int descriptor_keep(struct descriptor_kept *kept, int fd)
{
	struct descriptor_file file;

	*kept = (struct descriptor_kept){.fd = -1};
	fd = descriptor_lift(fd);
	if (!descriptor_look(fd, 0, &file)) {
		int rc = errno;

		close(fd);
		return rc;
	}
	*kept = (struct descriptor_kept){fd, file.device, file.inode};
	return 0;
}

static inline bool descriptor_is_kept(const struct descriptor_kept *kept)
{
	return kept->fd >= 0 && descriptor_is(kept->fd, kept->device, kept->inode);
}

static inline void descriptor_kept_close(struct descriptor_kept *kept)
{
	descriptor_close(kept->fd, kept->device, kept->inode);
	kept->fd = -1;
}

#endif
