/* What only this file knows: what the drop-in does as soon as it is loaded, and when it is unloaded,
 * whatever the program does.
 */
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
