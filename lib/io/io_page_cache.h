/* SPDX-License-Identifier: OLDAP-2.8 */
/* Asks the kernel what its page cache holds and how far it reads ahead, and has it hold more of a
 * file. A failed read is an errno. */
#ifndef LMDBIO_IO_PAGE_CACHE_H
#define LMDBIO_IO_PAGE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Takes the page fault of a mapped page as the program would: the kernel reads what it reads for a
 * fault, and makes the same page-table entries. `page` is a page's first byte. Returns 0; EIO where
 * the program would get SIGBUS; or ENOSYS: this kernel takes no fault within a call, and the
 * program is to take its own. Any thread. */
int io_touch(const void *page);

/* Whether io_touch() takes far longer on this machine than a fault of the program's own, as on some
 * virtual machines. The first call of a process measures it, in about 10 us. Any thread. */
bool io_touch_is_dear(void);

/* Bytes: of one request of io_begin(), at least. */
enum { IO_BEGIN_LEAST = 128 << 10 };

/* Has the kernel read the missing pages of a range for the page cache, in as few requests as it can,
 * without a wait. Returns 0, or an errno. Any thread. */
int io_begin(int fd, uint64_t offset, uint64_t length);

/* Reads bytes of a file for the page cache alone. Where `fd` is open for random access
 * (POSIX_FADV_RANDOM) the kernel reads these pages and no others, all at a time. Returns 0, or an
 * errno: EIO also where the file ends before. Any thread. */
int io_pass(int fd, uint64_t offset, size_t length);

/* Whether mincore(2) tells what the page cache holds of this file. Returns false if it says that
 * all is there. Any thread. */
bool io_is_told(int fd);

/* The same by a map of the file: `behind` is a page a huge page's length beyond the file's end. */
bool io_is_told_behind(void *behind);

/* Counts the pages of a range in the page cache, also those being read, by one system call and no
 * map. Returns 0, or an errno: the kernel is older than 6.5, or a sandbox refuses. Any thread. */
int io_pages_cached(int fd, uint64_t offset, uint64_t length, uint64_t *pages);

/* Reads a range of a file, widened to multiples of 2 MiB, into the page cache, as folios of that
 * size if the kernel and the file system know such. Waits for it. Returns true if all of the range
 * is there, false if it is to be read in another way, whatever the reason. Any thread. */
bool io_huge_keep(int fd, uint64_t offset, size_t length);

/* Bytes that the kernel reads ahead of a program that goes through a file, unless the program asks
 * it not to. 0: the kernel does not tell, as for a file system over several devices, or where sysfs
 * is not mounted. Any thread. */
uint64_t io_kernel_ahead(int fd);

#endif
