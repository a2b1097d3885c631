/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what this process may do to a file without getting a signal. */
#ifndef LMDBIO_UTIL_LIMITS_H
#define LMDBIO_UTIL_LIMITS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

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
