/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides which bytes stand under each part of a window.
 *
 * At rest every part shows the data file, as LMDB's own map does. With an arena, a chunk that has
 * been brought shows the arena instead; putting the file back under it is the way to evict, so a
 * pointer once handed out stays right. Two facts make that safe:
 *   - A page is only handed out of the arena when its blocks are published there.
 *   - A chunk out of which pointers have been handed while it showed the file is `tainted` until no
 *     transaction lives that could hold one; in such a chunk only the blocks that are published are
 *     mapped, never the holes between them.
 *
 * Where there is no plain file (the data is in a container), what stands at rest is a scratch file
 * that holds nothing: there a byte is handed out only when it has been brought, and a chunk that
 * must leave the arena while a transaction lives is written to that file first (spilled).
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
	CHUNK_REST = 0, /* the file; store->shown.runs tells what of it the page cache was seen to
			   hold */
	CHUNK_PART,     /* the arena; a page counts when its blocks are published */
	CHUNK_RUNS, /* the file, with runs of the arena over it (store->shown.runs tells which) */
	CHUNK_IDLE, /* as CHUNK_FULL, and unused since this process was short of room */
	CHUNK_FULL, /* the arena, all of it published */
	CHUNK_WARM, /* the file, which the page cache holds; or to which it has been spilled */
};

enum store_kind {
	STORE_CACHE, /* the page cache, and store->shown.runs tells what it has been seen to hold */
	STORE_ARENA, /* the node's shared memory, over a plain file */
	STORE_CONTAINER, /* the same over a scratch file: see store_spill_to() */
};

enum { PROBE_NONE = -2 };

/* Places of a file at which threads and cursors can read on in order, all at once. */
enum { STORE_STREAMS = 16 };

enum store_told {
	TOLD_UNKNOWN, /* not asked yet */
	TOLD_TRULY,
	TOLD_NOTHING,
};

/* What more than what is wanted may be read, because it may be wanted next. */
enum store_guess {
	GUESS_NOTHING,
	GUESS_CHUNKS, /* all of a chunk, the seventh time that something of it is read, or in an
			 epoch */
	GUESS_AROUND, /* what is around; and the third time, or in an epoch, all of the chunk */
};

/* The window, and the file that stands under it at rest: the data file, or a scratch file. */
struct store_file {
	uint8_t *base; /* the window */
	size_t length; /* ... in bytes */
	int fd;
	uint64_t device, inode; /* which file `fd` is, as long as the program leaves it alone */
	bool random;            /* the program wants no reading ahead of page faults */
	bool locks;             /* the program has new maps locked; as of the last look */
	_Atomic uint64_t size;  /* bytes in this snapshot */
	uint64_t data;          /* ... of which pages are in use; a file may be far longer */
	_Atomic uint64_t low;   /* bytes in front that always show the file: the meta pages */
};

/* Chunks that were found in the page cache in a row, and what is taken to be there because of them.
 */
struct store_warm {
	unsigned row;        /* 0: the last one that was looked at was not there */
	uint64_t first, end; /* offsets: what lies between is taken to be there */
	long faults;         /* page faults of the process that had to read, when it was taken */
	uint64_t last;       /* chunk that was asked for last, and one; 0: none was */
	bool near;           /* the one before it was a neighbour of it */
	unsigned found,
		vain;  /* looks in a row at random: those that found all of a chunk, or not */
	unsigned skip; /* values that do without such a look */
};

/* How the page cache is asked what it holds (store_look.c). */
struct store_look {
	_Atomic enum store_told told; /* whether the kernel tells what it holds */
	_Atomic int probe; /* else a description of the file of its own, to try it; -1: there is
			      none yet, PROBE_NONE: there can be none */
	_Atomic unsigned cold, cold_skip; /* tries in a row that found nothing, and how many to go
					     without one */
	struct store_warm warm;           /* under the store lock */
};

/* What the page cache is taken to hold without being asked (store_cache.c, store_sure.c). */
struct store_granted {
	_Atomic uint64_t *sure;        /* a bit per block that has been in memory, or is taken to be
					  there: the program may touch it. Of an arena's, in a
					  CHUNK_RUNS chunk: seen in the page cache */
	_Atomic unsigned streak, skip; /* values found there in a row, and how many more to take for
					  granted */
	_Atomic unsigned sure_row, sure_skip; /* the same of pages that are handed out */
	atomic_bool careful;                  /* nothing at all is taken for granted */
	_Atomic unsigned missed;              /* what had to be read, in excess of what was there */
	_Atomic uint64_t
		alone_below; /* store_read_alone(): memory that may be less; 0: it is known */
	atomic_bool alone;   /* it is less; then: */
	_Atomic uint64_t ends[STORE_STREAMS]; /* where ranges ended of which the store made sure */
	_Atomic unsigned next_end;            /* ... of which this one is replaced next */
	atomic_bool keeps; /* a scan is under way, and all of the file can stay there */
	uint64_t room;     /* bytes that it may keep; 0: not asked yet. Under the store lock */
};

/* What each chunk of the window shows (store_map.c). Changed under the store lock alone. */
struct store_shown {
	atomic_uchar *states; /* enum chunk_state, one per chunk */
	uint64_t chunks;
	uint32_t *taints;       /* the epoch in which a chunk was tainted; without an arena: 1
				   while it is being read */
	uint32_t epoch;         /* grows when no transaction is left */
	uint32_t all_tainted;   /* every chunk, in this epoch */
	_Atomic uint64_t *runs; /* a bit per block: mapped in a CHUNK_RUNS chunk; in one at rest,
				   seen in the page cache */
	uint64_t *own; /* a bit per chunk: this process has brought some of it to the arena */
	_Atomic uint32_t *uses; /* `maps` when a cursor was last said to stand in a chunk */
	_Atomic uint32_t maps;  /* chunks that have come to show the arena */
	uint64_t *mapped;       /* ring of the chunks that show the arena, oldest first */
	uint64_t mapped_first, mapped_count, mapped_room;
	int64_t borders; /* between file and arena in the window */
};

/* How long other readers are waited for, in nanoseconds of clock_now() (store_bring.c). */
struct store_patience {
	_Atomic uint64_t impatient_until; /* a reader was waited for in vain not long ago */
	/* Nor is any reader until then, as long as the one with that arena_progress() gets nothing
	 * done: it is stopped. */
	uint64_t stopped_until, stopped_at;
	uint64_t stopped_ns; /* how long that was said for */
};

/* Reads on their way, and threads that wait for them. Under the store lock. */
struct store_landing {
	unsigned loads;
	atomic_bool announced; /* a few bytes are about to come by themselves */
	pthread_cond_t landed; /* some of them have, for which one of these waits: */
	struct store_waiter *waiters;
};

/* Arenas of older snapshots, not yet closed. */
struct store_retired {
	struct arena **arenas;
	unsigned count;
};

struct store {
	const struct store_ops *ops;       /* of its kind */
	bool shows_file;                   /* store_shows_file() */
	bool shows_parent;                 /* the window has maps of the parent's arena: store_settle() */
	bool believe_cache;                /* what the page cache holds is left at rest */
	const struct store_packed *packed; /* of a container */
	uint64_t piece; /* bytes, a power of two: what is not brought in smaller pieces */
	struct io *io;  /* reads that a program waits for */
	struct store_file file;
	struct store_look look;
	struct store_granted granted;
	_Atomic enum store_guess guess;
	atomic_bool enabled;
	bool armed; /* what `enabled` is when no call pauses it */
	unsigned paused;
	_Atomic unsigned waits; /* of threads for reads, ever */
	unsigned steppers;      /* look-aheads of every n-th record */
	_Atomic uint64_t widest; /* chunks of the widest range that a program has waited for */
	atomic_uint scans;      /* look-aheads under way for which a chunk is wanted as a whole */
	struct arena *arena;    /* NULL before the first byte is brought */
	struct identity identity;
	struct arena_options options;
	pthread_mutex_t lock;  /* of all below, and of every change to the map */
	bool passes_on;        /* store_pass_on() */
	unsigned lost;         /* loads that were passed on, and the page cache has kept none */
	unsigned transactions; /* alive */
	struct store_shown shown;
	struct store_patience patience;
	struct store_landing landing;
	bool kept;             /* the page cache has kept some; the prefetch thread's alone */
	_Atomic(void *) spare; /* a buffer of a chunk for a thread that reads for itself, or NULL */
	uint64_t link_at;      /* ns: when to look for a server again; UINT64_MAX: never */
	struct node_link link; /* to the server of the arena, if there is one */
	struct store_retired retired;
	const char *private_reason; /* why the arena is this process's alone, or NULL */
};

/* One read that a thread has taken on itself: claims are held, memory is reserved. */
struct store_load {
	uint64_t offset;
	size_t length;
	uint64_t chunk;
	uint64_t blocks; /* of them, that were missing */
	uint64_t wanted; /* of them, from where on and to where the program was to get bytes */
	uint64_t wanted_end;
	struct arena *arena;
	bool passed_on; /* they are for the page cache, and no part of the arena */
	bool shown;     /* the window shows the arena there: the page cache was not asked */
	bool guessed;   /* it counts as one of the chunk's pieces that were read (widen_guess()) */
};

enum store_plan {
	PLAN_READY, /* it is there and mapped */
	PLAN_LOAD,  /* read load->length bytes at load->offset into any buffer, then finish */
	PLAN_BUSY,  /* another reader is reading this chunk */
	PLAN_REST,  /* leave it to the file's own map */
	/* Of these store_plan() says neither: */
	PLAN_COMING, /* the kernel reads it into the page cache */
	PLAN_PASS,   /* read it through the page cache */
};

/* Sets up a window's store; of an arena nothing is made before the first byte is wanted.
 * `window_length` bytes are reserved at `base`. Returns 0 or ENOMEM. */
int store_open(struct store *store, enum store_kind kind, uint8_t *base, size_t window_length,
	       int fd, struct io *io, const struct arena_options *options, bool believe_cache);
void store_close(struct store *store);

/* What the bytes come from where there is no plain file. */
struct store_packed {
	int scratch;    /* the scratch file, for writing */
	uint32_t piece; /* bytes, a power of two: what is not brought in smaller pieces */
	/* Reads whole pages of a tree from where they lie close together. 0, or anything else: then
	 * they are to be read as other bytes are. Any thread. */
	int (*read_tree)(struct io *io, void *buffer, size_t length, uint64_t offset);
};

/* Completes the opening of a STORE_CONTAINER: what is under the window is a scratch file, and only
 * chunks that are brought are right. `packed` must last as long as the store. */
void store_spill_to(struct store *store, const struct store_packed *packed);

/* What comes along with bytes that a program waits for, as far as the arena has room for the
 * file. GUESS_NOTHING at first, and where the program tells what it wants. Any thread. */
void store_guess(struct store *store, enum store_guess guess);

/* Bytes that this process's part of an arena may take; 0: it is as much as the node may have, which
 * is not known before the first byte is brought. To be limited before that: store_limit() returns
 * false if there is an arena already. */
uint64_t store_limited(const struct store *store);
bool store_limit(struct store *store, uint64_t bytes);

/* The window's pages are read singly where the file's own map serves (MDB_NORDAHEAD): it is as the
 * window was mapped, and will be so again. Before the first snapshot. */
static inline void store_read_singly(struct store *store)
{
	store->file.random = true;
}

/* Where memory holds little of a local file, the kernel drops what it reads around a page at random
 * before the program wants it: the store reads such pages alone if fewer bytes than `below` are
 * allowed (memory_allowed()) when the first page is missing. Any thread. */
static inline void store_read_alone(struct store *store, uint64_t below)
{
	atomic_store_explicit(&store->granted.alone_below, below, memory_order_relaxed);
}

/* Without an arena: from now on each page is known to be in memory before it is handed out; without
 * this most of those that follow many which were there are taken to be. Any thread. */
void store_take_care(struct store *store);
static inline bool store_is_careful(const struct store *store)
{
	return atomic_load_explicit(&store->granted.careful, memory_order_relaxed);
}

/* Whether memory was found to be too little for the file: store_read_alone(). Any thread. */
static inline bool store_is_alone(const struct store *store)
{
	return atomic_load_explicit(&store->granted.alone, memory_order_relaxed);
}

/* Whether the next large value is taken to be in the page cache, because many values before it were.
 * Inline, so that a scan of cached values does not enter the store for each of them. Any thread. */
static inline bool store_takes_value(struct store *store)
{
	unsigned skip = atomic_load_explicit(&store->granted.skip, memory_order_relaxed);

	if (!skip || atomic_load_explicit(&store->granted.keeps, memory_order_relaxed))
		return false;
	atomic_store_explicit(&store->granted.skip, skip - 1, memory_order_relaxed);
	return true;
}

/* Before a fork: nothing of the store changes until store_release(), and what a child's pointers
 * may lead into is spilled. A parent that has a snapshot attaches the arena that its children will
 * fill, so that it does not go with the last of them. */
void store_hold(struct store *store);
/* After the fork, in the parent, and in the child after store_forked(). */
void store_release(struct store *store);

/* A new snapshot: the arena of the old one is of no use to it, so everything goes back to rest;
 * with `arm` the next bytes wanted make an arena of the new identity. `data`, `low`: see above.
 * Returns 0, or ENOMEM when the kernel cannot even put the file back: then nothing may be read. */
int store_snapshot(struct store *store, const struct identity *identity, uint64_t data,
		   uint64_t low, bool arm);

/* Whether this process scans a file that memory cannot hold, and no server brings chunks: it maps few
 * of them. Any thread. */
bool store_maps_few(struct store *store);

/* Bytes that a look-ahead may be in front of its program as far as room in the arena goes. `chunk`
 * tells other processes where it is: the last one that it has asked for in its direction, or
 * UINT64_MAX. */
uint64_t store_ahead(struct store *store, uint64_t chunk, bool forward);

/* The same of one that wants each n-th record, which is no reason to bring whole chunks for others.
 */
void store_step(struct store *store, int change);

/* Whether memory has room for all of the file. */
bool store_holds_all(struct store *store);

/* Processes of the node that go over the file now, all of it or each n-th record, this one
 * included; at least 1. */
unsigned store_scanners(struct store *store);

/* Says that a program goes on reading a page without asking for it again: it stays until half of
 * what this process may have mapped has been mapped anew. Any thread, no lock. */
void store_use(struct store *store, const void *page);

/* Bytes that the kernel maps with one fault, from a multiple on. */
enum { STORE_FAULT = 64 << 10 };

/* Makes the page-table entries of bytes that are there, and looks at each page where that is dear,
 * so that the program need not fault for them; of less than STORE_FAULT none, for a fault does as
 * much. Any thread, no lock. */
void store_map(const struct store *store, uint64_t offset, uint64_t length);

/* A look-ahead that goes over all of the file begins (+1) or ends (-1). */
void store_scan(struct store *store, int change);

/* Whether a few announced bytes are on their way, for which it is better to wait than to ask for
 * them once more, one by one. */
void store_announce(struct store *store, bool announced);

/* Puts everything back to rest while the original, whose map the window is, reads through it
 * without asking, for a copy. Calls nest. Returns 0, or ENOMEM as above (it is paused all the
 * same). */
int store_pause(struct store *store);
void store_resume(struct store *store);

/* A transaction begins, or ends: pointers handed out before matter, or no more. */
void store_enter(struct store *store);
void store_leave(struct store *store);

/* In a forked child, at once, held by its parent before the fork: everything back to rest, the
 * parent's arena cut off (its memory in this process stays mapped, unused). System calls alone. */
void store_forked(struct store *store);
/* In a forked child, before it reads: lays the file under the window where the kernel has refused that
 * at the fork. What is there instead loses its bytes as the parent's arena gives up chunks, which the
 * child does not pin. Returns 0 or ENOMEM. */
int store_settle(struct store *store);

/* What memory holds the bytes, for a report. */
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

/* The same of what is whole, within a chunk; nothing else. */
static inline bool store_shows(const struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t chunk = offset / ARENA_CHUNK;

	return (offset + length - 1) / ARENA_CHUNK == chunk &&
	       atomic_load_explicit(&store->shown.states[chunk], memory_order_acquire) >=
		       CHUNK_FULL;
}

/* Brings the bytes and waits for them. Returns 0, whatever then stands under them, or the errno
 * of a read that failed. */
int store_bring(struct store *store, uint64_t offset, uint64_t length);

/* Whether the program may touch a page, or all of a range, by store->granted.sure. What is sure of
 * a page is so of all of it, for pages and pieces of the file are asked for as a whole. Any thread,
 * no lock. */
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

/* Where the window shows the file: waits for what is not known to be in memory. Returns 0 or the errno of a read
 * that failed. Any thread, no lock. */
int store_assure(struct store *store, uint64_t offset, uint64_t length);

/* Whether what lies around a page comes with it when a program waits for that. Any thread, no lock. */
bool store_reads_around(struct store *store);

/* Whether the store reads pages at random through the page cache: then store_begin() has the kernel
 * begin to read bytes, and does not wait. Ask before the first of several that follow one another. Any
 * thread, no lock. */
bool store_begins(struct store *store);
bool store_begin(const struct store *store, uint64_t offset, uint64_t length);

/* How often a thread has waited for a read: to be compared before and after a call. */
static inline unsigned store_waits(const struct store *store)
{
	return atomic_load_explicit(&store->waits, memory_order_relaxed);
}

/* Brings pages of a tree by themselves out of a container's index, as long as no process goes
 * over all of the file. false: they are to be brought in the ordinary way, whatever the reason. */
bool store_bring_copies(struct store *store, uint64_t offset, uint64_t bytes);
/* Whether there is such an index. */
bool store_has_copies(const struct store *store);
/* store_bring() for pages of a tree, by way of copies where there are some. */
int store_bring_tree(struct store *store, uint64_t offset, uint64_t length);

/* Whether store_read() may serve at all: not a container, nor what the node's server brings. */
bool store_reads(const struct store *store);
/* Reads whole blocks (offset, length and buffer are multiples of ARENA_BLOCK) into the caller's
 * own memory, past the arena: for a caller that copies the bytes anyway, where they would only
 * push out others. The buffer is not to be written to meanwhile. *served false: nothing was
 * read, and the bytes had better be brought: they are in memory, others bring them, or there is
 * room for them. Else returns 0 or the errno of the read (EIO: the file ends before). */
int store_read(struct store *store, void *buffer, uint64_t offset, size_t length, bool *served);

/* For a caller that must not wait: what is to be done about the first part of the range, at most
 * up to the end of its chunk. *length is set to how much of it the answer speaks for. `again`: it was
 * PLAN_BUSY, and the page cache need not be asked once more. */
enum store_plan store_plan(struct store *store, uint64_t offset, uint64_t *length, bool again,
			   struct store_load *load);
/* What store_plan() plans from now on is for the page cache, where other processes of the node find
 * it: store_begin_passed() begins the read of a PLAN_LOAD, or of several that are neighbours, and
 * store_finish() may follow at once. */
void store_pass_on(struct store *store, bool on);
/* Has the kernel begin to read, and does not wait. Returns 0, or an errno; EALREADY: it need not, or
 * has begun; ENODATA: the file system keeps no pages. For one thread at a time, under no lock. */
int store_begin_passed(struct store *store, uint64_t offset, uint64_t length);
/* Waits until the page at an offset has come, or its read has failed. */
void store_wait_passed(const struct store *store, uint64_t offset);
/* Waits for bytes that the kernel reads into the page cache, and leaves them there. Returns 0, or
 * EIO: the read has failed. Any thread, no lock. */
int store_await(struct store *store, uint64_t offset, uint64_t length);
/* Whether this helps other processes: they look at the page cache and are told what it holds, the
 * file system keeps there what is read, and no server brings the node's chunks. */
bool store_may_pass_on(struct store *store);

/* Whether what a PLAN_LOAD reads is for the page cache, of which all is being brought and can stay:
 * where there is less room, large pieces are gone before they have been looked at. */
static inline bool store_keeps(const struct store *store)
{
	return atomic_load(&store->granted.keeps);
}

/* Where a PLAN_LOAD may be read to instead of into a buffer; NULL: there is no such place, or a part of it is in use. */
void *store_place(const struct store_load *load);
/* Makes memory for what a scan will plan next, behind `offset` or before it, as far as that pays.
 */
void store_prepare(struct store *store, uint64_t offset, bool forward);
/* Ends a PLAN_LOAD: error is 0 or the errno, done how many bytes came into the buffer, which the
 * caller may use again afterwards, or into store_place(). Returns 0 or the errno; ENOMEM when
 * the node has no memory. */
int store_finish(struct store *store, const struct store_load *load, const void *buffer, int error,
		 size_t done);

/* Whether anything is known of what is in memory; else all is taken to be there. Any thread, no
 * lock. */
static inline bool store_knows(const struct store *store)
{
	return atomic_load_explicit(&store->enabled, memory_order_relaxed);
}

/* Whether bringing the bytes would gain nothing: they are there, or in the page cache. */
bool store_idle(struct store *store, uint64_t offset, uint64_t length);

/* Waits a bounded time for a chunk that another reader reads. true: it is worth asking again.
 * Else *progress is a number that changes when that reader gets anything done; it may be NULL. */
bool store_wait(struct store *store, uint64_t offset, uint64_t *progress);

#endif
