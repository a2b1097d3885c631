/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides which bytes stand under each part of a window.
 *
 * At rest every part shows the data file, as LMDB's own map does. With an arena, a chunk that was
 * brought shows the arena instead. To evict it, the store puts the file back under it, so a pointer
 * once handed out stays right. Two facts make that safe:
 *   - The store hands a page out of the arena only when the page's blocks are published there.
 *   - A chunk is `tainted` if pointers into it were handed out while it showed the file, until no
 *     transaction lives that could hold one. In such a chunk only published blocks are mapped,
 *     never the holes between them.
 *
 * A container is no plain file: a scratch file without data stands at rest under its window. The
 * store then hands out only bytes that it has brought. A chunk that must leave the arena while a
 * transaction lives is written to that file first (spilled).
 */
#ifndef LMDBIO_WINDOW_STORE_H
#define LMDBIO_WINDOW_STORE_H

#include "arena/arena.h"
#include "io/io.h"
#include "node/node_socket.h"
#include "util/checked.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum chunk_state {
	CHUNK_REST = 0, /* the file; store->shown.runs: its blocks that were seen in the page
			   cache */
	CHUNK_PART,     /* the arena; a page may be handed out when its blocks are published */
	CHUNK_RUNS, /* the file, with runs of the arena over it (store->shown.runs tells which) */
	CHUNK_IDLE, /* as CHUNK_FULL, and unused since eviction last looked at it */
	CHUNK_FULL, /* the arena, all of it published */
	CHUNK_WARM, /* the file; the page cache has the chunk, or it was spilled */
};

enum store_kind {
	STORE_CACHE,     /* the page cache; store->shown.runs: the blocks that were seen there */
	STORE_ARENA,     /* the node's shared memory, over a plain file */
	STORE_CONTAINER, /* the same over a scratch file: see store_spill_to() */
};

enum { PROBE_NONE = -2 };

/* How many sequential readers of one file is_lone() recognises at a time. */
enum { STORE_STREAMS = 16 };

enum store_told {
	TOLD_UNKNOWN, /* not asked yet */
	TOLD_TRULY,
	TOLD_NOTHING,
};

/* What a read may bring beyond the wanted bytes, because the program may want it next. */
enum store_guess {
	GUESS_NOTHING,
	GUESS_CHUNKS, /* the whole chunk at its seventh read, or in an epoch */
	GUESS_AROUND, /* the neighbours; the whole chunk at its third read, or in an epoch */
};

/* The window, and the file that stands under it at rest: the data file, or a scratch file. */
struct store_file {
	uint8_t *base; /* the window */
	size_t length; /* ... in bytes */
	int fd;
	uint64_t device, inode; /* the file behind `fd`, unless the program has closed it */
	bool random;            /* the program wants no read-ahead at page faults */
	bool locks;             /* the kernel locks new maps; as of the last look */
	_Atomic uint64_t size;  /* bytes in this snapshot */
	uint64_t data;          /* ... of which pages are in use; a file may be far longer */
	_Atomic uint64_t low;   /* bytes in front that always show the file: the meta pages */
};

/* A row of chunks that were found in the page cache, and the range that is assumed cached because
 * of it. */
struct store_warm {
	unsigned row;        /* chunks found in a row; 0: the last one was not in the page cache */
	uint64_t first, end; /* offsets of the range that is assumed cached */
	long faults;         /* major page faults of the process when the row began */
	uint64_t last;       /* the chunk that was asked for last, plus one; 0: none */
	bool near;           /* the chunk before that was its neighbour */
	unsigned found,
		vain;  /* for a random reader: looks in a row that found the whole chunk, and looks
			  in a row that did not */
	unsigned skip; /* values to bring without such a look */
};

/* How the store learns what the page cache holds (store_look.c). */
struct store_look {
	_Atomic enum store_told told; /* whether the kernel tells what it holds */
	_Atomic int probe; /* else an open file description of its own, for tries; -1: not opened
			      yet, PROBE_NONE: there can be none */
	_Atomic unsigned cold, cold_skip; /* tries in a row that found nothing, and how many to
					     skip */
	struct store_warm warm;           /* under the store lock */
};

/* What the store assumes to be in the page cache (store_cache.c, store_sure.c). */
struct store_granted {
	_Atomic uint64_t *sure;        /* a bit per block that was in memory, or is assumed to be:
					  the program may touch it. With an arena, in a CHUNK_RUNS
					  chunk: seen in the page cache */
	/* What store_takes_value() asks for each value stands together: */
	_Atomic unsigned streak, skip; /* values found cached in a row, and how many more to assume
					  cached */
	atomic_bool careful;           /* nothing is assumed */
	atomic_bool alone;             /* memory is below the limit of store_read_alone() */
	atomic_bool keeps;             /* a scan runs, and the page cache can keep the whole file */
	_Atomic unsigned sure_row, sure_skip; /* as `streak` and `skip`, for store_assure() */
	_Atomic unsigned missed;              /* faults that had to read, less those that did not */
	_Atomic unsigned absent;              /* ranges in a row that had to be requested */
	_Atomic uint64_t
		alone_below; /* the limit of store_read_alone(); 0: it was compared with memory */
	_Atomic uint64_t ends[STORE_STREAMS]; /* if `alone`: where recent ranges ended */
	_Atomic unsigned next_end;            /* ... and the entry to replace next */
	uint64_t
		room; /* bytes that the page cache can keep; 0: not asked yet. Under the store lock */
};

/* What each chunk of the window shows (store_map.c). Changed under the store lock alone. */
struct store_shown {
	atomic_uchar *states; /* enum chunk_state, one per chunk */
	uint64_t chunks;
	uint32_t *taints;       /* the epoch in which a chunk was tainted; without an arena: 1 while
				   the chunk is being read */
	uint32_t epoch;         /* grows when no transaction is left */
	uint32_t all_tainted;   /* the epoch in which all chunks were tainted */
	_Atomic uint64_t *runs; /* a bit per block: mapped in a CHUNK_RUNS chunk; seen in the page
				   cache in a chunk at rest */
	uint64_t *own; /* a bit per chunk: this process has brought some of it to the arena */
	_Atomic uint32_t *uses; /* `maps` at the last store_use() in a chunk */
	_Atomic uint32_t maps;  /* chunks that have come to show the arena */
	uint64_t *mapped;       /* ring of the chunks that show the arena, oldest first */
	uint64_t mapped_first, mapped_count, mapped_room;
	_Atomic uint32_t emptied; /* how often all of them were unmapped to make room */
	int64_t borders; /* between file and arena in the window */
};

/* How long threads wait for other readers, in nanoseconds of clock_now() (store_bring.c). */
struct store_patience {
	_Atomic uint64_t impatient_until; /* a wait was in vain; no thread waits until then */
	/* Until `stopped_until`, no thread waits while the reader whose arena_progress() is
	 * `stopped_at` makes no progress: that reader is stopped. */
	uint64_t stopped_until, stopped_at;
	uint64_t stopped_ns; /* how long the last such period was */
};

/* Reads in flight, and the threads that wait for them. Under the store lock. */
struct store_landing {
	unsigned loads;
	atomic_bool announced; /* a few announced bytes are being read */
	pthread_cond_t landed; /* signalled when bytes come that one of these waits for: */
	struct store_waiter *waiters;
};

/* Arenas of older snapshots, not yet closed. */
struct store_retired {
	struct arena **arenas;
	unsigned count;
};

struct store {
	const struct store_ops *ops;       /* of the store's kind */
	bool shows_file;                   /* store_shows_file() */
	bool shows_parent;                 /* the window maps the parent's arena: store_settle() */
	bool keeps_parents; /* chunks of the parent's arena that it could not save may be mapped */
	bool believe_cache;                /* chunks that the page cache holds stay at rest */
	const struct store_packed *packed; /* of a container */
	uint64_t piece;                    /* bytes, a power of two: the least to bring at once */
	struct io *io;  /* reads that a program waits for */
	struct store_file file;
	struct store_look look;
	struct store_granted granted;
	_Atomic enum store_guess guess;
	atomic_bool enabled;
	bool armed; /* what `enabled` is while the store is not paused */
	unsigned paused;
	_Atomic unsigned waits;  /* how often a thread waited for a read */
	unsigned steppers;       /* look-aheads that want each n-th record */
	_Atomic uint64_t widest; /* chunks of the widest range that a program has waited for */
	atomic_uint scans;       /* active look-aheads that want whole chunks */
	struct arena *arena;    /* NULL before the first byte is brought */
	struct identity identity;
	struct arena_options options;
	pthread_mutex_t lock;  /* guards all below, and every change to the map */
	bool passes_on;        /* store_pass_on() */
	unsigned lost;         /* passed-on loads of which the page cache kept nothing */
	unsigned transactions; /* alive */
	struct store_shown shown;
	struct store_patience patience;
	struct store_landing landing;
	bool kept;             /* the page cache kept some of them; the prefetch thread's alone */
	_Atomic(void *) spare; /* a buffer of a chunk for a thread that reads for itself, or NULL */
	uint64_t link_at;      /* ns: when to look for a server again; UINT64_MAX: never */
	uint64_t link_refused; /* ns: how long not to, after the last server that refused */
	struct node_link link; /* to the server of the arena, if there is one */
	struct store_retired retired;
	const char *private_reason; /* why the arena is this process's alone, or NULL */
};

/* One read that a thread has taken on: it holds the claim, and memory is reserved. */
struct store_load {
	uint64_t offset;
	size_t length;
	uint64_t chunk;
	uint64_t blocks; /* the missing ones in this range */
	uint64_t wanted; /* offsets: from where to where the program wants bytes */
	uint64_t wanted_end;
	uint64_t file_size; /* in bytes, when the read was planned */
	struct arena *arena;
	bool passed_on; /* the bytes are for the page cache, not for the arena */
	bool shown;     /* the window shows the arena there: the page cache was not asked */
	bool guessed;   /* the read counts as a piece of the chunk (widen_guess()) */
	bool unmapped;  /* it was planned with PLAN_UNMAPPED */
	bool announced; /* ... with PLAN_ANNOUNCED */
};

enum store_plan {
	PLAN_READY, /* the bytes are in memory and mapped; with PLAN_UNMAPPED perhaps not mapped */
	PLAN_LOAD,  /* read load->length bytes at load->offset into any buffer, then finish */
	PLAN_BUSY,  /* another reader is reading this chunk */
	PLAN_REST,  /* leave the bytes to the file's own map */
	/* store_plan() never returns these two: */
	PLAN_COMING, /* the kernel is reading the bytes into the page cache */
	PLAN_PASS,   /* read the bytes through the page cache */
};

/* Sets up a window's store; makes no arena before the first byte is wanted. `window_length` bytes
 * are reserved at `base`. Returns 0 or ENOMEM. */
int store_open(struct store *store, enum store_kind kind, uint8_t *base, size_t window_length,
	       int fd, struct io *io, const struct arena_options *options, bool believe_cache);
void store_close(struct store *store);

/* A container's source of bytes, in place of a plain file. */
struct store_packed {
	int scratch;    /* the scratch file, for writing */
	uint32_t piece; /* bytes, a power of two: the least to bring at once */
	/* Reads whole tree pages from copies that lie close together. Returns 0; after anything
	 * else the caller reads the pages as other bytes. Any thread. */
	int (*read_tree)(struct io *io, void *buffer, size_t length, uint64_t offset);
};

/* Completes the opening of a STORE_CONTAINER: a scratch file is under the window, and only chunks
 * that were brought are right. `packed` must last as long as the store. */
void store_spill_to(struct store *store, const struct store_packed *packed);

/* Says what a read brings beyond the bytes that a program waits for, if the arena has room for the
 * file. GUESS_NOTHING at first, and where the program announces what it wants. Any thread. */
void store_guess(struct store *store, enum store_guess guess);

/* Bytes that this process's part of an arena may take; 0: the node's budget, which is unknown
 * before the first byte is brought. store_limit() sets it before that, or while no transaction uses
 * the store: then an arena that is there is given up, and the next read makes another arena. It
 * returns false if a transaction may use an arena. */
uint64_t store_limited(const struct store *store);
bool store_limit(struct store *store, uint64_t bytes);

/* Says that the window was mapped for random reads (MDB_NORDAHEAD): the store gives the same advice
 * whenever it lays the file again. Before the first snapshot. */
static inline void store_read_singly(struct store *store)
{
	store->file.random = true;
}

/* Where memory holds little of a local file, the kernel drops the neighbours of a random page
 * before the program wants them. The store reads such pages alone if memory_allowed() is less than
 * `below` bytes when the first page is missing. Any thread. */
static inline void store_read_alone(struct store *store, uint64_t below)
{
	atomic_store_explicit(&store->granted.alone_below, below, memory_order_relaxed);
}

/* For a store without an arena: from now on it hands out no page that is not known to be in memory.
 * Without this call the store assumes, after many pages that were in memory, that most of the next
 * pages are, too. Any thread. */
void store_take_care(struct store *store);
static inline bool store_is_careful(const struct store *store)
{
	return atomic_load_explicit(&store->granted.careful, memory_order_relaxed);
}

/* Whether memory turned out to be too small for the file (store_read_alone()). Any thread. */
static inline bool store_is_alone(const struct store *store)
{
	return atomic_load_explicit(&store->granted.alone, memory_order_relaxed);
}

/* Whether to assume that the page cache has the next large value, because it had many before. Any
 * thread. */
static inline bool store_takes_value(struct store *store)
{
	unsigned skip = atomic_load_explicit(&store->granted.skip, memory_order_relaxed);

	if (!skip || store_is_careful(store) ||
	    atomic_load_explicit(&store->granted.keeps, memory_order_relaxed))
		return false;
	atomic_store_explicit(&store->granted.skip, skip - 1, memory_order_relaxed);
	return true;
}

/* Before a fork: the store does not change until store_release(), and chunks that a child's
 * pointers may lead into are spilled. A parent with a snapshot attaches the arena that its children
 * will fill, so that the arena outlives the last of them. */
void store_hold(struct store *store);
/* After the fork, in the parent, and in the child after store_forked(). */
void store_release(struct store *store);

/* Begins a new snapshot: gives up the old snapshot's arena and puts all chunks back to rest. With
 * `arm`, the next wanted bytes make an arena of the new identity. `data`, `low`: see struct
 * store_file. Returns 0, or ENOMEM when the kernel cannot put the file back: then nothing may be
 * read. */
int store_snapshot(struct store *store, const struct identity *identity, uint64_t data,
		   uint64_t low, bool arm);

/* Whether this process maps few chunks: it scans a file that memory cannot hold, and no server
 * brings chunks. Any thread. */
bool store_maps_few(struct store *store);

/* Bytes that a look-ahead may be in front of its program, as far as the arena has room. `chunk`
 * is its front for other processes: the last chunk that it asked for in its direction, or
 * UINT64_MAX. */
uint64_t store_ahead(struct store *store, uint64_t chunk, bool forward);

/* A look-ahead that wants each n-th record begins (+1) or ends (-1). No process brings whole chunks
 * for it. */
void store_step(struct store *store, int change);

/* Whether memory has room for all of the file. */
bool store_holds_all(struct store *store);

/* Processes of the node that go over the file now, all of it or each n-th record, this one
 * included; at least 1. */
unsigned store_scanners(struct store *store);

/* Says that a program keeps reading a page without asking for it again: its chunk stays mapped
 * until this process has mapped other chunks, half as many as it has mapped in all. Any thread, no
 * lock. */
void store_use(struct store *store, const void *page);

/* Bytes that the kernel maps with one fault, at a multiple of this size. */
enum { STORE_FAULT = 64 << 10 };

/* Makes page-table entries for bytes in memory, so that the program takes no faults, and looks at
 * each page where a first look is slow. Does nothing for less than STORE_FAULT: one fault does as
 * much. Any thread, no lock. */
void store_map(const struct store *store, uint64_t offset, uint64_t length);

/* A look-ahead that goes over all of the file begins (+1) or ends (-1). */
void store_scan(struct store *store, int change);

/* Returns how many bytes an announcement may bring to shared memory, so that they are still there
 * when all transactions of the node's processes have read as much; UINT64_MAX: any number. *alone:
 * there is only one transaction. Any thread. */
uint64_t store_announced_most(struct store *store, bool *alone);

/* Says whether a few announced bytes are being read: to wait for them is better than to ask for
 * them again, one by one. */
void store_announce(struct store *store, bool announced);

/* Puts all chunks back to rest while the original copies the file: it reads its own map, the
 * window, without asking. Calls nest. Returns 0, or ENOMEM as store_snapshot() (the store is paused
 * all the same). */
int store_pause(struct store *store);
void store_resume(struct store *store);

/* A transaction begins, or ends. While one lives, a program may hold pointers. */
void store_enter(struct store *store);
void store_leave(struct store *store);

/* In a forked child, at once, after the parent's store_hold(): puts all chunks back to rest and
 * cuts off the parent's arena (its memory in this process stays mapped, unused). Makes only system
 * calls. */
void store_forked(struct store *store);
/* In a forked child, before it reads: lays the file under the window if the kernel refused that at
 * the fork. Until then the window shows the parent's arena, which loses bytes when it gives up
 * chunks: the child does not pin them. Returns 0 or ENOMEM. */
int store_settle(struct store *store);

/* Names the memory that holds the bytes, for a report. */
const char *store_name(const struct store *store);

/* Whether the window shows the data file alone, from the page cache: its bytes are then never older
 * than the file's. */
static inline bool store_shows_file(const struct store *store)
{
	return store->shows_file;
}

/* Bytes of the data file in this snapshot, as far as the window shows them. */
static inline uint64_t store_size(const struct store *store)
{
	return store->file.size;
}

/* Bytes that the kernel reads ahead of a program that goes over the file in order. */
uint64_t store_kernel_ahead(const struct store *store);

/* Slow half of store_covers(). */
bool store_has(const struct store *store, uint64_t chunk, uint64_t offset, uint64_t length);

/* Whether the bytes may be handed out as they are. Any thread, no lock. */
static inline bool store_covers(const struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t chunk = offset / ARENA_CHUNK, last = (offset + length - 1) / ARENA_CHUNK;

	for (; chunk <= last; chunk++) {
		unsigned state =
			atomic_load_explicit(&store->shown.states[chunk], memory_order_acquire);

		if (state < CHUNK_FULL && !store_has(store, chunk, offset, length))
			return false;
	}
	return true;
}

/* The same within one chunk that is shown whole; false for any other range. */
static inline bool store_shows(const struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t chunk = offset / ARENA_CHUNK;

	return (offset + length - 1) / ARENA_CHUNK == chunk &&
	       atomic_load_explicit(&store->shown.states[chunk], memory_order_acquire) >=
		       CHUNK_FULL;
}

/* Brings the bytes and waits for them. Returns 0, whether the arena or the file shows them then, or
 * the errno of a read that failed. */
int store_bring(struct store *store, uint64_t offset, uint64_t length);

/* Whether the program may touch a page, or all of a range, by store->granted.sure. One bit of a
 * page tells for all of it, because the store asks for whole pages and pieces. Any thread, no
 * lock. */
static inline bool store_is_sure(const _Atomic uint64_t *sure, uint64_t offset)
{
	uint64_t block = offset / ARENA_BLOCK;

	return atomic_load_explicit(&sure[block / 64], memory_order_relaxed) >> block % 64 & 1;
}
static inline const _Atomic uint64_t *store_sure(const struct store *store)
{
	return store->granted.sure;
}
bool store_are_sure(const _Atomic uint64_t *sure, uint64_t offset, uint64_t length);

/* Where the window shows the file: waits for bytes that are not known to be in memory. Returns 0 or
 * the errno of a read that failed. Any thread, no lock. */
int store_assure(struct store *store, uint64_t offset, uint64_t length);
/* For a look-ahead, before it looks at bytes that store_covers() has promised: if they show the file
 * and cannot be read, returns EIO. The program may never touch them. Any thread, no lock. */
int store_assure_ahead(struct store *store, uint64_t offset, uint64_t length);

/* Whether a page's neighbours come with it when a program waits for it. Any thread, no lock. */
bool store_reads_around(struct store *store);

/* Whether the store reads random pages through the page cache: store_begin() then has the kernel
 * begin a read, and does not wait. Call store_begins() once before several store_begin(). Any
 * thread, no lock. */
bool store_begins(struct store *store);
bool store_begin(const struct store *store, uint64_t offset, uint64_t length);

/* How often a thread has waited for a read: to be compared before and after a call. */
static inline unsigned store_waits(const struct store *store)
{
	return atomic_load_explicit(&store->waits, memory_order_relaxed);
}

/* Brings pages of a tree alone, out of a container's index, as long as no process scans the file.
 * Returns false if the caller must bring them in the ordinary way, whatever the reason. */
bool store_bring_copies(struct store *store, uint64_t offset, uint64_t bytes);
/* Whether there is such an index. */
bool store_has_copies(const struct store *store);
/* store_bring() for pages of a tree, by way of copies where there are some. */
int store_bring_tree(struct store *store, uint64_t offset, uint64_t length);

/* Whether store_read() may serve at all: not for a container, nor where a server brings chunks. */
bool store_reads(const struct store *store);
/* Reads whole blocks (offset, length and buffer are multiples of ARENA_BLOCK) past the arena, for a
 * caller that copies the bytes anyway, where they would only evict others. No other thread may
 * write to the buffer meanwhile. Sets *served to false if it reads nothing. The caller should then
 * bring the bytes: they are in memory, a server brings them, or there is room for them. Else
 * returns 0 or the errno of the read (EIO: the file ends before). */
int store_read(struct store *store, void *buffer, uint64_t offset, size_t length, bool *served);

/* What store_plan() is told of a range, as bits. */
enum plan_flag {
	PLAN_AGAIN =
		1, /* the last answer was PLAN_BUSY, and the page cache need not be asked again */
	PLAN_UNMAPPED = 2,  /* the caller looks at copies alone: the bytes may stay unmapped until
			      the program asks for them */
	PLAN_ANNOUNCED = 4, /* a program has said that it, or another one, will read the bytes */
};

/* For a caller that must not wait: what to do about the first part of the range, at most up to the
 * end of its chunk. Sets *length to the bytes that the answer speaks for. `flags`: enum
 * plan_flag. */
enum store_plan store_plan(struct store *store, uint64_t offset, uint64_t *length, unsigned flags,
			   struct store_load *load);
/* Copies whole pages of one chunk that are in memory but may not be mapped (PLAN_UNMAPPED). Returns
 * false if there is nothing to copy: the caller should plan the range. Any thread, no lock. */
bool store_copy(struct store *store, uint64_t offset, size_t length, void *to);
/* How often the store has unmapped all of this process's chunks to make room for a planned read. */
static inline uint32_t store_emptied(const struct store *store)
{
	return atomic_load_explicit(&store->shown.emptied, memory_order_relaxed);
}
/* From now on store_plan() plans reads into the page cache, where other processes of the node find
 * the bytes. store_begin_passed() begins the read of a PLAN_LOAD, or of several neighbours;
 * store_finish() may follow at once. */
void store_pass_on(struct store *store, bool on);
/* Has the kernel begin to read, and does not wait. Returns 0, or an errno; EALREADY: the page cache
 * has the bytes, or they are being read; ENODATA: the file system keeps no pages. For one thread at
 * a time, under no lock. */
int store_begin_passed(struct store *store, uint64_t offset, uint64_t length);
/* Waits until the page at an offset has come, or its read has failed. */
void store_wait_passed(const struct store *store, uint64_t offset);
/* Waits for bytes that the kernel reads into the page cache, and leaves them there. Returns 0, or
 * EIO: the read has failed. Any thread, no lock. */
int store_await(struct store *store, uint64_t offset, uint64_t length);
/* Whether passing on helps other processes: they can see what the page cache holds, the file system
 * keeps there what is read, and no server brings the node's chunks. */
bool store_may_pass_on(struct store *store);

/* Whether a PLAN_LOAD is for the page cache, which is to hold the whole file and has room for it.
 * With less room, large pieces are gone before the program looks at them. */
static inline bool store_keeps(const struct store *store)
{
	return atomic_load(&store->granted.keeps);
}

/* The memory into which a PLAN_LOAD may be read without a buffer; NULL: there is none, or readers
 * use a part of it. */
void *store_place(const struct store_load *load);
/* Makes memory for the chunks that a scan will plan next, behind `offset` or before it, as far as
 * that pays. */
void store_prepare(struct store *store, uint64_t offset, bool forward);
/* Ends a PLAN_LOAD: `error` is 0 or the errno, `done` the bytes that came into store_place() or the
 * buffer, which the caller may use again afterwards. Returns 0 or the errno; ENOMEM when the node
 * has no memory. */
int store_finish(struct store *store, const struct store_load *load, const void *buffer, int error,
		 size_t done);

/* Whether the store knows what is in memory; otherwise all is assumed to be. Any thread, no
 * lock. */
static inline bool store_knows(const struct store *store)
{
	return atomic_load_explicit(&store->enabled, memory_order_relaxed);
}

/* Whether bringing the bytes would gain nothing: the window shows them, or the page cache has
 * them. */
bool store_idle(struct store *store, uint64_t offset, uint64_t length);

/* Waits a bounded time for a chunk that another reader reads. Returns true if asking again is
 * worthwhile. Otherwise *progress is a number that changes when that reader makes progress; or
 * STORE_NO_CLAIM: there is no memory to claim the chunk, and it is to be left to the file's own
 * map. */
#define STORE_NO_CLAIM UINT64_MAX
bool store_wait(struct store *store, uint64_t offset, uint64_t *progress);

#endif
