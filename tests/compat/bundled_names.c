/* SPDX-License-Identifier: OLDAP-2.8 */
/* Every public name of LMDB, visible in front of an archive whose own names are hidden. Weak:
 * bundled_lmdb.c has some of them in another way. */
#include "origin/origin.h"

#define F(result, name, parameters, arguments)                                                     \
	__attribute__((weak)) result name parameters;                                              \
	result name parameters                                                                     \
	{                                                                                          \
		return lmdbio_orig_##name arguments;                                               \
	}
#define P(name, parameters, arguments)                                                             \
	__attribute__((weak)) void name parameters;                                                \
	void name parameters                                                                       \
	{                                                                                          \
		lmdbio_orig_##name arguments;                                                      \
	}
#include "origin/origin_functions.def"
