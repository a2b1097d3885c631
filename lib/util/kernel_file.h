/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads small files that the kernel makes up, below /proc: a process's account of storage and its
 * locks. */
#ifndef LMDBIO_UTIL_KERNEL_FILE_H
#define LMDBIO_UTIL_KERNEL_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>

/* Reads the beginning of a file into text[size], with a final 0. Keeps errno. Takes no lock, so a
 * forked child may call it. Returns false, with an empty text, if the file cannot be read or is
 * empty. */
static inline bool kernel_file_read(const char *path, char *text, size_t size)
{
	int saved = errno, fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	errno = saved;
	text[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* Finds how many bytes the kernel has read from disks for a process; pid 0: this process, for which
 * a kernel that does not count says 0. Returns false if the kernel does not tell. Threads: any.
 *
 * read_bytes of /proc/PID/io counts the bytes that block devices delivered for all threads of the
 * process: by read(2), by page faults with the pages around them, or by the kernel's own
 * look-ahead. Bytes from the page cache, a network or FUSE are not counted. */
bool disk_reads(pid_t pid, uint64_t *bytes);

/* Whether this process has fcntl(2) locks on the file of a descriptor, as far as /proc/locks tells.
 * The kernel drops them when the process closes any descriptor of the file. Keeps errno. Threads:
 * any. */
bool file_is_locked_here(int fd);

/* The same for the file with this inode number. */
bool inode_is_locked_here(ino_t file);

#endif
