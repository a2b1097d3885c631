/* SPDX-License-Identifier: OLDAP-2.8 */
/* The kernel's page cache: what it holds of a file, and how that is filled and emptied. */
#ifndef BENCH_CACHE_H
#define BENCH_CACHE_H

#include <stdint.h>

/* Reads a file's first `bytes` bytes into the page cache; 0: the whole file. Returns 0 or an errno.
 */
int bench_cache_fill(const char *path, uint64_t bytes);

/* How many bytes of an open file are in the page cache. Returns 0; EPERM where the kernel does not
 * tell this user, because the file is another user's and read-only; or an errno. */
int bench_cache_resident(int fd, uint64_t *bytes);

/* Asks the kernel to forget an open file's pages; those that another process has mapped stay. Any
 * user who can read the file may ask. */
void bench_cache_forget(int fd);

/* Empties the caches of the whole machine, which only root may do. Returns 0 or an errno. */
int bench_cache_drop_all(void);

/* Takes as much memory and gives it back. A virtual machine's host may take back memory that has
 * long been free, and giving it again took 1.7 to 6 ms a MiB on one machine: the first reader after
 * a pause would pay for that, the original or lmdbio. Huge pages come from the large pieces of free
 * memory; single pages come from what is left of others, and leave the large pieces as they are. */
void bench_cache_touch_memory(uint64_t bytes);

#endif
