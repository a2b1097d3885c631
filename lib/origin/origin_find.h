/* SPDX-License-Identifier: OLDAP-2.8 */
/* The original LMDB of a caller: the one that its module would call if lmdbio were not there. */
#ifndef LMDBIO_ORIGIN_FIND_H
#define LMDBIO_ORIGIN_FIND_H

#include "origin/origin.h"

/* A library whose exported names take the place of an original's: the core is one for all such
 * libraries in a process, and is not where callers arrive. */
struct origin_front {
	void *(*next)(const char *name); /* a function of that library: dlsym(RTLD_NEXT, name) */
	const char *soname;              /* of the library that it stands for */
	const struct origin *(*origin)(void); /* of its callers; NULL: the built-in one */
	struct origin_front *other;	      /* origin_find.c's */
};

/* The original of the module (program or library) that holds this code address: the LMDB inside
 * that module if its names are visible, else another one that the dynamic loader would bind it to,
 * else that of the library which it has called, or with NULL the built-in one. A module whose
 * original is of neither kind stays loaded. Any thread, also in a forked child. Lifetime: the
 * program's. */
const struct origin *origin_of_call(const struct origin_front *called, const void *caller);
const struct origin *origin_of(const void *caller);

/* The original in the module at an address, whose own calls then go to itself; the built-in one
 * where there is none. The module stays loaded. The same threads and lifetime. */
const struct origin *origin_at(const void *target);

/* When that library has been loaded, and before it is unloaded. Threads: the dynamic loader's lock
 * is held. */
void origin_front_come(struct origin_front *front);
void origin_front_go(struct origin_front *front);
bool origin_has_front(void);

/* Around a call of a function that may end in a jump to another public one, as those that copy do:
 * the other then seems to be called from here, and origin_of() answers with this original until
 * origin_leave(), in this thread. Such calls nest: an original calls itself by name.
 * origin_enter() returns its argument, origin_leave() the code that it is given. */
const struct origin *origin_enter(const struct origin *origin);
int origin_leave(int rc);

#endif
