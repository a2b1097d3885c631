/* SPDX-License-Identifier: OLDAP-2.8 */
/* Brings bytes of a file into the page cache in a system call, where a failed read is an errno. */
#ifndef LMDBIO_IO_TOUCH_H
#define LMDBIO_IO_TOUCH_H

#include <stddef.h>
#include <stdint.h>

/* Takes the page fault of a mapped page as the program would: the kernel reads what it reads for a
 * fault, and makes the same page-table entries. `page` is a page's first byte. Returns 0; EIO where
 * the program would get SIGBUS; or ENOSYS: this kernel takes no fault in a call, the program is to
 * take its own. Any thread. */
int io_touch(const void *page);

/* Reads bytes of a file for the page cache alone. Where `fd` is open for random access
 * (POSIX_FADV_RANDOM) the kernel reads these pages and no others, all at a time. Returns 0, or an
 * errno: EIO also where the file ends before. Any thread. */
int io_pass(int fd, uint64_t offset, size_t length);

/* The same without a wait. Returns 0: all of it is there; EAGAIN: it is not, and what is missing of
 * the first 256 KiB is on its way; EOPNOTSUPP: the file system does not tell; or an errno. */
int io_pass_now(int fd, uint64_t offset, size_t length);

#endif
