/* SPDX-License-Identifier: OLDAP-2.8 */
/* Gives several reports and messages one wording: whether I/O is a program's bottleneck, and what a
 * user can do about an errno of a file. */
#ifndef LMDBIO_UTIL_PHRASES_H
#define LMDBIO_UTIL_PHRASES_H

#include <stddef.h>
#include <stdint.h>

enum {
	VERDICT_LINE = 128,
	VERDICT_PERCENT = 10, /* of the time waited, or more: a bottleneck */
};

/* Writes "I/O is (not) your bottleneck: waited x of y s (z %)", without a line's end. `of_ns` is
 * the time that the waiting threads could have waited from the first open of a data set (or the
 * begin of an epoch) on. It counts as no less than `waited_ns`. Returns the line's length, as
 * snprintf(). */
size_t verdict_format(char *line, size_t size, uint64_t waited_ns, uint64_t of_ns);

/* Returns what a user can do about this errno of a file, without a full stop; NULL: unknown. */
const char *remedy_find(int rc);

#endif
