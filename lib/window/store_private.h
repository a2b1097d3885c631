/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the files of the store share. */
#ifndef LMDBIO_WINDOW_STORE_PRIVATE_H
#define LMDBIO_WINDOW_STORE_PRIVATE_H

#include "util/huge.h"
#include "window/store.h"

/* How a range is to be planned. */
struct plan_how {
	uint64_t widen;         /* a power of two, at most a chunk: what is missing comes with its
				   neighbours up to multiples of it */
	bool urgent;            /* a program waits for it */
	enum store_guess guess; /* ... and may be given more */
	bool large;             /* for a value that is worth a request of its own */
	bool alone;             /* the server has been waited for in vain */
	bool again;             /* PLAN_BUSY the last time: the page cache had nothing of it */
	bool passed_on;         /* for other processes, which find it in the page cache */
};

/* What the kinds of store do each in its own way. All else is the same for all of them.
 *
 * A kind is a file with such a table, a word of enum store_kind, a row in store.c and a line in
 * lib/Makemodule.am; tests/unit/store_large_test.c goes over all kinds. */
struct store_ops {
	const char *name; /* of the memory that holds the bytes */
	bool shows_file;  /* store_shows_file(); then there is no arena */
	/* Brings bytes of [offset, end) that are not covered, and waits for them. Returns 0, or the
	 * errno of a read that failed. Under no lock. */
	int (*bring)(struct store *store, uint64_t offset, uint64_t end);
	/* Plans bytes of one chunk that are neither covered nor in the page cache, as store_plan().
	 * Under the store lock. */
	enum store_plan (*plan)(struct store *store, uint64_t offset, uint64_t *length,
				const struct plan_how *how, struct store_load *load);
	/* Ends a load: shows what has come, or gives up what was taken on when `error` is not 0.
	 * Under the store lock. */
	void (*land)(struct store *store, const struct store_load *load, int error);
	/* Bytes that this memory can keep; 0: it is not known yet. Under the store lock. */
	uint64_t (*room)(struct store *store);
	/* The number of look-aheads that go over the file has changed. Under the store lock. */
	void (*scanned)(struct store *store);
	/* Whether what lies around a page comes with it. Under no lock. */
	bool (*reads_around)(struct store *store);
	/* Makes the map at rest serve bytes that the arena cannot show. *waited: a read was waited
	 * for. Returns as bring(). Under no lock. */
	int (*stand_in)(struct store *store, uint64_t offset, uint64_t end, bool *waited);
	/* Saves what pointers may lead into of a chunk that is about to leave the arena. *whole:
	 * all of the chunk is saved. Returns 0 or the errno of a write. NULL: the file at rest has
	 * the bytes. Under the store lock. */
	int (*save)(struct store *store, uint64_t chunk, bool *whole);
	/* store_bring_copies(); NULL: there are none. */
	bool (*bring_copies)(struct store *store, uint64_t offset, uint64_t length);
};

extern const struct store_ops store_cache_ops, store_shared_ops, store_container_ops;

static inline uint64_t chunk_end(const struct store *store, uint64_t chunk)
{
	uint64_t end = (chunk + 1) * ARENA_CHUNK;

	return end < store->file.size ? end : store->file.size;
}

/* The end of a range, as far as the file goes now: a later transaction may have seen it cut. Under
 * the store lock. */
static inline uint64_t end_in_file(const struct store *store, uint64_t end)
{
	return end < store->file.size ? end : store->file.size;
}

/* Whether the page cache has whole blocks of the file, or the kernel is reading them, whatever the
 * window shows; and reading them out of it. false: it has not all of them. *done: bytes that came,
 * less than length only at
 * the end of the file. Under no lock. */
bool is_cached_beneath(struct store *store, uint64_t offset, uint64_t length);
bool read_beneath(struct store *store, void *buffer, uint64_t offset, size_t length, size_t *done);

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
	unsigned state = atomic_load_explicit(&store->shown.states[chunk], memory_order_acquire);

	return state != CHUNK_REST && state != CHUNK_WARM;
}

static inline bool is_tainted(const struct store *store, uint64_t chunk)
{
	return store->shown.taints[chunk] == store->shown.epoch ||
	       store->shown.all_tainted == store->shown.epoch;
}

static inline void set_state(struct store *store, uint64_t chunk, enum chunk_state state)
{
	atomic_store_explicit(&store->shown.states[chunk], (unsigned char)state,
			      memory_order_release);
}

static inline enum chunk_state get_state(const struct store *store, uint64_t chunk)
{
	return atomic_load_explicit(&store->shown.states[chunk], memory_order_acquire);
}

/* Both under the store lock. */
static inline bool is_own(const struct store *store, uint64_t chunk)
{
	return store->shown.own[chunk / 64] >> chunk % 64 & 1;
}

static inline void set_own(struct store *store, uint64_t chunk)
{
	store->shown.own[chunk / 64] |= 1ull << chunk % 64;
}

/* Of the chunks behind the file's end nothing is known. */
static inline uint64_t chunks_used(const struct store *store)
{
	return (store->file.size + ARENA_CHUNK - 1) / ARENA_CHUNK;
}

/* A bit for each chunk. */
static inline uint64_t own_words(uint64_t chunks)
{
	return (chunks + 63) / 64;
}

/* What was handed out until now was the file's: that matters to pointers that a program holds. */
static inline void taint_all(struct store *store)
{
	if (store->transactions)
		store->shown.all_tainted = store->shown.epoch;
}

/* One buffer is kept, because most reads are of a chunk or less and come one after another. */
static inline void *buffer_take(struct store *store, size_t length)
{
	void *buffer = length > ARENA_CHUNK ? NULL : atomic_exchange(&store->spare, NULL);

	return buffer ? buffer : io_buffer_new(length > ARENA_CHUNK ? length : ARENA_CHUNK);
}

static inline void buffer_return(struct store *store, void *buffer, size_t length)
{
	void *none = NULL;

	if (length > ARENA_CHUNK)
		io_buffer_free(buffer, length);
	else if (!buffer || !atomic_compare_exchange_strong(&store->spare, &none, buffer))
		io_buffer_free(buffer, ARENA_CHUNK);
}

/* store.c: all under the store lock. */
/* Makes the arena at the first need; false: there can be none. */
bool store_attach(struct store *store);
/* Looks for a server of the arena; again when link_at has come. */
void store_link(struct store *store);
/* Closes arenas of older snapshots, if no transaction is left that looks at them. */
void store_bury(struct store *store);

/* What both kinds with an arena have in their tables, in store.c, store_bring.c and
 * store_load.c. */
#define ARENA_NAME "shared memory of the node"
int arena_bring(struct store *store, uint64_t offset, uint64_t end);
enum store_plan arena_plan(struct store *store, uint64_t offset, uint64_t *length,
			   const struct plan_how *how, struct store_load *load);
void arena_land(struct store *store, const struct store_load *load, int error);
uint64_t arena_room(struct store *store);
void arena_scanned(struct store *store);

/* store_bring.c */
/* Under no lock: whether a process of the node goes over all of the file. */
bool arena_is_scanned(struct store *store);
/* Counts a wait for a read, which began then (clock_now()). */
void store_waited(struct store *store, uint64_t began);
/* Under the store lock: whether a reader was waited for in vain, and none
 * is now. */
bool is_impatient(const struct store *store);

/* store_map.c: all under the store lock. */
/* Learns whether the kernel locks what this process maps from now on. */
void locks_look(struct store *store);
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

/* The window shows one file. */
void borders_clear(struct store *store);
/* Whether this process's windows have as many as may be, and this one its least. */
bool borders_are_many(const struct store *store);

/* store_scans.c */
/* Chunks that this process may map while it scans a file that memory cannot hold; 0: it does not.
 * Under the store lock. */
uint64_t scan_share(const struct store *store);

/* store_load.c */
/* Of one wait for a chunk in other hands, milliseconds. */
enum { WAIT_SLICE = 50 };

/* One look at the first part of a range, as store_plan(). Under the store lock. */
enum store_plan plan_locked(struct store *store, uint64_t offset, uint64_t *length,
			    const struct plan_how *how, struct store_load *load);
/* Under the store lock: whether the node has a server; it may have come since it was asked
 * for last. */
bool is_linked(struct store *store);
/* Under the store lock: whether the node's server brings a chunk, of which so many blocks
 * are wanted, and what lies around them up to multiples of `widen`. */
bool is_served(struct store *store, uint64_t chunk, uint64_t blocks, const struct plan_how *how,
	       uint64_t widen);
/* Whether a few pages that are wanted alone, at random, are sooner read through the page cache than
 * directly: the kernel allocates and copies less, and makes no map. Under the store lock. */
bool passes_pages(struct store *store);
/* How far a read ahead is widened: a container is not decompressed in smaller pieces. */
uint64_t widen_ahead(const struct store *store);

/* A thread that waits for announced bytes. */
struct store_waiter {
	uint64_t offset, end;
	bool passed_on; /* some of it has come to the page cache, and is to be looked for there */
	struct store_waiter *next;
};

/* store_sure.c */
/* Makes the page-table entries of what has just been read. */
void map_read(const struct store *store, uint64_t offset, uint64_t length);
/* Whether the kernel reads what lies around a page of a program that reads at random. */
bool cache_reads_around(struct store *store);
/* Whether the kernel would read too much around a range, and the store takes nothing for granted
 * there: the file is far larger than memory, and no earlier range ended near. Remembers the range, so
 * ask once of each. Any thread, no lock. */
bool is_lone(struct store *store, uint64_t offset, uint64_t end);
/* Waits for bytes in the file's own map; of a lone range for these bytes and no others. Returns 0, or
 * EIO: a read has failed. *there: nothing had to be read, as far as the first page tells. */
int fault_in(struct store *store, uint64_t offset, uint64_t end, bool lone, bool *there);
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
/* Whether the kernel reads what is missing of a range there: another process has asked for it ahead
 * of need. Under the store lock. */
bool is_coming(struct store *store, uint64_t offset, uint64_t length, const struct plan_how *how);

#endif
