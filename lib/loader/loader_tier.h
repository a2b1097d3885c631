/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the tiers: places that a record may come from, besides its data file.
 *
 * A tier keeps some records near: in this process's memory, on a local disk, with another node. The
 * loader asks each tier whether it has a record. It takes the record from the tier whose measured
 * speed, with its queue, finishes first; the file is always there.
 *
 * Adding a tier takes: a file loader_<name>.c with a const, designated struct tier_ops; a call of
 * tier_open() in loader_open.c or, in a library that brings a tier, of tier_add(); a line in
 * lib/Makemodule.am; a row in tests/loader/tier_contract.c; a paragraph in lmdbio-loader(3).
 * tier_null is the smallest tier: it has nothing and keeps nothing. */
#ifndef LMDBIO_LOADER_TIER_H
#define LMDBIO_LOADER_TIER_H

#include "loader/loader_order.h"
#include "util/identity.h"

#include <lmdb.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A record that has been fetched. */
struct tier_record {
	MDB_val key, data;
	void *memory; /* malloc'ed, holds both; NULL: they stay as long as the tier */
};

/* What a tier is made for. */
struct tier_setup {
	const struct order *order;
	struct identity identity; /* of the data set's bytes, node form ... */
	uint64_t root;            /* ... and the tree in them, by its root page */
	uint64_t records;
	uint64_t keep;         /* bytes that the memory tier may keep */
	const char *directory; /* disk tier: a directory on a local disk, or NULL */
	uint64_t limit;        /* disk tier: bytes; 0: the free bytes of the disk */
	uint64_t lent;         /* disk tier: bytes there that are given back while it fills */
	bool fresh;            /* disk tier: ignores records that users left there when they died */
};

enum tier_source { SOURCE_MEMORY, SOURCE_DISK, SOURCE_PEER, SOURCE_FILE, SOURCE_COUNT };

enum { TIER_FETCHES = 16 }; /* records in one fetch, at most */

/* One record of a fetch. */
struct tier_fetch {
	uint64_t record;
	struct tier_record found;
	int error;               /* 0 or an errno: then the loader reads the file */
	enum tier_source source; /* the tier's own, unless the tier names another */
};

enum tier_state { TIER_GOOD = 0, TIER_FULL = 1, TIER_FAILED = 2 };

/* Bytes of records. */
struct tier_space {
	uint64_t room;    /* bytes that all its users may still put there */
	uint64_t written; /* bytes that this process has put there */
};

struct tier_ops {
	const char *name;
	/* Makes *state; NULL with 0: this setup has no such tier. Returns 0 or an errno. */
	int (*open)(void **state, const struct tier_setup *setup);
	bool (*has)(void *state, uint64_t record);
	/* Returns 0, or an errno: then the loader reads the file. */
	int (*fetch)(void *state, uint64_t record, struct tier_record *to);
	/* Fetches several records, side by side; NULL: fetch() takes one after another. */
	void (*fetch_all)(void *state, struct tier_fetch *each, size_t n);
	/* Offers a record from another source, which the tier may keep. Returns the bytes kept;
	 * NULL: the tier keeps none. */
	uint64_t (*offer)(void *state, uint64_t record, const MDB_val *key, const MDB_val *data);
	/* The loader asks for records of this epoch next; NULL: the tier does not need to know. */
	void (*epoch)(void *state, uint64_t epoch);
	/* NULL: the tier is always good. */
	enum tier_state (*health)(void *state);
	/* For a tier on a local disk; NULL: it is on none. */
	struct tier_space (*space)(void *state);
	void (*close)(void *state); /* NULL: nothing has to be closed */
};

struct tier {
	const struct tier_ops *ops;
	void *state;
	enum tier_source source;
	bool lent;              /* to another tier, which offers it records and closes it */
	_Atomic uint64_t pace;  /* nanoseconds that a record takes, moving average; 0: not known */
	_Atomic uint64_t queue; /* records on their way */
	_Atomic uint64_t turns; /* choices made */
};

enum { TIERS = 4 };

/* All tiers of one loader. The file, which has no ops, is the last one. Threads: any, once open. */
struct tiers {
	unsigned count;
	uint64_t planned; /* records that have a place with some node of a job; 0: no plan */
	struct tier tier[TIERS + 1];
};

/* Begins with the file alone. */
void tiers_init(struct tiers *tiers);
/* Opens a tier, and adds it if this setup has such a tier. Returns 0 or an errno. */
int tier_open(struct tiers *tiers, const struct tier_ops *ops, enum tier_source source,
	      const struct tier_setup *setup);
/* Adds a tier that another library brings, before the loader begins; the loader then owns it.
 * Returns 0 or ENOSPC (there is no place for another tier). */
int tier_add(struct tiers *tiers, const struct tier_ops *ops, void *state, enum tier_source source);
void tiers_close(struct tiers *tiers);

/* Returns the tier to fetch a record from, whose queue then grows; the file if no other is faster.
 * The file takes the place of a peer, or with a plan of any tier, only if a record takes many times
 * as long from that tier, however many records wait there: what one node has read should not be
 * read again. */
struct tier *tiers_choose(struct tiers *tiers, uint64_t record);
/* Tells all tiers which epoch's records are asked for next. */
void tiers_epoch(struct tiers *tiers, uint64_t epoch);
/* `n` records have come, in `ns` nanoseconds together; 0: they have not come. */
void tier_done(struct tier *tier, uint64_t n, uint64_t ns);
/* A record has come from `source`: the other tiers may keep it. */
void tiers_offer(struct tiers *tiers, enum tier_source source, uint64_t record, const MDB_val *key,
		 const MDB_val *data);
/* Returns the worst state of the tiers of one kind; *there: whether there are any. */
enum tier_state tiers_health(struct tiers *tiers, enum tier_source source, bool *there);
/* Returns the bytes that this process has put on local disks. */
uint64_t tiers_written(struct tiers *tiers);

static inline struct tier *tiers_file(struct tiers *tiers)
{
	return &tiers->tier[tiers->count];
}

/* Makes one malloc'ed copy of a record. Returns false without memory. */
bool tier_copy(struct tier_record *to, const MDB_val *key, const MDB_val *data);
/* The same into existing memory of as many bytes as both together. Returns false if `memory` is
 * NULL. */
bool tier_place(struct tier_record *to, void *memory, const MDB_val *key, const MDB_val *data);

extern const struct tier_ops tier_null, tier_kept, tier_disk;

#endif
