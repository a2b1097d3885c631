/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how the readers of these tests open a data set of stores_make.c
 * and what they make of its records. */
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
	uint64_t first, stride; /* from record `first` on each stride-th; 0 is 1 */
	uint64_t most;		/* records taken, 0: no limit */
};

/* A sum over records, so that their order does not matter and parts can be added up. */
struct stores_sum {
	uint64_t records, bytes, hash;
};

/* What every byte of a record comes to. */
uint64_t stores_hash(const MDB_val *key, const MDB_val *value);
void stores_take(struct stores_sum *sum, const MDB_val *key, const MDB_val *value);

/* Each returns 0 or what LMDB returned. An environment is opened read-only. */
int stores_open(struct stores_db *db, const char *path, unsigned flags);
int stores_begin(struct stores_db *db);
void stores_end(struct stores_db *db);
void stores_close(struct stores_db *db);

/* Begins at the end, or goes on from where the cursor stands when `on` is set. */
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
/* KiB. A field of /proc/self/status; 0: there is none. */
uint64_t stores_status_kib(const char *field);

double stores_now(void); /* seconds */

#endif
