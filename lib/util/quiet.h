/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes to a file without the signals that a write may send to the thread that makes it. */
#ifndef LMDBIO_UTIL_QUIET_H
#define LMDBIO_UTIL_QUIET_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

/* Writes all bytes at the file's current position. The program does not get a signal of `signals` (SIGPIPE, SIGXFSZ)
 * that this write causes; a signal that was pending before stays pending. Returns 0 or an errno. Any thread. */
int quiet_put(int fd, const void *bytes, uint64_t length, const sigset_t *signals);

/* How long a file may be made: UINT64_MAX where nothing forbids it. */
static inline uint64_t limits_file(void)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) || limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX
										  : limit.rlim_cur;
}

/* Whether a file may be written to, or made, as long as this many bytes: over RLIMIT_FSIZE that is
 * a signal, so it must not be tried. */
static inline bool limits_allow_file(uint64_t length)
{
	return length <= limits_file();
}

#endif
