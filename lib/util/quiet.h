/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes without the signals that a write may send to the thread that makes it. */
#ifndef LMDBIO_UTIL_QUIET_H
#define LMDBIO_UTIL_QUIET_H

#include <signal.h>
#include <stdint.h>

/* Writes all bytes at the file's current position. The program does not get a signal of `signals` (SIGPIPE, SIGXFSZ)
 * that this write causes; a signal that was pending before stays pending. Returns 0 or an errno. Any thread. */
int quiet_put(int fd, const void *bytes, uint64_t length, const sigset_t *signals);

#endif
