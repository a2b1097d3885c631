/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how it is built. */
#include "damaged_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

const struct made_entry letters[KEYS] = {
	{"a", "1", 1, 1, 0}, {"b", "2", 1, 1, 0}, {"c", "3", 1, 1, 0}, {"d", "4", 1, 1, 0},
	{"e", "5", 1, 1, 0}, {"f", "6", 1, 1, 0}, {"g", "7", 1, 1, 0}, {"h", "8", 1, 1, 0},
};

int damaged_setup(void **state)
{
	*state = calloc(1, sizeof(struct fixture));
	if (*state)
		fixture_open(*state, SIZE, 64);
	return *state ? 0 : -1;
}

int damaged_teardown(void **state)
{
	fixture_close(*state);
	free(*state);
	return 0;
}

struct tree_record tree_of_letters(struct fixture *f)
{
	struct tree_record record = {0};

	builder_tree(&f->builder, letters, KEYS, 2, 2, &record);
	assert_int_equal(record.root, 8);
	return record;
}

uint8_t *page_of(struct fixture *f, uint64_t number)
{
	return builder_page(&f->builder, number);
}

uint8_t *node_of(struct fixture *f, uint64_t number, unsigned i)
{
	uint8_t *page = page_of(f, number);

	return page + load16(page + PAGE_HEADER + 2 * i);
}
