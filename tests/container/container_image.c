/* SPDX-License-Identifier: OLDAP-2.8 */
/* The container format once more, as a stranger would write it down. */
#include "container_image.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
	END = 256,
	PAGE = 4096,
	BLOCK = 4096, /* of a frame */
	CHUNK_ENTRIES = 253,
	LEAF_ENTRIES = 253,
	TREE_ENTRIES = 7,
	TREE_BYTES = 576,
	GROUP_ENTRIES = 169,
	GROUP_BYTES = 24,
	GROUP_PAGES = 256 << 10, /* bytes of pages in a group */
};

uint64_t image_hash(const void *bytes, size_t n)
{
	return XXH3_64bits(bytes, n);
}

uint32_t image_check(const void *bytes, size_t n)
{
	return (uint32_t)image_hash(bytes, n);
}

void image_put(uint8_t *at, unsigned n, uint64_t value)
{
	for (unsigned i = 0; i < n; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

uint64_t image_get(const uint8_t *at, unsigned n)
{
	uint64_t value = 0;

	while (n-- > 0)
		value = value << 8 | at[n];
	return value;
}

void image_data(uint8_t *bytes, size_t n)
{
	uint64_t z = 0, mixed;

	for (size_t i = 0; i < n; i++) {
		if (i % 8 == 0)
			z += 0x9e3779b97f4a7c15u;
		mixed = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
		mixed ^= mixed >> 31;
		bytes[i] = i / BLOCK % 2 ? (uint8_t)(i / BLOCK) : (uint8_t)(mixed >> (8 * (i % 8)));
	}
}

size_t image_frame_bound(size_t n)
{
	return 13 + n + (n / BLOCK + 1) * 3;
}

static int is_one_byte(const uint8_t *data, size_t n)
{
	return n > 1 && memcmp(data, data + 1, n - 1) == 0;
}

/* RFC 8878: one segment, content size in four bytes, checksum; blocks of type raw (0) or RLE (1).
 */
size_t image_frame(uint8_t *out, const uint8_t *data, size_t n)
{
	uint8_t *at = out;

	image_put(at, 4, 0xfd2fb528);
	at[4] = 2 << 6 | 1 << 5 | 1 << 2;
	image_put(at + 5, 4, n);
	at += 9;
	for (size_t done = 0, length; done < n; done += length) {
		int same;

		length = n - done < BLOCK ? n - done : BLOCK;
		same = is_one_byte(data + done, length);
		image_put(at, 3, (done + length == n) | (uint64_t)same << 1 | length << 3);
		at += 3;
		memcpy(at, data + done, same ? 1 : length);
		at += same ? 1 : length;
	}
	image_put(at, 4, (uint32_t)XXH64(data, n, 0));
	return (size_t)(at + 4 - out);
}

static void put_page_header(uint8_t *page, uint64_t number, unsigned flags, unsigned node)
{
	image_put(page, 8, number);
	image_put(page + 8, 2, 0);
	image_put(page + 10, 2, flags);
	image_put(page + 12, 2, node ? 18 : 0);
	image_put(page + 14, 2, node);
	image_put(page + 16, 2, node);
}

void image_meta_page(uint8_t *page, uint64_t number, uint32_t page_size, uint64_t txnid)
{
	memset(page, 0, page_size);
	put_page_header(page, number, 8, 0);
	image_put(page + 16, 4, 0xbeefc0de);
	image_put(page + 20, 4, 1);
	image_put(page + 32, 8, 1 << 30); /* the map */
	image_put(page + 40, 4, page_size);
	image_put(page + 80, 8, UINT64_MAX);
	image_put(page + 128, 8, UINT64_MAX);
	image_put(page + 136, 8, 9);
	image_put(page + 144, 8, txnid);
}

void image_branch_page(uint8_t *page, uint64_t number)
{
	put_page_header(page, number, 1, 100);
	image_put(page + 100, 8, 2);
}

void image_leaf_page(uint8_t *page, uint64_t number, uint32_t page_size, unsigned overflow)
{
	uint64_t size = (uint64_t)overflow * page_size - 16;

	put_page_header(page, number, 2, 100);
	image_put(page + 100, 4, size);
	image_put(page + 104, 2, 1);
	image_put(page + 106, 2, 0);
	image_put(page + 108, 8, number + 1);
}

static size_t pages_of(uint64_t entries, size_t per_page)
{
	return (size_t)((entries + per_page - 1) / per_page);
}

static void put_end(uint8_t *at, const char *magic)
{
	image_put(at, 4, 0x184d2a5c);
	image_put(at + 4, 4, END - 8);
	memcpy(at + 8, magic, 8);
	image_put(at + 16, 2, 1);
}

static void put_page(uint8_t *at, unsigned kind, uint64_t entries, uint64_t number, uint64_t base)
{
	image_put(at, 4, 0x184d2a5c);
	image_put(at + 4, 4, PAGE - 8);
	image_put(at + 8, 4, kind);
	image_put(at + 12, 4, entries);
	image_put(at + 16, 8, number);
	image_put(at + 24, 8, base);
}

static void put_header(uint8_t *at, const struct image_plan *plan)
{
	put_end(at, "lmdbio\r\n");
	image_put(at + 24, 4, plan->page_size);
	image_put(at + 28, 4, plan->chunk_size);
	image_put(at + 32, 8, plan->size);
	image_put(at + 44, 4, 3);
	image_put(at + 56, 4, plan->zstd_version);
	image_put(at + 64, 8, plan->txnid);
	image_put(at + 72, 8, plan->source_size);
	if (plan->source_hash)
		memcpy(at + 80, plan->source_hash, 16);
}

/* The frames, and into `entries` 16 bytes for each. Returns the end. */
static size_t put_frames(uint8_t *bytes, const struct image_plan *plan, uint8_t *entries,
			 uint64_t *content)
{
	size_t at = END;
	uint8_t both[16];

	*content = 0;
	for (size_t done = 0, n; done < plan->size; done += n, entries += 16) {
		size_t length;

		n = plan->size - done < plan->chunk_size ? plan->size - done : plan->chunk_size;
		length = image_frame(bytes + at, plan->data + done, n);
		image_put(entries, 4, length);
		image_put(entries + 4, 4, image_check(bytes + at, length));
		image_put(entries + 8, 8, image_hash(plan->data + done, n));
		image_put(both, 8, *content);
		memcpy(both + 8, entries + 8, 8);
		*content = image_hash(both, 16);
		at += length;
	}
	return at;
}

static uint8_t *put_leaves(uint8_t *page, const struct image_plan *plan)
{
	uint64_t number = 0;

	for (size_t t = 0; t < plan->n_trees; t++) {
		const struct image_tree *tree = &plan->trees[t];

		for (uint64_t first = 0; first < tree->leaves; first += LEAF_ENTRIES) {
			uint64_t n = tree->leaves - first;

			n = n < LEAF_ENTRIES ? n : LEAF_ENTRIES;
			put_page(page, 1, n, number++, t);
			for (uint64_t i = 0; i < n; i++) {
				image_put(page + 32 + 16 * i, 8, tree->first_page + first + i);
				image_put(page + 40 + 16 * i, 8, (first + i) * tree->per_leaf);
			}
			page += PAGE;
		}
	}
	return page;
}

static uint8_t *put_trees(uint8_t *page, const struct image_plan *plan)
{
	uint64_t first = 0;

	for (size_t t = 0; t < plan->n_trees; t++) {
		const struct image_tree *tree = &plan->trees[t];
		uint8_t *entry = page + 32 + t % TREE_ENTRIES * TREE_BYTES;
		size_t left = plan->n_trees - t;

		if (t % TREE_ENTRIES == 0)
			put_page(page, 2, left < TREE_ENTRIES ? left : TREE_ENTRIES,
				 t / TREE_ENTRIES, 0);
		image_put(entry, 8, tree->leaves * tree->per_leaf);
		image_put(entry + 8, 8, tree->leaves);
		image_put(entry + 16, 8, first);
		image_put(entry + 24, 2, tree->flags);
		image_put(entry + 26, 2, strlen(tree->name));
		memcpy(entry + 64, tree->name, strlen(tree->name));
		first += pages_of(tree->leaves, LEAF_ENTRIES);
		if (left == 1 || t % TREE_ENTRIES == TREE_ENTRIES - 1)
			page += PAGE;
	}
	return page;
}

static uint8_t *put_chunks(uint8_t *page, const uint8_t *entries, size_t chunks)
{
	uint64_t base = END;

	for (size_t first = 0; first < chunks; first += CHUNK_ENTRIES) {
		size_t n = chunks - first < CHUNK_ENTRIES ? chunks - first : CHUNK_ENTRIES;

		put_page(page, 3, n, first / CHUNK_ENTRIES, base);
		memcpy(page + 32, entries + 16 * first, 16 * n);
		for (size_t i = 0; i < n; i++)
			base += image_get(page + 32 + 16 * i, 4);
		page += PAGE;
	}
	return page;
}

/* The groups, and into `entries` 24 bytes for each. Returns the end. */
static uint8_t *put_groups(uint8_t *at, const struct image_plan *plan, uint8_t *entries)
{
	size_t (*frame)(uint8_t *, const uint8_t *, size_t) =
		plan->copies_frame ? plan->copies_frame : image_frame;
	size_t per = GROUP_PAGES / plan->page_size, size = plan->page_size;
	uint8_t *bytes = calloc(per, 8 + size);

	for (size_t first = 0; first < plan->n_copies; first += per, entries += GROUP_BYTES) {
		size_t n = plan->n_copies - first < per ? plan->n_copies - first : per, length;

		for (size_t i = 0; i < n; i++) {
			uint64_t page = plan->copies[first + i];

			image_put(bytes + 8 * i, 8, page);
			if (page < plan->size / size)
				memcpy(bytes + 8 * n + size * i, plan->data + size * page, size);
		}
		length = frame(at + 8, bytes, n * (8 + size));
		image_put(at, 4, 0x184d2a5c);
		image_put(at + 4, 4, length);
		image_put(entries, 8, plan->copies[first]);
		image_put(entries + 8, 8, image_hash(bytes, n * (8 + size)));
		image_put(entries + 16, 4, length);
		image_put(entries + 20, 4, image_check(at + 8, length));
		at += 8 + length;
	}
	free(bytes);
	return at;
}

static uint8_t *put_copies(uint8_t *page, const uint8_t *entries, size_t groups)
{
	uint64_t base = 0;

	for (size_t first = 0; first < groups; first += GROUP_ENTRIES) {
		size_t n = groups - first < GROUP_ENTRIES ? groups - first : GROUP_ENTRIES;

		put_page(page, 4, n, first / GROUP_ENTRIES, base);
		memcpy(page + 32, entries + GROUP_BYTES * first, GROUP_BYTES * n);
		for (size_t i = 0; i < n; i++)
			base += 8 + image_get(page + 32 + GROUP_BYTES * i + 16, 4);
		page += PAGE;
	}
	return page;
}

static void put_footer(uint8_t *at, const struct image *image, const struct image_plan *plan,
		       uint64_t content)
{
	put_end(at, "oibdml\r\n");
	image_put(at + 32, 8, image->size);
	image_put(at + 40, 8, image->data_end);
	image_put(at + 48, 8, (image->trees - image->data_end) / PAGE);
	image_put(at + 56, 8, plan->n_trees);
	image_put(at + 64, 8, content);
	image_put(at + 72, 8, plan->n_copies);
	image_put(at + 80, 4, plan->meta_page);
	if (plan->meta_page)
		memcpy(at + 88, plan->data + (plan->meta_page - 1) * (size_t)plan->page_size + 16,
		       136);
}

void image_make(struct image *image, const struct image_plan *plan)
{
	size_t chunks = (plan->size + plan->chunk_size - 1) / plan->chunk_size;
	size_t groups = pages_of(plan->n_copies, GROUP_PAGES / plan->page_size);
	size_t group_size = GROUP_PAGES / plan->page_size * (8 + (size_t)plan->page_size);
	size_t bound = 2 * END + chunks * image_frame_bound(plan->chunk_size), leaf_pages = 0;
	uint8_t *entries = calloc(chunks + 1, 16), *at;
	uint8_t *group_entries = calloc(groups + 1, GROUP_BYTES);
	uint64_t content;

	for (size_t t = 0; t < plan->n_trees; t++)
		leaf_pages += pages_of(plan->trees[t].leaves, LEAF_ENTRIES);
	bound += PAGE * (leaf_pages + pages_of(plan->n_trees, TREE_ENTRIES) +
			 pages_of(chunks, CHUNK_ENTRIES) + pages_of(groups, GROUP_ENTRIES));
	bound += groups * (8 + group_size + group_size / 8 + 1000);
	image->bytes = calloc(1, bound);
	if (!image->bytes || !entries || !group_entries)
		abort();
	put_header(image->bytes, plan);
	image->data_end = put_frames(image->bytes, plan, entries, &content);
	at = put_leaves(image->bytes + image->data_end, plan);
	image->trees = (size_t)(at - image->bytes);
	at = put_trees(at, plan);
	image->groups = (size_t)(at - image->bytes);
	at = put_groups(at, plan, group_entries);
	image->chunks = (size_t)(at - image->bytes);
	at = put_chunks(at, entries, chunks);
	image->copies = (size_t)(at - image->bytes);
	at = put_copies(at, group_entries, groups);
	image->footer = (size_t)(at - image->bytes);
	image->size = image->footer + END;
	put_footer(at, image, plan, content);
	image_seal(image->bytes, image->size, image->data_end);
	free(group_entries);
	free(entries);
}

void image_free(struct image *image)
{
	free(image->bytes);
}

size_t image_place(const struct image *image, enum image_place place)
{
	switch (place) {
	case IN_FOOTER:
		return image->footer;
	case IN_CHUNKS:
		return image->chunks;
	case IN_LEAVES:
		return image->data_end;
	case IN_SECOND_LEAVES:
		return image->data_end + 2 * PAGE;
	case IN_TREES:
		return image->trees;
	case IN_COPIES:
		return image->copies;
	default:
		return 0;
	}
}

void image_seal(uint8_t *bytes, size_t size, size_t pages)
{
	size_t footer = size - END;
	uint64_t seed;

	image_put(bytes + 248, 8, image_hash(bytes, 248));
	seed = image_get(bytes + 248, 8);
	while (pages + PAGE <= footer) {
		uint64_t length = image_get(bytes + pages + 4, 4);

		/* A group: a frame with a frame in it. */
		if (image_get(bytes + pages, 4) == 0x184d2a5c &&
		    image_get(bytes + pages + 8, 4) == 0xfd2fb528 && length < footer - pages - 8) {
			pages += 8 + length;
			continue;
		}
		image_put(bytes + pages + 4088, 8, XXH3_64bits_withSeed(bytes + pages, 4088, seed));
		pages += PAGE;
	}
	image_put(bytes + footer + 24, 8, seed);
	image_put(bytes + footer + 248, 8, image_hash(bytes + footer, 248));
}
