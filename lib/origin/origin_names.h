/* SPDX-License-Identifier: OLDAP-2.8 */
/* The names of the original's functions, and where each stands in struct origin_functions. */
#ifndef LMDBIO_ORIGIN_NAMES_H
#define LMDBIO_ORIGIN_NAMES_H

#include "origin/origin.h"

struct origin_name {
	const char *name;
	size_t offset; /* bytes, in struct origin_functions */
};

extern const struct origin_name origin_names[];
extern const size_t origin_names_count;

/* The same in struct origin_later_functions. */
extern const struct origin_name later_names[];
extern const size_t later_names_count;

#endif
