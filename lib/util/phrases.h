/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what several reports and messages say, in one wording: whether I/O is a program's bottleneck, and
 * what a user can do about an errno of a file. */
#ifndef LMDBIO_UTIL_PHRASES_H
#define LMDBIO_UTIL_PHRASES_H

#include <stddef.h>
#include <stdint.h>

enum {
	VERDICT_LINE = 128,
	VERDICT_PERCENT = 10, /* of the time and more waited: a bottleneck */
};

/* "I/O is (not) your bottleneck: waited x of y s (z %)", without a line's end. `of` is the time that
 * could have been waited: of each thread that waits, from the first open of a data set (or the begin
 * of an epoch) on. It counts as no less than `waited`. Returns the line's length, as snprintf(). */
size_t verdict_format(char *line, size_t size, uint64_t waited_ns, uint64_t of_ns);

/* What a user can do where a file could not be used for this errno, without a full stop; NULL: nothing is
 * known. */
const char *remedy_find(int rc);

#endif
