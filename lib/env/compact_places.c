/* SPDX-License-Identifier: OLDAP-2.8 */
/* Packs values between borders.
 *
 * First fit within one leaf: a value that would cross a border goes behind it, and the next values
 * of that leaf that are small enough fill the space in front. So a scan in key order uses at most
 * two neighbouring chunks at a time, and comes to each of them once. At most one gap stays in front
 * of each border.
 */
#include "env/compact_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { GAPS_ROOM = 1024, ENTRY_BYTES_LEAST = 2 /* its offset: entries may overlap */ };

int places_open(struct places *places, uint32_t border, uint32_t page_size)
{
	size_t most = page_size / ENTRY_BYTES_LEAST;

	*places = (struct places){
		.border = border,
		.planning = true,
		.runs = calloc(most, sizeof(*places->runs)),
		.order = calloc(most, sizeof(*places->order)),
	};
	return places->runs && places->order ? 0 : ENOMEM;
}

void places_close(struct places *places)
{
	free(places->gaps);
	free(places->runs);
	free(places->order);
}

/* Notes that the pages from `at` to the next border stay free. */
static int gap_note(struct places *places, uint64_t at)
{
	uint32_t pages = places->border - (uint32_t)(at % places->border);
	size_t i = at / places->border, room = places->room;
	uint32_t *gaps = places->gaps;

	if (!places->planning)
		return 0;
	while (i >= room)
		room = room ? 2 * room : GAPS_ROOM;
	if (room > places->room) {
		gaps = reallocarray(gaps, room, sizeof(*gaps));
		if (!gaps)
			return ENOMEM;
		memset(gaps + places->room, 0, (room - places->room) * sizeof(*gaps));
		places->gaps = gaps;
		places->room = room;
	}
	gaps[i] = pages;
	places->n_gaps = i + 1;
	places->free += pages;
	return 0;
}

static void place(struct places *places, unsigned i, uint64_t *next, unsigned *placed)
{
	struct compact_run *run = &places->runs[i];

	run->number = *next;
	run->placed = true;
	places->order[(*placed)++] = i;
	*next += run->pages;
}

/* Fills the space in front of the border that run i would cross with later runs of the leaf. */
static void gap_fill(struct places *places, unsigned i, uint64_t *next, unsigned *placed)
{
	uint64_t gap = places->border - *next % places->border;
	uint64_t passed = places->runs[i].pages;

	for (unsigned j = i + 1; j < places->n && gap && passed <= places->border; j++) {
		const struct compact_run *run = &places->runs[j];

		if (run->placed)
			continue;
		if (run->pages > gap) {
			passed += run->pages;
			continue;
		}
		gap -= run->pages;
		place(places, j, next, placed);
	}
}

int places_leaf(struct places *places, uint64_t *next, bool leaf_may, uint64_t *leaf)
{
	unsigned placed = 0;
	int rc = 0;

	*leaf = 0;
	places->before_leaf = places->n;
	for (unsigned i = 0; i < places->n && !rc; i++) {
		const struct compact_run *run = &places->runs[i];

		if (run->placed)
			continue;
		if (run->pages <= places->border &&
		    *next % places->border + run->pages > places->border) {
			places->used = true;
			gap_fill(places, i, next, &placed);
			if (leaf_may && !*leaf && *next % places->border) {
				places->before_leaf = placed;
				*leaf = (*next)++;
			}
			if (*next % places->border) {
				rc = gap_note(places, *next);
				*next += places->border - *next % places->border;
			}
		}
		place(places, i, next, &placed);
	}
	return rc;
}

void places_walk_begin(const struct places *places, struct places_walk *walk)
{
	*walk = (struct places_walk){.left = places->n_gaps};
}

uint64_t places_walk_next(const struct places *places, struct places_walk *walk)
{
	while (!walk->pages) {
		walk->page = (uint64_t)walk->left * places->border;
		walk->pages = places->gaps[--walk->left];
	}
	walk->pages--;
	return --walk->page;
}
