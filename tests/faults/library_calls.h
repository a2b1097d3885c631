/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a call of the C library fail at one place of the program, or says which places make such calls.
 *
 * The linker leads the calls here (LIBRARY_CALLS_LDFLAGS). A place is known by its return address. A table of the places
 * is in memory that forked children share. */
#ifndef LMDBIO_TEST_LIBRARY_CALLS_H
#define LMDBIO_TEST_LIBRARY_CALLS_H

#include <stdbool.h>
#include <stdint.h>

enum { CALL_PLACES = 2048 };

struct call_place {
	uintptr_t at; /* from the beginning of the program */
	const char *name;
	unsigned calls;
};

/* Makes the table, empty, and frees it. */
void calls_begin(void);
void calls_end(void);
/* Whether calls are written down. */
void calls_record(bool record);
/* The n-th call at a place fails from now on, n from 1; with `on`, all after it as well. */
void calls_arm(uintptr_t at, unsigned n, bool on);
/* No call fails any more. Returns whether one has. */
bool calls_disarm(void);
const struct call_place *calls_place(unsigned number); /* NULL: there are no more */

#endif
