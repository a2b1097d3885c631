/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides whether bytes are a sound page, and whether an entry of it is sound.
 *
 * Every number is checked against the page's own end before it is followed, each time that it is
 * followed: a verdict is not remembered, so that a page may change under a reader (a reset
 * transaction, a broken file) and still nothing outside of it is touched.
 */
#ifndef LMDBIO_FORMAT_PAGE_H
#define LMDBIO_FORMAT_PAGE_H

#include "format/layout.h"
#include "util/checked.h"

#include <stdbool.h>

struct entry {
	const uint8_t *key;
	const uint8_t *data; /* a leaf's: the value, page number, record or sub-page */
	uint32_t key_size;
	uint32_t data_size; /* the value's, also where it stands in an overflow run */
	uint16_t flags;
};

static inline unsigned page_flags(const uint8_t *page)
{
	return load16(page + PAGE_FLAGS);
}

/* How many entries or items the page says it has; 0 when its header makes no sense. `size` is the
 * page's length in bytes: the page size, or a sub-page's own. The bounds of a LEAF2 page's free
 * space mean nothing (each item moves them by two bytes however long it is); whether the items
 * are inside the page is page_items_fit()'s to say. */
static inline unsigned page_count(const uint8_t *page, uint32_t size)
{
	unsigned lower = load16(page + PAGE_LOWER), upper = load16(page + PAGE_UPPER);

	if (unlikely(lower < PAGE_HEADER || lower > upper || upper > size) &&
	    (lower < PAGE_HEADER || !(page_flags(page) & PAGE_LEAF2)))
		return 0;
	return (lower - PAGE_HEADER) >> 1;
}

/* The verdict on a page of a tree that was asked for by its number. */
static inline bool page_is_sound(const uint8_t *page, uint64_t number)
{
	unsigned flags = page_flags(page) & (PAGE_BRANCH | PAGE_LEAF | PAGE_OVERFLOW | PAGE_META);

	return load64(page + PAGE_NUMBER) == number &&
	       (flags == PAGE_BRANCH || flags == PAGE_LEAF);
}

/* Where entry i begins, or NULL when its header is not inside the page. i is below the count. */
static inline const uint8_t *page_entry(const uint8_t *page, uint32_t size, unsigned i)
{
	unsigned offset = load16(page + PAGE_HEADER + 2 * i);

	if (unlikely(offset < PAGE_HEADER + 2 || offset > size - ENTRY_KEY))
		return NULL;
	return page + offset;
}

/* The key of entry i. false: the entry leaves the page. */
static inline bool page_entry_key(const uint8_t *page, uint32_t size, unsigned i,
				  const uint8_t **key, uint32_t *key_size)
{
	unsigned offset = load16(page + PAGE_HEADER + 2 * i);
	unsigned bytes;

	if (unlikely(offset < PAGE_HEADER + 2 || offset > size - ENTRY_KEY))
		return false;
	bytes = load16(page + offset + ENTRY_KEY_SIZE);
	if (unlikely(bytes > size - ENTRY_KEY - offset))
		return false;
	*key = page + offset + ENTRY_KEY;
	*key_size = bytes;
	return true;
}

/* Entry i of a leaf page. false: the entry leaves the page. */
static inline bool page_leaf_entry(const uint8_t *page, uint32_t size, unsigned i,
				   struct entry *entry)
{
	const uint8_t *at;
	uint32_t room, inside;

	if (unlikely(!page_entry_key(page, size, i, &entry->key, &entry->key_size)))
		return false;
	at = entry->key - ENTRY_KEY;
	entry->data = entry->key + entry->key_size;
	entry->data_size = load16(at + ENTRY_LOW) | (uint32_t)load16(at + ENTRY_HIGH) << 16;
	entry->flags = load16(at + ENTRY_FLAGS);
	room = (uint32_t)(page + size - entry->data);
	inside = entry->flags & ENTRY_BIG ? sizeof(uint64_t) : entry->data_size;
	return likely(inside <= room);
}

/* The page that entry i of a branch page leads to. false: the entry leaves the page. */
static inline bool page_child(const uint8_t *page, uint32_t size, unsigned i, uint64_t *number)
{
	const uint8_t *at = page_entry(page, size, i);

	if (unlikely(!at))
		return false;
	*number = load16(at + ENTRY_LOW) | (uint64_t)load16(at + ENTRY_HIGH) << 16 |
		  (uint64_t)load16(at + ENTRY_FLAGS) << 32;
	return true;
}

/* Item i of a LEAF2 page of `count` items of `pad` bytes each, which must all be in the page. */
static inline bool page_items_fit(uint32_t size, unsigned count, uint32_t pad)
{
	return pad && (uint64_t)count * pad <= size - PAGE_HEADER;
}

#endif
