/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes the trees, nodes and pages of the fuzzers' file. */
#include "fuzz_images.h"

#include "page_builder.h"

#include <lmdb.h>
#include <stdio.h>
#include <string.h>

enum { SUB_FLAGS = PAGE_LEAF | PAGE_SUB | 0x10, SUB_SIZE = 60 };

/* Adds keys with one value each; some values lie in overflow runs. */
static void add_plain(struct builder *b, size_t n, struct tree_record *record)
{
	char keys[40][8], values[40][24];
	struct made_entry entries[40];
	uint64_t numbers[40];

	for (unsigned i = 0; i < n; i++) {
		int size = snprintf(keys[i], sizeof(keys[i]), "%03u", 3 * i % 1000);

		snprintf(values[i], sizeof(values[i]), "value of %u", i);
		entries[i] =
			(struct made_entry){keys[i], values[i], (size_t)size, strlen(values[i]), 0};
		if (i % 8 == 5) {
			static const uint8_t large[3 * 512];

			entries[i].data_size = b->page_size < 1024 ? b->page_size + 50u : 700;
			numbers[i] = builder_run(b, large, entries[i].data_size);
			entries[i].data = &numbers[i];
			entries[i].flags = ENTRY_BIG;
		}
	}
	builder_tree(b, entries, n, 4, 3, record);
}

static void add_numbers(struct builder *b, struct tree_record *record)
{
	uint64_t keys[16];
	struct made_entry entries[16];

	for (unsigned i = 0; i < 16; i++) {
		keys[i] = i * 1000;
		entries[i] = (struct made_entry){&keys[i], &keys[i], 8, 8, 0};
	}
	record->flags = MDB_INTEGERKEY;
	builder_tree(b, entries, 16, 4, 2, record);
}

/* a: a value, b: a sub-page, c: a sub-tree, d: a value. */
static void add_duplicates(struct builder *b, struct tree_record *record)
{
	uint8_t page[SUB_SIZE], bytes[TREE_SIZE];
	struct tree_record inner = {0};
	char values[20][3];
	struct made_entry duplicates[20];
	struct made_entry entries[] = {
		{"a", "1", 1, 1, 0},
		{"b", page, 1, SUB_SIZE, ENTRY_DUPS},
		{"c", bytes, 1, TREE_SIZE, ENTRY_DUPS | ENTRY_SUBTREE},
		{"d", "9", 1, 1, 0},
	};

	page_format(page, SUB_SIZE, 7, SUB_FLAGS);
	page_add_entry(page, &(struct made_entry){"1", NULL, 1, 0, 0});
	page_add_entry(page, &(struct made_entry){"33", NULL, 2, 0, 0});
	page_add_entry(page, &(struct made_entry){"5", NULL, 1, 0, 0});
	for (unsigned i = 0; i < 20; i++) {
		snprintf(values[i], 3, "%02u", (10 + i) % 100);
		duplicates[i] = (struct made_entry){values[i], NULL, 2, 0, 0};
	}
	builder_tree(b, duplicates, 20, 5, 2, &inner);
	record_write(bytes, &inner);
	record->flags = MDB_DUPSORT;
	builder_tree(b, entries, 4, 2, 2, record);
}

/* The same with values of `size` bytes each. */
static void add_fixed(struct builder *b, uint16_t size, struct tree_record *record)
{
	uint8_t page[PAGE_HEADER + 8 * 4], bytes[TREE_SIZE], items[20 * 8] = {0};
	struct tree_record inner = {.pad = size, .flags = MDB_DUPFIXED};
	struct made_entry entries[] = {
		{"a", items, 1, size, 0},
		{"b", page, 1, PAGE_HEADER + 4u * size, ENTRY_DUPS},
		{"c", bytes, 1, TREE_SIZE, ENTRY_DUPS | ENTRY_SUBTREE},
	};

	for (uint8_t i = 0; i < 20; i++)
		items[i * size] = (uint8_t)(i + 1);
	page_format(page, PAGE_HEADER + 4u * size, 7, SUB_FLAGS | PAGE_LEAF2);
	for (unsigned i = 0; i < 3; i++)
		page_add_item(page, items + i * size, size);
	builder_items(b, items, 20, 6, 2, &inner);
	record_write(bytes, &inner);
	record->flags |= MDB_DUPSORT | MDB_DUPFIXED;
	builder_tree(b, entries, 3, 3, 2, record);
}

uint8_t *images_make(unsigned kind, size_t *size)
{
	static const uint32_t page_sizes[IMAGE_KINDS] = {512, 256, 1024, 4096};
	struct tree_record records[6] = {{0}}, main_tree = {0}, free_tree = {0};
	uint8_t bytes[6][TREE_SIZE];
	static const char *const names[] = {"dups", "fixed", "longs", "numbers", "plain", "turned"};
	uint64_t id = 1, list[] = {2, 60, 61};
	struct made_entry entries[8], freed = {&id, list, 8, sizeof(list), 0};
	struct builder b;

	builder_open(&b, page_sizes[kind % IMAGE_KINDS], IMAGE_PAGES);
	add_duplicates(&b, &records[0]);
	records[1].flags = 0;
	add_fixed(&b, 4, &records[1]);
	records[2].flags = MDB_INTEGERDUP;
	add_fixed(&b, 8, &records[2]);
	add_numbers(&b, &records[3]);
	add_plain(&b, 24, &records[4]);
	records[5].flags = MDB_REVERSEKEY;
	add_plain(&b, 4, &records[5]);
	for (unsigned i = 0; i < 6; i++) {
		record_write(bytes[i], &records[i]);
		entries[i + 1] = (struct made_entry){names[i], bytes[i], strlen(names[i]),
						     TREE_SIZE, ENTRY_SUBTREE};
	}
	entries[0] = (struct made_entry){"alone", "in main", 5, 7, 0};
	entries[7] = (struct made_entry){"zero", NULL, 4, 0, 0};
	builder_tree(&b, entries, 8, 2, 2, &main_tree);
	builder_tree(&b, &freed, 1, 1, 2, &free_tree);
	/* The remaining pages: empty leaves to which no page leads. */
	while (b.next < IMAGE_PAGES)
		builder_new(&b, PAGE_LEAF);
	builder_meta(&b, 0, 2, &free_tree, &main_tree);
	builder_meta(&b, 1, 1, &free_tree, &main_tree);
	*size = (size_t)b.pages * b.page_size;
	return b.bytes;
}
