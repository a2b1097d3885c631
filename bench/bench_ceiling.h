/* SPDX-License-Identifier: OLDAP-2.8 */
/* Measures how fast the machine itself is, without any LMDB. */
#ifndef BENCH_CEILING_H
#define BENCH_CEILING_H

#include <stdint.h>

struct ceiling_limit {
	uint64_t bytes; /* 0: the whole file */
	double seconds; /* no request begins after that; 0: no limit */
};

/* Reads a file once by O_DIRECT, in requests of 1 MiB, 16 in flight, each in a thread of its own.
 * *seconds: the time that took; *bytes: how much was read. Returns 0 or an errno. */
int ceiling_direct(const char *path, const struct ceiling_limit *limit, double *seconds,
		   uint64_t *bytes);

/* Bytes a second that memcpy moves between buffers larger than the caches: the best of a few. */
int ceiling_memory(double *bytes_a_second);

#endif
