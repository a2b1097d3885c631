/* SPDX-License-Identifier: OLDAP-2.8 */
/* Asks the kernel what its page cache holds, and knows that it does not tell every user. */
#ifndef LMDBIO_IO_TOLD_H
#define LMDBIO_IO_TOLD_H

#include <stdbool.h>
#include <stdint.h>

/* Whether mincore(2) says of this file what is in the page cache. false: it says that all is. Any
 * thread. */
bool io_is_told(int fd);

/* The same, of a map of the file: a page that lies a huge page's length behind the file's end. */
bool io_is_told_behind(void *behind);

/* How many pages of a range the page cache has, by one system call and no map; those that are being read
 * count. Returns 0, or an errno: the kernel is older than 6.5, or a sandbox refuses. Any thread. */
int io_pages_cached(int fd, uint64_t offset, uint64_t length, uint64_t *pages);

#endif
