/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: what the original, held inside this library, needs to run there. */
#include "origin/origin.h"

#include "config.h"

#ifndef ORIGIN_LIBRARY

#include <stdio.h>

/* The one object of libc that the original's archive may not reach from inside a shared library:
 * its reference has been renamed to this. Used for the message before a failed assertion. */
extern FILE *lmdbio_orig_stderr;
__attribute__((visibility("hidden"))) FILE *lmdbio_orig_stderr;

static __attribute__((constructor)) void origin_prepare(void)
{
	lmdbio_orig_stderr = stderr;
}

int origin_check(const char **why)
{
	*why = NULL;
	return 0;
}

const char *origin_describe(void)
{
	static char text[64];
	int major, minor, patch;

	if (!*text) {
		lmdbio_orig_mdb_version(&major, &minor, &patch);
		snprintf(text, sizeof(text), "%d.%d.%d, built in", major, minor, patch);
	}
	return text;
}

#endif
