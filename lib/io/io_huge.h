/* SPDX-License-Identifier: OLDAP-2.8 */
/* Has the page cache hold a file in huge folios. */
#ifndef LMDBIO_IO_HUGE_H
#define LMDBIO_IO_HUGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a range of a file into the page cache, and what is around it up to multiples of 2 MiB, as
 * folios of that size if the kernel and the file system know such. Waits for it. true: all of the
 * range is there. false: it is to be read in another way, whatever the reason. Any thread. */
bool io_huge_keep(int fd, uint64_t offset, size_t length);

#endif
