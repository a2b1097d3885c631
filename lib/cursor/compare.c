/* SPDX-License-Identifier: OLDAP-2.8 */
/* Implements the orders that a database's flags name. */
#include "cursor/compare.h"

void comparators_default(struct comparators *comparators, unsigned flags)
{
	comparators->key.function = comparators->data.function = NULL;
	comparators->key.kind = flags & MDB_REVERSEKEY	 ? COMPARE_REVERSE
				: flags & MDB_INTEGERKEY ? COMPARE_INTEGER
							 : COMPARE_BYTES;
	if (!(flags & MDB_DUPSORT))
		comparators->data.kind = COMPARE_BYTES;
	else if (flags & MDB_INTEGERDUP)
		comparators->data.kind = flags & MDB_DUPFIXED ? COMPARE_UINT : COMPARE_INTEGER;
	else
		comparators->data.kind = flags & MDB_REVERSEDUP ? COMPARE_REVERSE : COMPARE_BYTES;
}

bool comparators_equal(const struct comparators *a, const struct comparators *b)
{
	return a->key.kind == b->key.kind && a->key.function == b->key.function &&
	       a->data.kind == b->data.kind && a->data.function == b->data.function;
}

int compare_reverse(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
	size_t common = a_size < b_size ? a_size : b_size;

	for (size_t i = 1; i <= common; i++) {
		int order = a[a_size - i] - b[b_size - i];

		if (order)
			return order;
	}
	return (a_size > b_size) - (a_size < b_size);
}

/* The original compares 16-bit words from the top of a's size and never looks at b's size. This
 * function does the same within b's bytes. Where the original would read past b, a is the
 * greater. */
int compare_integer_odd(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
	size_t common = a_size < b_size ? a_size : b_size;

	size_t i;

	for (i = common; i >= 2; i -= 2) {
		int order = (int)load16(a + i - 2) - (int)load16(b + i - 2);

		if (order)
			return order;
	}
	if (i && a[0] != b[0])
		return a[0] - b[0];
	return a_size > b_size;
}

int compare(const struct comparator *comparator, const MDB_val *a, const MDB_val *b)
{
	if (comparator->kind == COMPARE_CUSTOM)
		return comparator->function(a, b);
	return compare_as(comparator->kind, comparator, a, b->mv_data, b->mv_size);
}
