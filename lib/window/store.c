/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens a window's store, changes its snapshot, attaches it to an arena and lets that go, and
 * counts its transactions. */
#include "window/store_private.h"

#include "io/io_page_cache.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/log.h"
#include "util/memory.h"
#include "util/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	TABLES_SMALL = 16 << 10, /* bytes: so few are cleared faster than mapped */
};

static size_t tables_length(uint64_t chunks)
{
	return chunks * (2 * ARENA_BLOCKS / 8 + 2 * sizeof(uint32_t) + sizeof(atomic_uchar)) +
	       own_words(chunks) * sizeof(uint64_t);
}

/* Makes the tables for all chunks that the window could ever show, perhaps a thousand times the
 * file. The kernel makes their memory when it is first written to. */
static int tables_new(struct store *store, uint64_t chunks)
{
	size_t length = tables_length(chunks);
	void *tables = length <= TABLES_SMALL
			       ? calloc(1, length)
			       : mmap(NULL, length, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!tables || tables == MAP_FAILED)
		return ENOMEM;
	/* Little of the tables is ever written. Where programs get huge pages unasked, the kernel
	 * would clear 2 MiB at each table's first entry. */
	if (length > TABLES_SMALL)
		(void)madvise(tables, length, MADV_NOHUGEPAGE);
	store->shown.chunks = chunks;
	store->shown.runs = tables;
	store->granted.sure = store->shown.runs + chunks * ARENA_BLOCKS / 64;
	store->shown.own = (uint64_t *)(store->granted.sure + chunks * ARENA_BLOCKS / 64);
	store->shown.taints = (uint32_t *)(store->shown.own + own_words(chunks));
	store->shown.uses = (_Atomic uint32_t *)(store->shown.taints + chunks);
	store->shown.states = (atomic_uchar *)(store->shown.uses + chunks);
	return 0;
}

static void tables_free(struct store *store)
{
	size_t length = tables_length(store->shown.chunks);

	if (length <= TABLES_SMALL)
		free((void *)store->shown.runs);
	else
		munmap((void *)store->shown.runs, length);
}

/* Sets a part of the tables to zeros, which other threads may read. Of a long part, the kernel takes
 * back the memory: in a file of a TiB the table of states alone has a million entries, few of which
 * were ever written. */
static void tables_clear(void *start, size_t length)
{
	atomic_uchar *at = start, *end = at + length;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	atomic_uchar *from = at + -(uintptr_t)at % page, *to = end - (uintptr_t)end % page;

	if (length <= TABLES_SMALL || madvise((void *)from, (size_t)(to - from), MADV_DONTNEED))
		from = to = end;
	for (; at < from; at++)
		atomic_store_explicit(at, 0, memory_order_release);
	for (at = to; at < end; at++)
		atomic_store_explicit(at, 0, memory_order_release);
}

static const struct store_ops *const kinds[] = {
	[STORE_CACHE] = &store_cache_ops,
	[STORE_ARENA] = &store_shared_ops,
	[STORE_CONTAINER] = &store_container_ops,
};

enum {
	LINK_AGAIN_NS = 20000000,
	LINK_REFUSED_NS = 100000000, /* after a refusal or silence; then twice as long each time */
	LINK_REFUSED_TIMES = 640,    /* ... so many times as long at most */
};

static int storage_of(const struct store *store)
{
	const struct io *io = store->io->below ? store->io->below : store->io;

	return io->fd;
}

/* Returns how long not to look for a server again, after a look with this result. A server inside
 * an MPI program exists only when all ranks have begun MPI. A server that refuses, or is stopped,
 * may change; but each look takes its time, or waits for it. */
static uint64_t link_pause(struct store *store, int rc)
{
	const uint64_t most = LINK_REFUSED_TIMES * (uint64_t)LINK_REFUSED_NS;
	uint64_t longer = store->link_refused ? 2 * store->link_refused : LINK_REFUSED_NS;

	if (rc == ENOENT)
		return LINK_AGAIN_NS;
	store->link_refused = longer < most ? longer : most;
	return store->link_refused;
}

void store_link(struct store *store)
{
	int rc;

	store->link_at = UINT64_MAX;
	if (!store->options.share || store->private_reason)
		return;
	rc = node_link_open(&store->link, &store->identity, store->options.node, storage_of(store));
	if (!rc)
		store->link_refused = 0;
	else if (settings_get()->mpi)
		store->link_at = clock_now() + link_pause(store, rc);
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

/* Reserves a place for the next arena, so that retiring it cannot fail. */
static bool retired_reserve(struct store *store)
{
	struct arena **retired = realloc(
		store->retired.arenas, (store->retired.count + 1) * sizeof(*store->retired.arenas));

	if (retired)
		store->retired.arenas = retired;
	return retired != NULL;
}

/* Under the store lock; store_has() looks without it. */
static void arena_set(struct store *store, struct arena *arena)
{
	__atomic_store_n(&store->arena, arena, __ATOMIC_RELEASE);
}

bool store_attach(struct store *store)
{
	struct arena *arena;

	if (store->arena)
		return true;
	if (!store->options.node_budget)
		store->options.node_budget = memory_budget(settings_get());
	if (!store->options.budget)
		store->options.budget = store->options.node_budget;
	store->options.data = store->file.data;
	if ((!store->ops->save && !descriptors_spare()) || !retired_reserve(store) ||
	    arena_open(&arena, &store->identity, &store->options, &store->private_reason)) {
		if (store->ops->save)
			return false; /* a later call tries anew: nothing else serves as well */
		store->armed = false;
		atomic_store(&store->enabled, false);
		taint_all(store);
		return false;
	}
	arena_set(store, arena);
	if (store->private_reason && settings_get()->verbose)
		log_line("not shared with the other processes of the node: %s",
			 store->private_reason);
	tables_clear(store->shown.own, own_words(chunks_used(store)) * sizeof(*store->shown.own));
	store_link(store);
	arena_scanned(store);
	locks_look(store);
	return true;
}

/* Closes retired arenas when no thread can use them: no transaction of an old snapshot may look at
 * an arena's table, and no read into it may be in flight. */
void store_bury(struct store *store)
{
	if (store->transactions || store->landing.loads)
		return;
	for (unsigned i = 0; i < store->retired.count; i++)
		arena_close(store->retired.arenas[i]);
	store->retired.count = 0;
}

/* Retires the arena, if there is one: store_bury() closes it once nothing uses it. */
static void store_retire(struct store *store)
{
	if (!store->arena)
		return;
	node_link_close(&store->link);
	store->retired.arenas[store->retired.count++] = store->arena;
	arena_set(store, NULL);
	store_bury(store);
}

int store_open(struct store *store, enum store_kind kind, uint8_t *base, size_t window_length,
	       int fd, struct io *io, const struct arena_options *options, bool believe_cache)
{
	struct stat st;

	memset(store, 0, sizeof(*store));
	if (fstat(fd, &st))
		return errno;
	if (tables_new(store, (window_length + ARENA_CHUNK - 1) / ARENA_CHUNK))
		return ENOMEM;
	store->ops = kinds[kind];
	store->shows_file = store->ops->shows_file;
	store->file.base = base;
	store->file.fd = fd;
	store->file.device = st.st_dev;
	store->file.inode = st.st_ino;
	store->piece = ARENA_BLOCK;
	store->io = io;
	store->file.length = window_length;
	store->options = *options;
	store->believe_cache = believe_cache;
	/* A try tells nothing about a file on a network or in a container. */
	atomic_store(&store->look.probe, store->shows_file ? -1 : PROBE_NONE);
	store->shown.epoch = 1;
	store->link.socket.fd = -1;
	pthread_mutex_init(&store->lock, NULL);
	clock_condition(&store->landing.landed);
	return 0;
}

uint64_t store_limited(const struct store *store)
{
	return store->options.budget;
}

const char *store_name(const struct store *store)
{
	return store->ops->name;
}

uint64_t store_kernel_ahead(const struct store *store)
{
	return io_kernel_ahead(store->file.fd);
}

void store_close(struct store *store)
{
	if (!store->shown.states)
		return;
	store->transactions = 0;
	/* Where the kernel has no maps left, the window still shows chunks of an arena. It is
	 * closed next, so no thread looks at them any more. */
	(void)rest_all(store);
	store_retire(store);
	store_bury(store);
	borders_clear(store);
	descriptor_close(atomic_load(&store->look.probe), store->file.device, store->file.inode);
	free(store->retired.arenas);
	tables_free(store);
	free(store->shown.mapped);
	io_buffer_free(atomic_exchange(&store->spare, NULL), ARENA_CHUNK);
	pthread_cond_destroy(&store->landing.landed);
	pthread_mutex_destroy(&store->lock);
	store->shown.states = NULL;
}

/* Shows the file in the whole window, then tells other threads that they need not ask what is
 * there. In the other order they would read zeros where the arena has only a part of a chunk.
 * Returns false if the kernel refuses: the store stays enabled. */
static bool store_disable(struct store *store)
{
	if (!rest_all(store))
		return false;
	atomic_store(&store->enabled, false);
	return true;
}

/* Shows the file in the whole window, and retires the arena, if there is one. Returns false if the
 * kernel refuses: the store stays as it was. */
static bool arena_leave(struct store *store)
{
	if (!store_disable(store))
		return false;
	store_retire(store);
	_Static_assert(!CHUNK_REST, "zeros are chunks at rest");
	tables_clear(store->shown.states, chunks_used(store));
	taint_all(store);
	return true;
}

bool store_limit(struct store *store, uint64_t bytes)
{
	bool can;

	pthread_mutex_lock(&store->lock);
	can = !store->arena;
	if (!can && !store->transactions && arena_leave(store)) {
		can = true;
		atomic_store(&store->enabled, store->armed && !store->paused);
	}
	if (can)
		store->options.budget = bytes;
	pthread_mutex_unlock(&store->lock);
	return can;
}

int store_snapshot(struct store *store, const struct identity *identity, uint64_t data,
		   uint64_t low, bool arm)
{
	pthread_mutex_lock(&store->lock);
	if (!arena_leave(store)) {
		pthread_mutex_unlock(&store->lock);
		return ENOMEM;
	}
	store->identity = *identity;
	store->file.size =
		identity->size < store->file.length ? identity->size : store->file.length;
	store->file.data = data < store->file.size ? data : store->file.size;
	store->file.low = round_up(low, ARENA_BLOCK);
	store->armed = arm;
	atomic_store(&store->enabled, arm && !store->paused);
	pthread_mutex_unlock(&store->lock);
	return 0;
}

void store_announce(struct store *store, bool announced)
{
	if (atomic_exchange(&store->landing.announced, announced) && !announced) {
		pthread_mutex_lock(&store->lock);
		pthread_cond_broadcast(&store->landing.landed);
		pthread_mutex_unlock(&store->lock);
	}
}

bool store_holds_all(struct store *store)
{
	uint64_t room;

	pthread_mutex_lock(&store->lock);
	room = store->ops->room(store);
	pthread_mutex_unlock(&store->lock);
	return store->file.data <= room;
}

int store_pause(struct store *store)
{
	bool rested;

	if (store_shows_file(store))
		return 0; /* the window is as the original's map */
	pthread_mutex_lock(&store->lock);
	store->paused++;
	rested = store_disable(store);
	pthread_mutex_unlock(&store->lock);
	return rested ? 0 : ENOMEM;
}

void store_resume(struct store *store)
{
	if (store_shows_file(store))
		return;
	pthread_mutex_lock(&store->lock);
	if (!--store->paused) {
		taint_all(store);
		atomic_store(&store->enabled, store->armed);
	}
	pthread_mutex_unlock(&store->lock);
}

void store_enter(struct store *store)
{
	pthread_mutex_lock(&store->lock);
	store->transactions++;
	pthread_mutex_unlock(&store->lock);
}

void store_leave(struct store *store)
{
	pthread_mutex_lock(&store->lock);
	if (--store->transactions == 0) {
		store->shown.epoch++;
		if (store->retired.count)
			store_bury(store);
	}
	pthread_mutex_unlock(&store->lock);
}

void store_hold(struct store *store)
{
	pthread_mutex_lock(&store->lock);
	if (store->ops->save && store->transactions)
		(void)shed_all(store);
	if (!store_shows_file(store) && atomic_load(&store->enabled))
		(void)store_attach(store);
}

void store_release(struct store *store)
{
	pthread_mutex_unlock(&store->lock);
}

void store_forked(struct store *store)
{
	/* One call lays the file under the whole window: no code of the program runs between the
	 * fork and this. Chunks that could not be spilled stay as they are, as long as the parent
	 * keeps them. */
	bool kept = store->ops->save && store->transactions && store->shown.mapped_count;

	if (store->arena) {
		store->shows_parent = !kept && !show_file_whole(store);
		store->keeps_parents = kept || (store->keeps_parents && store->shows_parent);
		arena_forked(store->arena);
		node_link_close(&store->link);
		/* The child attaches afresh, when it first wants bytes. */
		store->arena = NULL;
	}
	for (unsigned i = 0; i < store->retired.count; i++)
		arena_forked(store->retired.arenas[i]);
	store->retired.count = 0;
	/* The parent's threads do the reads. */
	if (store_shows_file(store))
		tables_clear(store->shown.taints,
			     chunks_used(store) * sizeof(*store->shown.taints));
	mapped_clear(store);
	store->passes_on = false; /* the child's prefetch thread sets it again */
	taint_all(store);
	store->landing.loads = 0;
	/* Look-aheads and copies belonged to threads of the parent. */
	atomic_store(&store->scans, 0);
	store->steppers = 0;
	store->paused = 0;
	atomic_store(&store->enabled, store->armed);
	atomic_store(&store->granted.keeps, false);
	atomic_store(&store->landing.announced, false);
	store->landing.waiters = NULL;
	atomic_store(&store->spare, NULL);
	clock_condition(&store->landing.landed); /* threads of the parent may wait on it */
}

int store_settle(struct store *store)
{
	int rc = 0;

	pthread_mutex_lock(&store->lock);
	if (store->shows_parent && !show_file_whole(store))
		rc = ENOMEM;
	else
		store->shows_parent = false;
	pthread_mutex_unlock(&store->lock);
	return rc;
}

bool store_reads_around(struct store *store)
{
	return store->ops->reads_around(store);
}
