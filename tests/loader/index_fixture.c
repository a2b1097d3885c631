/* SPDX-License-Identifier: OLDAP-2.8 */
/* Fills a data set with databases of every kind. */
#include "index_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

const struct kind kinds[KINDS] = {
	{"plain", 0, 3000, 0, 200},
	{"overflow", 0, 300, 0, 20000},
	{"integer", MDB_INTEGERKEY, 3000, 0, 60},
	{"reverse", MDB_REVERSEKEY, 500, 0, 100},
	{"dups", MDB_DUPSORT, 400, 30, 100},
	{"fixed", MDB_DUPSORT | MDB_DUPFIXED, 300, 60, 8},
	{"integers", MDB_DUPSORT | MDB_DUPFIXED | MDB_INTEGERDUP, 200, 100, 4},
	{"backward", MDB_DUPSORT | MDB_REVERSEDUP, 100, 20, 30},
	{"single", 0, 1, 0, 10},
	{"empty", 0, 0, 0, 0},
};
MDB_env *kinds_open(const struct place *place)
{
	MDB_env *orig;

	assert_int_equal(lmdbio_orig_mdb_env_create(&orig), 0);
	assert_int_equal(lmdbio_orig_mdb_env_set_maxdbs(orig, KINDS + 1), 0);
	assert_int_equal(lmdbio_orig_mdb_env_set_mapsize(orig, 64 << 20), 0);
	assert_int_equal(lmdbio_orig_mdb_env_open(orig, place->directory, MDB_NOSYNC, 0600), 0);
	return orig;
}

static void fill(MDB_txn *txn, const struct kind *kind)
{
	uint8_t *bytes = calloc(1, kind->value + 16);
	MDB_dbi dbi;

	assert_non_null(bytes);
	assert_int_equal(lmdbio_orig_mdb_dbi_open(txn, kind->name, kind->flags | MDB_CREATE, &dbi),
			 0);
	for (unsigned i = 0; i < kind->keys; i++) {
		uint64_t number = i * 7919u % 100003;
		unsigned many = i % 3 ? 1 : 1 + kind->duplicates * (i == 3 ? 40 : 1);
		char text[32];
		MDB_val key = {8, &number}, data = {kind->value, bytes};

		if (!(kind->flags & MDB_INTEGERKEY)) {
			snprintf(text, sizeof(text), "%06u", (unsigned)number);
			key = (MDB_val){strlen(text), text};
		}
		if (!kind->duplicates)
			data.mv_size = kind->value * (i % 10 + 1) / 10;
		for (unsigned j = 0; j < many; j++) {
			uint32_t mark = i * 100000 + j;

			memcpy(bytes, &mark, sizeof(mark));
			assert_int_equal(lmdbio_orig_mdb_put(txn, dbi, &key, &data, 0), 0);
		}
	}
	free(bytes);
}

static void place_fill(const struct place *place)
{
	MDB_env *orig = kinds_open(place);
	MDB_txn *txn;

	assert_int_equal(lmdbio_orig_mdb_txn_begin(orig, NULL, 0, &txn), 0);
	for (unsigned i = 0; i < KINDS; i++)
		fill(txn, &kinds[i]);
	assert_int_equal(lmdbio_orig_mdb_txn_commit(txn), 0);
	lmdbio_orig_mdb_env_close(orig);
}

void opened_begin(struct opened *opened)
{
	place_make(&opened->place);
	place_fill(&opened->place);
	opened->env = own_open(&opened->place, KINDS + 1, MDB_NOLOCK);
	assert_int_equal(txn_begin(opened->env, NULL, MDB_RDONLY, &opened->txn), 0);
}

void opened_end(struct opened *opened)
{
	txn_abort(opened->txn);
	env_close(opened->env);
	place_remove(&opened->place);
}

struct tree *tree_of(MDB_txn *txn, const char *name, MDB_dbi *dbi)
{
	assert_int_equal(dbi_open(txn, name, 0, dbi), 0);
	if (txn->trees[*dbi].stale)
		assert_int_equal(tree_refresh(&txn->snapshot, &txn->trees[*dbi]), 0);
	return &txn->trees[*dbi];
}
