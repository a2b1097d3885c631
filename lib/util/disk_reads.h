/* SPDX-License-Identifier: OLDAP-2.8 */
/* Asks the kernel how many bytes it has read from disks for a process.
 *
 * read_bytes of /proc/PID/io counts what all threads of the process have had fetched from block
 * devices, whichever way: by read(2), by page faults with what the kernel reads around them, or by
 * the kernel's own look-ahead. What was in the page cache is not in it, nor what comes over a
 * network or from FUSE. */
#ifndef LMDBIO_UTIL_DISK_READS_H
#define LMDBIO_UTIL_DISK_READS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* pid 0: this process, of which a kernel that does not count says 0. false: the kernel does not tell. Threads: any. */
bool disk_reads(pid_t pid, uint64_t *bytes);

#endif
