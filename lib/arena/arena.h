/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps one copy of a snapshot's bytes for the processes of a node.
 *
 * An arena is a sparse memfd as long as the data file, byte for byte at the file's own offsets,
 * with a table behind it. It is cut into chunks (1 MiB) and blocks (4 KiB). One process at a time
 * has the claim on a chunk: it reads blocks from storage into the arena and publishes them; other
 * processes wait for it, or go on without it. A published block holds the snapshot's bytes until
 * its chunk is evicted, and a chunk is evicted only when no living process has it pinned.
 *
 * A process that dies loses its claims and pins: they count only while the kernel holds the owner's
 * lock (an open-file-description lock on the owner's row). An arena has no name in any file system.
 * An arena of forked processes stays while their common ancestor or any of its descendants lives
 * (arena_keeper_watch()); any other is freed with the last process that has it.
 */
#ifndef LMDBIO_ARENA_ARENA_H
#define LMDBIO_ARENA_ARENA_H

#include "util/identity.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	ARENA_CHUNK = 1 << 20, /* bytes: claimed, pinned and evicted as a unit */
	ARENA_BLOCK = 1 << 12, /* bytes: published as a unit */
	ARENA_BLOCKS = ARENA_CHUNK / ARENA_BLOCK,
	ARENA_PAIR = 2, /* chunks: one huge page, which begins at a multiple of ARENA_PAIR */
};

struct arena_options {
	uint64_t budget; /* bytes of blocks that the node may keep. The number of the process that
			    makes the arena counts; or that of a process that later finds it without
			    members, if it is larger, or smaller than `node_budget` */
	uint64_t node_budget; /* bytes that all arenas of the node may keep together; the largest
				 number counts; 0: as much as `budget` */
	uint64_t data; /* bytes at the front of the file that may be read; a sparse file may be far
			  longer. 0: all of it */
	const char *node; /* LMDBIO_NODE: keeps simulated nodes of one machine apart; may be NULL */
	bool share;       /* false: the arena is for this process alone */
};

struct arena; /* this process's attachment */

/* Attaches to the node's arena of this identity (in its node form), or makes that arena. If both
 * fail, makes an arena for this process alone and sets *why to a static line that says so (else to
 * NULL). Returns 0, or an errno (ENOMEM, EMFILE ...) if that is impossible too. */
int arena_open(struct arena **arena, const struct identity *identity,
	       const struct arena_options *options, const char **why);

/* Returns the budget, in bytes, of the existing arena that arena_open() would join, or 0 if there
 * is none. To find none takes about 64 system calls. Any thread. */
uint64_t arena_found(const struct identity *identity, const struct arena_options *options);

/* Gives up this process's claims and pins; maps made of arena_fd() must be gone. */
void arena_close(struct arena *arena);

/* In a forked child: closes the descriptors inherited from the parent, without touching the
 * parent's claims or pins. A step of at_fork() has done so already to each arena of the process.
 * Makes only system calls and takes no locks and no memory, because it runs in a child's step.
 * Afterwards only arena_close() may be called. */
void arena_forked(struct arena *arena);

/* From the next fork on, arenas that this process's descendants have filled outlive them, within
 * the budget, until this process and all descendants have ended or started another program. A
 * process's first fork costs a few system calls, and two descriptors. To be called once in a
 * process, when the library is loaded. */
void arena_keeper_watch(void);
/* Before the library is unloaded: closes this process's two descriptors. The kept arenas stay with
 * the descendants. */
void arena_keeper_end(void);

/* Whether an arena's blocks can be mapped one by one: not where the kernel's pages exceed 4 KiB. */
bool arena_fits_pages(void);

/* Whether this process may make an arena for a file of so many bytes, as far as a test without
 * making one shows. Memory files, or files of that length, may be forbidden. Any thread. */
bool arena_may_be(uint64_t bytes);

/* Returns the memfd, for read-only maps at the data file's own offsets; the arena closes it.
 * Returns -1 if the program has closed it. */
int arena_fd(const struct arena *arena);

/* Copies bytes from storage into the arena, at the data file's own offset, in whole blocks. Only
 * the holder of a chunk's claim may do so, and only to blocks that are reserved, or published with
 * the same bytes. Any thread. Returns 0, or ENOMEM if no memory is left: read without the arena
 * then. */
int arena_fill(struct arena *arena, uint64_t offset, const void *bytes, uint64_t length);

/* Gives chunks that will be read soon their memory, in huge pages, where the kernel can and no
 * process has tried before. Covers `count` chunks from `first` on and their neighbours up to
 * multiples of a huge page (2 MiB). Takes about 0.2 ms a chunk, and a little more for each call.
 * Where huge pages take longer than they save, it makes fewer of them, and none in the end. */
void arena_prepare(struct arena *arena, uint64_t first, uint64_t count);

/* The same for one chunk, which the caller has claimed and keeps, and the other chunk of its huge
 * page. */
void arena_prepare_claimed(struct arena *arena, uint64_t chunk);

/* Whether arena_prepare() would try. Any thread, no lock. */
bool arena_may_prepare(const struct arena *arena, uint64_t chunk);

/* Returns memory into which bytes of one claimed chunk may be read or decoded directly, instead of
 * through arena_fill(); NULL: there is none. The memory stays at least until the claim is given
 * back. Write only to blocks that are reserved and not published: readers see the bytes of
 * published blocks at once, those of a failed read too. */
uint8_t *arena_place(const struct arena *arena, uint64_t offset, uint64_t length);

/* Whether a chunk shares a huge page with its neighbour (a pair begins at a multiple of
 * ARENA_PAIR). Any thread, no lock. Evicting either chunk ends the sharing. */
bool arena_is_huge(const struct arena *arena, uint64_t chunk);

/* Returns this process's map of the arena's bytes, published or not. Only read through it: where
 * memory is short, a store of the program's own would raise a signal. */
uint8_t *arena_bytes(const struct arena *arena);

uint64_t arena_chunks(const struct arena *arena);

/* Living processes attached, this one included. A hint, at most a second old. */
unsigned arena_members(struct arena *arena);

/* Tells the node how many of this process's look-aheads scan the whole file (`scans`), and how many
 * read each n-th record only (`steppers`). While any process scans, a partly missing chunk is worth
 * loading as a whole. A dead process's numbers count until its row is buried. */
void arena_scanning(struct arena *arena, unsigned scans, unsigned steppers);

/* Returns how many living processes scan the whole file now, this one included. *steppers:
 * processes whose only look-ahead is strided. */
unsigned arena_scanners(const struct arena *arena, unsigned *steppers);

/* Tells the node which chunk the front of this process's only scan has come to. Returns how many
 * chunks behind that front the last scan is that goes the same way and may still find in memory
 * what this scan reads; 0: none follows. Any thread, no locks. */
uint64_t arena_front(struct arena *arena, uint64_t chunk, bool forward);
/* Whether a scan of another process goes the other way. Any thread, no locks. */
bool arena_scans_meet(const struct arena *arena, bool forward);

/* --- blocks --------------------------------------------------------------------------------- */

/* Whether all `count` blocks from `first` on are published. Any thread, no locks, acquire order.
 * Only meaningful while their chunks are pinned by this process or claimed by the caller. */
bool arena_present(const struct arena *arena, uint64_t first, uint64_t count);

/* Finds the next run of unpublished blocks in [first, end): stores its start in *run and returns
 * its length (0: there is none). */
uint64_t arena_missing(const struct arena *arena, uint64_t first, uint64_t end, uint64_t *run);

/* --- claims --------------------------------------------------------------------------------- */

/* Tries to claim a chunk, in order to load it. Returns false if a living process has claimed it (or
 * if there is no memory for the table; arena_wait() tells the two apart). */
bool arena_claim(struct arena *arena, uint64_t chunk);

/* Publishes blocks of claimed chunks (release order). */
void arena_publish(struct arena *arena, uint64_t first, uint64_t count);

/* Gives a claim back and wakes the processes that wait for it. */
void arena_release(struct arena *arena, uint64_t chunk);

/* Gives a claim back after a failed read: unreserves `blocks` blocks that were not published, and
 * frees the memory that the read has filled. */
void arena_abandon(struct arena *arena, uint64_t chunk, uint64_t blocks);

/* Waits until no living process holds the chunk's claim, and returns true. Returns false after
 * `milliseconds` (the holder lives, but is slow or stopped), or at once if there is no memory for
 * the table: go on without the arena then. Notices a dead holder within 100 ms. */
bool arena_wait(struct arena *arena, uint64_t chunk, unsigned milliseconds);

/* Returns a number that changes when the holder of a chunk's claim, or the server for an unclaimed
 * chunk, completes any work: that process waits for slow storage then, and is not stopped. For a
 * claim of this process's own the number changes with every call. */
uint64_t arena_progress(const struct arena *arena, uint64_t chunk);

/* Whether the process behind a number from arena_progress() has completed any work since. */
bool arena_progressed(const struct arena *arena, uint64_t progress);

/* --- pins ----------------------------------------------------------------------------------- */

/* Makes the tables of all chunks now, instead of when a chunk is first claimed or pinned. Returns
 * false if there is no memory for a table: its chunks can be neither claimed nor pinned. */
bool arena_tables_make(struct arena *arena);

/* Pins a chunk against eviction, before this process maps it. Counted once per process, not per
 * call. Returns false if the chunk is being evicted right now: take it as not present. */
bool arena_pin(struct arena *arena, uint64_t chunk);
void arena_unpin(struct arena *arena, uint64_t chunk);

/* --- a server ------------------------------------------------------------------------------- */

/* One member may serve the others: they wish for chunks instead of reading them, and the server
 * brings the chunks from any source. No member relies on the server: a member that has waited long
 * enough claims the chunk and reads it. */

/* Makes this process the server. `keeps`: chunks that it wants to keep for all nodes of the job.
 * `whole`: small pieces are worth a whole chunk too, because all of the file will be in memory.
 * Returns 0, EBUSY (another living member is the server) or ENOTSUP (no process shares this
 * arena). */
int arena_serve(struct arena *arena, uint64_t keeps, bool whole);

/* Takes the next wish of any member; only the server's one thread. Returns false if there is
 * none. */
bool arena_wish_next(struct arena *arena, uint64_t *chunk, bool *urgent);

/* The server calls this before it sleeps (true) and after it has woken (false). Returns false if
 * there are wishes: the server must not sleep then. */
bool arena_serve_sleeps(struct arena *arena, bool asleep);

/* Ends the server's work for a chunk and wakes all waiting processes. `refused`: the next process
 * that wants the chunk claims and reads it, which uses up the refusal. */
void arena_answer(struct arena *arena, uint64_t chunk, bool refused);

/* Reports that this member, a server for instance, makes progress, so that processes stay patient
 * that wait for its chunks. */
void arena_beat(struct arena *arena);

/* Marks a chunk as kept: it is evicted later than chunks without the mark. */
void arena_keep(struct arena *arena, uint64_t chunk);

/* Returns how many bytes one member should have pinned, at most, so that kept chunks and all
 * members' pins fit together. UINT64_MAX if there is no server, or room for the whole file. */
uint64_t arena_share(struct arena *arena);

/* Whether a server brings this chunk on a wish; *whole is what arena_serve() was called with. */
bool arena_is_served(const struct arena *arena, uint64_t chunk, bool *whole);

/* Asks the server for a chunk, urgently or ahead of need. May be repeated: only a wish that is new
 * is passed on. Under the caller's lock. Returns true if the server sleeps and must be woken. */
bool arena_wish(struct arena *arena, uint64_t chunk, bool urgent);

/* Waits until a chunk that this process has wished for is wholly published, or no server brings it
 * any more, and returns true; at once if it has not wished. Returns false after `milliseconds`. */
bool arena_wish_wait(struct arena *arena, uint64_t chunk, unsigned milliseconds);

/* --- memory --------------------------------------------------------------------------------- */

/* Makes room for `blocks` more blocks that the caller is about to load. Evicts chunks that no
 * process has pinned or claimed, the least recently used first (arena_touch()). Chunks that a
 * served node retains for the next pass over the file go only when no others are left. Kept chunks
 * go last and, while there is a server, only as far as they leave members too little room. Returns
 * true if the blocks are counted as the node's from now on; false: no room now, read without the
 * arena. */
bool arena_reserve(struct arena *arena, uint64_t blocks);

/* Whether so many blocks more would fit without evicting a chunk. */
bool arena_has_room(struct arena *arena, uint64_t blocks);

/* Gives back reserved blocks that were not published and into which nothing was read. */
void arena_unreserve(struct arena *arena, uint64_t blocks);

/* Return how many pieces of a chunk the node's processes have read because a reader waited for
 * them, 255 at most, and the blocks of all pieces. Pieces are added under the chunk's claim. Any
 * thread, no lock. */
unsigned arena_pieces(const struct arena *arena, uint64_t chunk);
uint64_t arena_pieces_blocks(const struct arena *arena);
void arena_pieces_add(struct arena *arena, uint64_t chunk, uint64_t blocks);

/* Marks a chunk as used now. Before its first use a chunk counts as used for a while after its
 * claim. Cheap: a store. */
void arena_touch(struct arena *arena, uint64_t chunk);
/* Marks a chunk as used later than its claim does: after as many reads of `length` bytes as memory
 * holds. Until then it is evicted after all that was used. Any thread, no lock. */
void arena_expect(struct arena *arena, uint64_t chunk, uint64_t length);

/* Whether the node is short of room, so that processes should give up pins they do not need. */
bool arena_pressed(const struct arena *arena);

/* Returns how much the arena may keep now, in bytes: its budget, or what the node's other arenas
 * leave of that. */
uint64_t arena_budget(const struct arena *arena);
uint64_t arena_used(const struct arena *arena);      /* bytes, reserved ones included */
uint64_t arena_evictions(const struct arena *arena); /* chunks, by all processes */

#endif
