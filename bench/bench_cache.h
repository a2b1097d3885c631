/* SPDX-License-Identifier: OLDAP-2.8 */
/* Asks for and changes what the kernel's page cache holds of a file. */
#ifndef BENCH_CACHE_H
#define BENCH_CACHE_H

#include <stdint.h>

/* Reads a file's first `bytes` bytes into the page cache; 0: all of it. Returns 0 or an errno. */
int bench_cache_fill(const char *path, uint64_t bytes);

/* Counts the bytes of an open file that are in the page cache. Returns 0; EPERM where the kernel
 * does not tell this user, because the file is another user's and read-only; or an errno. */
int bench_cache_resident(int fd, uint64_t *bytes);

/* Asks the kernel to drop an open file's pages; pages that another process has mapped stay. Any
 * user who can read the file may ask. */
void bench_cache_forget(int fd);

/* Empties the caches of the whole machine, which only root may do. Returns 0 or an errno. */
int bench_cache_drop_all(void);

/* Takes `bytes` bytes of memory and gives them back. A virtual machine's host may take back memory
 * that has long been free, and its return took 1.7 to 6 ms a MiB on one machine. Otherwise the
 * first reader after a pause would pay for that, whether the original or lmdbio. Huge pages come
 * from the large pieces of free memory; single pages come from remainders, and leave the large
 * pieces whole. */
void bench_cache_touch_memory(uint64_t bytes);

#endif
