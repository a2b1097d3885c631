/* SPDX-License-Identifier: OLDAP-2.8 */
/* Measures how fast fio, the usual benchmark of storage, reads a file. */
#ifndef BENCH_FIO_H
#define BENCH_FIO_H

#include <stdint.h>

/* Seconds that `fio --rw=read --bs=1M --iodepth=16 --direct=1` takes for a file of `size` bytes,
 * fio's own start left out. Returns 0; ENOENT where there is no fio in PATH; EIO, after a line on
 * standard error, where it cannot read this file so. */
int fio_read(const char *path, uint64_t size, double *seconds);

#endif
