/* SPDX-License-Identifier: OLDAP-2.8 */
/* Measures how fast the machine itself is, without any LMDB. */
#ifndef BENCH_CEILING_H
#define BENCH_CEILING_H

#include <stdint.h>

/* Seconds to read a file once by O_DIRECT, in requests of 1 MiB, 16 in flight, each in a thread of
 * its own. Returns 0 or an errno. */
int ceiling_direct(const char *path, double *seconds);

/* Bytes a second that memcpy moves between buffers larger than the caches: the best of a few. */
int ceiling_memory(double *bytes_a_second);

#endif
