/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the files of the batch loader share.
 *
 * Three kinds of threads work on a record. The planner's thread computes which records come next, a
 * round of batches at a time, finds their places and cuts them into pieces in the order of the
 * file. Reading threads take piece after piece and fill samples. Decoding threads take whole
 * batches as they become complete. Consumers take batches in the order of the epoch. */
#ifndef LMDBIO_LOADER_PRIVATE_H
#define LMDBIO_LOADER_PRIVATE_H

#include "ahead/reads.h"
#include "env/env.h"
#include "index/record_index.h"
#include "loader/batch_loader.h"
#include "util/thread.h"

#include <pthread.h>
#include <stdatomic.h>

enum { LOADER_THREADS = 32 };

struct batch;

/* One record on its way. */
struct work {
	struct batch *batch;
	uint32_t slot;
	struct index_place place;
	uint64_t offset, length; /* in the file, what must be there; length 0: not known */
	struct tier *tier;
};

/* Neighbours in the file; or, without works, pages that the planner waits for. */
struct piece {
	struct piece *next;
	uint64_t round;
	uint64_t bytes;     /* of memory that its samples will take */
	struct extent read; /* the extent, if it is pages */
	bool whole;         /* in the end all of the chunk is wanted */
	bool again;         /* there was no memory for its samples once */
	size_t n;
	struct work **works;
};

enum loader_life { LIFE_NONE, LIFE_CHANGING, LIFE_RUNNING };

enum batch_state { BATCH_COMING, BATCH_DECODING, BATCH_READY };

struct batch {
	struct lmdbio_batch shown; /* first: a batch's address is that of `shown` */
	struct lmdbio_loader *loader;
	struct batch *next;
	enum batch_state state;
	uint64_t round;
	size_t missing;        /* samples that have not come */
	size_t taken, decoded; /* samples that decoding threads have taken; have finished */
	uint64_t held;         /* bytes */
	struct lmdbio_sample *samples;
	void **memory; /* each sample's own, or NULL */
	struct work *works;
};

/* Batches that the planner makes, and what has to be read for them. */
struct batch_plan {
	struct batch *first, **last;
	size_t batches, samples, n;
	struct work **works; /* for records that are to be read */
	uint64_t round;
	uint64_t memory_bytes; /* of records that need not be read */
};

/* The way of a sweep through a file that is larger than memory: loader_sweep.c. */
enum { SWEEP_SECTORS = 16 };
struct sweep {
	unsigned sectors; /* that the file is cut into; 0: the loader reads in rounds */
	unsigned at;      /* the sector that is read next */
	uint64_t window;  /* samples between the one used next and the last one planned */
	struct sweep_sector {
		struct work **works; /* that stand in the sector and are not asked for yet */
		size_t n, room;
	} sector[SWEEP_SECTORS];
};

/* Large blocks that no batch has now. */
enum { SAMPLE_BLOCKS = 256, SAMPLE_LARGE = 64 << 10 /* bytes */ };
struct sample_memory {
	pthread_mutex_t lock; /* taken after the loader lock */
	unsigned count;
	uint64_t bytes;
	void *blocks[SAMPLE_BLOCKS]; /* in the order in which they were given back */
};

/* The data that the loader reads, from its opening on. */
struct loader_data {
	MDB_env *env;
	bool own_env;
	MDB_txn *txn;
	struct tree tree;
	struct record_index *index;
	struct page_shelf *shelf; /* in a job: what the numbering has read; else NULL */
	uint64_t bytes;           /* of the database, as far as its record tells */
	bool whole;               /* the file is hardly more than the database */
	bool leaves_first;        /* values stand apart from the leaves */
};

/* For a rank of a job; otherwise zeroes. */
struct loader_job {
	unsigned sharers;   /* ranks on this node, which keep records for all */
	uint64_t keep_room; /* bytes that the sharers have to keep records */
	uint64_t lent;      /* bytes of the disk that the sharers' shelves give back */
};

/* The memory that batches take. `most`, `outputs` and `copies` are fixed when the threads begin. */
struct loader_memory {
	uint64_t most;
	uint64_t outputs; /* samples whose decoded bytes there is memory for, beside `most` */
	bool copies;      /* samples are copied out of the window, because not all fits */
	uint64_t held;
	uint64_t decoded; /* bytes that decoders write, of batches ahead and out; not in `held` */
	uint64_t lacking; /* bytes held when memory was short last; 0: it was not */
	uint64_t copied_bytes, copied_samples; /* so far */
	struct sample_memory blocks;           /* has its own lock */
};

/* The epoch that consumers take. */
struct loader_epoch {
	uint64_t number, next; /* `next`: the batch that consumers take next */
	uint64_t began, ended, storage_before;
};

/* What the planner has planned, and where it goes on. */
struct loader_plan {
	uint64_t epoch, next; /* the batch that is planned next */
	uint64_t most;        /* batches of a round while memory is short; 0: as many as suit */
	uint64_t round, round_samples;
	struct sweep sweep;
	bool busy;
	bool out_of_memory; /* not even one batch could be planned: the next call tries again */
};

struct loader_takers {
	unsigned waiting;      /* of this generation: each has a claim to one batch */
	unsigned waiting_most; /* of this epoch */
	uint64_t waited_round; /* a taker waits for a batch of it: memory is no reason to wait */
	uint64_t gave_up_ns;   /* waits that ended without a batch, since one was last taken */
	bool shrinking;        /* the loader changes for a taker that lacks memory, and runs on */
};

/* Batches that are planned and not taken, in order. */
struct loader_ahead {
	struct batch *first, **last;
	uint64_t samples, batches;
};

/* What the readers do: pieces, and runs for tiers. `past`, `most` and `runs_most` are fixed when
 * the threads begin. */
struct loader_reads {
	struct piece *first, **last;
	unsigned pages_left;         /* pieces of pages that the planner waits for */
	unsigned busy;               /* readers with a piece */
	struct depth depth;          /* of readers at work, at most */
	unsigned running, runs_most; /* runs at once */
	unsigned quiet;              /* callers that want no reads */
	uint64_t free_at;            /* nanoseconds: when the bandwidth allows the next read */
	uint64_t most;               /* bytes of neighbours that come with one read */
	bool past;                   /* values are read past the arena when it is full */
};

struct lmdbio_loader {
	struct lmdbio_loader *live; /* the next in the list of open loaders */
	/* Fixed when the threads begin: */
	struct loader_data data;
	struct loader_job job;
	struct lmdbio_loader_options options;
	unsigned processes; /* fork_generation: a forked child has only the memory of it */
	struct tiers tiers;

	pthread_mutex_t lock; /* the loader lock, for all below */
	pthread_cond_t ready; /* for consumers: a batch has become ready, or none will */
	pthread_cond_t turn;  /* for runs: another run has ended, or may begin */
	pthread_cond_t still; /* for changers: threads pause, or another change has ended */
	struct crew planner;  /* woken when batches were used up, or its pages have come */
	struct crew readers;  /* ... when there is a piece, or memory for one */
	struct crew decoders; /* ... when a batch is complete */
	struct order order;
	unsigned references; /* the handle, batches that consumers have, calls that wait */
	bool closing;
	enum loader_life life; /* of an epoch: loader_epoch.c */
	unsigned generation;   /* of plans and claims: changes when another epoch begins */
	unsigned decoding;
	struct loader_memory memory;
	struct loader_epoch epoch;
	struct loader_plan plan;
	struct loader_takers takers;
	struct loader_ahead ahead;
	struct loader_reads reads;
	struct lmdbio_loader_stats stats;
};

/* loader_epoch.c */
/* Frees all batches that are not taken. No thread may use any of them. Under the loader lock. */
void batches_drop(struct lmdbio_loader *loader);
/* ahead_drop() drops what is read ahead, for its memory, if no other taker waits for it. The epoch
 * then stands still until epoch_run_on(). Returns false if there is nothing to drop, or the loader
 * is being closed. Both under the loader lock, which ahead_drop() releases meanwhile. */
bool ahead_drop(struct lmdbio_loader *loader);
void epoch_run_on(struct lmdbio_loader *loader);

/* loader_window.c: the planner's thread. */
extern const struct crew_work planner_work;
/* Notes the result of planning `batches`: after a failure the planner tries fewer, or waits for a
 * call. Under the loader lock. */
void plan_went(struct lmdbio_loader *loader, uint64_t batches, int rc);
/* Makes `batches` batches from *number of *epoch on, also over the end of the epoch, but not over
 * that of the next epoch. Moves *epoch and *number behind them. Returns 0 or ENOMEM. */
int plan_batches(struct lmdbio_loader *loader, struct batch_plan *plan, uint64_t batches,
		 uint64_t *epoch, uint64_t *number);
/* Makes a plan's batches known, and asks for their records. Under the loader lock. */
void plan_publish(struct lmdbio_loader *loader, struct batch_plan *plan, struct piece *pieces);
/* Frees a plan's batches, and tells the tiers that its works are not read. */
void plan_drop(struct batch_plan *plan);

/* loader_pieces.c */
/* Returns the bytes that a record takes in the file, on average. */
uint64_t record_bytes(const struct lmdbio_loader *loader);
/* Finds where works stand: offset and length, or their samples' errors. It may have pages read, and
 * waits for them. Puts the works with an error behind the others, and returns how many are in front
 * of them. */
size_t works_locate(struct lmdbio_loader *loader, struct batch_plan *plan);
/* Sorts works by their place, and cuts them into pieces. *cut: how many works, from the first on,
 * are in pieces; fewer than all when memory is short. */
struct piece *works_cut(struct lmdbio_loader *loader, struct batch_plan *plan, size_t *cut);
/* Reverses a list of pieces. In a database larger than memory every other round goes backward
 * through the file, because what was read last may still be in memory. */
struct piece *pieces_turned(struct piece *pieces);
void pieces_free(struct piece *pieces);

/* loader_sweep.c. All under the loader lock. */
/* Whether sweeps take the place of rounds from now on. */
bool sweep_begin(struct lmdbio_loader *loader);
bool sweep_has_room(const struct lmdbio_loader *loader);
/* Plans some batches, and asks for the records wanted of the next sector. Releases the loader lock
 * meanwhile. */
void sweep_step(struct lmdbio_loader *loader);
/* Forgets all works, before their batches go. */
void sweep_drop(struct lmdbio_loader *loader);

/* loader_fetch.c */
extern const struct crew_work reader_work;
/* Hands a list of pieces to the readers. Under the loader lock. */
void pieces_put(struct lmdbio_loader *loader, struct piece *pieces);
/* The same, in front of the other pieces. */
void pieces_put_first(struct lmdbio_loader *loader, struct piece *pieces);
/* Frees pieces that no reader has begun. Under the loader lock. */
void pieces_drop(struct lmdbio_loader *loader);
/* Brings a range of the file. *ns: how long that took. Returns 0 or as store_bring(). */
int loader_bring(struct lmdbio_loader *loader, const struct snapshot *snapshot, uint64_t from,
		 uint64_t end, uint64_t *ns);
/* Notes how long a read of `bytes` bytes took. */
void loader_note(struct lmdbio_loader *loader, uint64_t bytes, uint64_t ns);
/* Returns gap_bytes() for what the loader reads now. Under the loader lock. */
uint64_t loader_gap(const struct lmdbio_loader *loader);
/* Returns a view of the loader's snapshot for one thread. */
struct snapshot loader_view(const struct lmdbio_loader *loader);
/* Gives a sample of a batch its record, whose pointers stay. */
void sample_fill(struct work *work, const struct tier_record *record);
/* Fills a sample from bytes that were read past the window, if its value is in them (`direct` may
 * be NULL). Otherwise fills it from the window, whose bytes are there or are brought one by one.
 * Returns the bytes of its value, or 0 with its error. */
struct direct_bytes;
uint64_t sample_take(struct lmdbio_loader *loader, struct snapshot *snapshot,
		     struct direct_bytes *direct, struct work *work, enum tier_source source);

/* loader_memory.c: malloc'ed memory for a sample, page-aligned if it is large. */
void *sample_memory_new(struct lmdbio_loader *loader, size_t size);
/* Returns the bytes that a sample of `size` bytes takes there, or in other malloc'ed memory. */
uint64_t sample_memory_size(void *block, uint64_t size);
/* `size` more bytes are held, which were none of the spare blocks. Frees spare blocks that have no
 * room beside the held bytes, up to `size` bytes. Under the loader lock. */
void sample_memory_fit(struct lmdbio_loader *loader, uint64_t size);
/* Frees a block of a batch that no longer counts as held. Under the loader lock. */
void sample_memory_free(struct lmdbio_loader *loader, void *block);
/* Frees all blocks that no batch has. */
void sample_memory_give_up(struct lmdbio_loader *loader);
void sample_memory_end(struct lmdbio_loader *loader);

/* loader_memory.c: bytes of the data file in memory of the loader's own. */
struct direct_bytes {
	uint8_t *memory; /* NULL: they are not in such memory */
	uint64_t from;
	size_t length;
	bool alone; /* one value alone, whose sample may have the memory */
};
/* Reads [from, end), where values stand apart from their leaves, past the window. `alone`: it is
 * one value. Returns false if the caller must bring it to the window; then *direct is empty. */
bool direct_read(struct lmdbio_loader *loader, uint64_t from, uint64_t end, bool alone,
		 struct direct_bytes *direct, uint64_t *ns);
/* Finds a record whose leaf is in the window, or where `leaves` looks. Returns false if its value
 * is not in that memory. */
bool direct_get(const struct lmdbio_loader *loader, const struct direct_bytes *direct,
		struct snapshot *leaves, const struct index_place *place, MDB_val *key,
		MDB_val *data);
/* Makes a value's own memory its sample's, with the key behind the value. */
void direct_give(struct direct_bytes *direct, struct tier_record *record);
void direct_end(struct lmdbio_loader *loader, struct direct_bytes *direct);

/* loader_shelf.c */
/* Gives the shelf a part of the local disk, if there is one. Before records are numbered. */
void loader_shelf_extend(struct lmdbio_loader *loader);
/* Whether the leaf of a record is on the shelf, with all that it takes to read the record. */
bool shelf_bring_place(const struct lmdbio_loader *loader, const struct index_place *place);

/* loader_decode.c */
extern const struct crew_work decoder_work;
/* Decodes one sample of a batch, if it has come. */
void sample_decode(const struct lmdbio_loader *loader, struct batch *batch, size_t i);
/* Notes that some samples of a batch have come, or that it has none. Under the loader lock. */
void batch_came(struct lmdbio_loader *loader, struct batch *batch, size_t samples);

/* loader_next.c */
void batch_free(struct batch *batch);
/* Drops one reference, under the loader lock, which it releases. */
void loader_release(struct lmdbio_loader *loader);

/* loader_open.c */
void loader_free(struct lmdbio_loader *loader);

/* loader_open.c: the list of open loaders. It answers a call with a loader that has been closed
 * meanwhile. Enlisting cannot fail. loader_enter() returns NULL if the loader is gone, and the call
 * then returns loader_gone(): ECANCELED, or ECHILD in a forked child. */
void loader_enlist(struct lmdbio_loader *loader);
/* Returns whether the loader was in the list. */
bool loader_delist(struct lmdbio_loader *loader);
struct lmdbio_loader *loader_enter(struct lmdbio_loader *loader);
void loader_leave(struct lmdbio_loader *loader);
int loader_gone(void);

/* Returns the bytes that batches may take together, as far as is known. Under the loader lock. */
static inline uint64_t memory_most(const struct lmdbio_loader *loader)
{
	return loader->memory.lacking && loader->memory.lacking < loader->memory.most
		       ? loader->memory.lacking
		       : loader->memory.most;
}

/* Returns the bytes that decoders make of `samples` samples. */
static inline uint64_t decoded_bytes(const struct lmdbio_loader *loader, uint64_t samples)
{
	return loader->options.decode ? samples * loader->options.decode_size : 0;
}

static inline bool loader_is_here(const struct lmdbio_loader *loader)
{
	return loader->processes == fork_generation;
}

#endif
