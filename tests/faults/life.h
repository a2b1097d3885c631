/* SPDX-License-Identifier: OLDAP-2.8 */
/* One thing that a program does with lmdbio, for tests in which one of its calls fails, and how a process that does
 * it ends. */
#ifndef LMDBIO_TEST_LIFE_H
#define LMDBIO_TEST_LIFE_H

#include <stdbool.h>

/* How a process ends. */
enum { FINE = 0, UNMET = 3, WRONG_BYTES = 10, WRONG_CODE, MISSING, NOT_AGAIN, DESCRIPTORS, LEFT };

struct life {
	const char *name;
	void (*live)(void);
};

/* The program's lives, from 0 on; NULL: there are no more. */
const struct life *lives_number(unsigned number);

extern bool lives_strict; /* no call fails now: each code is a defect */
extern bool lives_failed; /* a call has returned the code of a fault */

/* Makes what all lives read, and removes it. */
void lives_begin(void);
void lives_over(void);

/* Descriptors that this process has open. */
unsigned lives_descriptors(void);

/* Says what is wrong, and ends the process. */
void lives_end(int how, const char *what, int rc) __attribute__((noreturn));

#endif
