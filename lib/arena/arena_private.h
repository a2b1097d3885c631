/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the table behind the data, and a process's own part of an attachment.
 *
 *   [data: the file's length, rounded up to chunks][head][rows][ready words][groups][wishes]
 *
 * A group is the table of 1,024 chunks (1 GiB of file). The head, the rows and the ready words get
 * their memory when the arena is made; a group gets its own when one of its chunks is first claimed
 * or pinned, and only then its bit in the ready word is set. So the table of a file of 10 TB costs
 * nothing until it is used, and no instruction touches a page of the memfd that has no memory yet.
 * Running out of memory is an error from a system call, never a signal. The wishes are a page for
 * each row; the row's process gives its page memory before its first wish.
 *
 * Row 0 belongs to no process: its pins say which chunks hold published blocks, or huge pages that
 * wait for some. A process has one of the rows 1..255, and holds the lock on the byte of that
 * number for as long as it lives.
 *
 * Other processes' stores are not trusted: each offset, length or pointer from shared memory is cut
 * to its valid range before use.
 */
#ifndef LMDBIO_ARENA_PRIVATE_H
#define LMDBIO_ARENA_PRIVATE_H

#include "arena/arena.h"

#include "util/descriptor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum {
	ARENA_ROWS = 256,
	ARENA_GROUP = 1024,                    /* chunks */
	ARENA_HUGE = ARENA_PAIR * ARENA_CHUNK, /* bytes: a huge page */
	ARENA_SLOTS = 64,                      /* names under which an arena is found */
	ARENA_PAGE_ROWS = 32,                  /* rows whose pins of one group share a page */
	ARENA_WISHES = 480,                    /* wishes of one row, not yet taken by the server */
	ARENA_RECENT = 256 /* wishes that a process remembers having passed on */
};

/* A chunk's word: the row of the process that has claimed it, and flags. */
enum {
	WORD_OWNER = 0xff,
	WORD_EVICTING = 0x100, /* claimed for eviction, not for loading */
	WORD_WAITERS = 0x200,  /* a process sleeps on the word */
	WORD_EMPTYING = 0x400  /* no process has it pinned: its memory is being freed */
};

struct arena_row {
	_Alignas(128) _Atomic uint32_t used; /* nonzero from attaching to leaving or being buried */
	uint32_t pid;                        /* for debugging */
	_Atomic int64_t claims;             /* never less than the claims that this row has */
	_Atomic int64_t reserved;           /* blocks counted in head->used and not published */
	_Atomic uint64_t began, ended;      /* changes of the accounts: equal when none is under way */
	_Atomic uint16_t scans, steppers;   /* arena_scanning() */
	_Atomic uint32_t wishes;            /* nonzero: its page of wishes has memory */
	_Atomic uint64_t front;             /* of its only scan (arena_scans.c); 0: not published */
};

/* A ring: one process puts its wishes in, the server takes them out. A wish is twice the chunk's
 * number, plus one if the wish is urgent. */
struct arena_wishes {
	_Alignas(4096) _Atomic uint32_t in;
	_Alignas(64) _Atomic uint32_t out;
	_Alignas(64) _Atomic uint64_t wishes[ARENA_WISHES];
};

struct arena_head {
	uint64_t magic;
	uint32_t version, shared;
	struct identity identity;
	uint64_t key[2];   /* of identity and node */
	uint64_t nonce[2]; /* random, unlike any other arena's */
	uint64_t budget;   /* blocks */
	_Atomic uint64_t stamp;   /* time from which on the arena could be found, ns */
	_Atomic uint32_t settled; /* it won against arenas made at the same time */
	_Atomic uint32_t high;    /* no row above this was ever used */
	_Alignas(64) _Atomic uint64_t used; /* blocks reserved or published; may be too high, see doubt */
	_Alignas(64) _Atomic uint64_t hand; /* chunk where the next eviction search begins */
	_Atomic uint64_t evictions;
	_Atomic uint32_t pressed;
	_Atomic uint32_t doubt; /* a process died, perhaps between two changes of the accounts */
	_Alignas(64) _Atomic uint32_t clock;  /* counts claims; a stamp is a reading */
	_Alignas(64) _Atomic uint32_t server; /* the server's row, and SERVER_WHOLE; 0: no server */
	_Atomic uint32_t asleep;              /* a process that wishes must wake the server */
	_Atomic uint32_t answers;             /* number of the server's answers; a futex */
	_Atomic uint32_t awaited;             /* a process may sleep on the answers */
	_Atomic uint32_t kept;                /* chunks marked to be kept, about */
	_Atomic uint64_t keeps;               /* chunks that the server wants to keep */
	_Atomic uint32_t retained;            /* chunks marked to stay for the next round, about */
	_Atomic uint64_t pieces;              /* blocks of the chunks' pieces, about */
};

enum { SERVER_WHOLE = 0x100 };

/* Fields of every chunk come first: one call gives them and the first page of pins memory. */
struct arena_group {
	_Atomic uint32_t words[ARENA_GROUP];
	_Atomic uint32_t stamps[ARENA_GROUP];
	_Atomic uint64_t published[ARENA_GROUP][ARENA_BLOCKS / 64];
	_Atomic uint64_t kept[ARENA_GROUP / 64];    /* bits: arena_keep() */
	_Atomic uint64_t retained[ARENA_GROUP / 64]; /* bits: the chunk stays for the next round */
	_Atomic uint64_t refused[ARENA_GROUP / 64]; /* the server does not bring it */
	_Atomic uint64_t asked[ARENA_GROUP / 64];   /* a process has tried to make huge pages here */
	_Atomic uint64_t huge[ARENA_GROUP / 64];    /* and has succeeded */
	_Atomic uint8_t pieces[ARENA_GROUP];        /* arena_pieces() */
	_Atomic uint64_t pins[ARENA_ROWS][ARENA_GROUP / 64];
};

struct arena {
	struct arena *next, **link; /* in the list of this process's arenas (arena.c) */
	struct identity identity;
	uint64_t key[2];
	uint64_t wanted; /* budget if this process makes the arena, blocks */
	uint64_t node_budget; /* of all arenas together, as far as this process knows, blocks */
	uint64_t needs;       /* blocks that it could use */
	uint64_t node;        /* a hash of the node's name */
	bool share;      /* may be shared */
	bool alone;      /* is not shared: there is no other row */
	bool keeps;      /* has bytes that may outlive its members */
	bool inherited;  /* a forked child has the map, too */

	struct descriptor_kept file; /* the memfd, for maps */
	struct descriptor_kept life; /* a second open file of the memfd, with the row's lock */
	void *life_map;              /* a map of `life` that no forked child gets; or NULL */
	struct descriptor_kept listener; /* the socket whose name leads other processes here */
	unsigned slot;                   /* number of that name; ARENA_SLOTS: a random end */
	unsigned row;

	uint8_t *base; /* data and table, one map */
	uint64_t length, data_length, chunks, budget;
	struct arena_head *head;
	struct arena_row *rows;
	_Atomic uint32_t *ready; /* bit 0: the group's table; bit n: its n-th page of pins */
	struct arena_group *groups;
	struct arena_wishes *wishes; /* of each row */
	atomic_bool ring_lacks_memory; /* no memory for this row's wishes: no server */
	unsigned asked;                /* row whose wishes the server takes next */
	struct {
		_Atomic uint64_t wish; /* plus one */
		uint64_t at;           /* ns */
	} recent[ARENA_RECENT];

	int line;                    /* in the purse; -1: none */
	_Atomic uint64_t limit;      /* blocks: the budget, or what the purse leaves of it */
	_Atomic uint64_t refresh_at; /* ns */
	_Atomic uint64_t changes;    /* of the purse, when the limit was worked out */

	pthread_mutex_t lock; /* pins and burials by this process's threads */
	_Atomic uint64_t look_at; /* ns: when to look around again */
	_Atomic unsigned members;
	atomic_int trust; /* in huge pages: 1 while they are worth it; negative: how many in a row
			     came late or not at all */
};

#ifdef ARENA_STEPS
void arena_step(const char *step); /* defined by the test: may end or stop the process */
#else
static inline void arena_step(const char *step)
{
	(void)step;
}
#endif

/* Returns how many blocks all arenas of the node may have together, as far as this arena knows. The
 * budget that the arena was made with still counts when its makers have ended: a later default is
 * smaller only because the arena's own bytes take memory. */
static inline uint64_t arena_node_budget(const struct arena *arena)
{
	return arena->node_budget > arena->budget ? arena->node_budget : arena->budget;
}

static inline struct arena_row *arena_own_row(const struct arena *arena)
{
	return &arena->rows[arena->row];
}

/* Returns a chunk's group, or NULL while that has no memory and so no published block. */
static inline struct arena_group *arena_group_of(const struct arena *arena, uint64_t chunk)
{
	uint64_t group = chunk / ARENA_GROUP;

	if (!(atomic_load_explicit(&arena->ready[group], memory_order_acquire) & 1))
		return NULL;
	return &arena->groups[group];
}

static inline uint64_t arena_groups(const struct arena *arena)
{
	return (arena->chunks + ARENA_GROUP - 1) / ARENA_GROUP;
}

static inline unsigned arena_rows_high(const struct arena *arena)
{
	uint32_t high = atomic_load(&arena->head->high);

	return high < ARENA_ROWS ? high : ARENA_ROWS - 1;
}

static inline bool arena_row_has_pins(const struct arena *arena, uint64_t group, unsigned row)
{
	return atomic_load(&arena->ready[group]) >> (row / ARENA_PAGE_ROWS) & 1;
}

/* arena.c */
/* Attaches without a line in the purse. Only the purse itself attaches without `keeps`. */
int arena_attach(struct arena **arena, const struct identity *identity,
		 const struct arena_options *options, bool keeps, const char **why);
void arena_detach(struct arena *arena);
void arena_cut(struct arena *arena); /* arena_forked(), except the purse */
int arena_make(struct arena *arena, bool shared);
int arena_adopt(struct arena *arena, int fd); /* takes over the fd in any case */
void arena_drop(struct arena *arena);         /* undoes either, even if half done */
bool arena_fits(const struct arena *arena, int fd, struct arena_head *head);
/* Attaches to an arena by its memfd, evicts `by` blocks and detaches; takes over the fd. Meanwhile
 * *attached is the attachment, one at a time: a forked child must cut it. Returns false if it could
 * not attach. */
bool arena_shrink(const struct identity *identity, const uint64_t key[2], int fd, uint64_t by,
		  _Atomic(struct arena *) *attached);

/* arena_blocks.c: gives a chunk's group, and a row's pins in it, their memory; NULL: none left. */
struct arena_group *arena_group_need(struct arena *arena, uint64_t chunk, unsigned row);
uint64_t arena_published(struct arena_group *group, uint64_t chunk);
/* Gives a part of the table its memory; bytes that are there stay as they are. */
bool arena_give_memory(const struct arena *arena, const void *start, size_t length);
/* Frees the memory of blocks that are not published; only under the chunk's claim. */
void arena_free_unpublished(struct arena *arena, uint64_t chunk);

static inline uint64_t arena_limit(const struct arena *arena)
{
	return atomic_load_explicit(&arena->limit, memory_order_relaxed);
}

/* arena_purse.c */
/* Gives an arena a line in the purse, so that its limit follows from what other arenas want and
 * have. Without a purse, or a line, the limit is an even part of the budget. */
void purse_join(struct arena *arena);
void purse_leave(struct arena *arena);
/* Tells the purse how much the arena has, and computes its limit again if that may have changed. */
void purse_refresh(struct arena *arena);
/* In a forked child: forgets the line, which is the parent's. */
void purse_forked(struct arena *arena);

/* arena_names.c */
int arena_listen(struct arena *arena); /* on a name that leads processes here; 0 or errno */
void arena_drain(struct arena *arena); /* empties the name's queue of connections */

/* arena_rendezvous.c */
int arena_meet(struct arena *arena, const char **why);
int arena_look(const struct arena *arena); /* memfd to meet, the caller's to close; -1: none */
unsigned arena_count(void);                /* this user's arenas, as far as /proc tells */

/* arena_keeper.c; any thread */
bool keeper_is_there(void); /* whether a fork has made a keeper; no system call */
/* Opens the memfd of a kept arena of this key, to which perhaps no living process is attached.
 * Returns the caller's descriptor, or -1 if there is none. The arena stays in the keeper. */
int keeper_find(const struct arena *arena);
/* After meeting: lets the arena outlive its members, if this process was forked and the file was
 * not changed within the last 2 s. */
void keeper_put(const struct arena *arena);
/* Drops kept arenas without a member: first those that the arena just met has made stale, then the
 * oldest, the last of them perhaps in part, until the rest fits. The room is `budget`, or the
 * largest budget of a kept arena if that is more, less what living arenas want; all in blocks. */
void keeper_fit(const struct arena *arena, uint64_t budget, uint64_t wants);

/* arena_rows.c */
int arena_row_take(struct arena *arena);
void arena_row_leave(struct arena *arena);
unsigned arena_bury_dead(struct arena *arena); /* returns how many */
void arena_look_around(struct arena *arena);
bool arena_row_lives(struct arena *arena, unsigned row); /* buries it if it is dead */
bool arena_claim_as(struct arena *arena, struct arena_group *group, uint64_t chunk, uint32_t word);
void arena_claim_end(struct arena *arena, struct arena_group *group, uint64_t chunk, unsigned row);

/* arena_huge.c: unmarks a chunk's huge page, before its memory is freed and under its claim. */
void arena_huge_break(struct arena_group *group, uint64_t chunk);

/* arena_wishes.c: if this row is the server, the node has no server from now on. */
void arena_serve_end(struct arena *arena, unsigned row);

/* arena_memory.c */
void arena_account_begin(struct arena *arena);
void arena_account_end(struct arena *arena);
void arena_account_published(struct arena *arena, uint64_t blocks);
void arena_lower(struct arena *arena, uint64_t blocks);
bool arena_recount(struct arena *arena);                /* whether the new count is lower */
void arena_evict(struct arena *arena, uint64_t blocks); /* so many, of unpinned chunks */
bool arena_give_back(const struct arena *arena, uint64_t offset, uint64_t length); /* memory */
/* Frees a claimed chunk's memory. Returns its published blocks, or 0 if that has failed. */
uint64_t arena_empty(struct arena *arena, struct arena_group *group, uint64_t chunk);

/* arena_names.c: walks over the processes of this user that lead to an arena. */
enum { NAMES_END = 18 }; /* a slot's number, or x and 16 digits; and the final 0 */

struct leaders {
	const struct arena *arena;
	unsigned slot, listed; /* how many names of either kind have been asked */
	int fd;
	FILE *list;
	char *line;
	size_t room;
	bool unsure; /* some processes may not show: search all of this user's */
};

/* leaders_next() returns the next process, the caller's own not left out, or 0 at the end. */
void leaders_begin(struct leaders *leaders, const struct arena *arena);
pid_t leaders_next(struct leaders *leaders);
void leaders_end(struct leaders *leaders);

#endif
