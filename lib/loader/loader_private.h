/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares what the files of the batch loader share.
 *
 * A record goes through three hands. The planner's thread computes which records come next, a round
 * of batches at a time, finds their places and cuts them into pieces in the order of the file.
 * Reading threads take piece after piece and fill samples. Threads that decode take whole batches
 * as they become complete. Consumers take batches in the order of the epoch.
 */
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

/* Neighbours in the file; or, without works, pages to be brought for the planner. */
struct piece {
	struct piece *next;
	uint64_t round;
	uint64_t bytes;     /* of memory that its samples will take */
	struct extent read; /* pages: where */
	bool whole;         /* all of the chunk is wanted in the end */
	bool again;         /* there was no memory for its samples once */
	size_t n;
	struct work **works;
};

enum loader_life { LIFE_NONE, LIFE_CHANGING, LIFE_RUNNING };

enum batch_state { BATCH_COMING, BATCH_DECODING, BATCH_READY };

struct batch {
	struct lmdbio_batch shown; /* first: a batch that is shown is its batch */
	struct lmdbio_loader *loader;
	struct batch *next;
	enum batch_state state;
	uint64_t round;
	size_t missing;        /* samples that have not come */
	size_t taken, decoded; /* samples given to threads that decode; finished by them */
	uint64_t held;         /* bytes */
	struct lmdbio_sample *samples;
	void **memory; /* each sample's own, or NULL */
	struct work *works;
};

/* Batches that the planner makes, and what has to be read for them. */
struct batch_plan {
	struct batch *first, **last;
	size_t batches, samples, n;
	struct work **works; /* of records that are to be read */
	uint64_t round;
	uint64_t memory_bytes; /* that need not be read */
};

/* The way through a file that is larger than memory: loader_sweep.c. */
enum { SWEEP_SECTORS = 16 };
struct sweep {
	unsigned sectors; /* that the file is cut into; 0: it is read in rounds */
	unsigned at;      /* the one that is read next */
	uint64_t window;  /* samples between the one used next and the last one planned */
	struct sweep_sector {
		struct work **works; /* that stand there and are not asked for yet */
		size_t n, room;
	} sector[SWEEP_SECTORS];
};

/* Large blocks that no batch has now. */
enum { SAMPLE_BLOCKS = 256, SAMPLE_LARGE = 64 << 10 /* bytes */ };
struct sample_memory {
	pthread_mutex_t lock; /* after the loader's */
	unsigned count;
	uint64_t bytes;
	void *blocks[SAMPLE_BLOCKS]; /* the one given back last is the last */
};

/* What is read, from the loader's opening on. */
struct loader_data {
	MDB_env *env;
	bool own_env;
	MDB_txn *txn;
	struct tree tree;
	struct record_index *index;
	struct page_shelf *shelf; /* of a job's rank: what the numbering has read; or NULL */
	uint64_t bytes;           /* of the database, as far as its record tells */
	bool whole;               /* the file is hardly more than the database */
	bool leaves_first;        /* values stand apart from the leaves */
};

/* Of a rank of a job; else zeroes. */
struct loader_job {
	unsigned sharers;   /* ranks on this node, which keep records for all */
	uint64_t keep_room; /* bytes that they have for that */
	uint64_t lent;      /* bytes of the disk that the sharers' shelves give back */
};

/* What batches take. `most`, `outputs` and `copies` are fixed when the threads begin. */
struct loader_memory {
	uint64_t most;
	uint64_t outputs; /* samples whose decoded bytes there is memory for, beside `most` */
	bool copies; /* samples are copied out of the window, because all does not fit */
	uint64_t held;
	uint64_t decoded; /* bytes that decoders write, of batches ahead and out; not in `held` */
	uint64_t lacking; /* bytes held when there was no memory for more; 0: there was */
	uint64_t copied_bytes, copied_samples; /* so far */
	struct sample_memory blocks;           /* has its own lock */
};

/* The epoch that is taken. */
struct loader_epoch {
	uint64_t number, next; /* `next`: the batch that consumers take next */
	uint64_t began, ended, storage_before;
};

/* What the planner has planned, and how it goes on. */
struct loader_plan {
	uint64_t epoch, next; /* the batch that is planned next */
	uint64_t most;        /* batches, as memory is short; 0: as many as suit */
	uint64_t round, round_samples;
	struct sweep sweep;
	bool busy;
	bool out_of_memory; /* not even one batch could be planned: the next call tries again */
};

struct loader_takers {
	unsigned waiting;      /* of this generation: each has a claim to one batch */
	unsigned waiting_most; /* of this epoch */
	uint64_t waited_round; /* one waits for a batch of it: memory is no reason to wait */
	bool shrinking;        /* the loader changes for one that lacks memory, and runs on */
};

/* Batches that are planned and not taken, in order. */
struct loader_ahead {
	struct batch *first, **last;
	uint64_t samples, batches;
};

/* What the readers do: pieces, and for tiers runs. `past`, `most` and `runs_most` are fixed when
 * the threads begin. */
struct loader_reads {
	struct piece *first, **last;
	unsigned pages_left;         /* pieces of pages that the planner waits for */
	unsigned busy;               /* readers with a piece */
	struct depth depth;          /* of them, at most */
	unsigned running, runs_most; /* runs at once */
	unsigned quiet;              /* callers that want nothing to be read */
	uint64_t free_at;            /* nanoseconds: when the bandwidth allows the next read */
	uint64_t most;               /* bytes of neighbours that come with one read */
	bool past;                   /* values are read past the arena when it is full */
};

struct lmdbio_loader {
	struct lmdbio_loader *live; /* the next one in the list of all */
	/* Fixed when the threads begin: */
	struct loader_data data;
	struct loader_job job;
	struct lmdbio_loader_options options;
	unsigned processes; /* fork_generation: in a child there is nothing but the memory */
	struct tiers tiers;

	pthread_mutex_t lock; /* of all below */
	pthread_cond_t ready; /* consumers: a batch has become ready, or nothing will */
	pthread_cond_t turn;  /* runs for a tier: another one has ended, or may begin */
	pthread_cond_t still; /* changers: threads pause, or another change has ended */
	struct crew planner;  /* woken when something was used up, or its pages have come */
	struct crew readers;  /* ... when there is a piece, or memory for one */
	struct crew decoders; /* ... when a batch is complete */
	struct order order;
	unsigned references; /* the handle, batches that are out, calls that wait */
	bool closing;
	enum loader_life life; /* of an epoch: loader_epoch.c */
	unsigned generation;   /* of plans and claims: another epoch has begun */
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
/* Frees all batches that are not taken. No thread may hold one. Under the loader lock. */
void batches_drop(struct lmdbio_loader *loader);
/* Drops what is read ahead, for the memory, if no other taker waits for it: the epoch then stands
 * still until epoch_run_on(). Under the loader lock, which the first releases. false: there
 * is nothing to drop, or the loader is being closed. */
bool ahead_drop(struct lmdbio_loader *loader);
void epoch_run_on(struct lmdbio_loader *loader);

/* loader_window.c: the planner's thread. */
extern const struct crew_work planner_work;
/* What becomes of planning so many batches: fewer are tried next, or it waits for a call. Under
 * the loader lock. */
void plan_went(struct lmdbio_loader *loader, uint64_t batches, int rc);
/* Makes so many batches from one on, also over the end of its epoch, but not over the one after it.
 * Moves *epoch and *number behind them. Returns 0 or ENOMEM. */
int plan_batches(struct lmdbio_loader *loader, struct batch_plan *plan, uint64_t batches,
		 uint64_t *epoch, uint64_t *number);
/* Makes a plan's batches known, and asks for their records. Under the loader lock. */
void plan_publish(struct lmdbio_loader *loader, struct batch_plan *plan, struct piece *pieces);
/* Frees a plan's batches, and lets go of its works. */
void plan_drop(struct batch_plan *plan);

/* loader_pieces.c */
/* Bytes that a record takes in the file, on average. */
uint64_t record_bytes(const struct lmdbio_loader *loader);
/* Finds where works stand: offset and length, or their samples' errors. It may have pages read, and
 * waits for them. */
void works_locate(struct lmdbio_loader *loader, struct batch_plan *plan);
/* Sorts works by their place, and cuts them into pieces. *cut: how many works are in them, those in
 * front; fewer than all when memory is short. */
struct piece *works_cut(struct lmdbio_loader *loader, struct batch_plan *plan, size_t *cut);
/* The last pieces first: in a database larger than memory every other round goes backward through
 * the file, because what was read last may still be there. */
struct piece *pieces_turned(struct piece *pieces);
void pieces_free(struct piece *pieces);

/* loader_sweep.c. All under the loader lock. */
/* Whether sweeps take the rounds' place from now on. */
bool sweep_begin(struct lmdbio_loader *loader);
bool sweep_has_room(const struct lmdbio_loader *loader);
/* Plans some batches, and asks for what is wanted of the next sector. Releases the
 * loader lock meanwhile. */
void sweep_step(struct lmdbio_loader *loader);
/* Forgets all works, before their batches go. */
void sweep_drop(struct lmdbio_loader *loader);

/* loader_fetch.c */
extern const struct crew_work reader_work;
/* Hands a list of pieces to the readers. Under the loader lock. */
void pieces_put(struct lmdbio_loader *loader, struct piece *pieces);
/* The same, but they come first. */
void pieces_put_first(struct lmdbio_loader *loader, struct piece *pieces);
/* Frees pieces that no reader has begun. Under the loader lock. */
void pieces_drop(struct lmdbio_loader *loader);
/* Brings a range of the file, *ns: how long that took. Returns 0 or as store_bring(). */
int loader_bring(struct lmdbio_loader *loader, const struct snapshot *snapshot, uint64_t from,
		 uint64_t end, uint64_t *ns);
/* Tells how long a read of so many bytes took. */
void loader_note(struct lmdbio_loader *loader, uint64_t bytes, uint64_t ns);
/* gap_bytes() of what the loader reads now. Under the loader lock. */
uint64_t loader_gap(const struct lmdbio_loader *loader);
/* A view of the loader's snapshot for one thread. */
struct snapshot loader_view(const struct lmdbio_loader *loader);
/* A sample of a batch has come: pointers that stay. */
void sample_fill(struct work *work, const struct tier_record *record);
/* Fills a sample out of what was read past the window, if that is its place (`direct` may be NULL);
 * or out of the window, where its bytes are, or are brought one by one. Returns the bytes of its
 * value, or 0 with its error. */
struct direct_bytes;
uint64_t sample_take(struct lmdbio_loader *loader, struct snapshot *snapshot,
		     struct direct_bytes *direct, struct work *work, enum tier_source source);

/* loader_memory.c: malloc'ed memory for a sample, page-aligned if it is large. */
void *sample_memory_new(struct lmdbio_loader *loader, size_t size);
/* What a sample of so many bytes takes there, or in other malloc'ed memory. */
uint64_t sample_memory_size(void *block, uint64_t size);
/* So many bytes more are held that were none of these blocks: as many of them go for which there
 * is no room beside what is held. Under the loader lock. */
void sample_memory_fit(struct lmdbio_loader *loader, uint64_t size);
/* Of a batch that the loader does not count as held any more. Under the loader lock. */
void sample_memory_free(struct lmdbio_loader *loader, void *block);
/* Frees all blocks that no batch has. */
void sample_memory_give_up(struct lmdbio_loader *loader);
void sample_memory_end(struct lmdbio_loader *loader);

/* The same file: bytes of the file in memory of the loader's own. */
struct direct_bytes {
	uint8_t *memory; /* NULL: they are not */
	uint64_t from;
	size_t length;
	bool alone; /* they are one value's, whose sample may have the memory */
};
/* Reads [from, end), where values stand apart from their leaves, past the window; `alone`: one
 * value. false: it is to be brought there; then *direct is empty. */
bool direct_read(struct lmdbio_loader *loader, uint64_t from, uint64_t end, bool alone,
		 struct direct_bytes *direct, uint64_t *ns);
/* Where a record is, its leaf in the window, or wherever `leaves` looks. false: its value is not in
 * that memory. */
bool direct_get(const struct lmdbio_loader *loader, const struct direct_bytes *direct,
		struct snapshot *leaves, const struct index_place *place, MDB_val *key,
		MDB_val *data);
/* Makes a value's own memory its sample's, with the key behind it. */
void direct_give(struct direct_bytes *direct, struct tier_record *record);
void direct_end(struct lmdbio_loader *loader, struct direct_bytes *direct);

/* loader_shelf.c */
/* Lets the shelf have a part of the local disk, if there is one. Before records are numbered. */
void loader_shelf_extend(struct lmdbio_loader *loader);
/* Whether the leaf of a record is there, with all that it takes to read it. */
bool shelf_bring_place(const struct lmdbio_loader *loader, const struct index_place *place);

/* loader_decode.c */
extern const struct crew_work decoder_work;
/* Decodes one sample of a batch, if it has come. */
void sample_decode(const struct lmdbio_loader *loader, struct batch *batch, size_t i);
/* Some samples of a batch have come, or there are none. Under the loader lock. */
void batch_came(struct lmdbio_loader *loader, struct batch *batch, size_t samples);

/* loader_next.c */
void batch_free(struct batch *batch);
/* Lets go of one reference, under the loader lock, which it releases. */
void loader_release(struct lmdbio_loader *loader);

/* loader_open.c */
void loader_free(struct lmdbio_loader *loader);

/* loader_open.c: which loaders there are, so that a call with one that has been closed meanwhile is
 * answered. Enlisting may fail in no way. Entering gives NULL when it is gone, and loader_gone() is
 * then the call's answer: ECANCELED, or ECHILD in a forked child. */
void loader_enlist(struct lmdbio_loader *loader);
/* true: it was there, and is not any more. */
bool loader_delist(struct lmdbio_loader *loader);
struct lmdbio_loader *loader_enter(struct lmdbio_loader *loader);
void loader_leave(struct lmdbio_loader *loader);
int loader_gone(void);

/* Bytes that batches may take together, as far as is known. Under the loader lock. */
static inline uint64_t memory_most(const struct lmdbio_loader *loader)
{
	return loader->memory.lacking && loader->memory.lacking < loader->memory.most
		       ? loader->memory.lacking
		       : loader->memory.most;
}

/* Bytes that decoders make of so many samples. */
static inline uint64_t decoded_bytes(const struct lmdbio_loader *loader, uint64_t samples)
{
	return loader->options.decode ? samples * loader->options.decode_size : 0;
}

static inline bool loader_is_here(const struct lmdbio_loader *loader)
{
	return loader->processes == fork_generation;
}

#endif
