/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs what the drop-in does when it is loaded and unloaded, whatever the program does. */
#include "arena/arena.h"
#include "origin/origin_find.h"
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

static struct origin_front front = {.next = name_next};

static void __attribute__((constructor)) loaded(void)
{
	const struct settings *settings = settings_get();

	origin_front_come(&front);
	if (!settings->disable && settings->share)
		arena_keeper_watch();
}

static void __attribute__((destructor)) unloaded(void)
{
	arena_keeper_end();
	origin_front_go(&front);
}
