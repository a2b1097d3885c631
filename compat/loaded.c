/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs what the drop-in does when it is loaded and unloaded, whatever the program does. */
#include "arena/arena.h"
#include "util/settings.h"

static void __attribute__((constructor)) loaded(void)
{
	const struct settings *settings = settings_get();

	if (!settings->disable && settings->share)
		arena_keeper_watch();
}

static void __attribute__((destructor)) unloaded(void)
{
	arena_keeper_end();
}
