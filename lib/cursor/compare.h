/* SPDX-License-Identifier: OLDAP-2.8 */
/* The order of two keys, or of two values of one key. */
#ifndef LMDBIO_CURSOR_COMPARE_H
#define LMDBIO_CURSOR_COMPARE_H

#include "util/checked.h"

#include <lmdb.h>
#include <stdbool.h>
#include <string.h>

enum compare_kind {
	COMPARE_BYTES = 0, /* as memcmp, then by length */
	COMPARE_REVERSE,   /* the same from the last byte on: MDB_REVERSEKEY, MDB_REVERSEDUP */
	COMPARE_INTEGER,   /* integers of the searched key's size: MDB_INTEGERKEY */
	COMPARE_UINT,      /* 4-byte numbers: MDB_INTEGERDUP with MDB_DUPFIXED */
	COMPARE_ULONG,     /* 8-byte numbers, with the same flags */
	COMPARE_CUSTOM,    /* mdb_set_compare(), mdb_set_dupsort() */
};

struct comparator {
	enum compare_kind kind;
	MDB_cmp_func *function; /* of COMPARE_CUSTOM */
};

/* The comparators of one database. */
struct comparators {
	struct comparator key;
	struct comparator data; /* of duplicates */
};

/* Sets the comparators that a database's flags ask for. */
void comparators_default(struct comparators *comparators, unsigned flags);

bool comparators_equal(const struct comparators *a, const struct comparators *b);

/* Returns a negative number, 0 or a positive number: a is below, equal to or above b. */
int compare(const struct comparator *comparator, const MDB_val *a, const MDB_val *b);

int compare_reverse(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size);
int compare_integer_odd(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size);

static inline int compare_bytes(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
	size_t common = a_size < b_size ? a_size : b_size;
	int order;

	if (common >= 8) {
		uint64_t x = __builtin_bswap64(load64(a)), y = __builtin_bswap64(load64(b));

		if (x != y)
			return x < y ? -1 : 1;
	}
	order = memcmp(a, b, common);
	if (order)
		return order;
	return (a_size > b_size) - (a_size < b_size);
}

static inline int compare_integer(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
	if (a_size == 8 && b_size == 8) {
		uint64_t x = load64(a), y = load64(b);

		return (x > y) - (x < y);
	}
	if (a_size == 4 && b_size == 4) {
		uint32_t x = load32(a), y = load32(b);

		return (x > y) - (x < y);
	}
	return compare_integer_odd(a, a_size, b, b_size);
}

/* Returns the low `want` bytes (4 or 8) of a number; missing bytes count as 0. */
static inline uint64_t compare_number(const uint8_t *at, size_t size, size_t want)
{
	uint64_t value = 0;

	memcpy(&value, at, size < want ? size : want);
	return value;
}

/* The body of compare(), for loops in which `kind` is a constant. */
static inline __attribute__((always_inline)) int
compare_as(enum compare_kind kind, const struct comparator *comparator, const MDB_val *a,
	   const uint8_t *b, size_t b_size)
{
	uint64_t x, y;
	MDB_val other;

	switch (kind) {
	case COMPARE_BYTES:
		return compare_bytes(a->mv_data, a->mv_size, b, b_size);
	case COMPARE_REVERSE:
		return compare_reverse(a->mv_data, a->mv_size, b, b_size);
	case COMPARE_INTEGER:
		return compare_integer(a->mv_data, a->mv_size, b, b_size);
	case COMPARE_UINT:
	case COMPARE_ULONG:
		x = compare_number(a->mv_data, a->mv_size, kind == COMPARE_UINT ? 4 : 8);
		y = compare_number(b, b_size, kind == COMPARE_UINT ? 4 : 8);
		return (x > y) - (x < y);
	case COMPARE_CUSTOM:
		break;
	}
	other.mv_data = (void *)(uintptr_t)b;
	other.mv_size = b_size;
	return comparator->function(a, &other);
}

#endif
