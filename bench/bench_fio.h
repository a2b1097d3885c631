/* SPDX-License-Identifier: OLDAP-2.8 */
/* Measures how fast fio, the usual benchmark of storage, reads a file. */
#ifndef BENCH_FIO_H
#define BENCH_FIO_H

#include <stdint.h>

/* Measures the seconds that `fio --rw=read --bs=1M --iodepth=16 --direct=1` takes for a file of
 * `size` bytes, without fio's own start. Returns 0; ENOENT if fio is not in PATH; EIO, after a line
 * on standard error, if fio cannot read this file so. */
int fio_read(const char *path, uint64_t size, double *seconds);

#endif
