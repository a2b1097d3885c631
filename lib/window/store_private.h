/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the files of the store share. */
#ifndef LMDBIO_WINDOW_STORE_PRIVATE_H
#define LMDBIO_WINDOW_STORE_PRIVATE_H

#include "util/huge.h"
#include "window/store.h"

/* How a range is to be planned. */
struct plan_how {
	uint64_t widen;         /* a power of two, at most a chunk: missing bytes come with their
				   neighbours up to multiples of it */
	bool urgent;            /* a program waits for it */
	enum store_guess guess; /* ... and the read may bring more bytes than that */
	bool large;             /* for a value that is worth a request of its own */
	bool alone;             /* a wait for the server was in vain */
	bool again;             /* PLAN_AGAIN */
	bool passed_on;         /* into the page cache, for other processes */
	bool unmapped;          /* PLAN_UNMAPPED */
	bool announced;         /* PLAN_ANNOUNCED */
};

/* What each kind of store does in its own way. All else is the same for all kinds.
 *
 * A kind is a file with such a table, a word of enum store_kind, a row in store.c and a line in
 * lib/Makemodule.am; tests/unit/store_large_test.c goes over all kinds.
 */
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
	/* Ends a load: shows the bytes that came, or gives up claim and memory when `error` is not
	 * 0. Under the store lock. */
	void (*land)(struct store *store, const struct store_load *load, int error);
	/* Bytes that this memory can keep; 0: it is not known yet. Under the store lock. */
	uint64_t (*room)(struct store *store);
	/* The number of look-aheads that go over the file has changed. Under the store lock. */
	void (*scanned)(struct store *store);
	/* Whether a page's neighbours come with it. Under no lock. */
	bool (*reads_around)(struct store *store);
	/* Makes the map at rest serve bytes that the arena cannot show. *waited: it waited for a
	 * read. Returns as bring(). Under no lock. */
	int (*stand_in)(struct store *store, uint64_t offset, uint64_t end, bool *waited);
	/* Saves the bytes of a chunk that pointers may lead into, before the chunk leaves the
	 * arena. *whole: all of the chunk is saved. Returns 0 or the errno of a write. NULL: the
	 * file at rest has the bytes. Under the store lock. */
	int (*save)(struct store *store, uint64_t chunk, bool *whole);
	/* store_bring_copies(); NULL: the store has no copies. */
	bool (*bring_copies)(struct store *store, uint64_t offset, uint64_t length);
};

extern const struct store_ops store_cache_ops, store_shared_ops, store_container_ops;

static inline uint64_t chunk_end(const struct store *store, uint64_t chunk)
{
	uint64_t end = (chunk + 1) * ARENA_CHUNK;

	return end < store->file.size ? end : store->file.size;
}

/* Returns the end of a range, or the file's end where a later transaction has seen the file cut.
 * Under the store lock. */
static inline uint64_t end_in_file(const struct store *store, uint64_t end)
{
	return end < store->file.size ? end : store->file.size;
}

/* Whether the page cache has all of these whole blocks of the file, or the kernel is reading them,
 * whatever the window shows. read_beneath() also reads them out of it; it returns false if some are
 * missing. *done: bytes that came, less than length only at the end of the file. Under no lock. */
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

/* The store knows nothing of chunks beyond the file's end. */
static inline uint64_t chunks_used(const struct store *store)
{
	return (store->file.size + ARENA_CHUNK - 1) / ARENA_CHUNK;
}

/* A bit for each chunk. */
static inline uint64_t own_words(uint64_t chunks)
{
	return (chunks + 63) / 64;
}

/* Pages handed out until now showed the file, and a program may hold pointers into them. */
static inline void taint_all(struct store *store)
{
	if (store->transactions)
		store->shown.all_tainted = store->shown.epoch;
}

/* The store keeps one buffer: most reads are of a chunk or less and follow one another. */
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
/* Makes the arena at the first need. Returns false if there can be none. */
bool store_attach(struct store *store);
/* Looks for a server of the arena, and sets link_at, when to look again. */
void store_link(struct store *store);
/* Closes arenas of older snapshots, if no transaction is left that looks at them. */
void store_bury(struct store *store);

/* The functions that both kinds with an arena have in their tables, in store.c, store_bring.c and
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
/* Counts a wait for a read, which began at `began` (clock_now()). */
void store_waited(struct store *store, uint64_t began);
/* Under the store lock: whether no thread waits for a reader now, because a wait was in vain. */
bool is_impatient(const struct store *store);

/* store_map.c: all under the store lock. */
/* Learns whether the kernel locks what this process maps from now on. */
void locks_look(struct store *store);
/* The part of a chunk that may show the arena, in whole blocks. */
void chunk_span(const struct store *store, uint64_t chunk, uint64_t *start, uint64_t *end);
/* Lays the file under all of the window, with the advice for reads that the program has chosen.
 * Returns false if the kernel refuses: the map stays as it is, and right; the chunks of the arena
 * that it shows must then stay pinned. */
bool show_file_whole(const struct store *store);
/* The same under a chunk at rest, where the window may still show a parent's arena. */
bool chunk_lay(const struct store *store, uint64_t chunk);
/* Whether a block shows the arena. Without the lock: whether it did a moment ago. */
bool shows_arena(const struct store *store, uint64_t block);
/* Whether a chunk is half of a huge page that the window can show with one entry. */
bool is_half(const struct store *store, uint64_t chunk);
/* Shows the blocks [first, end) of a pinned chunk, all of which are published. Returns false if the
 * kernel refuses; nothing has changed then. */
bool chunk_show(struct store *store, uint64_t chunk, uint64_t first, uint64_t end);
/* Leaves to the file what the window does not show of a chunk. Returns false if the kernel refuses:
 * the arena stays under the chunk. */
bool chunk_leave(struct store *store, uint64_t chunk);
void mark_run(struct store *store, uint64_t first, uint64_t end);
/* Gives up the oldest maps, as far as the node needs memory; or all maps (false: some remain). */
void shed(struct store *store);
bool shed_all(struct store *store);
/* shed_all() for a caller that must not go on otherwise. Returns false if the kernel has no memory
 * for a map. */
bool rest_all(struct store *store);

/* Records that the window shows one file, without borders. */
void borders_clear(struct store *store);
/* The same, and unpins the chunks that showed the arena, unless a forked child has none any more. */
void mapped_clear(struct store *store);
/* Whether this process's windows have as many borders as they may, and this one its least. */
bool borders_are_many(const struct store *store);

/* store_scans.c */
/* Chunks that this process may map while it scans a file that memory cannot hold; 0: it does not
 * scan one. Under the store lock. */
uint64_t scan_share(const struct store *store);

/* store_load.c */
/* Milliseconds of one wait for a chunk that another reader reads. */
enum { WAIT_SLICE = 50 };

/* One look at the first part of a range, as store_plan(). Under the store lock. */
enum store_plan plan_locked(struct store *store, uint64_t offset, uint64_t *length,
			    const struct plan_how *how, struct store_load *load);
/* Under the store lock: whether the node has a server; looks again for one when link_at has
 * come. */
bool is_linked(struct store *store);
/* Under the store lock: whether the node's server brings a chunk of which `blocks` blocks are
 * wanted, with their neighbours up to multiples of `widen`. */
bool is_served(struct store *store, uint64_t chunk, uint64_t blocks, const struct plan_how *how,
	       uint64_t widen);
/* Whether to read a few random pages through the page cache instead of directly: the kernel
 * allocates and copies less, and makes no map. Under the store lock. */
bool passes_pages(struct store *store);
/* How far a read ahead is widened: a container is not decompressed in smaller pieces. */
uint64_t widen_ahead(const struct store *store);

/* A thread that waits for announced bytes. */
struct store_waiter {
	uint64_t offset, end;
	bool passed_on; /* some of the bytes came to the page cache: look there */
	struct store_waiter *next;
};

/* store_sure.c */
/* Makes the page-table entries of bytes that were just read. */
void map_read(const struct store *store, uint64_t offset, uint64_t length);
/* Whether the kernel reads a page's neighbours for a program that reads at random. */
bool cache_reads_around(struct store *store);
/* Whether a range is lone: the file is far larger than memory, and no recent range ended near. The
 * kernel would read too much around it, and the store assumes nothing there. Remembers the range,
 * so call it once for each. Any thread, no lock. */
bool is_lone(struct store *store, uint64_t offset, uint64_t end);
/* Waits for bytes in the file's own map; for a lone range, for these bytes and no others. Returns
 * 0, or EIO when a read failed. *there: no page had to be read, as far as the first one tells. */
int fault_in(struct store *store, uint64_t offset, uint64_t end, bool lone, bool *there);
/* Says that the bytes were in memory just now. */
void mark_sure(struct store *store, uint64_t offset, uint64_t end);
/* After EIO nothing is assumed to be in memory any more. */
void sure_failed(struct store *store, int error);

/* store_look.c */
/* Whether the kernel tells what it holds. */
bool is_told(struct store *store);
/* Whether the page cache holds all of a range; `offset` is a page's. */
bool is_cached(struct store *store, uint64_t offset, uint64_t end);
bool is_cached_at(struct store *store, uint64_t offset);
/* An open file description of this process's own, whose reads bring the pages that they ask for and
 * no others. Returns its descriptor, or -1. */
int probe_of(struct store *store);
/* Whether the page cache holds the bytes, which then need no second copy. Under the store lock. */
bool leave_to_cache(struct store *store, uint64_t chunk, uint64_t offset, uint64_t end);
/* Whether the kernel is reading the missing bytes of a range: another process has asked for them
 * ahead of need. Under the store lock. */
bool is_coming(struct store *store, uint64_t offset, uint64_t length, const struct plan_how *how);

#endif
