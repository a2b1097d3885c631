/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the files of the store share. */
#ifndef LMDBIO_WINDOW_STORE_PRIVATE_H
#define LMDBIO_WINDOW_STORE_PRIVATE_H

#include "window/store.h"

#include <sys/mman.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif

static inline uint64_t chunk_end(const struct store *store, uint64_t chunk)
{
	uint64_t end = (chunk + 1) * ARENA_CHUNK;

	return end < store->size ? end : store->size;
}

static inline uint64_t block_of(uint64_t offset)
{
	return offset / ARENA_BLOCK;
}

static inline uint64_t block_end(uint64_t offset)
{
	return (offset + ARENA_BLOCK - 1) / ARENA_BLOCK;
}

/* Whether a chunk shows the arena, at least in parts; then, and only then, it is pinned. */
static inline bool is_shown(const struct store *store, uint64_t chunk)
{
	unsigned state = atomic_load_explicit(&store->states[chunk], memory_order_acquire);

	return state != CHUNK_REST && state != CHUNK_WARM;
}

static inline bool is_tainted(const struct store *store, uint64_t chunk)
{
	return store->taints[chunk] == store->epoch || store->all_tainted == store->epoch;
}

static inline void set_state(struct store *store, uint64_t chunk, enum chunk_state state)
{
	atomic_store_explicit(&store->states[chunk], (unsigned char)state, memory_order_release);
}

static inline enum chunk_state get_state(const struct store *store, uint64_t chunk)
{
	return atomic_load_explicit(&store->states[chunk], memory_order_acquire);
}

/* Both under the store lock. */
static inline bool is_own(const struct store *store, uint64_t chunk)
{
	return store->own[chunk / 64] >> chunk % 64 & 1;
}

static inline void set_own(struct store *store, uint64_t chunk)
{
	store->own[chunk / 64] |= 1ull << chunk % 64;
}

/* store.c, under the store lock: the arena, made at the first need. */
bool store_attach(struct store *store);
/* Under the store lock: looks for a server of the arena; again when link_at has come. */
void store_link(struct store *store);
/* Closes arenas of older snapshots, if no transaction is left that looks at them. */
void store_bury(struct store *store);

/* store_bring.c */
/* Counts a wait for a read, which began then (clock_now()). */
void store_waited(struct store *store, uint64_t began);
/* Under the store lock: whether a reader was waited for in vain, and none
 * is now. */
bool is_impatient(const struct store *store);

/* store_map.c: all under the store lock. */
/* The part of a chunk that may show the arena, in whole blocks. */
void chunk_span(const struct store *store, uint64_t chunk, uint64_t *start, uint64_t *end);
/* Lays the file under all of the window, as the program has opened it: with the advice for its
 * reads. false: the kernel refuses, and the map stays as it is, right all the same; what it shows
 * of the arena must then stay pinned. */
bool show_file_whole(const struct store *store);
/* Whether a chunk is half of a huge page that the window can show with one entry. */
bool is_half(const struct store *store, uint64_t chunk);
/* Shows the blocks [first, end) of a pinned chunk, all of which are published. false: the kernel
 * refuses; nothing has changed. */
bool chunk_show(struct store *store, uint64_t chunk, uint64_t first, uint64_t end);
/* What is not shown of a chunk stays with the file. false: the kernel refuses, and the arena stays
 * under it. */
bool chunk_leave(struct store *store, uint64_t chunk);
void runs_clear(struct store *store, uint64_t chunk);
void mark_run(struct store *store, uint64_t first, uint64_t end);
/* Gives up the oldest maps, as far as the node's memory asks for it; or all (false: not all). */
void shed(struct store *store);
bool shed_all(struct store *store);
/* The same for a caller that must not go on otherwise. false: the kernel has no memory for a
 * map. */
bool rest_all(struct store *store);

/* store_borders.c: all under the store lock. */
/* Borders between file and arena in a chunk and at its two ends: each costs the kernel a map. */
int64_t borders_around(const struct store *store, uint64_t chunk);
/* So many more than before. */
void borders_add(struct store *store, int64_t more);
/* The window shows one file. */
void borders_clear(struct store *store);
/* Whether this process's windows have as many as may be, and this one its least. */
bool borders_are_many(const struct store *store);

/* store_spill.c, where there is no plain file; under the store lock. */
/* Writes to the scratch file what pointers may lead into of a chunk that shows the arena. 0, or the
 * errno of the write. *whole: the chunk is complete there. */
int chunk_spill(struct store *store, uint64_t chunk, bool *whole);
/* Under no lock: brings a chunk to the scratch file, past the arena. 0 or the errno. */
int chunk_bring_spilled(struct store *store, uint64_t chunk);

/* store_load.c */
/* Of one wait for a chunk in other hands, milliseconds. */
enum { WAIT_SLICE = 50 };

/* How a range is to be planned. */
struct plan_how {
	uint64_t widen;         /* a power of two, at most a chunk: what is missing comes with its
				   neighbours up to multiples of it */
	bool urgent;            /* a program waits for it */
	enum store_guess guess; /* ... and may be given more */
	bool alone;             /* the server has been waited for in vain */
	bool again;             /* PLAN_BUSY the last time: the page cache had nothing of it */
};

/* One look at the first part of a range, as store_plan(). Under the store lock. */
enum store_plan plan_locked(struct store *store, uint64_t offset, uint64_t *length,
			    const struct plan_how *how, struct store_load *load);
/* Under the store lock: whether the node has a server; it may have come since it was asked
 * for last. */
bool is_linked(struct store *store);
/* Under the store lock: whether the node's server brings a chunk, of which so many blocks
 * are wanted. */
bool is_served(struct store *store, uint64_t chunk, uint64_t blocks, const struct plan_how *how);
/* How far a read ahead is widened: a container is not decompressed in smaller pieces. */
uint64_t widen_ahead(const struct store *store);

/* A thread that waits for announced bytes. */
struct store_waiter {
	uint64_t offset, end;
	struct store_waiter *next;
};

/* store_entries.c */
/* Makes the page-table entries of what has just been read. */
void map_read(const struct store *store, uint64_t offset, uint64_t length);

/* store_sure.c */
/* Waits for bytes in the file's own map. Returns 0, or EIO: a read has failed. *there: nothing had
 * to be read, as far as the first page tells. */
int fault_in(struct store *store, uint64_t offset, uint64_t end, bool *there);
/* That the bytes have been in memory just now. */
void mark_sure(struct store *store, uint64_t offset, uint64_t end);
/* What an errno of a read tells of the ones to come. */
void sure_failed(struct store *store, int error);

/* store_look.c */
/* Whether the kernel tells what it holds. */
bool is_told(struct store *store);
/* Whether the page cache holds all of a range; `offset` is a page's. */
bool is_cached(struct store *store, uint64_t offset, uint64_t end);
bool is_cached_at(struct store *store, uint64_t offset);
/* A description of the file of this process's own, with which a read brings the pages that it asks
 * for and no others. Returns it, or -1. */
int probe_of(struct store *store);
/* What the page cache holds needs no second copy. Under the store lock. */
bool leave_to_cache(struct store *store, uint64_t chunk, uint64_t offset, uint64_t end);

#endif
