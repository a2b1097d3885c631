/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a process that ends by _exit() report its coverage, as forked children of tests do.
 *
 * The program and each library have a __gcov_dump() of their own, because the libraries' version
 * scripts hide it. quick_exit() calls all of them and no handler of exit().
 */
#ifndef TESTS_COVERAGE_ENDS_H
#define TESTS_COVERAGE_ENDS_H

#include <stdlib.h>
#include <unistd.h>

void __gcov_dump(void);

/* One for the program and one for each library. */
__attribute__((weak, visibility("hidden"))) int coverage_known;

static __attribute__((constructor, unused)) void coverage_know(void)
{
	if (!coverage_known++)
		at_quick_exit(__gcov_dump);
}

static inline __attribute__((noreturn, unused)) void coverage_exit(int status)
{
	quick_exit(status);
}

#define _exit coverage_exit

#endif
