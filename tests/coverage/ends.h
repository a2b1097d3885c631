/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a process that ends by _exit() tell its coverage, as forked children of tests do. */
#ifndef TESTS_COVERAGE_ENDS_H
#define TESTS_COVERAGE_ENDS_H

#include <unistd.h>

void __gcov_dump(void);

static inline __attribute__((noreturn, unused)) void coverage_exit(int status)
{
	__gcov_dump();
	_exit(status);
}

#define _exit coverage_exit

#endif
