/* SPDX-License-Identifier: OLDAP-2.8 */
/* Each function that LMDB 1.0 has and 0.9 has not, which tells that it was called. Weak:
 * later_original.c has some of them in another way. */
#include "origin/lmdb_later.h"

#include <stdio.h>

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define F(result, name, parameters, arguments)                                                     \
	__attribute__((weak)) result name parameters                                               \
	{                                                                                          \
		fprintf(stderr, "the original's " #name "\n");                                     \
		return (result)0;                                                                  \
	}
#define P(name, parameters, arguments)                                                             \
	__attribute__((weak)) void name parameters                                                 \
	{                                                                                          \
		fprintf(stderr, "the original's " #name "\n");                                     \
	}
#include "origin/later_functions.def"
