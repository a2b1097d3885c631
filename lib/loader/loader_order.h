/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which record stands at which place of an epoch, and which rank reads it.
 *
 * An order is a pure function of the spec below and the epoch. It knows no rank: the global batch
 * `b` of an epoch is the records at positions b * batch ... (b + 1) * batch - 1 for any number of
 * ranks, and ranks only divide the positions of each batch among themselves. So all ranks have
 * equally many batches, and a place in the order is a place on any other number of ranks.
 *
 *   sequential     the records as they stand in the data set. With `shares` above 1 the data set
 *                  is cut into `shares` runs, and each batch takes the next records of every run.
 *   shuffle        a uniform permutation of all records, a new one in each epoch.
 *   block          for data that is larger than all memory: runs of `block` records (chunks), in
 *                  random order; `buffer` of them at a time are shuffled together (a round). The
 *                  borders of the runs move with the epoch.
 *   opportunistic  the order follows what is in memory. `resident` records, whole chunks that the
 *                  seed alone chooses, stay in the memory of all nodes together for good, and come
 *                  evenly over the epoch in any order. The other records stream by in rounds of
 *                  `buffer` chunks as with `block`. Each round mixes both. After DeepIO (Zhu et
 *                  al., MASCOTS 2018), but without its replacement, negotiation or timing: the seed
 *                  also decides what is in memory at each moment. So every record comes once an
 *                  epoch, and the order can be computed, proved and resumed like any other. */
#ifndef LMDBIO_LOADER_ORDER_H
#define LMDBIO_LOADER_ORDER_H

#include "loader/loader_permute.h"

#include <stdbool.h>
#include <stdint.h>

enum order_policy {
	ORDER_SEQUENTIAL = 0,
	ORDER_SHUFFLE = 1,
	ORDER_BLOCK = 2,
	ORDER_OPPORTUNISTIC = 3,
};

/* What becomes of a last batch that lacks records. */
enum order_tail {
	ORDER_PAD = 0,  /* its last places hold no record */
	ORDER_DROP = 1, /* it is left out, with its records */
	ORDER_WRAP = 2, /* it is filled from the epoch's beginning */
};

#define ORDER_NONE UINT64_MAX /* no record */

struct order_spec {
	uint64_t seed;
	uint64_t records;
	uint64_t resident; /* opportunistic: records that stay in memory; rounded down to chunks */
	uint32_t batch;    /* records in a global batch, all ranks together; 1 or more */
	uint32_t block;    /* block, opportunistic: records in a chunk, 1 or more */
	uint32_t buffer;   /* block, opportunistic: chunks in a round, 1 or more */
	uint32_t shares;   /* sequential: runs read side by side; 0 is 1; at most `batch` */
	enum order_policy policy;
	enum order_tail tail;
};

/* A spec that makes sense, and what follows from it. Plain data. */
struct order {
	struct order_spec spec;
	uint64_t chunks;    /* whole chunks; the records behind them are the remainder */
	uint64_t streamed;  /* chunks that stream by; the other chunks are resident */
	uint64_t residents; /* records in memory, the remainder included */
	uint64_t rounds;
};

/* One epoch of an order. Plain data of a few hundred bytes: made in a microsecond, read by any
 * thread. */
struct order_epoch {
	struct order order;
	uint64_t epoch;
	uint64_t shift;           /* where the first chunk begins */
	struct permute whole;     /* shuffle: of all records; otherwise of the residents */
	struct permute chosen;    /* of the chunks: residents first; from the seed alone */
	struct permute stream;    /* of the streamed chunks */
	struct permute rounds[2]; /* within a round; they differ by one resident */
	struct permute last;      /* within the last round */
};

/* Returns 0 or EINVAL: a batch, block or buffer is 0 that must not be, the policy or tail is
 * unknown, or there are more shares than records in a batch. */
int order_init(struct order *order, const struct order_spec *spec);

/* Returns the number of global batches in an epoch: the same on every rank. */
uint64_t order_batches(const struct order *order);

/* Any thread. */
void order_begin(struct order_epoch *at, const struct order *order, uint64_t epoch);

/* Returns the record at a position below order_batches() * batch; ORDER_NONE: a padded place. */
uint64_t order_record(const struct order_epoch *at, uint64_t position);
/* Returns the position of a record, below spec.records. With ORDER_DROP it may lie behind the last
 * batch; with ORDER_WRAP the record may come a second time. */
uint64_t order_position(const struct order_epoch *at, uint64_t record);
/* Returns the round that a position belongs to, and where rounds begin: positions
 * order_round_start(r) to order_round_start(r + 1) - 1 are made of one round's chunks and some
 * residents. A sequential or shuffled order has one round, the whole epoch. */
uint64_t order_round(const struct order_epoch *at, uint64_t position);
uint64_t order_round_start(const struct order_epoch *at, uint64_t round);
/* Whether a record stays in memory in an opportunistic order. */
bool order_is_resident(const struct order_epoch *at, uint64_t record);

/* --- shares: `rank` of `ranks`, 0 <= rank < ranks -------------------------------------- */

/* Returns how many records of each batch are a rank's; ranks differ by at most 1. */
uint32_t order_share(const struct order *order, uint32_t ranks, uint32_t rank);
/* Returns the position in the epoch of the i-th of a rank's records in a batch. Sequential without
 * shares: every `ranks`-th place of the batch. So if the batch is a multiple of `ranks`, rank r
 * reads records r, r + ranks, and so on. Otherwise neighbouring places. */
uint64_t order_slot(const struct order *order, uint32_t ranks, uint32_t rank, uint64_t batch,
		    uint32_t i);
/* Returns the rank that gets a position. */
uint32_t order_owner(const struct order *order, uint32_t ranks, uint64_t position);

/* --- a place in an order, to be kept ---------------------------------------------------------- */

enum { ORDER_STATE = 64 };

/* Saves the next batch to come: `batch` of epoch `epoch` (both below 2^48). The bytes are the same
 * on every machine. */
void order_save(const struct order *order, uint64_t epoch, uint64_t batch,
		uint8_t state[ORDER_STATE]);
/* Returns 0, or EINVAL: the bytes are not a state, or not a whole one. */
int order_restore(struct order *order, uint64_t *epoch, uint64_t *batch,
		  const uint8_t state[ORDER_STATE]);

#endif
