/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs when an export library is loaded and unloaded, whatever the program does. Compiled once for
 * each of liblmdb.so.0 and liblmdb.so.1. */
#include "config.h"
#include "handles.h"

#include "arena/arena.h"
#include "util/settings.h"

#include <dlfcn.h>
#include <stdint.h>

/* RTLD_NEXT searches after the library that calls dlsym(), which must be this one. */
static void *name_next(const char *name)
{
	void *next = dlsym(RTLD_NEXT, name);

	/* Prevents a tail call: the loader finds the caller by its return address. */
	__asm__ volatile("" : "+r"(next));
	return next;
}

#if STANDS_FOR == 1

/* Returns the LMDB 1.0 at the set path, or where configure found or expects one. */
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

static void *core;

/* Keeps the core loaded. This runs while the dynamic loader loads the library, and holds its lock.
 * A later call would wait for that lock: for ever in a forked child whose parent's other thread
 * held it. */
static void core_hold(void)
{
	Dl_info place;

	if (dladdr((void *)(uintptr_t)settings_get, &place))
		core = dlopen(place.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

/* The threads of an environment that is still open go on in the core's code. */
static void core_release(void)
{
	if (core && !env_any_open())
		dlclose(core);
}

static void __attribute__((constructor)) loaded(void)
{
	const struct settings *settings = settings_get();

	core_hold();
	origin_front_come(&this_library);
	if (!settings->disable && settings->share)
		arena_keeper_watch();
}

static void __attribute__((destructor)) unloaded(void)
{
	origin_front_go(&this_library);
	/* The keeper belongs to the core, which the other library may still use. */
	if (!origin_has_front())
		arena_keeper_end();
	core_release();
}
