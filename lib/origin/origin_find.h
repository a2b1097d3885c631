/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the original LMDB of a caller: the LMDB that its module would call without lmdbio. */
#ifndef LMDBIO_ORIGIN_FIND_H
#define LMDBIO_ORIGIN_FIND_H

#include "origin/origin.h"

/* A library whose exported names replace an original's. All such libraries of a process share one
 * core, and callers arrive in them, not in the core. */
struct origin_front {
	void *(*next)(const char *name); /* a function of that library: dlsym(RTLD_NEXT, name) */
	const char *soname;              /* of the library that it stands for */
	const struct origin *(*origin)(void); /* its callers'; NULL: the built-in one */
	struct origin_front *other;           /* next in origin_find.c's list */
};

/* Returns the original of the module (program or library) with this code address. It is the LMDB
 * inside that module if its names are visible, else the LMDB that the dynamic loader would bind the
 * module to. Else it is the `called` library's original, or with NULL the built-in one. A module
 * whose original is of neither kind stays loaded. Any thread, also in a forked child. Lifetime: the
 * program's. */
const struct origin *origin_of_call(const struct origin_front *called, const void *caller);
const struct origin *origin_of(const void *caller);

/* Returns the original in the module at an address, or the built-in one if there is none. That
 * original's calls then go to itself. The module stays loaded. The same threads and lifetime. */
const struct origin *origin_at(const void *target);

/* Call these after that library is loaded and before it is unloaded. Threads: the caller holds the
 * dynamic loader's lock. */
void origin_front_come(struct origin_front *front);
void origin_front_go(struct origin_front *front);
bool origin_has_front(void);

/* Enclose a call of an original's function that may end in a jump to another public function, as
 * copies do. That function then seems to be called from here, and origin_of() returns this original
 * to this thread until origin_leave(). Such calls nest: an original calls itself by name.
 * origin_enter() returns its argument, origin_leave() the code that it is given. */
const struct origin *origin_enter(const struct origin *origin);
int origin_leave(int rc);

#endif
