/* SPDX-License-Identifier: OLDAP-2.8 */
/* The objects behind the handles of <lmdb.h>.
 *
 * An environment is either our own (opened with MDB_RDONLY: we read its pages) or forwarded (any
 * other: the original LMDB does everything, and these objects only wrap its handles). Either way
 * the original's environment is open beside ours. For an own environment the original supplies the
 * rules of opening, the reader slot that pins a snapshot, reader_list, reader_check, info and copy.
 */
#ifndef LMDBIO_ENV_ENV_H
#define LMDBIO_ENV_ENV_H

#include "cursor/cursor.h"
#include "io/io.h"
#include "origin/origin.h"
#include "env/later.h"
#include "env/packed.h"
#include "prefetch/prefetch.h"
#include "util/at_fork.h"
#include "util/descriptor.h"
#include "window/window.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/stat.h>

struct record_index;

/* Bytes. A smaller data file is not worth reading ahead or sharing. */
enum { ENV_STORE_FILE_MIN = 1 << 20 };

enum { DBI_FREE = 0, DBI_MAIN = 1, DBI_CORE = 2 };

enum env_mode {
	ENV_NEW,
	ENV_FORWARDED,
	ENV_OWN,
	ENV_CLOSED, /* only transactions that the program has not ended use the object */
};

/* A database handle as the environment knows it. */
struct dbi_slot {
	MDB_val name;   /* malloc'ed; size 0: the slot is free */
	_Atomic uint16_t flags; /* persistent flags and DBI_OPEN */
	struct comparators order;
	_Atomic bool ordered; /* `order` has been set; under records_lock */
};

enum { DBI_OPEN = 0x8000, DBI_PERSISTENT = 0x7fff };

/* The first word of each handle that we give out. LMDB's own handles begin with a pointer or a file
 * descriptor, and neither is ever odd and above 2^30. */
enum handle_kind {
	HANDLE_ENDED = 0,
	HANDLE_ENV = 0x4c4d4281,
	HANDLE_OWN = 0x4c4d4283,       /* transactions and cursors: lmdbio reads LMDB 0.9's pages */
	HANDLE_OWN_1_0 = 0x4c4d4287,   /* the same for pages of LMDB 1.0 */
	HANDLE_OWN_NAMES = 0x4c4d4289, /* cursors on pages of either, with `names` set */
	HANDLE_FORWARDED = 0x4c4d4285, /* transactions and cursors of the original */
};

/* Ends a handle before its memory is freed. An LMDB may get that memory for a handle, whose first
 * word would be ours until LMDB fills it. */
static inline void handle_end(uint32_t *kind)
{
	*(volatile uint32_t *)kind = HANDLE_ENDED;
}

/* Records which file the data file is, whatever the program does to its descriptors. */
struct env_seen {
	struct stat st;
	uint64_t at;       /* clock_coarse() before `st` was taken */
	uint64_t snapshot; /* the newest one then, or an older one */
	uint64_t system;   /* identity_system() if the environment has a store; else 0 */
};

/* The snapshot that the store was brought to last (env_store.c). */
struct env_store_at {
	_Atomic bool armed;
	_Atomic size_t id;      /* the transaction id, or 1 for id 0; 0: none yet */
	_Atomic uint64_t state; /* of the file at that time, whose bytes the arena has */
	uint64_t since;         /* ns: when the store came to it unarmed; else 0 */
};

/* The further state of an environment whose program was built for LMDB 1.0 (for_later.c). */
struct for_later {
	const struct origin *origin; /* the program's original; NULL: built for 0.9 */
	MDB_env *orig;               /* of LMDB 1.0, until it becomes env->orig; NULL: none */
	bool encrypts;               /* the program says that the pages are encrypted */
	bool refused;                /* opening needs that original, which is missing */
	unsigned flags;              /* an own environment's flags that LMDB 0.9 does not know */
	_Atomic(struct name_copy *) names; /* names of databases, with LMDB 1.0's NUL */
};

struct MDB_env {
	uint32_t kind;
	MDB_env *orig;
	const struct origin *origin; /* the LMDB that `orig` belongs to */
	enum env_mode mode;
	_Atomic unsigned holders; /* the program, until it closes it, and each transaction object */
	void *userctx;
	MDB_assert_func *assert_func;
	MDB_dbi maxdbs; /* the core ones included */
	struct for_later for_later;
	/* Of an own environment: */
	enum format format;          /* of the data file's pages */
	_Atomic unsigned generation; /* the process (see fork.c) that opened `orig` */
	char *path;          /* absolute, for opening again in a forked child */
	char *staged;        /* the staged copy that stands in for the data file, or NULL */
	struct identity original; /* of the data file or container that a staged copy replaces */
	char *named;         /* the path that the program gave, if `orig` has another one */
	/* Set before the environment is opened: */
	char *node; /* in place of LMDBIO_NODE, or NULL */
	bool alone; /* its memory is not shared with the node's other processes */
	bool plans; /* its user plans its reads, and knows how much memory can hold */
	MDB_sum_func *sum_func; /* computes checksums of pages; NULL: none */
	unsigned sum_size;      /* bytes */
	unsigned flags;
	mdb_mode_t permissions;
	int fd;       /* the data file: the descriptor of the first `orig`, or ours */
	int data;     /* the same file: a second descriptor of our own, or `fd` if there is none */
	struct env_seen seen;
	struct descriptor_kept lock;     /* the lock file of the first `orig`, which owns the
				      * descriptor; fd -1, inode 0: not known */
	struct descriptor_kept replaced; /* env_file_replaced() */
	struct window window;
	struct packed *packed; /* the data is in a container; NULL: it is not */
	struct later *later;   /* the data file is LMDB 1.0's; NULL: it is not */
	struct later *left;    /* kept by later_leave() for later_free() */
	struct sums *sums;     /* the checksums of its pages; NULL: not verified */
	MDB_env *next, **link; /* in the list of own environments (fork.c) */
	/* The store under the window (env_store.c): */
	uint64_t bytes;       /* of the data, when the environment was opened */
	uint64_t arena_bytes; /* the same, if an arena takes them: fork_arena_bytes(); else 0 */
	bool stored;
	bool kernel_reads; /* of its own accord, from a local disk: stats_kernel_watch() */
	struct env_store_at store_at;
	pthread_mutex_t choice_lock;
	struct io reads; /* unless packed */
	struct store store;
	struct prefetch *prefetch;    /* NULL: no look-ahead */
	pthread_mutex_t records_lock; /* guards the list of indexes (records.c) and the main
					 database's order (dbi.c); held during no read */
	pthread_mutex_t making_lock;  /* held while an index is made; taken before records_lock */
	struct kept_index *indexes;
	_Atomic MDB_dbi dbis; /* slots in use, core ones included */
	struct dbi_slot *slots;
	_Atomic(MDB_txn *) spare; /* an ended transaction for the next one to reuse */
};

enum txn_dbi { TXN_DBI_NEW = 1, TXN_DBI_VALID = 2, TXN_DBI_USER = 4 };

struct MDB_txn {
	uint32_t kind;
	MDB_env *env;
	MDB_txn *orig;
	/* Of a forwarded transaction: */
	bool writes;
	MDB_txn *parent, *child;
	MDB_cursor *cursors; /* of a write transaction: they end with it */
	/* Of an own transaction: */
	unsigned generation;      /* the process that owns the reader slot of `orig` or `slot` */
	struct reader_slot *slot; /* in the lock file of LMDB 1.0, or NULL */
	size_t id;
	/* The last known state of the file, kept from one snapshot to the next: */
	uint64_t looked_at; /* by the coarse clock; 0: never */
	uint64_t file_size;
	struct identity identity;
	uint64_t state; /* hash of the identity without the snapshot: the same for the same bytes */
	struct snapshot snapshot;
	struct lookups lookups; /* kept from one transaction to the next */
	size_t lookups_id;      /* the snapshot that `lookups` belong to */
	MDB_dbi dbis;           /* 0 once the transaction has ended */
	MDB_dbi dbis_most;      /* the most so far; later trees and states are zero */
	uint8_t *dbi_state;     /* enum txn_dbi bits, env->maxdbs of them */
	struct tree trees[];    /* env->maxdbs of them */
};

struct MDB_cursor {
	uint32_t kind;
	MDB_txn *txn;
	MDB_cursor *orig;  /* of a forwarded transaction, else NULL */
	const struct origin *origin; /* the LMDB of `orig`: a cursor may outlive its txn */
	MDB_cursor **link; /* in the transaction's list of cursors, else NULL */
	MDB_cursor *next;
	MDB_dbi dbi;
	bool names; /* its keys may be names of databases, as LMDB 1.0 has them */
	struct cursor cursor;           /* of an own transaction */
	struct duplicates duplicates[]; /* one, if the database has MDB_DUPSORT */
};

/* Whether a handle is an environment of ours; NULL is not. */
static inline bool env_is_ours(const MDB_env *env)
{
	return likely(env && env->kind == HANDLE_ENV);
}

/* mdb_get() and mdb_cursor_get() ask for pages of LMDB 0.9 first, then for 1.0. The second question
 * reads the word again, so that the compiler lets the first compare it in memory: a hit in a file
 * of LMDB 0.9 takes no further instruction. */
static inline bool kind_is_1_0(const uint32_t *kind)
{
	return likely(*(const volatile uint32_t *)kind == HANDLE_OWN_1_0);
}

static inline bool txn_is_own_0_9(const MDB_txn *txn)
{
	return likely(txn && txn->kind == HANDLE_OWN);
}

static inline bool txn_is_own_1_0(const MDB_txn *txn)
{
	return txn && kind_is_1_0(&txn->kind);
}

static inline bool txn_is_own(const MDB_txn *txn)
{
	return txn_is_own_0_9(txn) || (txn && txn->kind == HANDLE_OWN_1_0);
}

static inline bool txn_is_ours(const MDB_txn *txn)
{
	return txn_is_own(txn) || (txn && txn->kind == HANDLE_FORWARDED);
}

static inline bool cursor_is_own_0_9(const MDB_cursor *cursor)
{
	return likely(cursor && cursor->kind == HANDLE_OWN);
}

static inline bool cursor_is_own_1_0(const MDB_cursor *cursor)
{
	return cursor && kind_is_1_0(&cursor->kind);
}

static inline bool cursor_is_own(const MDB_cursor *cursor)
{
	return cursor_is_own_0_9(cursor) || (cursor && (cursor->kind == HANDLE_OWN_1_0 ||
							 cursor->kind == HANDLE_OWN_NAMES));
}

static inline bool cursor_is_ours(const MDB_cursor *cursor)
{
	return cursor_is_own(cursor) || (cursor && cursor->kind == HANDLE_FORWARDED);
}

/* env_file.c: keeps the data file in a program that may close descriptors it did not open. */
/* Closes the descriptor of a loan that the original has not taken, unless that would cost the program
 * locks. `rc`: of opening, which then keeps no descriptor. */
void env_file_leave(struct origin_loan *loan, int rc);
/* Closes the descriptor of a data file or container that a staged copy replaces. If the program has
 * fcntl(2) locks on the file, the environment keeps the descriptor until it is closed itself, as
 * LMDB does: to close any descriptor of a file drops all such locks. */
void env_file_replaced(MDB_env *env, int fd, const struct identity *identity);
/* Takes over a descriptor that is left in the loan. Records which files env->fd and the loan's
 * descriptor of the lock file lead to, and the newest snapshot that opening has found in the data
 * file. Returns 0 or errno. */
int env_file_hold(MDB_env *env, const struct origin_loan *loan, uint64_t snapshot);
/* Opens our own descriptor of the data file, if enough are free. */
void env_file_lift(MDB_env *env);
void env_file_release(MDB_env *env);
/* Frees what stands in for the data file: a container or a staged copy. Opening again after a
 * failure would be served by it. */
void env_file_forget(MDB_env *env);
/* Whether a descriptor leads to the data file, asked before the original takes a size or a map from
 * it: another file's would be wrong. If not, sets errno as descriptor_is(). */
bool env_file_is(const MDB_env *env, int fd);
/* Gives the data file's status by any way that still leads to the file, else its status at
 * opening. */
void env_file_look(const MDB_env *env, struct stat *st);
/* Also records the file system's own id, which takes one more system call. */
void env_file_know_system(MDB_env *env);

/* env.c: the calls of the same name in <lmdb.h>. */
int env_create(MDB_env **env);
/* The same with another original than the built-in one. Gives the original's own handle if lmdbio
 * does not know its version. If the original is `for_later`, the environment's program was built
 * for LMDB 1.0. */
int env_create_by(const struct origin *origin, MDB_env **env);
int env_open(MDB_env *env, const char *path, unsigned flags, mdb_mode_t mode);
/* The data file that LMDB opens for a path; malloc'ed, or NULL. */
char *env_data_path(const char *path, unsigned flags);
/* The lock file that LMDB makes for a path; malloc'ed, or NULL. */
char *env_lock_path(const char *path, unsigned flags);
/* The flags that the original opens env->path with, if the program gave `flags`. */
unsigned env_origin_flags(const MDB_env *env, unsigned flags);
/* env_set_mapsize() without regard to forks. */
int env_map_renew(MDB_env *env, size_t size);
int env_set_flags(MDB_env *env, unsigned flags, int onoff);
int env_set_maxreaders(MDB_env *env, unsigned readers);
int env_get_flags(MDB_env *env, unsigned *flags);
/* The flags of an opening and those that the environment has already: from env_set_flags(), or from
 * an opening that failed, which LMDB keeps. */
unsigned env_flags_added(const MDB_env *env, unsigned flags);
int env_get_path(MDB_env *env, const char **path);
int env_get_fd(MDB_env *env, int *fd);
int env_get_maxkeysize(MDB_env *env);
int env_info(MDB_env *env, MDB_envinfo *info);
/* The same, with the map address in the file's meta pages, not this process's. */
int env_info_stored(const MDB_env *env, MDB_envinfo *info);
int env_stat(MDB_env *env, MDB_stat *stat);
int env_get_maxreaders(MDB_env *env, unsigned *readers);
int env_reader_list(MDB_env *env, MDB_msg_func *func, void *context);
int env_reader_check(MDB_env *env, int *dead);
int env_set_maxdbs(MDB_env *env, MDB_dbi dbs);
int env_set_assert(MDB_env *env, MDB_assert_func *func);
void env_close(MDB_env *env);
/* Gives up one of env->holders. The last one frees the object. */
void env_drop(MDB_env *env);
/* An original calls this when it finds its own state wrong. The caller's address tells which
 * original it is. */
void env_forward_assert(MDB_env *orig, const char *message);

/* for_later.c: environments of programs that were built for LMDB 1.0. */
int for_later_create(MDB_env *env, const struct origin *origin);
/* Decides before opening: either lmdbio reads the environment (*own), or the program's LMDB 1.0
 * serves it and becomes env->origin. Returns 0, or EACCES if that LMDB 1.0 is missing; with
 * LMDBIO_VERBOSE a line says so. */
int for_later_choose(MDB_env *env, const char *path, unsigned *flags, bool *own);
/* Judges a data file of LMDB 1.0 as LMDB 1.0 does at opening. Returns 0, MDB_PAGE_NOTFOUND (the
 * file ends before a root), MDB_CORRUPTED (it has fewer pages than its trees) or an errno. */
int for_later_judge(int fd, const struct meta *newest);
/* Explains a failure to open that only LMDB 1.0 has. Returns a malloc'ed line, or NULL. */
char *for_later_explain(const MDB_env *env, const char *path, unsigned flags, int rc);
void for_later_close(MDB_env *env);
int env_set_pagesize(MDB_env *env, int size);
int env_set_encrypt(MDB_env *env, MDB_enc_func *func, const MDB_val *key, unsigned size);
int for_later_set_checksum(MDB_env *env, MDB_sum_func *func, unsigned size);
int env_incr_dumpfd(MDB_env *env, int fd, size_t txnid);
int env_incr_dump(MDB_env *env, const char *path, size_t txnid);
/* After a cursor over the main database has moved and set a key: if the cursor stands at a named
 * database, *key becomes its name with the NUL. Returns 0 or ENOMEM. Lifetime of the key: the
 * environment's, or the transaction's. */
int for_later_name(MDB_cursor *cursor, MDB_val *key);

/* The error that refuses writing. */
static inline int env_read_only(const MDB_env *env)
{
	return env->for_later.origin ? MDB_IS_READONLY : EACCES;
}

/* snapshot.c: brings the snapshot that txn->orig holds into *txn. Returns 0, MDB_MAP_RESIZED,
 * MDB_CORRUPTED, or what the original's mdb_txn_renew() says. txn->orig stays the caller's. */
int snapshot_take(MDB_txn *txn);
/* Gives the identity of the newest snapshot, as far as it can be known without a transaction.
 * Returns 0 or MDB_CORRUPTED. */
int snapshot_identify(const MDB_env *env, struct identity *identity);
/* Gives the value that MDB_txn.state would have now. Returns 0 or MDB_CORRUPTED. */
int snapshot_state(const MDB_env *env, uint64_t *state);

/* env_store.c: the store under the window of an own environment. env_store_open() returns 0 or an
 * errno. Call env_store_begin() (0 or ENOMEM) after snapshot_take(), and env_store_end() before the
 * transaction is reset or freed. */
int env_store_open(MDB_env *env);
void env_store_close(MDB_env *env);
int env_store_begin(MDB_txn *txn);
void env_store_end(MDB_txn *txn);
/* Ends the lookups that outlive a transaction to serve the next one. */
void env_store_forget(MDB_txn *txn);
/* Called around a fork, in the parent: while held, no part of the store changes. */
void env_store_hold(MDB_env *env, bool hold);
/* Called in the child in place of the second call: gives the child a store of its own. */
void env_store_forked(MDB_env *env);
/* Shows the file in the window while the original reads through it. Returns 0 or ENOMEM; call
 * env_store_resume() in either case. */
int env_store_pause(MDB_env *env);
void env_store_resume(MDB_env *env);

/* records.c: gives the record index of a database in a transaction's snapshot. If there is none
 * yet, makes it: this reads the tree pages, in several threads. Returns 0, or as index_build(). The
 * index lives until records_give(). Any thread. */
int records_take(MDB_txn *txn, MDB_dbi dbi, struct record_index **index);
/* The same for a tree without a handle (dbi_find()), or for the main one, whose name is NULL. */
int records_take_tree(MDB_txn *txn, struct tree *tree, const MDB_val *name,
		      struct record_index **index);
void records_give(MDB_env *env, const struct record_index *index);
/* Makes records_take() give an index that was built elsewhere, by ranks together for instance; it
 * becomes the environment's. Returns 0, EEXIST (there is one already) or ENOMEM; on an error the
 * index stays the caller's. */
int records_put(MDB_txn *txn, const struct tree *tree, struct record_index *index);
void records_open(MDB_env *env);
void records_close(MDB_env *env);
void records_forked(MDB_env *env);

/* txn.c: own and forwarded transactions. */
int txn_begin(MDB_env *env, MDB_txn *parent, unsigned flags, MDB_txn **txn);
int txn_renew(MDB_txn *txn);
void txn_reset(MDB_txn *txn);
int txn_commit(MDB_txn *txn);
/* Only for a forwarded transaction of an LMDB 1.0. */
int txn_prepare(MDB_txn *txn);
void txn_abort(MDB_txn *txn);
/* Frees an own transaction that has ended; may be NULL. */
void txn_forget(MDB_txn *txn);

/* dbi.c: databases of own transactions. */
void dbi_begin(MDB_txn *txn);
void dbi_end(MDB_txn *txn, bool keep);
int dbi_open(MDB_txn *txn, const char *name, unsigned flags, MDB_dbi *dbi);
/* Gives the tree of the database `text` (NULL: the main one) without a handle: handles are the
 * program's to open and close, one transaction at a time. *name becomes the name as the main
 * database has it, in the memory of `text`; for NULL it is left as it is. Returns as dbi_open(). */
int dbi_find(MDB_txn *txn, const char *text, struct tree *tree, MDB_val *name);
void dbi_close(MDB_env *env, MDB_dbi dbi);
void dbi_free_all(MDB_env *env);

static inline bool dbi_exists(const MDB_txn *txn, MDB_dbi dbi, unsigned state)
{
	return likely(txn && dbi < txn->dbis && txn->dbi_state[dbi] & state);
}

/* fork.c: lists own environments, so that a child gives up what it must not share with its
 * parent. */
void fork_enlist(MDB_env *env);
void fork_delist(MDB_env *env);
/* Whether the process has environments open that lmdbio reads. Any thread, no lock. */
bool env_any_open(void);
/* The call of the same name in <lmdb.h>: meanwhile no fork begins in another thread. */
int env_set_mapsize(MDB_env *env, size_t size);
/* Returns the bytes of the other data sets that this process has arenas for. */
uint64_t fork_arena_bytes(const MDB_env *env);
/* Makes an environment or a transaction that a child has inherited the child's own. Returns 0,
 * MDB_BAD_TXN if a writer has committed meanwhile, or an error of the original's opening. */
int env_adopt(MDB_env *env);
int txn_adopt(MDB_txn *txn);
/* Whether `orig` is the parent's, with a lock file, and so must never be closed. */
bool env_is_parents(const MDB_env *env);

static inline bool txn_is_here(const MDB_txn *txn)
{
	return likely(txn->generation == fork_generation);
}

static inline int txn_here(MDB_txn *txn)
{
	return txn_is_here(txn) ? 0 : txn_adopt(txn);
}

/* compact.c: writes a compacted copy of a transaction's snapshot to fd, as the original would.
 * Returns 0, MDB_INCOMPATIBLE (leaked pages), an errno, or as cursor_get(). */
int copy_compact(MDB_txn *txn, int fd);
/* The same, but hands the copy to `put` piece by piece, in order. An error of `put` ends the copy.
 * `border`: 0, or a power of two, pages: no value of at most that many pages crosses a multiple of
 * it. Pages that stay free for this are in the copy's free list. EFBIG: the list cannot name them
 * all (with pages of 4 KiB, 2.5 TB). Memory: 1 MiB, 160 pages, and 4 bytes for each multiple of a
 * border. */
typedef int compact_put_fn(void *to, const uint8_t *bytes, size_t size);
int copy_compact_to(MDB_txn *txn, uint32_t border, compact_put_fn *put, void *to);
/* copy.c: writes all of a copy's piece to a file, pipe or socket. Returns 0 or an errno; a broken
 * pipe is EPIPE alone, without SIGPIPE, as it is with the original. */
int copy_write(int fd, const uint8_t *bytes, size_t length);
/* mdb_env_copy2() and mdb_env_copyfd2(), for own environments also from a given
 * transaction. */
int env_copy(MDB_env *env, const char *path, unsigned flags, MDB_txn *txn);
int env_copyfd(MDB_env *env, int fd, unsigned flags, MDB_txn *txn);

/* explain.c */
/* Explains why env_open() of `path` with `flags` has failed with `rc`. Looks at the files and
 * returns one line without a full stop, "FILE: what is wrong: what to do"; FILE is the one to
 * blame. The caller frees the line. Returns NULL if there is no memory. */
char *env_explain(const char *path, unsigned flags, int rc);

#endif
