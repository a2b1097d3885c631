/* SPDX-License-Identifier: OLDAP-2.8 */
/* What programs do with lmdbio, for tests in which one of its calls fails. */
#ifndef LMDBIO_TEST_LIBRARY_LIVES_H
#define LMDBIO_TEST_LIBRARY_LIVES_H

#include <stdbool.h>

/* How a process ends. */
enum { FINE = 0, UNMET = 3, WRONG_BYTES = 10, WRONG_CODE, MISSING, NOT_AGAIN, DESCRIPTORS };

struct life {
	const char *name;
	void (*live)(void);
};

extern const struct life lives[];
extern const unsigned lives_count;
extern bool lives_strict; /* no call fails now: each code is a defect */
extern bool lives_failed; /* a call has returned the code of a fault */

/* Makes the data sets that all lives read, and removes them. */
void lives_begin(void);
void lives_over(void);

/* Lets another user read them: the lives in front, so many, are that user's as well. */
enum { LIVES_OF_ANY_USER = 3 };
void lives_for_all_users(void);
/* Whether this user may. */
bool lives_in_reach(void);

/* Descriptors that this process has open. */
unsigned lives_descriptors(void);

/* Says what is wrong, and ends the process. */
void lives_end(int how, const char *what, int rc) __attribute__((noreturn));

#endif
