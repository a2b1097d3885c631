/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes calls of the C library fail by chance, in the whole process.
 *
 * A program that is linked with this file, and with -Wl,--export-dynamic, has these calls' names
 * before the C library: calls of shared libraries come here too. While no chance is set, each call
 * is passed on.
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

/* Calls since the counters were zero, and those of them that failed. */
struct chance_counts {
	_Atomic uint64_t calls[CHANCE_KINDS], failed[CHANCE_KINDS];
};

/* From now on one call in `one_in` fails; 0: none. The n-th call of the process fails or not as
 * `seed` says. Counts go to `counts`, which may be in shared memory and must stay. */
void chance_set(uint64_t seed, uint32_t one_in, struct chance_counts *counts);
/* No call fails until as many chance_go_on() have been called. Calls are not counted meanwhile.
 * Threads: any; it holds for all. */
void chance_pause(void);
void chance_go_on(void);
/* Calls of this process that have failed so far. */
uint64_t chance_failed(void);

#endif
