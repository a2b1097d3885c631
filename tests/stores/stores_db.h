/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens a data set of stores_make.c for the readers of these tests, and sums up its records. */
#ifndef STORES_DB_H
#define STORES_DB_H

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

struct stores_db {
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	MDB_cursor *cursor;
};

/* Which records a scan takes. */
struct stores_walk {
	bool backward;
	uint64_t first, stride; /* each stride-th record from `first` on; 0 counts as 1 */
	uint64_t most;		/* records taken, 0: no limit */
};

/* A sum over records that does not depend on their order, so that sums of parts can be added. */
struct stores_sum {
	uint64_t records, bytes, hash;
};

/* Returns a hash of all bytes of a record. */
uint64_t stores_hash(const MDB_val *key, const MDB_val *value);
void stores_take(struct stores_sum *sum, const MDB_val *key, const MDB_val *value);

/* Each function returns 0 or LMDB's code. An environment is opened read-only. */
int stores_open(struct stores_db *db, const char *path, unsigned flags);
int stores_begin(struct stores_db *db);
void stores_end(struct stores_db *db);
void stores_close(struct stores_db *db);

/* Begins at the first record (backward: at the last one), or goes on from the cursor's place if
 * `on` is set. */
int stores_scan(struct stores_db *db, const struct stores_walk *walk, bool on,
		struct stores_sum *sum);

/* The key of a record, of eight digits. */
struct stores_key {
	char text[16];
};
MDB_val stores_key(struct stores_key *key, uint64_t record);

uint64_t stores_mix(uint64_t x);

/* KiB. The pages of memory files that the process has open, each file once. */
uint64_t stores_memfd_kib(void);
/* KiB. Returns a field of /proc/self/status; 0: it does not exist. */
uint64_t stores_status_kib(const char *field);

double stores_now(void); /* seconds */

#endif
