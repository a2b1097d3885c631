/* SPDX-License-Identifier: OLDAP-2.8 */
/* What the sources of rare lives share. */
#ifndef LMDBIO_TEST_RARE_LIVES_H
#define LMDBIO_TEST_RARE_LIVES_H

#include "library_lives.h"

#include "env_fixture.h"

/* Of one of the named databases. */
enum { NAMED_ENTRIES = 20000 };

/* Large values; and named databases, one of which has many duplicates. */
extern struct rare_data {
	struct place large, named;
	char trained[220]; /* a container with a dictionary */
	char linked[220];  /* a symbolic link to the loader's directory */
	char shared[220];  /* a directory for everybody, in which this user's own is a symbolic link */
} rare;

/* Lives below the API: of what processes share, and of single parts of the core. */
extern const struct life core_lives[];
extern const unsigned core_lives_count;

#endif
