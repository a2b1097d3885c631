/* SPDX-License-Identifier: OLDAP-2.8 */
/* The name that libc's stderr has in the renamed archive. */
#ifndef TESTS_ORIGIN_STDERR_H
#define TESTS_ORIGIN_STDERR_H

#include <stdio.h>

extern FILE *lmdbio_orig_stderr;

#endif
