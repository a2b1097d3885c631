/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides whether bytes are a sound page, and whether an entry of the page is sound.
 *
 * The functions check every number against the page's own end each time before they follow it, and
 * remember no verdict. So a page may change under a reader (a reset transaction, a broken file) and
 * still no byte outside of the page is touched.
 */
#ifndef LMDBIO_FORMAT_PAGE_H
#define LMDBIO_FORMAT_PAGE_H

#include "format/layout.h"
#include "util/checked.h"

#include <stdbool.h>

struct entry {
	const uint8_t *key;
	const uint8_t *data; /* of a leaf: the value, page number, record or sub-page */
	uint32_t key_size;
	uint32_t data_size; /* of the value, also of one in an overflow run */
	uint16_t flags;
};

/* The first parameter of all functions below is the layout of the page's file. */
static inline unsigned page_flags(const struct page_layout *layout, const uint8_t *page)
{
	return load16(page + layout->shift + PAGE_FLAGS);
}

/* Returns the size of an item in bytes, from a LEAF2 page. */
static inline uint32_t page_pad(const struct page_layout *layout, const uint8_t *page)
{
	return load16(page + layout->shift + PAGE_PAD);
}

/* Where the free space begins and ends, in bytes from the page's start. */
static inline uint32_t page_lower(const struct page_layout *layout, const uint8_t *page)
{
	return layout->base + load16(page + layout->shift + PAGE_LOWER);
}

static inline uint32_t page_upper(const struct page_layout *layout, const uint8_t *page)
{
	return layout->base + load16(page + layout->shift + PAGE_UPPER);
}

/* How many pages the first page of an overflow run says the run has. */
static inline uint32_t page_run(const struct page_layout *layout, const uint8_t *page)
{
	return load32(page + layout->shift + PAGE_RUN);
}

/* Returns how many entries or items the page says it has; 0 if its header makes no sense. `size` is
 * the page's length in bytes: the page size, or a sub-page's own. In a LEAF2 page the bounds of the
 * free space mean nothing: each item moves them by two bytes, however long it is. page_items_fit()
 * decides whether its items are inside. A damaged branch page may have the LEAF2 flag, too. */
static inline unsigned page_count(const struct page_layout *layout, const uint8_t *page,
				  uint32_t size)
{
	unsigned lower = page_lower(layout, page), upper = page_upper(layout, page);

	if (unlikely(lower < layout->header || lower > upper || upper > size) &&
	    (lower < layout->header ||
	     (page_flags(layout, page) & (PAGE_LEAF2 | PAGE_BRANCH)) != PAGE_LEAF2))
		return 0;
	return (lower - layout->header) >> 1;
}

/* Returns whether a page of a tree, asked for by its number, is sound. */
static inline bool page_is_sound(const struct page_layout *layout, const uint8_t *page,
				 uint64_t number)
{
	unsigned flags =
		page_flags(layout, page) & (PAGE_BRANCH | PAGE_LEAF | PAGE_OVERFLOW | PAGE_META);

	return load64(page + PAGE_NUMBER) == number &&
	       (flags == PAGE_BRANCH || flags == PAGE_LEAF);
}

/* Returns where entry i begins by its own word, in bytes from the page's start. i is below the
 * count. */
static inline unsigned page_offset(const struct page_layout *layout, const uint8_t *page,
				   unsigned i)
{
	return layout->base + load16(page + layout->header + 2 * i);
}

/* Returns entry i, or NULL if its header is not inside the page. i is below the count. */
static inline const uint8_t *page_entry(const struct page_layout *layout, const uint8_t *page,
					uint32_t size, unsigned i)
{
	unsigned offset = page_offset(layout, page, i);

	if (unlikely(offset < layout->least || offset > size - ENTRY_KEY))
		return NULL;
	return page + offset;
}

/* Finds the key of entry i. Returns false if the entry leaves the page. */
static inline bool page_entry_key(const struct page_layout *layout, const uint8_t *page,
				  uint32_t size, unsigned i, const uint8_t **key,
				  uint32_t *key_size)
{
	unsigned offset = page_offset(layout, page, i);
	unsigned bytes;

	if (unlikely(offset < layout->least || offset > size - ENTRY_KEY))
		return false;
	bytes = load16(page + offset + ENTRY_KEY_SIZE);
	if (unlikely(bytes > size - ENTRY_KEY - offset))
		return false;
	*key = page + offset + ENTRY_KEY;
	*key_size = bytes;
	return true;
}

/* Returns the distance in bytes from the start of an entry's key to its data. */
static inline uint32_t entry_data_at(const struct page_layout *layout, uint32_t key_size)
{
	return (key_size + layout->odd) & ~layout->odd;
}

/* Whether an entry's key is the name of a database. */
static inline bool entry_is_database(unsigned flags)
{
	return (flags & (ENTRY_SUBTREE | ENTRY_DUPS)) == ENTRY_SUBTREE;
}

/* Returns the size of a key as programs see it: a database's name without the bytes that end it. */
static inline uint32_t entry_key_shown(const struct page_layout *layout, unsigned flags,
				       const uint8_t *key, uint32_t size)
{
	/* Nearly all entries lack this flag, so that one test rules out a name. */
	if (!layout->name_end || likely(!(flags & ENTRY_SUBTREE)))
		return size;
	return entry_is_database(flags) && size > layout->name_end && !key[size - 1]
		       ? size - layout->name_end
		       : size;
}

/* Finds entry i of a leaf page, with all of its key. Returns false if the entry leaves the page. */
static inline bool page_whole_entry(const struct page_layout *layout, const uint8_t *page,
				   uint32_t size, unsigned i, struct entry *entry)
{
	const uint8_t *at;
	uint32_t room, inside;

	if (unlikely(!page_entry_key(layout, page, size, i, &entry->key, &entry->key_size)))
		return false;
	at = entry->key - ENTRY_KEY;
	entry->data = entry->key + entry_data_at(layout, entry->key_size);
	entry->data_size = load16(at + ENTRY_LOW) | (uint32_t)load16(at + ENTRY_HIGH) << 16;
	entry->flags = load16(at + ENTRY_FLAGS);
	room = (uint32_t)(page + size - entry->data);
	inside = entry->flags & ENTRY_BIG ? layout->reference : entry->data_size;
	/* The even offset behind the last key may already be outside the page. */
	if (layout->odd)
		return likely((uint64_t)(entry->data - page) + inside <= size);
	return likely(inside <= room);
}

/* The same with the key as programs see it. */
static inline bool page_leaf_entry(const struct page_layout *layout, const uint8_t *page,
				   uint32_t size, unsigned i, struct entry *entry)
{
	if (unlikely(!page_whole_entry(layout, page, size, i, entry)))
		return false;
	entry->key_size = entry_key_shown(layout, entry->flags, entry->key, entry->key_size);
	return true;
}

/* Finds the page that entry i of a branch page leads to. Returns false if the entry leaves the
 * page. */
static inline bool page_child(const struct page_layout *layout, const uint8_t *page, uint32_t size,
			      unsigned i, uint64_t *number)
{
	const uint8_t *at = page_entry(layout, page, size, i);

	if (unlikely(!at))
		return false;
	*number = load16(at + ENTRY_LOW) | (uint64_t)load16(at + ENTRY_HIGH) << 16 |
		  (uint64_t)load16(at + ENTRY_FLAGS) << 32;
	return true;
}

/* Returns whether a LEAF2 page has room for `count` items of `pad` bytes each. */
static inline bool page_items_fit(const struct page_layout *layout, uint32_t size, unsigned count,
				  uint32_t pad)
{
	return pad && (uint64_t)count * pad <= size - layout->header;
}

static inline const uint8_t *page_item(const struct page_layout *layout, const uint8_t *page,
				       uint64_t i, uint32_t pad)
{
	return page + layout->header + i * pad;
}

/* Returns the bytes of a value in an overflow run; `run` is the run's first page. */
static inline const uint8_t *page_value(const struct page_layout *layout, const uint8_t *run)
{
	return run + layout->header;
}

/* Returns how many pages of `1 << shift` bytes a value of `bytes` bytes takes. */
static inline uint64_t value_pages(const struct page_layout *layout, uint64_t bytes, unsigned shift)
{
	return ((layout->header - 1 + bytes) >> shift) + 1;
}

#endif
