/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens a window's store, attaches it to an arena, and lets the arena go. */
#include "window/store_private.h"

#include "io/io_ahead.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/log.h"
#include "util/memory.h"
#include "util/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
	LINK_AGAIN_NS = 20000000,
	ROOM_PARTS = 4,          /* of memory; of which one is left for all else */
	TABLES_SMALL = 16 << 10, /* bytes that are sooner cleared than mapped */
};

/* A bit for each chunk. */
static uint64_t own_words(uint64_t chunks)
{
	return (chunks + 63) / 64;
}

static size_t tables_length(uint64_t chunks)
{
	return chunks * (2 * ARENA_BLOCKS / 8 + 2 * sizeof(uint32_t) + sizeof(atomic_uchar)) +
	       own_words(chunks) * sizeof(uint64_t);
}

/* What is known of each chunk, for as much as the window could ever show, which may be a thousand
 * times the file: memory that is not there before it is written to. */
static int tables_new(struct store *store, uint64_t chunks)
{
	size_t length = tables_length(chunks);
	void *tables = length <= TABLES_SMALL
			       ? calloc(1, length)
			       : mmap(NULL, length, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (!tables || tables == MAP_FAILED)
		return ENOMEM;
	/* Little of them is ever written. Where programs get huge pages unasked, each table would
	 * have 2 MiB cleared at its first entry. */
	if (length > TABLES_SMALL)
		(void)madvise(tables, length, MADV_NOHUGEPAGE);
	store->chunks = chunks;
	store->runs = tables;
	store->sure = store->runs + chunks * ARENA_BLOCKS / 64;
	store->own = (uint64_t *)(store->sure + chunks * ARENA_BLOCKS / 64);
	store->taints = (uint32_t *)(store->own + own_words(chunks));
	store->uses = (_Atomic uint32_t *)(store->taints + chunks);
	store->states = (atomic_uchar *)(store->uses + chunks);
	return 0;
}

static void tables_free(struct store *store)
{
	size_t length = tables_length(store->chunks);

	if (length <= TABLES_SMALL)
		free((void *)store->runs);
	else
		munmap((void *)store->runs, length);
}

/* Of the chunks behind the file's end nothing is known. */
static uint64_t chunks_used(const struct store *store)
{
	return (store->size + ARENA_CHUNK - 1) / ARENA_CHUNK;
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
	store->kind = kind;
	store->base = base;
	store->fd = fd;
	store->device = st.st_dev;
	store->inode = st.st_ino;
	store->spill = -1;
	store->io = io;
	store->length = window_length;
	store->options = *options;
	store->believe_cache = believe_cache;
	/* Of a file on a network or in a container nothing is there that could be told by a try. */
	atomic_store(&store->probe, kind == STORE_CACHE ? -1 : PROBE_NONE);
	store->epoch = 1;
	store->link.fd = -1;
	pthread_mutex_init(&store->lock, NULL);
	clock_condition(&store->landed);
	return 0;
}

uint64_t store_limited(const struct store *store)
{
	return store->options.budget;
}

bool store_limit(struct store *store, uint64_t bytes)
{
	bool early;

	pthread_mutex_lock(&store->lock);
	early = !store->arena;
	if (early)
		store->options.budget = bytes;
	pthread_mutex_unlock(&store->lock);
	return early;
}

const char *store_name(const struct store *store)
{
	return store->kind == STORE_ARENA ? "shared memory of the node" : "page cache";
}

uint64_t store_kernel_ahead(const struct store *store)
{
	return io_kernel_ahead(store->fd);
}

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

/* What was handed out until now was the file's: that matters to pointers that a program holds. */
static void taint_all(struct store *store)
{
	if (store->transactions)
		store->all_tainted = store->epoch;
}

/* How many look-aheads go over the file here. Under the store lock. */
static void scanners_tell(struct store *store)
{
	if (store->arena)
		arena_scanning(store->arena, atomic_load(&store->scans), store->steppers);
}

/* A place for the arena that is attached next, so that it can be retired whatever happens. */
static bool retired_reserve(struct store *store)
{
	struct arena **retired =
		realloc(store->retired, (store->retired_count + 1) * sizeof(*store->retired));

	if (retired)
		store->retired = retired;
	return retired != NULL;
}

/* The arena, made at the first need. Under the store lock. */
bool store_attach(struct store *store)
{
	if (store->arena)
		return true;
	if (!store->options.node_budget)
		store->options.node_budget = memory_budget(settings_get());
	if (!store->options.budget)
		store->options.budget = store->options.node_budget;
	if ((store->spill < 0 && !descriptors_spare(store->fd)) || !retired_reserve(store) ||
	    arena_open(&store->arena, &store->identity, &store->options, &store->private_reason)) {
		store->arena = NULL;
		if (store->spill >= 0)
			return false; /* each time anew: nothing else serves as well */
		store->armed = false;
		atomic_store(&store->enabled, false);
		taint_all(store);
		return false;
	}
	if (store->private_reason && settings_get()->verbose)
		log_line("not shared with the other processes of the node: %s",
			 store->private_reason);
	memset(store->own, 0, own_words(chunks_used(store)) * sizeof(*store->own));
	store_link(store);
	scanners_tell(store);
	return true;
}

/* Threads in transactions of the old snapshot may be looking at the arena's table, and reads into
 * it may be on their way: it is closed when both are over. */
void store_bury(struct store *store)
{
	if (store->transactions || store->loads)
		return;
	for (unsigned i = 0; i < store->retired_count; i++)
		arena_close(store->retired[i]);
	store->retired_count = 0;
}

static void retire(struct store *store)
{
	node_link_close(&store->link);
	store->retired[store->retired_count++] = store->arena;
	store->arena = NULL;
	store_bury(store);
}

static bool detach(struct store *store)
{
	if (!store->arena)
		return true;
	if (!rest_all(store))
		return false;
	retire(store);
	return true;
}

void store_close(struct store *store)
{
	if (!store->states)
		return;
	store->transactions = 0;
	/* The window that still shows an arena's chunks for want of maps is closed next: nothing
	 * looks at them any more. */
	if (!detach(store))
		retire(store);
	store_bury(store);
	borders_clear(store);
	descriptor_close(atomic_load(&store->probe), store->device, store->inode);
	free(store->retired);
	tables_free(store);
	free(store->mapped);
	io_buffer_free(atomic_exchange(&store->spare, NULL), ARENA_CHUNK);
	pthread_cond_destroy(&store->landed);
	pthread_mutex_destroy(&store->lock);
	store->states = NULL;
}

int store_snapshot(struct store *store, const struct identity *identity, uint64_t data,
		   uint64_t low, bool arm)
{
	pthread_mutex_lock(&store->lock);
	atomic_store(&store->enabled, false);
	if (!detach(store)) {
		pthread_mutex_unlock(&store->lock);
		return ENOMEM;
	}
	for (uint64_t i = 0; i < chunks_used(store); i++)
		set_state(store, i, CHUNK_REST);
	taint_all(store);
	store->identity = *identity;
	store->size = identity->size < store->length ? identity->size : store->length;
	store->data = data < store->size ? data : store->size;
	store->low = round_up(low, ARENA_BLOCK);
	store->armed = arm;
	atomic_store(&store->enabled, arm && !store->paused);
	pthread_mutex_unlock(&store->lock);
	return 0;
}

void store_announce(struct store *store, bool announced)
{
	if (atomic_exchange(&store->announced, announced) && !announced) {
		pthread_mutex_lock(&store->lock);
		pthread_cond_broadcast(&store->landed);
		pthread_mutex_unlock(&store->lock);
	}
}

/* Under the store lock. */
static uint64_t room_of_cache(struct store *store)
{
	if (!store->room)
		store->room = memory_allowed("") / ROOM_PARTS * (ROOM_PARTS - 1);
	return store->room;
}

bool store_holds_all(struct store *store)
{
	uint64_t room = 0;

	pthread_mutex_lock(&store->lock);
	if (store->kind == STORE_CACHE)
		room = room_of_cache(store);
	else if (store->arena)
		room = arena_budget(store->arena);
	pthread_mutex_unlock(&store->lock);
	return store->data <= room;
}

void store_scan(struct store *store, int change)
{
	pthread_mutex_lock(&store->lock);
	atomic_fetch_add(&store->scans, (unsigned)change);
	if (store->kind == STORE_CACHE)
		atomic_store(&store->keeps,
			     atomic_load(&store->scans) && store->data <= room_of_cache(store));
	scanners_tell(store);
	pthread_mutex_unlock(&store->lock);
}

void store_step(struct store *store, int change)
{
	pthread_mutex_lock(&store->lock);
	store->steppers += (unsigned)change;
	scanners_tell(store);
	pthread_mutex_unlock(&store->lock);
}

int store_pause(struct store *store)
{
	bool rested = true;

	pthread_mutex_lock(&store->lock);
	if (!store->paused++ && store->kind == STORE_ARENA) {
		atomic_store(&store->enabled, false);
		rested = rest_all(store);
	}
	pthread_mutex_unlock(&store->lock);
	return rested ? 0 : ENOMEM;
}

void store_resume(struct store *store)
{
	pthread_mutex_lock(&store->lock);
	if (!--store->paused && store->kind == STORE_ARENA) {
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
		store->epoch++;
		store_bury(store);
	}
	pthread_mutex_unlock(&store->lock);
}

void store_hold(struct store *store)
{
	pthread_mutex_lock(&store->lock);
	if (store->spill >= 0 && store->transactions && store->arena)
		(void)shed_all(store);
	if (store->kind == STORE_ARENA && atomic_load(&store->enabled))
		(void)store_attach(store);
}

void store_release(struct store *store)
{
	pthread_mutex_unlock(&store->lock);
}

void store_forked(struct store *store)
{
	/* One call for the whole window: between this and the fork nothing of the program runs.
	 * What could not be spilled stays as it is, for as long as the parent keeps it. */
	bool kept = store->spill >= 0 && store->transactions && store->mapped_count;

	if (store->arena) {
		if (!kept)
			(void)show_file_whole(store);
		arena_forked(store->arena);
		node_link_close(&store->link);
		/* The child attaches afresh, when it first wants bytes. */
		store->arena = NULL;
	}
	for (unsigned i = 0; i < store->retired_count; i++)
		arena_forked(store->retired[i]);
	store->retired_count = 0;
	for (uint64_t i = 0; i < chunks_used(store); i++) {
		if (store->kind == STORE_CACHE) {
			store->taints[i] = 0; /* what was being read is read for the parent */
		} else if (is_shown(store, i)) {
			set_state(store, i, CHUNK_REST);
			runs_clear(store, i);
		}
	}
	borders_clear(store);
	taint_all(store);
	store->mapped_count = 0;
	store->loads = 0;
	atomic_store(&store->scans, 0);
	atomic_store(&store->keeps, false);
	atomic_store(&store->announced, false);
	store->waiters = NULL;
	atomic_store(&store->spare, NULL);
	clock_condition(&store->landed); /* threads of the parent's may wait for it */
}
