/* SPDX-License-Identifier: OLDAP-2.8 */
/* Repeats calls that read or write less than they were told to. */
#ifndef LMDBIO_UTIL_WHOLE_H
#define LMDBIO_UTIL_WHOLE_H

#include <errno.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>
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

/* Writes all of `n` parts, which it changes, one behind the other: at an offset, or where the file stands (-1). Returns
 * 0 or an errno (EIO where a call has written nothing). */
static inline int whole_write_parts(int fd, struct iovec *parts, int n, off_t offset)
{
	ssize_t done = 0;

	for (;;) {
		for (; n > 0 && (size_t)done >= parts->iov_len; parts++, n--)
			done -= (ssize_t)parts->iov_len;
		if (n <= 0)
			return 0;
		parts->iov_base = (char *)parts->iov_base + done;
		parts->iov_len -= (size_t)done;
		do
			done = offset < 0 ? writev(fd, parts, n) : pwritev(fd, parts, n, offset);
		while (done < 0 && errno == EINTR);
		if (done <= 0)
			return done ? errno : EIO;
		offset = offset < 0 ? offset : offset + done;
	}
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
