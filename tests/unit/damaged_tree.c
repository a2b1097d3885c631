/* SPDX-License-Identifier: OLDAP-2.8 */
/* Builds the tree with which tests of damage begin. */
#include "damaged_tree.h"

#include "util/checked.h"

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

struct tree_record tree_of_entries(struct fixture *f, const struct made_entry *entries, size_t n,
				   unsigned flags)
{
	struct tree_record record = {.flags = (uint16_t)flags};

	builder_tree(&f->builder, entries, n, n, 2, &record);
	fixture_look(f, &record);
	return record;
}

struct tree_record tree_of_duplicates(struct fixture *f)
{
	enum { VALUES = 6, SUB_FLAGS = PAGE_LEAF | PAGE_SUB | 0x10 };
	static const char values[] = "345678";
	struct made_entry duplicates[VALUES], entries[3];
	struct tree_record inner = {0};
	uint8_t page[SUB_SIZE], bytes[TREE_SIZE];

	page_format(page, SUB_SIZE, 7, SUB_FLAGS);
	page_add_entry(page, &(struct made_entry){"1", NULL, 1, 0, 0});
	page_add_entry(page, &(struct made_entry){"2", NULL, 1, 0, 0});
	for (unsigned i = 0; i < VALUES; i++)
		duplicates[i] = (struct made_entry){&values[i], NULL, 1, 0, 0};
	builder_tree(&f->builder, duplicates, VALUES, 2, 2, &inner);
	record_write(bytes, &inner);
	entries[0] = (struct made_entry){"a", "0", 1, 1, 0};
	entries[1] = (struct made_entry){"b", page, 1, SUB_SIZE, ENTRY_DUPS};
	entries[2] = (struct made_entry){"c", bytes, 1, TREE_SIZE, ENTRY_DUPS | ENTRY_SUBTREE};
	return tree_of_entries(f, entries, 3, MDB_DUPSORT);
}

uint16_t slot_of(struct fixture *f, uint64_t number, unsigned i)
{
	return load16(page_of(f, number) + PAGE_HEADER + 2 * i);
}

void slot_set(struct fixture *f, uint64_t number, unsigned i, uint16_t offset)
{
	store16(page_of(f, number) + PAGE_HEADER + 2 * i, offset);
}
