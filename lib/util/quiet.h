/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes without the signals that a write may send to the thread that makes it. */
#ifndef LMDBIO_UTIL_QUIET_H
#define LMDBIO_UTIL_QUIET_H

#include <signal.h>
#include <stdint.h>

/* Writes all of it where the file stands; of the `signals` (SIGPIPE, SIGXFSZ) the program gets none that this write
 * sends, and one that was pending before stays so. Returns 0 or an errno. Any thread. */
int quiet_put(int fd, const void *bytes, uint64_t length, const sigset_t *signals);

#endif
