/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens a window's residency, attaches it to an arena, and lets the arena go. */
#include "window/residency_private.h"

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
static int tables_new(struct residency *residency, uint64_t chunks)
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
	residency->chunks = chunks;
	residency->runs = tables;
	residency->sure = residency->runs + chunks * ARENA_BLOCKS / 64;
	residency->own = (uint64_t *)(residency->sure + chunks * ARENA_BLOCKS / 64);
	residency->taints = (uint32_t *)(residency->own + own_words(chunks));
	residency->uses = (_Atomic uint32_t *)(residency->taints + chunks);
	residency->states = (atomic_uchar *)(residency->uses + chunks);
	return 0;
}

static void tables_free(struct residency *residency)
{
	size_t length = tables_length(residency->chunks);

	if (length <= TABLES_SMALL)
		free((void *)residency->runs);
	else
		munmap((void *)residency->runs, length);
}

/* Of the chunks behind the file's end nothing is known. */
static uint64_t chunks_used(const struct residency *residency)
{
	return (residency->size + ARENA_CHUNK - 1) / ARENA_CHUNK;
}

int residency_open(struct residency *residency, enum residency_kind kind, uint8_t *base,
		   size_t window_length, int fd, struct io *io, const struct arena_options *options,
		   bool believe_cache)
{
	struct stat st;

	memset(residency, 0, sizeof(*residency));
	if (fstat(fd, &st))
		return errno;
	if (tables_new(residency, (window_length + ARENA_CHUNK - 1) / ARENA_CHUNK))
		return ENOMEM;
	residency->kind = kind;
	residency->base = base;
	residency->fd = fd;
	residency->device = st.st_dev;
	residency->inode = st.st_ino;
	residency->spill = -1;
	residency->io = io;
	residency->length = window_length;
	residency->options = *options;
	residency->believe_cache = believe_cache;
	/* Of a file on a network or in a container nothing is there that could be told by a try. */
	atomic_store(&residency->probe, kind == RESIDENCY_CACHE ? -1 : PROBE_NONE);
	residency->epoch = 1;
	residency->link.fd = -1;
	pthread_mutex_init(&residency->lock, NULL);
	clock_condition(&residency->landed);
	return 0;
}

static int storage_of(const struct residency *residency)
{
	const struct io *io = residency->io->below ? residency->io->below : residency->io;

	return io->fd;
}

/* Looks for a server of the arena. A server inside an MPI program exists when all ranks have
 * begun MPI; it is looked for again. */
void residency_link(struct residency *residency)
{
	bool found = residency->options.share && !residency->private_reason &&
		     node_link_open(&residency->link, &residency->identity, residency->options.node,
				    storage_of(residency));

	residency->link_at = !found && settings_get()->mpi ? clock_now() + LINK_AGAIN_NS : UINT64_MAX;
}

/* What was handed out until now was the file's: that matters to pointers that a program holds. */
static void taint_all(struct residency *residency)
{
	if (residency->transactions)
		residency->all_tainted = residency->epoch;
}

/* How many look-aheads go over the file here. Under the residency lock. */
static void scanners_tell(struct residency *residency)
{
	if (residency->arena)
		arena_scanning(residency->arena, atomic_load(&residency->scans),
			       residency->steppers);
}

/* A place for the arena that is attached next, so that it can be retired whatever happens. */
static bool retired_reserve(struct residency *residency)
{
	struct arena **retired = realloc(residency->retired, (residency->retired_count + 1) *
								     sizeof(*residency->retired));

	if (retired)
		residency->retired = retired;
	return retired != NULL;
}

/* The arena, made at the first need. Under the residency lock. */
bool residency_attach(struct residency *residency)
{
	if (residency->arena)
		return true;
	if (!residency->options.node_budget)
		residency->options.node_budget = memory_budget(settings_get());
	if (!residency->options.budget)
		residency->options.budget = residency->options.node_budget;
	if ((residency->spill < 0 && !descriptors_spare(residency->fd)) ||
	    !retired_reserve(residency) ||
	    arena_open(&residency->arena, &residency->identity, &residency->options,
		       &residency->private_reason)) {
		residency->arena = NULL;
		if (residency->spill >= 0)
			return false; /* each time anew: nothing else serves as well */
		residency->armed = false;
		atomic_store(&residency->enabled, false);
		taint_all(residency);
		return false;
	}
	if (residency->private_reason && settings_get()->verbose)
		log_line("not shared with the other processes of the node: %s",
			 residency->private_reason);
	memset(residency->own, 0, own_words(chunks_used(residency)) * sizeof(*residency->own));
	residency_link(residency);
	scanners_tell(residency);
	return true;
}

/* Threads in transactions of the old snapshot may be looking at the arena's table, and reads into
 * it may be on their way: it is closed when both are over. */
void residency_bury(struct residency *residency)
{
	if (residency->transactions || residency->loads)
		return;
	for (unsigned i = 0; i < residency->retired_count; i++)
		arena_close(residency->retired[i]);
	residency->retired_count = 0;
}

static void retire(struct residency *residency)
{
	node_link_close(&residency->link);
	residency->retired[residency->retired_count++] = residency->arena;
	residency->arena = NULL;
	residency_bury(residency);
}

static bool detach(struct residency *residency)
{
	if (!residency->arena)
		return true;
	if (!rest_all(residency))
		return false;
	retire(residency);
	return true;
}

void residency_close(struct residency *residency)
{
	if (!residency->states)
		return;
	residency->transactions = 0;
	/* The window that still shows an arena's chunks for want of maps is closed next: nothing looks
	 * at them any more. */
	if (!detach(residency))
		retire(residency);
	residency_bury(residency);
	borders_clear(residency);
	descriptor_close(atomic_load(&residency->probe), residency->device, residency->inode);
	free(residency->retired);
	tables_free(residency);
	free(residency->mapped);
	io_buffer_free(atomic_exchange(&residency->spare, NULL), ARENA_CHUNK);
	pthread_cond_destroy(&residency->landed);
	pthread_mutex_destroy(&residency->lock);
	residency->states = NULL;
}

int residency_snapshot(struct residency *residency, const struct identity *identity,
		       uint64_t data, uint64_t low, bool arm)
{
	pthread_mutex_lock(&residency->lock);
	atomic_store(&residency->enabled, false);
	if (!detach(residency)) {
		pthread_mutex_unlock(&residency->lock);
		return ENOMEM;
	}
	for (uint64_t i = 0; i < chunks_used(residency); i++)
		set_state(residency, i, CHUNK_REST);
	taint_all(residency);
	residency->identity = *identity;
	residency->size = identity->size < residency->length ? identity->size : residency->length;
	residency->data = data < residency->size ? data : residency->size;
	residency->low = round_up(low, ARENA_BLOCK);
	residency->armed = arm;
	atomic_store(&residency->enabled, arm && !residency->paused);
	pthread_mutex_unlock(&residency->lock);
	return 0;
}

void residency_announce(struct residency *residency, bool announced)
{
	if (atomic_exchange(&residency->announced, announced) && !announced) {
		pthread_mutex_lock(&residency->lock);
		pthread_cond_broadcast(&residency->landed);
		pthread_mutex_unlock(&residency->lock);
	}
}

/* Under the residency lock. */
static uint64_t room_of_cache(struct residency *residency)
{
	if (!residency->room)
		residency->room = memory_allowed("") / ROOM_PARTS * (ROOM_PARTS - 1);
	return residency->room;
}

bool residency_holds_all(struct residency *residency)
{
	uint64_t room = 0;

	pthread_mutex_lock(&residency->lock);
	if (residency->kind == RESIDENCY_CACHE)
		room = room_of_cache(residency);
	else if (residency->arena)
		room = arena_budget(residency->arena);
	pthread_mutex_unlock(&residency->lock);
	return residency->data <= room;
}

void residency_scan(struct residency *residency, int change)
{
	pthread_mutex_lock(&residency->lock);
	atomic_fetch_add(&residency->scans, (unsigned)change);
	if (residency->kind == RESIDENCY_CACHE)
		atomic_store(&residency->keeps,
			     atomic_load(&residency->scans) &&
				     residency->data <= room_of_cache(residency));
	scanners_tell(residency);
	pthread_mutex_unlock(&residency->lock);
}

void residency_step(struct residency *residency, int change)
{
	pthread_mutex_lock(&residency->lock);
	residency->steppers += (unsigned)change;
	scanners_tell(residency);
	pthread_mutex_unlock(&residency->lock);
}

int residency_pause(struct residency *residency)
{
	bool rested = true;

	pthread_mutex_lock(&residency->lock);
	if (!residency->paused++ && residency->kind == RESIDENCY_ARENA) {
		atomic_store(&residency->enabled, false);
		rested = rest_all(residency);
	}
	pthread_mutex_unlock(&residency->lock);
	return rested ? 0 : ENOMEM;
}

void residency_resume(struct residency *residency)
{
	pthread_mutex_lock(&residency->lock);
	if (!--residency->paused && residency->kind == RESIDENCY_ARENA) {
		taint_all(residency);
		atomic_store(&residency->enabled, residency->armed);
	}
	pthread_mutex_unlock(&residency->lock);
}

void residency_enter(struct residency *residency)
{
	pthread_mutex_lock(&residency->lock);
	residency->transactions++;
	pthread_mutex_unlock(&residency->lock);
}

void residency_leave(struct residency *residency)
{
	pthread_mutex_lock(&residency->lock);
	if (--residency->transactions == 0) {
		residency->epoch++;
		residency_bury(residency);
	}
	pthread_mutex_unlock(&residency->lock);
}

void residency_hold(struct residency *residency)
{
	if (residency->kind == RESIDENCY_ARENA && atomic_load(&residency->enabled))
		(void)residency_attach(residency);
}

void residency_forked(struct residency *residency)
{
	/* One call for the whole window: between this and the fork nothing of the program runs.
	 * What could not be spilled stays as it is, for as long as the parent keeps it. */
	bool kept = residency->spill >= 0 && residency->transactions && residency->mapped_count;

	if (residency->arena) {
		if (!kept)
			(void)show_file_whole(residency);
		arena_forked(residency->arena);
		node_link_close(&residency->link);
		/* The child attaches afresh, when it first wants bytes. */
		residency->arena = NULL;
	}
	for (unsigned i = 0; i < residency->retired_count; i++)
		arena_forked(residency->retired[i]);
	residency->retired_count = 0;
	for (uint64_t i = 0; i < chunks_used(residency); i++) {
		if (residency->kind == RESIDENCY_CACHE) {
			residency->taints[i] = 0; /* what was being read is read for the parent */
		} else if (is_shown(residency, i)) {
			set_state(residency, i, CHUNK_REST);
			runs_clear(residency, i);
		}
	}
	borders_clear(residency);
	taint_all(residency);
	residency->mapped_count = 0;
	residency->loads = 0;
	atomic_store(&residency->scans, 0);
	atomic_store(&residency->keeps, false);
	atomic_store(&residency->announced, false);
	residency->waiters = NULL;
	atomic_store(&residency->spare, NULL);
	clock_condition(&residency->landed); /* threads of the parent's may wait for it */
}
