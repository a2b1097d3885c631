/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes the n-th allocation, map, thread or descriptor that lmdbio asks for fail.
 *
 * The linker leads these calls of a test program, and of all that is linked into it, here
 * (FAULT_LDFLAGS in Makemodule.am). Calls inside shared libraries are not led here. Calls are
 * counted over all threads while a fault is armed.
 */
#ifndef LMDBIO_TEST_CALL_FAULTS_H
#define LMDBIO_TEST_CALL_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

enum fault_kind {
	FAULT_MEMORY = 1,      /* malloc() and its kin: NULL, ENOMEM */
	FAULT_MAP = 2,	       /* mmap(): ENOMEM */
	FAULT_THREAD = 4,      /* pthread_create(): EAGAIN */
	FAULT_DESCRIPTOR = 8,  /* open() and others that make one: EMFILE */
};

/* The n-th call of these kinds from now on fails, n from 1; with `on`, all after it as well. */
void fault_arm(unsigned kinds, uint64_t n, bool on);
/* No call fails any more. Returns whether one has. */
bool fault_disarm(void);
/* Calls of the armed kinds since then. */
uint64_t fault_calls(void);

#endif
