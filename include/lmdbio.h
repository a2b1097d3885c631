/* lmdbio.h - what lmdbio adds to <lmdb.h>.
 *
 * The functions stand in the same library as lmdbio's mdb_*: a program links (or finds by dlsym)
 * them in liblmdb.so.0. They work on the handles of <lmdb.h>, also on those that a language's
 * binding made.
 */
#ifndef LMDBIO_H
#define LMDBIO_H

#include <lmdb.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of lmdbio, "MAJOR.MINOR.PATCH" (mdb_version() tells the original LMDB's).
 * Collective: no. Threads: any. Lifetime: the string is the library's. Returns: the string. */
const char *lmdbio_version(void);

/* --- hints: what will be read next ----------------------------------------------------------- */

/* Announces records that will be read soon, a mini-batch for instance: all their leaf pages and
 * values are brought in parallel, in the order of the file, neighbours in one request. It returns
 * at once; a record that is read before it has come is waited for, never read twice. Keys that
 * are not in the database are ignored. What has not been begun is dropped when the transaction
 * ends or is reset. A hint: it changes no answer of any mdb_* call, and what does not fit into the
 * memory budget is left to be read when it is needed.
 * In an environment that is forwarded to the original (opened without MDB_RDONLY, or
 * LMDBIO_DISABLE=1) nothing happens and 0 is returned.
 *   txn   a read-only transaction
 *   dbi   a database of it
 *   keys  n keys, in any order, also repeated; NULL if n is 0
 *   n     records
 * Collective: no.
 * Threads: as mdb_get(): one thread at a time on a transaction.
 * Lifetime: keys and the bytes they point to are the caller's again when the call returns; the
 * values' pointers are those that mdb_get() and cursors give, until the transaction ends.
 * Returns: 0; EINVAL (no transaction, no such database, keys NULL with n above 0); MDB_BAD_TXN
 * (the transaction has ended or is reset). */
int lmdbio_prefetch_keys(MDB_txn *txn, MDB_dbi dbi, const MDB_val *keys, size_t n);

/* Announces that the records from key `first` to key `last`, both included, will be read soon, in
 * the order of their keys. It returns at once and brings what fits into the memory budget, from
 * `first` on. The ends need not be keys of the database. Otherwise as lmdbio_prefetch_keys().
 *   txn    a read-only transaction
 *   dbi    a database of it
 *   first  NULL: from the first record
 *   last   NULL: to the last record; before `first`: nothing happens
 * Collective: no.
 * Threads: as mdb_get(): one thread at a time on a transaction.
 * Lifetime: first and last and the bytes they point to are the caller's again when the call
 * returns.
 * Returns: 0; EINVAL (no transaction, no such database); MDB_BAD_TXN (the transaction has ended or
 * is reset). */
int lmdbio_prefetch_range(MDB_txn *txn, MDB_dbi dbi, const MDB_val *first, const MDB_val *last);

/* How a database will be read. */
enum lmdbio_advice {
	LMDBIO_NORMAL = 0,     /* lmdbio sees for itself, from how cursors move */
	LMDBIO_SEQUENTIAL = 1, /* record after record, forward or backward: look ahead at once */
	LMDBIO_RANDOM = 2,     /* never look ahead: only what is asked for is read */
	LMDBIO_STRIDE = 3      /* every stride-th record, as one of `stride` readers does */
};

/* Says how a database will be read in a transaction. It holds for its cursors, those open already
 * included, until the next advice for the same database or the end of the transaction. A hint: it
 * changes no answer. In a forwarded environment nothing happens and 0 is returned.
 *   txn     a read-only transaction
 *   dbi     a database of it
 *   advice  the pattern
 *   stride  records from one that is read to the next, 1 or more; only LMDBIO_STRIDE looks at it
 * Collective: no.
 * Threads: as mdb_get(): one thread at a time on a transaction.
 * Lifetime: nothing is handed out or kept.
 * Returns: 0; EINVAL (no transaction, no such database, an unknown advice, LMDBIO_STRIDE with
 * stride 0); MDB_BAD_TXN (the transaction has ended or is reset). */
int lmdbio_advise(MDB_txn *txn, MDB_dbi dbi, enum lmdbio_advice advice, unsigned stride);

/* --- records by number ----------------------------------------------------------------------- */

/* The record of a number. Records are what MDB_NEXT steps to, counted from 0 on in the order of the
 * cursor: a key with its value, or with one of its duplicates; mdb_stat() tells how many there are.
 * The first call for a database reads its tree pages once, in parallel, to number the records (of a
 * container, its own record index); the others find the leaf page without reading. What was
 * learnt stays with the environment while the snapshot is the newest.
 *   txn     a read-only transaction of an environment opened with MDB_RDONLY
 *   dbi     a database of it
 *   number  of the record, from 0
 *   key     where its key goes, or NULL
 *   data    where its value goes, or NULL: then of the value nothing is read
 * Collective: no.
 * Threads: as mdb_get(): one thread at a time on a transaction.
 * Lifetime: the pointers are those that mdb_get() gives, valid until the transaction ends.
 * Returns: 0; MDB_NOTFOUND (there are not so many records); EINVAL (no transaction, no such
 * database); MDB_BAD_TXN; MDB_CORRUPTED, MDB_PAGE_NOTFOUND (a page is not sound, or the records are not
 * as many as the database says); ENOTSUP (the environment is forwarded to the original); ENOMEM; the
 * errno of a read that failed. */
int lmdbio_get_record(MDB_txn *txn, MDB_dbi dbi, uint64_t number, MDB_val *key, MDB_val *data);

/* --- statistics ------------------------------------------------------------------------------ */

/* What lmdbio has done in this process since it was loaded; in a forked child, since the fork.
 * Later versions add fields at the end. */
struct lmdbio_stats {
	uint64_t size;		    /* bytes; set to sizeof(struct lmdbio_stats) before the call */
	uint64_t storage_requests;  /* requests: reads that lmdbio asked of storage */
	uint64_t storage_bytes;	    /* bytes: their length */
	uint64_t served_bytes;	    /* bytes: values handed to the program */
	uint64_t waits;		    /* times that the program had to wait for bytes */
	uint64_t wait_ns;	    /* nanoseconds that it waited */
	uint64_t hits_cache;	    /* extents found in the page cache, brought ahead of need */
	uint64_t hits_arena_own;    /* extents found in the arena, loaded by this process */
	uint64_t hits_arena_peer;   /* extents found in the arena, loaded by another process */
	uint64_t at_rest;	    /* extents read through the file mapping as it was */
	uint64_t evictions;	    /* extents given back to stay within the memory budget */
	uint64_t populate_calls;    /* calls: batches of page-table entries made */
	uint64_t prefetch_requests; /* requests, of storage_requests, made ahead of need */
	uint64_t prefetch_bytes;    /* bytes, of storage_bytes, asked for ahead of need */
	uint64_t prefetch_used;	    /* bytes, of prefetch_bytes, that the program came for */
	uint64_t streams_started;   /* look-aheads begun */
	uint64_t streams_broken;    /* look-aheads that ended because the program went elsewhere */
	uint64_t fallbacks;	    /* times a slower way was taken because the better one failed */
};

/* Copies the counters. They are read one after another while other threads go on counting, so
 * that two of them may differ by what happened in between.
 *   stats  stats->size says how many bytes of it the caller has; at most so many are filled, and
 *          stats->size then says how many were, so that a program learns which fields this
 *          library knows
 * Collective: no.
 * Threads: any.
 * Lifetime: stats is the caller's.
 * Returns: 0; EINVAL (stats is NULL, or its size is less than that of the field `size`). */
int lmdbio_stats(struct lmdbio_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
