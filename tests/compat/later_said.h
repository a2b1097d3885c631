/* SPDX-License-Identifier: OLDAP-2.8 */
/* What the programs for LMDB 1.0 print of a call: its code, or the end of the program where it must not fail. */
#ifndef TESTS_LATER_SAID_H
#define TESTS_LATER_SAID_H

#include "origin/lmdb_later.h"

#include <stdio.h>
#include <stdlib.h>

static inline void say(const char *what, int rc)
{
	printf("%s: %d\n", what, rc);
}

static inline void must(const char *what, int rc)
{
	if (!rc)
		return;
	printf("%s: %d, %s\n", what, rc, mdb_strerror(rc));
	exit(1);
}

#endif
