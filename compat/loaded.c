/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs what an export library does when it is loaded and unloaded, whatever the program does. It is
 * compiled for each of the two, liblmdb.so.0 and liblmdb.so.1. */
#include "config.h"
#include "handles.h"

#include "arena/arena.h"
#include "util/settings.h"

#include <dlfcn.h>

/* RTLD_NEXT means: after the library that asks, which is to be this one. */
static void *name_next(const char *name)
{
	void *next = dlsym(RTLD_NEXT, name);

	/* Not by a jump: the loader knows who asks by the address that it returns to. */
	__asm__ volatile("" : "+r"(next));
	return next;
}

#if STANDS_FOR == 1

/* Where configure has found an LMDB 1.0, or would look for one that is installed later. */
static const struct origin *origin_1(void)
{
	const struct settings *settings = settings_get();

	return origin_later(settings->later ? settings->later : LATER_LIBRARY);
}

struct origin_front this_library = {
	.next = name_next,
	.soname = "liblmdb.so.1",
	.origin = origin_1,
};

#else

struct origin_front this_library = {.next = name_next, .soname = "liblmdb.so.0"};

#endif

static void __attribute__((constructor)) loaded(void)
{
	const struct settings *settings = settings_get();

	origin_front_come(&this_library);
	if (!settings->disable && settings->share)
		arena_keeper_watch();
}

static void __attribute__((destructor)) unloaded(void)
{
	origin_front_go(&this_library);
	/* The keeper is the core's, which the other library may still stand on. */
	if (!origin_has_front())
		arena_keeper_end();
}
