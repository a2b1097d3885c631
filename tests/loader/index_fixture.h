/* SPDX-License-Identifier: OLDAP-2.8 */
/* A data set with a database of every kind, for tests of the record index. */
#ifndef LMDBIO_TEST_INDEX_FIXTURE_H
#define LMDBIO_TEST_INDEX_FIXTURE_H

#include "env_fixture.h"

/* A kind of database, and how much goes into it. */
struct kind {
	const char *name;
	unsigned flags;
	unsigned keys;
	unsigned duplicates; /* of every third key; of one key 40 times as many */
	size_t value;        /* bytes of the longest */
};

enum { KINDS = 10 };
extern const struct kind kinds[KINDS];

/* Opens a place with the original, for all kinds. */
MDB_env *kinds_open(const struct place *place);

/* A new place that has all kinds, open in an environment of lmdbio's. */
struct opened {
	struct place place;
	MDB_env *env;
	MDB_txn *txn;
};

void opened_begin(struct opened *opened);
void opened_end(struct opened *opened);

/* A database by its name, as the transaction has it. */
struct tree *tree_of(MDB_txn *txn, const char *name, MDB_dbi *dbi);

#endif
