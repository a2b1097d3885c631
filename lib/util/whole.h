/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads and writes all bytes of a range, on request without the signals that a write may send. */
#ifndef LMDBIO_UTIL_WHOLE_H
#define LMDBIO_UTIL_WHOLE_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* Writes all bytes at an offset. Returns 0 or an errno (ENOSPC if a call has written nothing). */
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

/* Writes all bytes at the file's position. Returns 0 or an errno (EIO if a call has written
 * nothing). */
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

/* Writes all of `n` parts, one behind the other, at an offset or at the file's position (-1).
 * Changes the parts. Returns 0 or an errno (EIO if a call has written nothing). */
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

/* Reads all bytes at an offset. Returns 0, an errno, or `shorter` if the file ends before. */
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

/* Writes all bytes at the file's current position. The program does not get a signal of `signals`
 * (SIGPIPE, SIGXFSZ) that this write causes; a signal that was pending before stays pending.
 * Returns 0 or an errno. Any thread. */
int quiet_put(int fd, const void *bytes, uint64_t length, const sigset_t *signals);

/* Returns how long a file may be made; UINT64_MAX: nothing forbids any length. */
static inline uint64_t limits_file(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX
										  : limit.rlim_cur;
}

/* Whether a file may be written to, or made, as long as this many bytes. Over RLIMIT_FSIZE a write
 * raises a signal, so the caller must not try. */
static inline bool limits_allow_file(uint64_t length)
{
	return length <= limits_file();
}

#endif
