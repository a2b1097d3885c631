/* SPDX-License-Identifier: OLDAP-2.8 */
/* Attaches a store to an arena, and lets the arena go. */
#include "window/store_private.h"

#include "util/clock.h"
#include "util/descriptor.h"
#include "util/log.h"
#include "util/memory.h"
#include "util/settings.h"

#include <stdlib.h>
#include <string.h>

enum { LINK_AGAIN_NS = 20000000 };

static int storage_of(const struct store *store)
{
	const struct io *io = store->io->below ? store->io->below : store->io;

	return io->fd;
}

/* Looks for a server of the arena. A server inside an MPI program exists when all ranks have
 * begun MPI; it is looked for again. */
void store_link(struct store *store)
{
	bool found = store->options.share && !store->private_reason &&
		     node_link_open(&store->link, &store->identity, store->options.node,
				    storage_of(store));

	store->link_at = !found && settings_get()->mpi ? clock_now() + LINK_AGAIN_NS : UINT64_MAX;
}

void arena_scanned(struct store *store)
{
	if (store->arena)
		arena_scanning(store->arena, atomic_load(&store->scans), store->steppers);
}

uint64_t arena_room(struct store *store)
{
	return store->arena ? arena_budget(store->arena) : 0;
}

/* A place for the arena that is attached next, so that it can be retired whatever happens. */
static bool retired_reserve(struct store *store)
{
	struct arena **retired = realloc(
		store->retired.arenas, (store->retired.count + 1) * sizeof(*store->retired.arenas));

	if (retired)
		store->retired.arenas = retired;
	return retired != NULL;
}

bool store_attach(struct store *store)
{
	if (store->arena)
		return true;
	if (!store->options.node_budget)
		store->options.node_budget = memory_budget(settings_get());
	if (!store->options.budget)
		store->options.budget = store->options.node_budget;
	if ((!store->ops->save && !descriptors_spare(store->file.fd)) || !retired_reserve(store) ||
	    arena_open(&store->arena, &store->identity, &store->options, &store->private_reason)) {
		store->arena = NULL;
		if (store->ops->save)
			return false; /* each time anew: nothing else serves as well */
		store->armed = false;
		atomic_store(&store->enabled, false);
		taint_all(store);
		return false;
	}
	if (store->private_reason && settings_get()->verbose)
		log_line("not shared with the other processes of the node: %s",
			 store->private_reason);
	memset(store->shown.own, 0, own_words(chunks_used(store)) * sizeof(*store->shown.own));
	store_link(store);
	arena_scanned(store);
	locks_look(store);
	return true;
}

/* Threads in transactions of the old snapshot may be looking at the arena's table, and reads into
 * it may be on their way: it is closed when both are over. */
void store_bury(struct store *store)
{
	if (store->transactions || store->landing.loads)
		return;
	for (unsigned i = 0; i < store->retired.count; i++)
		arena_close(store->retired.arenas[i]);
	store->retired.count = 0;
}

void store_retire(struct store *store)
{
	if (!store->arena)
		return;
	node_link_close(&store->link);
	store->retired.arenas[store->retired.count++] = store->arena;
	store->arena = NULL;
	store_bury(store);
}
