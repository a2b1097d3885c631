/* SPDX-License-Identifier: OLDAP-2.8 */
/* Judges the part of its time that a program has waited. */
#include "util/verdict.h"

#include <inttypes.h>
#include <stdio.h>

/* 0 to 100, rounded: the number that is printed is the one that is judged. */
static unsigned percent_of(uint64_t waited, uint64_t of)
{
	return of ? (unsigned)((double)waited * 100 / (double)of + 0.5) : 0;
}

size_t verdict_format(char *line, size_t size, uint64_t waited_ns, uint64_t of_ns)
{
	uint64_t of = of_ns > waited_ns ? of_ns : waited_ns;
	unsigned percent = percent_of(waited_ns, of);
	int length = snprintf(line, size, "I/O is %syour bottleneck: waited %.3f of %.3f s (%u %%)",
			      percent < VERDICT_PERCENT ? "not " : "", (double)waited_ns / 1e9,
			      (double)of / 1e9, percent);

	return length < 0 ? 0 : (size_t)length;
}
