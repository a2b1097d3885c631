/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes the n-th allocation, map, thread or descriptor that lmdbio requests fail.
 *
 * The linker leads these calls of a test program, and of all code linked into it, here
 * (FAULT_LDFLAGS in Makemodule.am), but not calls inside shared libraries. While a fault is armed,
 * calls of all threads count.
 */
#ifndef LMDBIO_TEST_CALL_FAULTS_H
#define LMDBIO_TEST_CALL_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

enum fault_kind {
	FAULT_MEMORY = 1,     /* malloc() and its kin: NULL, ENOMEM */
	FAULT_MAP = 2,        /* mmap(): ENOMEM */
	FAULT_THREAD = 4,     /* pthread_create(): EAGAIN */
	FAULT_DESCRIPTOR = 8, /* open() and other descriptor calls: EMFILE */
};

/* Makes the n-th call of these kinds from now on fail, n from 1; with `on`, all later ones. */
void fault_arm(unsigned kinds, uint64_t n, bool on);
/* Makes no call fail any more. Returns whether one has failed. */
bool fault_disarm(void);
/* Returns the calls of the armed kinds since then. */
uint64_t fault_calls(void);

#endif
