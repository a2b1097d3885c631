/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps one bit for each page of a file. */
#ifndef LMDBIO_TOOLS_PAGE_MAP_H
#define LMDBIO_TOOLS_PAGE_MAP_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct page_map {
	uint64_t *words;
	uint64_t pages; /* numbers below this have a bit */
};

/* Makes a map with all bits clear. Returns 0 or ENOMEM. */
static inline int page_map_open(struct page_map *map, uint64_t pages)
{
	map->pages = pages;
	map->words = calloc(pages / 64 + 1, sizeof(*map->words));
	return map->words ? 0 : ENOMEM;
}

static inline void page_map_close(struct page_map *map)
{
	free(map->words);
	*map = (struct page_map){0};
}

/* Returns whether a page's bit is set; false without a bit. */
static inline bool page_map_has(const struct page_map *map, uint64_t page)
{
	return page < map->pages && map->words[page / 64] >> (page % 64) & 1;
}

/* Sets a page's bit. Returns whether it was set before; false without a bit. */
static inline bool page_map_add(struct page_map *map, uint64_t page)
{
	uint64_t bit = (uint64_t)1 << (page % 64);
	bool before;

	if (page >= map->pages)
		return false;
	before = map->words[page / 64] & bit;
	map->words[page / 64] |= bit;
	return before;
}

static inline uint64_t page_map_count(const struct page_map *map)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i <= map->pages / 64; i++)
		count += (uint64_t)__builtin_popcountll(map->words[i]);
	return count;
}

#endif
