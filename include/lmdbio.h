/* SPDX-License-Identifier: OLDAP-2.8 */
/* lmdbio.h - the functions that lmdbio adds to <lmdb.h>.
 *
 * These functions are in lmdbio's liblmdb.so.0 beside its mdb_*: a program links them, or finds
 * them by dlsym. They work on the handles of <lmdb.h>, including those that a language's binding
 * made. No function of this header is a cancellation point (pthreads(7)), nor is a function of
 * <lmdb.h> that reads.
 */
#ifndef LMDBIO_H
#define LMDBIO_H

#include <lmdb.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns lmdbio's version, "MAJOR.MINOR.PATCH" (mdb_version() returns the original LMDB's).
 * Collective: no. Threads: any. Lifetime: the string is the library's. Returns: the string. */
const char *lmdbio_version(void);

/* How an environment is served. */
enum lmdbio_service {
	LMDBIO_FOREIGN = 0,   /* the handle is NULL, or of an LMDB that lmdbio does not reach or
				 does not understand */
	LMDBIO_FORWARDED = 1, /* the original does all work, or the environment is not open yet */
	LMDBIO_READS = 2      /* lmdbio reads it: hints have an effect, records have numbers */
};

/* Says whether an environment handle is lmdbio's, and whether lmdbio reads it. A program or a
 * language's binding may use an LMDB of its own beside lmdbio. Do not pass that LMDB's transactions
 * to any function of this header.
 *   env  any LMDB's open environment, or NULL
 * Collective: no.
 * Threads: any, as long as env is not closed.
 * Lifetime: nothing is handed out or kept.
 * Returns: one of enum lmdbio_service; for NULL LMDBIO_FOREIGN. */
int lmdbio_serves(const MDB_env *env);

/* --- hints: the records that the program will read next --------------------------------------- */

/* Announces records that the program will read soon, a mini-batch for instance. lmdbio brings all
 * their leaf pages and values in parallel, in the order of the file, neighbours in one request. The
 * function returns at once. If the program reads a record that has not come yet, the read waits for
 * it; lmdbio never reads it twice. lmdbio ignores keys that are not in the database. When the
 * transaction ends or is reset, lmdbio drops the reads that it has not begun. A hint changes no
 * answer of any mdb_* call. lmdbio reads records that do not fit into the memory budget when the
 * program needs them.
 * In an environment that is forwarded to the original (opened without MDB_RDONLY, or
 * LMDBIO_DISABLE=1) the function does nothing and returns 0.
 *   txn   a read-only transaction
 *   dbi   a database of it
 *   keys  n keys, in any order, also repeated; NULL if n is 0
 *   n     records
 * Collective: no.
 * Threads: as mdb_get(): one thread at a time on a transaction. If the program has set a function
 * by mdb_set_compare(), a thread of lmdbio calls it, too, until the transaction ends.
 * Lifetime: keys and the bytes they point to are the caller's again when the call returns; the
 * values' pointers are those that mdb_get() and cursors return, until the transaction ends.
 * Returns: 0; EINVAL (no transaction, no such database, keys NULL with n above 0); MDB_BAD_TXN
 * (the transaction has ended or is reset). */
int lmdbio_prefetch_keys(MDB_txn *txn, MDB_dbi dbi, const MDB_val *keys, size_t n);

/* Announces that the program will soon read the records from key `first` to key `last`, both
 * included, in the order of their keys. The function returns at once; lmdbio brings the records
 * from `first` on that fit into the memory budget. The ends need not be keys of the database.
 * Otherwise as lmdbio_prefetch_keys().
 *   txn    a read-only transaction
 *   dbi    a database of it
 *   first  NULL: from the first record
 *   last   NULL: to the last record; before `first`: nothing happens
 * Collective: no.
 * Threads: as lmdbio_prefetch_keys().
 * Lifetime: first and last and the bytes they point to are the caller's again when the call
 * returns.
 * Returns: 0; EINVAL (no transaction, no such database); MDB_BAD_TXN (the transaction has ended or
 * is reset). */
int lmdbio_prefetch_range(MDB_txn *txn, MDB_dbi dbi, const MDB_val *first, const MDB_val *last);

/* Does the same for records by number, as in lmdbio_get_record(). The first call for a database
 * numbers its records, as lmdbio_get_record() does, and returns when that is done. Later calls
 * return at once and read no page above the leaves. lmdbio ignores numbers beyond the last record.
 *   txn      a read-only transaction
 *   dbi      a database of it
 *   numbers  n numbers, in any order, also repeated; NULL if n is 0
 *   n        records
 * Collective: no.
 * Threads: as mdb_get(): one thread at a time on a transaction.
 * Lifetime: the numbers are the caller's again when the call returns.
 * Returns: 0; EINVAL (no transaction, no such database, numbers NULL with n above 0); MDB_BAD_TXN
 * (the transaction has ended or is reset); the code of lmdbio_get_record() if the records cannot be
 * numbered. */
int lmdbio_prefetch_records(MDB_txn *txn, MDB_dbi dbi, const uint64_t *numbers, size_t n);

/* How a database will be read. */
enum lmdbio_advice {
	LMDBIO_NORMAL = 0, /* lmdbio finds out by itself, from cursors' moves and keys looked up */
	LMDBIO_SEQUENTIAL = 1, /* record after record, forward or backward: look ahead at once */
	LMDBIO_RANDOM = 2,     /* never look ahead: read only what the program asks for */
	LMDBIO_STRIDE = 3      /* every stride-th record, as one of `stride` readers does */
};

/* Says how the program will read a database in a transaction. The advice holds for all cursors of
 * the database, including those already open, until the next advice for the same database or the
 * end of the transaction. After LMDBIO_RANDOM lmdbio reads nothing around a value in this
 * environment any more. If a reader of a stride looks its records up by their keys, lmdbio brings
 * these records alone, if they are large and few other processes of the node read the records
 * between them. If a reader steps over the other records with MDB_NEXT, which returns each of them,
 * lmdbio brings all records, as for LMDBIO_SEQUENTIAL.
 * The advice changes no answer. In a forwarded environment the function does nothing and returns 0.
 *   txn     a read-only transaction
 *   dbi     a database of it
 *   advice  the pattern
 *   stride  for LMDBIO_STRIDE: records from one that the program reads to the next, 1 or more;
 *           lmdbio measures the stride itself and does not rely on this number
 * Collective: no.
 * Threads: as mdb_get(): one thread at a time on a transaction.
 * Lifetime: nothing is handed out or kept.
 * Returns: 0; EINVAL (no transaction, no such database, an unknown advice, LMDBIO_STRIDE with
 * stride 0); MDB_BAD_TXN (the transaction has ended or is reset). */
int lmdbio_advise(MDB_txn *txn, MDB_dbi dbi, enum lmdbio_advice advice, unsigned stride);

/* --- records by number ----------------------------------------------------------------------- */

/* Returns the record with a given number. A record is what one step of MDB_NEXT returns: a key with
 * its value, or with one of its duplicates. Records are counted from 0 in the order of the cursor;
 * mdb_stat() returns their number. The first call for a database reads its tree pages once, in
 * parallel, to number the records (of a container, its own record index). Later calls find the leaf
 * page without reading. The numbering stays with the environment while the snapshot is the newest.
 *   txn     a read-only transaction of an environment opened with MDB_RDONLY
 *   dbi     a database of it
 *   number  of the record, from 0
 *   key     set to the record's key; or NULL
 *   data    set to the record's value; if NULL, lmdbio reads nothing of the value
 * Collective: no.
 * Threads: as mdb_get(): one thread at a time on a transaction.
 * Lifetime: the pointers are those that mdb_get() returns, valid until the transaction ends.
 * Returns: 0; MDB_NOTFOUND (no record has this number, or the database was dropped); MDB_BAD_DBI
 * (the database was dropped, from LMDB 0.9.33 on); EINVAL (no transaction, no such database);
 * MDB_BAD_TXN; MDB_CORRUPTED, MDB_PAGE_NOTFOUND (a page is not sound, or the database has another
 * number of records than it says); ENOTSUP (the environment is forwarded to the original); ENOMEM;
 * the errno of a read that failed. */
int lmdbio_get_record(MDB_txn *txn, MDB_dbi dbi, uint64_t number, MDB_val *key, MDB_val *data);

/* --- the batch loader ------------------------------------------------------------------------ */

/* Feeds a training program with mini-batches, ahead of need. The order of the records is a pure
 * function of seed, epoch, number of records and policy: the same on every machine and for any
 * number of ranks. See lmdbio-loader(3). */
struct lmdbio_loader;

/* The order of an epoch. */
enum lmdbio_order {
	LMDBIO_ORDER_SEQUENTIAL = 0,   /* the database's order: of n ranks each takes every n-th
					  record; with `shares`: that many runs side by side */
	LMDBIO_ORDER_SHUFFLE = 1,      /* a uniform permutation of all records */
	LMDBIO_ORDER_BLOCK = 2,        /* runs of `block` records in random order, the records of
					  `buffer` runs shuffled together */
	LMDBIO_ORDER_OPPORTUNISTIC = 3 /* `resident` records stay in memory and come at any place;
					  the others as with block */
};

/* How the loader treats a last batch for which there are not enough records. */
enum lmdbio_tail {
	LMDBIO_TAIL_PAD = 0,  /* places without a record: sample.record is LMDBIO_NO_RECORD */
	LMDBIO_TAIL_DROP = 1, /* leaves the batch out, and with it the records in it */
	LMDBIO_TAIL_WRAP = 2  /* fills the batch from the epoch's beginning */
};

#define LMDBIO_NO_RECORD UINT64_MAX

/* One record of a batch. */
struct lmdbio_sample {
	uint64_t record; /* its number, or LMDBIO_NO_RECORD */
	MDB_val key, data;
	int error; /* 0, or why the sample has no data: a code of lmdbio_get_record() or decode */
};

struct lmdbio_batch {
	uint64_t epoch;
	uint64_t number; /* of the global batch in the epoch, from 0 */
	size_t count;    /* samples: this rank's share of the global batch */
	const struct lmdbio_sample *samples;
	void *decoded; /* count times options.decode_size bytes, in the order of samples; or NULL */
};

/* Decodes one sample into `output` (decode_size bytes, zeroes at first). The loader calls it in
 * several threads at once. The function must not take a batch of its loader, begin or restore an
 * epoch, or close the loader: these calls wait for it. Returns 0 or an error of its own, but not
 * MDB_NOTFOUND, which lmdbio_loader_next() returns at the end of an epoch. */
typedef int lmdbio_decode_fn(void *context, const struct lmdbio_sample *sample, void *output);

/* 0 means the default for all fields but size and batch. Later versions add fields at the end. */
struct lmdbio_loader_options {
	uint64_t size; /* bytes; sizeof(struct lmdbio_loader_options) */
	uint64_t seed;
	uint32_t batch;       /* records in a global batch, all ranks together; 1 or more */
	uint32_t ranks, rank; /* ranks that share the batches (0 means 1), and this one, from 0 */
	enum lmdbio_order order;
	enum lmdbio_tail tail;
	uint32_t skip_errors;  /* 1: a record that cannot be read has its error in its sample; 0:
				  lmdbio_loader_next() returns the error instead of the batch */
	uint32_t shares;       /* sequential: runs; at most `batch` */
	uint32_t block;        /* block, opportunistic: records in a run; 0: 1 MiB of them */
	uint32_t buffer;       /* block, opportunistic: runs shuffled together; 0: what half of
				  `memory` holds, or 256 MiB where that is 0 */
	uint64_t resident;     /* opportunistic: records; 0: what half of the memory holds, in a job
				  what its nodes hold together; on ranks of no job what half of
				  `memory` holds, or 256 MiB. The same number on all ranks */
	uint64_t memory;       /* bytes for batches read ahead, decode's output included; 0: most of
				  lmdbio's budget. A smaller database stays in the node's memory,
				  and the loader does not copy it */
	uint32_t ahead;        /* batches read ahead at most; 0: what memory holds */
	uint32_t threads;      /* reads in flight at most; 0: as many as are measured to help */
	uint64_t bandwidth;    /* bytes a second at most from storage; 0: no limit */
	const char *stage_dir; /* an existing directory on a local disk, or NULL. The loader keeps
				  records read from storage there, and reads them there later if
				  that is faster. In a job of several nodes each disk holds the
				  records that the nodes' plan gives it; a node without the
				  directory has no disk */
	uint64_t stage_size;   /* bytes there at most; 0: the free space, less a twentieth */
	lmdbio_decode_fn *decode; /* or NULL */
	void *decode_context;
	size_t decode_size;      /* bytes of output for each sample */
	uint32_t decode_threads; /* 0: as many as there are processors */
};

/* Opens a loader over a database of an environment of its own (open), or of an environment that the
 * program has opened with MDB_RDONLY (attach). The function reads the tree pages to number the
 * records. The loader holds one read transaction.
 *   loader   set to the new loader
 *   path     of the environment: a directory or, with MDB_NOSUBDIR in flags, a file; or a container
 *   flags    for mdb_env_open(); MDB_RDONLY and MDB_NOTLS are added
 *   name     of the database, NULL: the main one
 *   options  copied
 * Collective: no.
 * Threads: any. To attach to an environment that was opened without MDB_NOTLS, the thread must have
 * no read transaction in it, and begin none before the loader is closed (mdb_txn_begin() would
 * return MDB_BAD_RSLOT). The thread must not end before that either: LMDB then gives up its reader
 * slot, and writers take the snapshot's pages.
 * Lifetime: env must stay open until the loader is closed and its batches are given back. As with
 * mdb_env_open(), a process must not open a data set twice with its lock file: attach to the
 * environment that is open, or pass MDB_NOLOCK.
 * Returns: 0; EINVAL (options that make no sense); ENOENT, ENOTDIR (also: stage_dir is no
 * directory, which a line on standard error says); ENOTSUP (the environment is forwarded to the
 * original); ENOMEM; EAGAIN (no thread); a code of mdb_env_open(), mdb_txn_begin(), mdb_dbi_open()
 * or lmdbio_get_record(). */
int lmdbio_loader_open(struct lmdbio_loader **loader, const char *path, unsigned flags,
		       const char *name, const struct lmdbio_loader_options *options);
int lmdbio_loader_attach(struct lmdbio_loader **loader, MDB_env *env, const char *name,
			 const struct lmdbio_loader_options *options);

/* Begins an epoch at its first batch. The loader drops batches of another epoch that it has read
 * ahead; batches that the program has not given back stay valid. While the program uses the last
 * batches of an epoch, the loader already reads the first batches of the next.
 * Collective: no (ranks need not wait for one another). Threads: any; if several begin or restore
 * an epoch at once, the calls run one after the other, and the last one holds. Lifetime: nothing is
 * handed out. Returns: 0; EINVAL (`epoch` is not below 2^48); ECANCELED (the loader is being
 * closed); ECHILD (in a forked child). */
int lmdbio_loader_epoch(struct lmdbio_loader *loader, uint64_t epoch);

/* Return the number of batches in an epoch, the same on all ranks, and of records in the database.
 * Collective: no. Threads: any. Lifetime: nothing is handed out. Returns: the number; 0 if the
 * loader is closed, and in a forked child. */
uint64_t lmdbio_loader_batches(struct lmdbio_loader *loader);
uint64_t lmdbio_loader_records(struct lmdbio_loader *loader);

/* Takes the next batch of the epoch, and waits until it has come. The program may hold several
 * batches at once, and several threads may call this: each gets another batch.
 * Collective: no.
 * Threads: any.
 * Lifetime: the batch and all it points to are valid until lmdbio_batch_done(), also while the
 * program takes other batches, when another epoch begins, and when the loader is closed. The
 * program may write only to `decoded`.
 * Returns: 0; MDB_NOTFOUND (the epoch has ended); EINVAL (no epoch has begun); ECANCELED (the
 * loader is being closed, or another epoch begins); ECHILD; ENOMEM (not even one batch can be made:
 * the next call tries again); without skip_errors, the first error of the batch's samples, which
 * may be ENOMEM as well: the next call goes on with the batch behind that one.
 * lmdbio_loader_save() shows which of the two an ENOMEM was.
 * The function never waits for memory that only the caller could give back.
 *
 * lmdbio_loader_next_within() waits `ns` nanoseconds for the batch, and then returns ETIMEDOUT; the
 * next call waits for the same batch. So a program can look at its signals meanwhile. It may take
 * longer: a sample that lacked memory when it was read ahead is read within the call. */
int lmdbio_loader_next(struct lmdbio_loader *loader, struct lmdbio_batch **batch);
int lmdbio_loader_next_within(struct lmdbio_loader *loader, uint64_t ns,
			      struct lmdbio_batch **batch);

/* Gives a batch back. Collective: no. Threads: any, not only the thread that took the batch.
 * Lifetime: the batch is gone. Returns: nothing. NULL is ignored. */
void lmdbio_batch_done(struct lmdbio_batch *batch);

enum { LMDBIO_LOADER_STATE = 64 }; /* bytes */

/* Save and restore a place in the order: the batch that lmdbio_loader_next() would take next. A
 * loader of the same records can restore it on any number of ranks; order, seed and batch size are
 * then the saved ones.
 * Collective: no. Threads: any. Lifetime: the bytes are the caller's, and the same on all machines.
 * Returns: 0; EINVAL (save: no epoch has begun; restore: not a state, or a state of other records);
 * ECANCELED; ECHILD. */
int lmdbio_loader_save(struct lmdbio_loader *loader, uint8_t state[LMDBIO_LOADER_STATE]);
int lmdbio_loader_restore(struct lmdbio_loader *loader, const uint8_t state[LMDBIO_LOADER_STATE]);

/* Keeps the loader quiet around a collective of the program's own. Between begin (not 0) and end
 * (0) the loader starts no read, unless a consumer waits for a batch, or another rank of the job
 * waits for a record that this rank must read. Pairs nest.
 * Collective: no. Threads: any. Lifetime: nothing is handed out. Returns: nothing. */
void lmdbio_loader_quiet(struct lmdbio_loader *loader, int begin);

enum { LMDBIO_STALLS = 24 };

/* The counters of a loader. Later versions add fields at the end. */
struct lmdbio_loader_stats {
	uint64_t size;    /* bytes; set to sizeof(struct lmdbio_loader_stats) before the call */
	uint64_t batches; /* taken since the loader was opened */
	uint64_t samples; /* in these batches */
	uint64_t errors;  /* samples that could not be read or decoded */
	uint64_t stalls[LMDBIO_STALLS]; /* batches by how long next() waited: [0] less than 1 us,
					   [i] from 2^(i-1) us on; the last one: longer as well */
	uint64_t stall_ns;      /* nanoseconds waited in this epoch, all threads together */
	uint64_t epoch_ns;      /* nanoseconds since the epoch began, or that it took */
	uint64_t memory_bytes;  /* samples' bytes that were in the node's memory */
	uint64_t stage_bytes;   /* from the local disk */
	uint64_t peer_bytes;    /* from other nodes, their memory or disks */
	uint64_t file_bytes;    /* from storage */
	uint64_t storage_bytes; /* bytes that this process asked of storage in this epoch */
	uint64_t staged_bytes;  /* written to the local disk by this process */
	uint64_t stage_state;   /* 0: no disk, or in use; 1: the disk is full; 2: it has failed */
	uint64_t held_bytes;    /* of batches read ahead or not given back, at this moment */
	uint64_t reads_at_once; /* the number of reads in flight that helped */
	uint64_t peer_state;    /* 0: the loader does not ask other nodes; 1: it asks them; 2: it
				   has asked some in vain, and has read storage instead */
	uint64_t peer_records;  /* records that the nodes of the job keep in memory or on disk, by
				   their plan */
};

/* Copies the counters of a loader, as lmdbio_stats() copies those of the process.
 * Collective: no. Threads: any. Lifetime: stats is the caller's. Returns: 0; EINVAL; ECANCELED;
 * ECHILD. */
int lmdbio_loader_stats(struct lmdbio_loader *loader, struct lmdbio_loader_stats *stats);

/* Answers in one line of text whether I/O is the bottleneck; cuts the line to `size` bytes.
 * Collective: no. Threads: any. Lifetime: line is the caller's. Returns: the bytes of the whole
 * line; 0, and an empty line, if the loader is closed, and in a forked child. */
size_t lmdbio_loader_verdict(struct lmdbio_loader *loader, char *line, size_t size);

/* How good an order is. */
struct lmdbio_quality {
	uint64_t size;     /* bytes; set to sizeof(struct lmdbio_quality) before the call */
	double positions;  /* after DeepIO's randomization level: how freely the record at each
			      place is chosen, relative to a full shuffle; 0 to 1 */
	double labels;     /* mean entropy of the labels in a batch, relative to a full shuffle's: 1
			      is as good. Data sorted by class mislead `positions`, not `labels` */
	double worst;      /* the same of the worst batch */
	uint64_t distinct; /* labels */
};

/* Computes the quality of an epoch's order. A record's label is the `bytes` bytes of its key from
 * byte `from` on. The function reads only tree pages, and looks at every key.
 * Collective: no. Threads: any. Lifetime: quality is the caller's.
 * Returns: 0; EINVAL; ECANCELED; ECHILD; ENOMEM; as lmdbio_get_record(). */
int lmdbio_loader_quality(struct lmdbio_loader *loader, uint64_t epoch, size_t from, size_t bytes,
			  struct lmdbio_quality *quality);

/* Closes a loader at any time: calls that wait return. Batches that the program holds, and the
 * environment that the loader has opened, stay valid until the last batch is given back.
 * Collective: no.
 * Threads: any; calls of other threads that wait or come later return ECANCELED (until another
 * loader is opened, which may have the same address).
 * Lifetime: the loader is gone.
 * Returns: nothing. NULL is ignored. */
void lmdbio_loader_close(struct lmdbio_loader *loader);

/* --- statistics ------------------------------------------------------------------------------ */

/* The counters of lmdbio in this process since it was loaded; in a forked child, since the fork.
 * Later versions add fields at the end. */
struct lmdbio_stats {
	uint64_t size;		    /* bytes; set to sizeof(struct lmdbio_stats) before the call */
	uint64_t storage_requests;  /* requests: reads that lmdbio asked of storage */
	uint64_t storage_bytes;	    /* bytes: their length; of a container, of the data in it */
	uint64_t served_bytes;	    /* bytes: values handed out by transactions that have ended */
	uint64_t waits;		    /* calls that had to wait for bytes; not page faults */
	uint64_t wait_ns;           /* nanoseconds that these calls waited */
	uint64_t hits_cache;	    /* extents that were in the page cache, and left to it */
	uint64_t hits_arena_own;    /* extents in the arena that this process has loaded */
	uint64_t hits_arena_peer;   /* extents in the arena that another process had loaded */
	uint64_t at_rest;	    /* extents read through the file mapping as it was */
	uint64_t evictions;	    /* extents given back to stay within the memory budget */
	uint64_t populate_calls;    /* calls: batches of page-table entries made */
	uint64_t prefetch_requests; /* requests, of storage_requests, made ahead of need */
	uint64_t prefetch_bytes;    /* bytes, of storage_bytes, asked for ahead of need */
	uint64_t prefetch_used;     /* bytes, of prefetch_bytes, that the program then read */
	uint64_t streams_started;   /* look-aheads begun */
	uint64_t streams_broken;    /* look-aheads that ended because the program went elsewhere */
	uint64_t fallbacks;	    /* times a slower way was taken because the better one failed */
	uint64_t huge_bytes;	    /* bytes, of prefetch_bytes, read straight into huge pages */
	uint64_t loader_memory_bytes; /* bytes of batch loaders' samples that were in memory */
	uint64_t loader_stage_bytes;  /* bytes of them from the local disk */
	uint64_t loader_peer_bytes;   /* bytes of them from other nodes */
	uint64_t loader_file_bytes;   /* bytes of them from storage */
	uint64_t container_chunks;    /* chunks of containers decompressed */
};

/* Copies the counters. The function reads them one after another while other threads go on
 * counting, so two of them need not be of the same moment.
 *   stats  stats->size says how many bytes the caller has. The function fills at most so many, and
 *          sets stats->size to the number of bytes that it has filled, so that a program learns
 *          which fields this library knows
 * Collective: no.
 * Threads: any.
 * Lifetime: stats is the caller's.
 * Returns: 0; EINVAL (stats is NULL, or its size is less than that of the field `size`). */
int lmdbio_stats(struct lmdbio_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
