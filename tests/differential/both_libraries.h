/* SPDX-License-Identifier: OLDAP-2.8 */
/* The two libraries under comparison as two tables of one type.
 *
 * The drop-in's functions have the names of lmdb.h, the original's the private ones of
 * origin/origin.h; both live in one process.
 */
#ifndef TESTS_BOTH_LIBRARIES_H
#define TESTS_BOTH_LIBRARIES_H

#include <lmdb.h>
#include <stddef.h>

struct library {
	const char *title;
#define F(result, name, parameters, arguments) result(*name) parameters;
#define P(name, parameters, arguments)	       void(*name) parameters;
#include "origin/origin_functions.def"
#undef F
#undef P
};

extern const struct library library_original;
extern const struct library library_ours;

/* Opens another LMDB by the path of its library. Returns 0 or EINVAL, and says why. */
int library_load(struct library *library, const char *path);

/* The original with one deliberate error, number 1 .. LIBRARY_FAULTS: what a comparison that works
 * must find. */
enum { LIBRARY_FAULTS = 9 };
struct library library_with_fault(int fault);

#endif
