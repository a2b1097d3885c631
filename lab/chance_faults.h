/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes calls of the C library fail by chance, in the whole process.
 *
 * In a program linked with this file and with -Wl,--export-dynamic, these definitions come before
 * the C library's: calls of shared libraries come here too. While no chance is set, each call is
 * passed on.
 */
#ifndef LMDBIO_LAB_CHANCE_FAULTS_H
#define LMDBIO_LAB_CHANCE_FAULTS_H

#include <stdatomic.h>
#include <stdint.h>

enum chance_kind {
	CHANCE_READ,       /* pread(), preadv2(), reads of io_uring: EIO, EINTR, fewer bytes */
	CHANCE_WRITE,      /* pwrite(): ENOSPC */
	CHANCE_MEMORY,     /* malloc() and its kin: ENOMEM */
	CHANCE_MAP,        /* mmap(): ENOMEM */
	CHANCE_DESCRIPTOR, /* open(), memfd_create(), socket(): EMFILE */
	CHANCE_THREAD,     /* pthread_create(): EAGAIN */
	CHANCE_KINDS,
};

/* Calls since the counters were zero, and the failed ones of them. */
struct chance_counts {
	_Atomic uint64_t calls[CHANCE_KINDS], failed[CHANCE_KINDS];
};

/* Makes one call in `one_in` fail from now on; 0: none. `seed` decides which calls of the process
 * fail. Counts go to `counts`, which may be in shared memory and must stay valid. */
void chance_set(uint64_t seed, uint32_t one_in, struct chance_counts *counts);
/* Makes no call fail until chance_go_on() has been called as often. Does not count calls meanwhile.
 * Threads: any; applies to all. */
void chance_pause(void);
void chance_go_on(void);
/* Returns the calls of this process that have failed so far. */
uint64_t chance_failed(void);

#endif
