/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads small files that the kernel makes up: below /proc. */
#ifndef LMDBIO_UTIL_KERNEL_FILE_H
#define LMDBIO_UTIL_KERNEL_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

/* Reads the beginning of a file into text[size], with a final 0. errno stays. Takes no lock, so a forked child may call
 * it. False, with an empty text: the file cannot be read or is empty. */
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

#endif
