/* SPDX-License-Identifier: OLDAP-2.8 */
/* Repeats calls that read or write less than they were told to. */
#ifndef LMDBIO_UTIL_WHOLE_H
#define LMDBIO_UTIL_WHOLE_H

#include <errno.h>
#include <stdint.h>
#include <unistd.h>

/* Writes all of it. Returns 0 or an errno (ENOSPC where a call has written nothing). */
static inline int whole_write(int fd, const void *bytes, uint64_t length, uint64_t offset)
{
	while (length > 0) {
		ssize_t n = pwrite(fd, bytes, length, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : ENOSPC;
		bytes = (const char *)bytes + n;
		offset += (uint64_t)n;
		length -= (uint64_t)n;
	}
	return 0;
}

/* Writes all of it where the file stands. Returns 0 or an errno (EIO where a call has written nothing). */
static inline int whole_put(int fd, const void *bytes, uint64_t length)
{
	while (length > 0) {
		ssize_t n = write(fd, bytes, length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : EIO;
		bytes = (const char *)bytes + n;
		length -= (uint64_t)n;
	}
	return 0;
}

/* Reads all of it. Returns 0, an errno, or `shorter` where the file ends before. */
static inline int whole_read(int fd, void *bytes, uint64_t length, uint64_t offset, int shorter)
{
	while (length > 0) {
		ssize_t n = pread(fd, bytes, length, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : shorter;
		bytes = (char *)bytes + n;
		offset += (uint64_t)n;
		length -= (uint64_t)n;
	}
	return 0;
}

#endif
