/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keys of MDB_INTEGERKEY and duplicates of MDB_DUPFIXED, of every size. */
#include "env_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A file that the original writes: lmdbio finds all keys and duplicates that the original
 * accepts. */
static void number_keys_when_of_any_size_then_all_found(void **state)
{
	struct place place;

	(void)state;
	for (size_t size = 1; size <= 9; size++) {
		/* The original reads one byte in front of an odd key: a zero here. */
		uint8_t bytes[10] = {0};
		MDB_env *orig, *env;
		MDB_txn *txn;
		MDB_dbi dbi;

		place_make(&place);
		orig = origin_open(&place);
		for (uint8_t i = 0; i < 40; i++) {
			bytes[1] = (uint8_t)(i * 37);
			bytes[size] = i;
			origin_put(orig, "numbers", MDB_INTEGERKEY, (MDB_val){size, bytes + 1},
				   (MDB_val){1, &i});
		}
		lmdbio_orig_mdb_env_close(orig);
		env = own_open(&place, 1, 0);
		assert_int_equal(txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
		assert_int_equal(dbi_open(txn, "numbers", 0, &dbi), 0);
		assert_int_equal(txn->trees[dbi].record.entries, 40);
		for (uint8_t i = 0; i < 40; i++) {
			MDB_val key = {size, bytes + 1}, data;

			bytes[1] = (uint8_t)(i * 37);
			bytes[size] = i;
			assert_int_equal(tree_get(&txn->snapshot, &txn->trees[dbi],
						  &env->slots[dbi].order, &key, &data),
					 0);
			if (*(uint8_t *)data.mv_data != i)
				print_error("keys of %zu bytes: number %u gives %u\n", size, i,
					    *(uint8_t *)data.mv_data);
			assert_int_equal(*(uint8_t *)data.mv_data, i);
		}
		txn_abort(txn);
		env_close(env);
		place_remove(&place);
	}
}

/* Keys of HAS bytes: 100, 110, 120, ... */
static MDB_env *numbers_make(struct place *place, size_t has)
{
	MDB_env *orig;

	place_make(place);
	orig = origin_open(place);
	for (uint64_t i = 0; i < 400; i++) {
		uint64_t number = 100 + 10 * i;

		origin_put(orig, "numbers", MDB_INTEGERKEY, (MDB_val){has, &number},
			   (MDB_val){sizeof(i), &i});
	}
	lmdbio_orig_mdb_env_close(orig);
	return own_open(place, 1, 0);
}

/* See lmdbio(7), LIMITS. Each searched key lies in memory of exactly its size, so that a sanitizer
 * sees a read past it. */
static void number_keys_when_asked_with_another_size_then_both_keys_bytes_count(void **state)
{
	static const struct {
		size_t has, asked;
		uint64_t number;
		int found;
		uint64_t next; /* MDB_SET_RANGE; 0: none */
	} cases[] = {
		{8, 4, 150, 0, 150},
		{8, 4, 155, MDB_NOTFOUND, 160},
		{8, 2, 4090, 0, 4090},
		{8, 4, 4091, MDB_NOTFOUND, 0},
		{8, 2, 90, MDB_NOTFOUND, 100},
		{8, 9, 150, MDB_NOTFOUND, 160},
		{8, 16, 150, MDB_NOTFOUND, 160},
		{8, 16, 155, MDB_NOTFOUND, 160},
		{8, 16, 4090, MDB_NOTFOUND, 0},
		{4, 8, 150, MDB_NOTFOUND, 160},
		{4, 8, 90, MDB_NOTFOUND, 100},
		{4, 8, 1ull << 40 | 150, MDB_NOTFOUND, 160},
		{4, 2, 150, 0, 150},
		{4, 2, 155, MDB_NOTFOUND, 160},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct place place;
		MDB_env *env = numbers_make(&place, cases[i].has);
		MDB_val key = {cases[i].asked, calloc(1, cases[i].asked)}, asked = key, data;
		size_t whole = asked.mv_size < 8 ? asked.mv_size : 8;
		struct duplicates duplicates;
		struct cursor cursor;
		MDB_txn *txn;
		MDB_dbi dbi;
		uint64_t next = 0;

		assert_non_null(key.mv_data);
		memcpy(key.mv_data, &cases[i].number, whole);
		assert_int_equal(txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
		assert_int_equal(dbi_open(txn, "numbers", 0, &dbi), 0);
		print_message("keys of %zu bytes: %llu in %zu\n", cases[i].has,
			      (unsigned long long)cases[i].number, cases[i].asked);
		assert_int_equal(tree_get(&txn->snapshot, &txn->trees[dbi], &env->slots[dbi].order,
					  &key, &data),
				 cases[i].found);
		cursor_init(&cursor, &txn->snapshot, &txn->trees[dbi], &env->slots[dbi].order,
			    &duplicates);
		assert_int_equal(cursor_get(&cursor, &key, &data, MDB_SET_RANGE),
				 cases[i].next ? 0 : MDB_NOTFOUND);
		if (cases[i].next) {
			assert_int_equal(key.mv_size, cases[i].has);
			memcpy(&next, key.mv_data, key.mv_size);
			assert_int_equal(next, cases[i].next);
		}
		free(asked.mv_data);
		txn_abort(txn);
		env_close(env);
		place_remove(&place);
	}
}

static void fixed_duplicates_when_of_any_size_then_all_walked(void **state)
{
	static const size_t sizes[] = {1, 2, 3, 7, 8, 100};
	struct place place;

	(void)state;
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		MDB_env *orig, *env;
		struct duplicates duplicates;
		struct cursor cursor;
		MDB_val key, data;
		unsigned walked = 0;
		uint8_t value[100] = {0};
		MDB_txn *txn;
		MDB_dbi dbi;

		place_make(&place);
		orig = origin_open(&place);
		for (unsigned i = 0; i < 200; i++) {
			value[0] = (uint8_t)i;
			origin_put(orig, "fixed", MDB_DUPSORT | MDB_DUPFIXED,
				   (MDB_val){1, &(char){'k'}}, (MDB_val){sizes[s], value});
		}
		lmdbio_orig_mdb_env_close(orig);
		env = own_open(&place, 1, 0);
		assert_int_equal(txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
		assert_int_equal(dbi_open(txn, "fixed", 0, &dbi), 0);
		cursor_init(&cursor, &txn->snapshot, &txn->trees[dbi], &env->slots[dbi].order,
			    &duplicates);
		while (!cursor_get(&cursor, &key, &data, MDB_NEXT)) {
			assert_int_equal(data.mv_size, sizes[s]);
			assert_int_equal(*(uint8_t *)data.mv_data, walked++);
		}
		if (walked != 200)
			print_error("values of %zu bytes\n", sizes[s]);
		assert_int_equal(walked, 200);
		txn_abort(txn);
		env_close(env);
		place_remove(&place);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(number_keys_when_of_any_size_then_all_found),
		cmocka_unit_test(
			number_keys_when_asked_with_another_size_then_both_keys_bytes_count),
		cmocka_unit_test(fixed_duplicates_when_of_any_size_then_all_walked),
	};

	return cmocka_run_group_tests_name("sizes of numbers", tests, NULL, NULL);
}
