/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps one copy of a snapshot's bytes for the processes of a node.
 *
 * An arena is a sparse memfd as long as the data file, byte for byte at the file's own offsets,
 * with a table behind it. It is cut into chunks (1 MiB) and blocks (4 KiB). One process at a time
 * has the claim on a chunk: it reads blocks from storage into the arena and publishes them; others
 * wait for it, or go on without it. A block that is published holds the snapshot's bytes until its
 * chunk is evicted, and a chunk is evicted only when no living process has it pinned.
 *
 * A process that dies loses its claims and pins: they count only while the kernel holds the owner's
 * lock (an open-file-description lock on the owner's row). Nothing has a name in a file system.
 * What forked processes have had stays for the next ones as long as one process lives that they
 * descend from, or that descends from it (arena_keeper_watch()); all else goes with the last that
 * has it.
 */
#ifndef LMDBIO_ARENA_ARENA_H
#define LMDBIO_ARENA_ARENA_H

#include "util/identity.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	ARENA_CHUNK = 1 << 20, /* bytes: what is claimed, pinned and evicted as one */
	ARENA_BLOCK = 1 << 12, /* bytes: what is published as one */
	ARENA_BLOCKS = ARENA_CHUNK / ARENA_BLOCK,
	ARENA_PAIR = 2, /* chunks: a huge page, from a multiple of it on */
};

struct arena_options {
	uint64_t budget;  /* bytes of blocks that the node may keep; the first process's counts, and a
			   larger one of a process that finds the arena when all others have gone */
	uint64_t node_budget; /* bytes that all arenas of the node may keep together; the largest
				 counts; 0: as much as `budget` */
	const char *node; /* LMDBIO_NODE: keeps simulated nodes of one machine apart; may be NULL */
	bool share;       /* false: for this process alone */
};

struct arena; /* this process's attachment */

/* Attaches to the node's arena of this identity (its node form), or makes it. Where that fails in any way the
 * process gets one of its own, and *why is a line that says so (else NULL; static text).
 * Returns 0, or an errno (ENOMEM, EMFILE ...) when not even that is possible. */
int arena_open(struct arena **arena, const struct identity *identity,
	       const struct arena_options *options, const char **why);

/* The budget, in bytes, of the arena that the node has already and arena_open() would join; 0:
 * there is none. Takes about 64 system calls then. Any thread. */
uint64_t arena_found(const struct identity *identity, const struct arena_options *options);

/* Gives up claims and pins; maps made of arena_fd() must be gone. */
void arena_close(struct arena *arena);

/* For a child after fork, which shares descriptors with its parent and must not: closes the
 * inherited ones without touching the parent's claims or pins. Only system calls, no locks, no
 * memory: it runs in a child's step of at_fork(). Afterwards only arena_close()
 * may be called. */
void arena_forked(struct arena *arena);

/* From the next fork on, what this process's descendants have read stays when they close it or end,
 * within the budget, until the last of them and this process have ended or started another program.
 * Costs a process a few system calls at its first fork, and two descriptors. Once in a process, when
 * the library is loaded. */
void arena_keeper_watch(void);
/* Before the library is unloaded: closes the two. What they have kept stays with the descendants. */
void arena_keeper_end(void);

/* Whether an arena's blocks can be mapped one by one: not where the kernel's pages are larger. */
bool arena_fits_pages(void);

/* Whether an arena for a file of so many bytes can be made at all here, as far as can be told
 * without making one: memory files, and ones so long, may be forbidden. Any thread. */
bool arena_may_be(uint64_t bytes);

/* The memfd, for read-only maps at the data file's own offsets. The arena's to close. -1: the
 * program has closed it. */
int arena_fd(const struct arena *arena);

/* Puts bytes read from storage at the data file's own offset, in whole blocks. Only the holder of
 * a claim may do so in its chunk, and only to blocks that are reserved, or published with the same
 * bytes. Any thread. Returns 0, or ENOMEM when there is no memory left (read without the arena then). */
int arena_fill(struct arena *arena, uint64_t offset, const void *bytes, uint64_t length);

/* Makes memory for chunks that will be read soon, in huge pages, where that is possible and no
 * process has tried it: those of `count` from `first` on, and their neighbours up to multiples
 * of a huge page, 2 MiB. Takes about 0.2 ms a chunk, and some more for each call; of those that
 * take longer it makes fewer, and none in the end. */
void arena_prepare(struct arena *arena, uint64_t first, uint64_t count);

/* Whether arena_prepare() would try. Any thread, no lock. */
bool arena_may_prepare(const struct arena *arena, uint64_t chunk);

/* Where bytes of one claimed chunk may be put directly, instead of by arena_fill(): memory that is
 * there and stays at least until the claim is given back. NULL: there is none. Only blocks that are
 * reserved and not published may be read or decoded into: readers see at once what stands in the others, and what
 * a failed read has left there. */
uint8_t *arena_place(const struct arena *arena, uint64_t offset, uint64_t length);

/* Whether a chunk is half of a huge page, with its neighbour up to or from a multiple of
 * ARENA_PAIR. Any thread, no lock; it may cease to be one when either is evicted. */
bool arena_is_huge(const struct arena *arena, uint64_t chunk);

/* The arena's bytes as this process may see them, published or not; to look, not to write: where
 * memory is short a store of the program's own would be a signal. */
uint8_t *arena_bytes(const struct arena *arena);

uint64_t arena_chunks(const struct arena *arena);

/* Living processes attached, this one included. A hint, at most a second old. */
unsigned arena_members(struct arena *arena);

/* Tells the node how many of this process's look-aheads go over all that the file holds: as long as
 * there is one anywhere, a chunk of which a part is missing is worth bringing as a whole. What a
 * dead process has told counts until it is buried. */
void arena_scanning(struct arena *arena, unsigned scans, unsigned steppers);

/* How many living processes have such a look-ahead now, this one included; and of the others in
 * *steppers how many have one that wants each n-th record alone, of which the same is told. */
unsigned arena_scanners(const struct arena *arena, unsigned *steppers);

/* Tells the node which chunk this process's only such look-ahead has come to. Returns how many chunks
 * behind it the last of the scans is that goes the same way and may still find in memory what this
 * one reads; 0: none follows. Any thread, no locks. */
uint64_t arena_front(struct arena *arena, uint64_t chunk, bool forward);

/* --- blocks --------------------------------------------------------------------------------- */

/* Whether all `count` blocks from `first` on are published. Any thread, no locks, acquire order.
 * Only meaningful while their chunks are pinned by this process or claimed by the caller. */
bool arena_present(const struct arena *arena, uint64_t first, uint64_t count);

/* The next run of blocks in [first, end) that is not published: *run is its start, its length is
 * returned (0: none). */
uint64_t arena_missing(const struct arena *arena, uint64_t first, uint64_t end, uint64_t *run);

/* --- claims --------------------------------------------------------------------------------- */

/* Tries to claim a chunk, in order to load it. Returns false when a living process has it (or
 * when there is no memory for the table; arena_wait() tells the two apart). */
bool arena_claim(struct arena *arena, uint64_t chunk);

/* Publishes blocks of claimed chunks (release order). */
void arena_publish(struct arena *arena, uint64_t first, uint64_t count);

/* Gives a claim back and wakes the processes that wait for it. */
void arena_release(struct arena *arena, uint64_t chunk);

/* The same after a read that failed: gives back so many blocks that were reserved for it and not
 * published, and frees the memory of what it has left behind. */
void arena_abandon(struct arena *arena, uint64_t chunk, uint64_t blocks);

/* Waits until no living process holds the claim. Returns true then, false when `milliseconds`
 * have passed before (the holder lives, but is slow or stopped), or at once when there is no
 * memory for the table: go on without the arena then. Notices a dead holder within 100 ms. */
bool arena_wait(struct arena *arena, uint64_t chunk, unsigned milliseconds);

/* A number that changes when the holder of a chunk's claim, or the server of an unclaimed chunk,
 * gets anything done: it waits for slow storage then, and is not stopped. Of a claim of this
 * process's own it changes with every call. */
uint64_t arena_progress(const struct arena *arena, uint64_t chunk);

/* Whether the process that such a number belongs to has got anything done since. */
bool arena_progressed(const struct arena *arena, uint64_t progress);

/* --- pins ----------------------------------------------------------------------------------- */

/* Makes the tables of all chunks, each of which is otherwise made when one of its chunks is first claimed or pinned.
 * Returns false if there is no memory for one: its chunks can be neither claimed nor pinned. */
bool arena_tables_make(struct arena *arena);

/* Before this process maps a chunk: keeps it from being evicted. Counted once per process, not per
 * call. false: it is being evicted right now, take it as not present. */
bool arena_pin(struct arena *arena, uint64_t chunk);
void arena_unpin(struct arena *arena, uint64_t chunk);

/* --- a server ------------------------------------------------------------------------------- */

/* A member may serve the others: instead of reading, they wish for chunks, and it brings them,
 * from wherever it has them. No member relies on it: one that has waited long enough claims and
 * reads. */

/* Becomes the server. `keeps`: chunks that it wants to keep for the nodes' common good. `whole`:
 * small pieces are worth a chunk too, for all of the file will be in memory. Returns 0, EBUSY
 * (another living member is it) or ENOTSUP (no process shares this arena). */
int arena_serve(struct arena *arena, uint64_t keeps, bool whole);

/* Takes the next wish of any member; the server's one thread. false: there is none. */
bool arena_wish_next(struct arena *arena, uint64_t *chunk, bool *urgent);

/* Before the server sleeps (true) and after it has woken. Returns false if there are wishes: it must
 * not sleep then. */
bool arena_serve_sleeps(struct arena *arena, bool asleep);

/* The server has done what it will do for a chunk; `refused`: the next process that wants it
 * claims it and reads, which uses the refusal up. Wakes all waiting processes. */
void arena_answer(struct arena *arena, uint64_t chunk, bool refused);

/* Says that this member, a server for instance, gets something done, so that processes stay patient
 * that wait for what it has in hand. */
void arena_beat(struct arena *arena);

/* Marks a chunk that goes later than those without the mark. */
void arena_keep(struct arena *arena, uint64_t chunk);

/* Bytes that one member should have pinned, at most, so that what is kept and what all have
 * pinned find room together. UINT64_MAX where there is no server, or room for everything. */
uint64_t arena_share(struct arena *arena);

/* Whether a server brings this chunk on a wish; with *whole as told to arena_serve(). */
bool arena_is_served(const struct arena *arena, uint64_t chunk, bool *whole);

/* Asks for a chunk, urgently or ahead of need. Again and again is fine: it passes on what is new.
 * Under the caller's lock. Returns true if the server sleeps and must be woken. */
bool arena_wish(struct arena *arena, uint64_t chunk, bool urgent);

/* Waits until a chunk that this process has wished for is wholly published, or no server brings
 * it any more: true, at once where it has not wished. false: so many milliseconds have passed. */
bool arena_wish_wait(struct arena *arena, uint64_t chunk, unsigned milliseconds);

/* --- memory --------------------------------------------------------------------------------- */

/* Makes room for `blocks` more blocks that the caller is about to load, evicting chunks that no
 * process has pinned or claimed, the least recently used first (arena_touch); those that a
 * served node retains for the next pass over the file only when there is nothing else; kept ones
 * last and only as far as they leave members too little room (while there is a server). true:
 * they are counted as the node's from now on. false: there is no room now; read without the
 * arena. */
bool arena_reserve(struct arena *arena, uint64_t blocks);

/* Whether so many blocks more would find room without anybody's going for them. */
bool arena_has_room(struct arena *arena, uint64_t blocks);

/* Gives back what was reserved and not published, and for which nothing was read. */
void arena_unreserve(struct arena *arena, uint64_t blocks);

/* How many pieces of a chunk the node's processes have read because a reader waited for them,
 * 255 at most, and the blocks of all pieces; one is added under the claim. Any thread, no lock. */
unsigned arena_pieces(const struct arena *arena, uint64_t chunk);
uint64_t arena_pieces_blocks(const struct arena *arena);
void arena_pieces_add(struct arena *arena, uint64_t chunk, uint64_t blocks);

/* Marks a chunk as used now. Before its first use a chunk counts as used for a while after its claim.
 * Cheap: a store. */
void arena_touch(struct arena *arena, uint64_t chunk);

/* Whether the node is short of room, so that pins that are not needed should go. */
bool arena_pressed(const struct arena *arena);

/* What it may keep now: its budget, or what other arenas of the node leave of that. */
uint64_t arena_budget(const struct arena *arena);
uint64_t arena_used(const struct arena *arena);      /* bytes, reserved ones included */
uint64_t arena_evictions(const struct arena *arena); /* chunks, by all processes */

#endif
