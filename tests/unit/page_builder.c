/* SPDX-License-Identifier: OLDAP-2.8 */
/* Builds pages as LMDB does: offsets from the front, nodes from the back. */
#include "page_builder.h"

#include "util/checked.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *memory)
{
	if (!memory) {
		fputs("page_builder: out of memory\n", stderr);
		abort();
	}
	return memory;
}

void builder_open(struct builder *builder, uint32_t page_size, uint64_t pages)
{
	builder->bytes = must(calloc(pages, page_size));
	builder->page_size = page_size;
	builder->pages = pages;
	builder->next = FORMAT_METAS;
}

void builder_close(struct builder *builder)
{
	free(builder->bytes);
	builder->bytes = NULL;
}

uint8_t *builder_page(const struct builder *builder, uint64_t number)
{
	return builder->bytes + (size_t)number * builder->page_size;
}

uint64_t builder_take(struct builder *builder, uint64_t count)
{
	uint64_t number = builder->next;

	if (count > builder->pages - number) {
		fprintf(stderr, "page_builder: no room for %llu pages\n",
			(unsigned long long)count);
		abort();
	}
	builder->next += count;
	return number;
}

uint64_t builder_new(struct builder *builder, unsigned flags)
{
	uint64_t number = builder_take(builder, 1);

	page_format(builder_page(builder, number), builder->page_size, number, flags);
	return number;
}

uint64_t builder_run(struct builder *builder, const void *value, size_t size)
{
	uint64_t pages = (PAGE_HEADER - 1 + size) / builder->page_size + 1;
	uint64_t number = builder_take(builder, pages);
	uint8_t *run = builder_page(builder, number);

	store64(run + PAGE_NUMBER, number);
	store16(run + PAGE_FLAGS, PAGE_OVERFLOW);
	store32(run + PAGE_RUN, (uint32_t)pages);
	memcpy(run + PAGE_HEADER, value, size);
	return number;
}

void page_format(uint8_t *page, uint32_t size, uint64_t number, unsigned flags)
{
	memset(page, 0, size);
	store64(page + PAGE_NUMBER, number);
	store16(page + PAGE_FLAGS, (uint16_t)flags);
	store16(page + PAGE_LOWER, PAGE_HEADER);
	store16(page + PAGE_UPPER, (uint16_t)size);
}

/* Room for a node of `size` bytes, and its offset at the end of the offsets. */
static uint8_t *page_grow(uint8_t *page, size_t size)
{
	unsigned lower = load16(page + PAGE_LOWER), upper = load16(page + PAGE_UPPER);

	size = round_up(size, 2);
	if (lower + 2 + size > upper) {
		fprintf(stderr, "page_builder: no room for a node of %zu bytes\n", size);
		abort();
	}
	upper -= (unsigned)size;
	store16(page + lower, (uint16_t)upper);
	store16(page + PAGE_LOWER, (uint16_t)(lower + 2));
	store16(page + PAGE_UPPER, (uint16_t)upper);
	return page + upper;
}

uint8_t *page_add_entry(uint8_t *page, const struct made_entry *entry)
{
	size_t inside = entry->flags & ENTRY_BIG ? sizeof(uint64_t) : entry->data_size;
	uint8_t *node = page_grow(page, ENTRY_KEY + entry->key_size + inside);

	store16(node + ENTRY_LOW, (uint16_t)entry->data_size);
	store16(node + ENTRY_HIGH, (uint16_t)(entry->data_size >> 16));
	store16(node + ENTRY_FLAGS, (uint16_t)entry->flags);
	store16(node + ENTRY_KEY_SIZE, (uint16_t)entry->key_size);
	if (entry->key_size)
		memcpy(node + ENTRY_KEY, entry->key, entry->key_size);
	if (inside)
		memcpy(node + ENTRY_KEY + entry->key_size, entry->data, inside);
	return node;
}

uint8_t *page_add_child(uint8_t *page, const void *key, size_t key_size, uint64_t child)
{
	uint8_t *node = page_grow(page, ENTRY_KEY + key_size);

	store16(node + ENTRY_LOW, (uint16_t)child);
	store16(node + ENTRY_HIGH, (uint16_t)(child >> 16));
	store16(node + ENTRY_FLAGS, (uint16_t)(child >> 32));
	store16(node + ENTRY_KEY_SIZE, (uint16_t)key_size);
	if (key_size)
		memcpy(node + ENTRY_KEY, key, key_size);
	return node;
}

void page_add_item(uint8_t *page, const void *item, uint16_t size)
{
	unsigned lower = load16(page + PAGE_LOWER), count = (lower - PAGE_HEADER) / 2;

	memcpy(page + PAGE_HEADER + count * size, item, size);
	store16(page + PAGE_PAD, size);
	store16(page + PAGE_LOWER, (uint16_t)(lower + 2));
	/* As the original counts: with items of one byte the upper end moves past the page. */
	store16(page + PAGE_UPPER, (uint16_t)(load16(page + PAGE_UPPER) - (size - 2)));
}

void record_write(uint8_t *bytes, const struct tree_record *record)
{
	store32(bytes + TREE_PAD, record->pad);
	store16(bytes + TREE_FLAGS, record->flags);
	store16(bytes + TREE_DEPTH, record->depth);
	store64(bytes + TREE_BRANCH_PAGES, record->branch_pages);
	store64(bytes + TREE_LEAF_PAGES, record->leaf_pages);
	store64(bytes + TREE_OVERFLOW_PAGES, record->overflow_pages);
	store64(bytes + TREE_ENTRIES, record->entries);
	store64(bytes + TREE_ROOT, record->root);
}

void builder_meta(struct builder *builder, unsigned which, uint64_t txnid,
		  const struct tree_record *free_tree, const struct tree_record *main_tree)
{
	uint8_t *page = builder_page(builder, which);

	page_format(page, builder->page_size, which, PAGE_META);
	store64(page + PAGE_LOWER, 0);
	store32(page + META_MAGIC, FORMAT_MAGIC);
	store32(page + META_VERSION, FORMAT_VERSION);
	store64(page + META_MAPSIZE, builder->pages * builder->page_size);
	record_write(page + META_FREE_TREE, free_tree);
	store32(page + META_FREE_TREE + TREE_PAD, builder->page_size);
	store16(page + META_FREE_TREE + TREE_FLAGS, 0x08);
	record_write(page + META_MAIN_TREE, main_tree);
	store64(page + META_LAST_PAGE, builder->next - 1);
	store64(page + META_TXNID, txnid);
}

/* One level's pages, while the level above is made of them. */
struct row {
	uint64_t *numbers;
	struct made_entry *firsts; /* each page's first key */
	size_t n;
};

static struct row row_new(size_t n)
{
	return (struct row){
		.numbers = must(calloc(n, sizeof(uint64_t))),
		.firsts = must(calloc(n, sizeof(struct made_entry))),
		.n = n,
	};
}

static void row_free(struct row *row)
{
	free(row->numbers);
	free(row->firsts);
}

static struct row branches_over(struct builder *builder, const struct row *below, size_t fan)
{
	struct row row = row_new((below->n + fan - 1) / fan);

	for (size_t i = 0; i < row.n; i++) {
		uint8_t *page;

		row.numbers[i] = builder_new(builder, PAGE_BRANCH);
		row.firsts[i] = below->firsts[i * fan];
		page = builder_page(builder, row.numbers[i]);
		for (size_t j = i * fan; j < below->n && j < (i + 1) * fan; j++) {
			const struct made_entry *first = &below->firsts[j];

			/* The first key of a branch page is empty. */
			page_add_child(page, first->key, j == i * fan ? 0 : first->key_size,
				       below->numbers[j]);
		}
	}
	return row;
}

static void finish_tree(struct builder *builder, struct row row, size_t per_branch,
			struct tree_record *record)
{
	record->leaf_pages = row.n;
	record->branch_pages = 0;
	record->depth = 1;
	while (row.n > 1) {
		struct row above = branches_over(builder, &row, per_branch);

		row_free(&row);
		row = above;
		record->branch_pages += row.n;
		record->depth++;
	}
	record->root = row.numbers[0];
	row_free(&row);
}

void builder_tree(struct builder *builder, const struct made_entry *entries, size_t n,
		  size_t per_leaf, size_t per_branch, struct tree_record *record)
{
	struct row row = row_new((n + per_leaf - 1) / per_leaf);

	for (size_t i = 0; i < row.n; i++) {
		row.numbers[i] = builder_new(builder, PAGE_LEAF);
		row.firsts[i] = entries[i * per_leaf];
		for (size_t j = i * per_leaf; j < n && j < (i + 1) * per_leaf; j++)
			page_add_entry(builder_page(builder, row.numbers[i]), &entries[j]);
	}
	record->entries = n;
	finish_tree(builder, row, per_branch, record);
}

void builder_items(struct builder *builder, const uint8_t *items, size_t n, size_t per_leaf,
		   size_t per_branch, struct tree_record *record)
{
	struct row row = row_new((n + per_leaf - 1) / per_leaf);
	size_t size = record->pad;

	for (size_t i = 0; i < row.n; i++) {
		row.numbers[i] = builder_new(builder, PAGE_LEAF | PAGE_LEAF2);
		row.firsts[i] =
			(struct made_entry){.key = items + i * per_leaf * size, .key_size = size};
		for (size_t j = i * per_leaf; j < n && j < (i + 1) * per_leaf; j++)
			page_add_item(builder_page(builder, row.numbers[i]), items + j * size,
				      (uint16_t)size);
	}
	record->entries = n;
	finish_tree(builder, row, per_branch, record);
}
