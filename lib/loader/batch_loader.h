/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the calls of a batch loader: those of <lmdbio.h>, and those of a library that adds
 * tiers. <lmdbio.h> says what each of its calls does. */
#ifndef LMDBIO_LOADER_BATCH_LOADER_H
#define LMDBIO_LOADER_BATCH_LOADER_H

#include "index/record_index.h"
#include "loader/loader_order.h"
#include "loader/loader_tier.h"

#include <lmdbio.h>

/* Opens a loader. `env` is an open environment of lmdbio's, or NULL: the loader opens `path`.
 * loader_open() calls `prepare`, if not NULL, before the loader's threads begin. It may add tiers
 * and change the order (for instance the resident records, when ranks have agreed on them). If it
 * returns not 0, the opening ends with that code. */
struct loader_place {
	MDB_env *env;
	const char *path;
	unsigned flags;
	const char *name;
};

struct loader_hooks {
	/* Called before the records are numbered, and may number them. NULL: nothing is done. */
	int (*number)(void *context, struct lmdbio_loader *loader, MDB_txn *txn,
		      struct tree *tree);
	int (*prepare)(void *context, struct lmdbio_loader *loader, struct tiers *tiers,
		       struct order_spec *spec);
	void *context;
	/* In a job whose nodes keep records for each other: the ranks on this node, which share the
	 * node's budget. No sample then points into the window. Otherwise 0. */
	unsigned sharers;
	const char *node; /* the arena's name for this node; NULL: LMDBIO_NODE */
};

int loader_open(struct lmdbio_loader **loader, const struct loader_place *place,
		const struct lmdbio_loader_options *options, const struct loader_hooks *hooks);
void loader_close(struct lmdbio_loader *loader);

int loader_epoch(struct lmdbio_loader *loader, uint64_t epoch);
int loader_next(struct lmdbio_loader *loader, struct lmdbio_batch **batch);
int loader_next_within(struct lmdbio_loader *loader, uint64_t ns, struct lmdbio_batch **batch);
void loader_done(struct lmdbio_batch *batch);
int loader_save(struct lmdbio_loader *loader, uint8_t state[ORDER_STATE]);
int loader_restore(struct lmdbio_loader *loader, const uint8_t state[ORDER_STATE]);
void loader_quiet(struct lmdbio_loader *loader, bool begin);
int loader_stats(struct lmdbio_loader *loader, struct lmdbio_loader_stats *stats);
size_t loader_verdict(struct lmdbio_loader *loader, char *line, size_t size);
int loader_quality(struct lmdbio_loader *loader, uint64_t epoch, size_t from, size_t bytes,
		   struct lmdbio_quality *quality);

uint64_t loader_records(struct lmdbio_loader *loader);
uint64_t loader_batches(struct lmdbio_loader *loader);

/* For a loader that is open, until another order is restored. */
const struct order *loader_order(const struct lmdbio_loader *loader);

/* For a loader with sharers, while `number` or `prepare` runs. */
struct loader_sizes {
	uint64_t
		room; /* bytes of the node's budget that are left to keep records in; 0: it keeps none */
	uint64_t bytes, leaf_bytes; /* of the database, and of its leaf pages */
};
struct loader_sizes loader_sizes(const struct lmdbio_loader *loader);

/* For a loader with sharers: keeps the leaf pages that are read while `number` runs, as many bytes
 * as this rank has room for. */
struct page_shelf *loader_shelf(const struct lmdbio_loader *loader);
/* Tells, while `number` runs, how many bytes of the local disk all sharers' shelves have. They give
 * them back as the records on them come to the disk tier. */
void loader_lends(struct lmdbio_loader *loader, uint64_t bytes);

/* Takes a record of a run: its bytes, valid during the call, or an error. */
typedef void loader_take_fn(void *context, uint64_t record, int error, const MDB_val *key,
			    const MDB_val *data);

/* How soon a run is wanted. RUN_LATER keeps to the loader's bandwidth and quiet times. RUN_NOW does
 * not, because a consumer, here or on another node, waits for the run. RUN_NOT gives up a run that
 * has not begun. */
enum run_haste { RUN_LATER, RUN_NOW, RUN_NOT };

/* Reads n records from `first` on out of the data set, in few large requests, and nothing else. For
 * a tier's own threads, with a loader that is open. *haste is a run_haste. Any thread may change it
 * meanwhile, and then calls loader_hurry(). Returns 0 (each record has its own error); or, with
 * nothing taken, ECANCELED: the loader is being closed; EAGAIN: RUN_NOT gave the run up; ENOMEM. */
int loader_run(struct lmdbio_loader *loader, uint64_t first, size_t n, const _Atomic int *haste,
	       loader_take_fn *take, void *context);

/* Has all runs that have not begun look at their haste again. */
void loader_hurry(struct lmdbio_loader *loader);

/* Takes the records from `first` on, n of them, that are on the loader's shelf; no values in
 * overflow pages. While `prepare` runs. */
void loader_shelved(struct lmdbio_loader *loader, uint64_t first, uint64_t n, loader_take_fn *take,
		    void *context);
/* Frees the shelf's pages of which all records lie in [first, end), and which no thread reads now.
 * Returns the first record of the first page that it left for lying outside, or end. */
uint64_t loader_unshelve(struct lmdbio_loader *loader, uint64_t first, uint64_t end);
/* Frees the whole shelf. While `prepare` runs. */
void loader_shelf_close(struct lmdbio_loader *loader);

/* Returns how random an order is that shuffles the records in groups of `group` neighbours, from 0
 * to 1 (a full shuffle): see loader_report.c. */
double quality_groups(uint64_t records, uint64_t group);

#endif
