/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows which bytes a record of the soak has in each snapshot.
 *
 * Commit n of a data set is transaction n. The first writes all records; each later one rewrites
 * those of its turn. So the snapshot's number and the key tell every byte of a value.
 */
#ifndef SOAK_DATA_H
#define SOAK_DATA_H

#include <lmdb.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	SOAK_TURNS = 16,         /* commits after which each record has been rewritten */
	SOAK_VALUE_MOST = 12032, /* bytes of a value */
};

struct soak_data {
	uint64_t seed;
	uint32_t records;
};

/* Whether commit `txn` writes the record. */
static inline bool soak_is_written(uint32_t record, uint64_t txn)
{
	return txn == 1 || record % SOAK_TURNS == txn % SOAK_TURNS;
}

/* The commit that wrote the record last, of those up to `txn`. */
uint64_t soak_version(uint32_t record, uint64_t txn);

struct soak_key {
	char text[16];
};
MDB_val soak_key(struct soak_key *key, uint32_t record);

/* The value that commit `version` of a data set's `generation` writes. `room` has SOAK_VALUE_MOST
 * bytes, aligned to 8. */
MDB_val soak_value(const struct soak_data *data, uint32_t record, uint64_t generation,
		   uint64_t version, void *room);

/* What a reader has found. */
struct soak_found {
	uint32_t record;
	uint64_t generation, version; /* as the value itself tells */
};

/* Whether key and value are of one record and no byte is wrong, of whichever commit. */
bool soak_is_sound(const struct soak_data *data, const MDB_val *key, const MDB_val *value,
		   struct soak_found *found);

#endif
