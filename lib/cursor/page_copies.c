/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps copies of tree pages for a walk ahead of the program.
 *
 * Where several scans share little memory, a chunk that look-ahead mapped would take the place of
 * the chunk that the program reads (store_copy()). So the walk reads copies of the few pages that
 * it stands on. A copy stays as long as one of the walk's cursors points to it.
 */
#include "cursor/cursor_private.h"

#include <errno.h>

/* The places that may be in use: a cursor that descends points to one page more in a moment. */
static unsigned places(const struct page_copies *copies)
{
	unsigned n = 1;

	for (unsigned i = 0; i < PAGE_COPIES_CURSORS; i++)
		n += copies->cursors[i] ? copies->cursors[i]->depth + 1u : 0;
	return n;
}

static bool is_pointed_to(const struct page_copies *copies, const uint8_t *page)
{
	for (unsigned i = 0; i < PAGE_COPIES_CURSORS; i++)
		for (unsigned n = 0; copies->cursors[i] && n < copies->cursors[i]->depth; n++)
			if (copies->cursors[i]->levels[n].page == page)
				return true;
	return false;
}

/* A place that no cursor points to, and not the last one that was taken. */
static unsigned place_free(struct page_copies *copies, uint32_t page_size)
{
	unsigned n = places(copies);

	do
		copies->last = (copies->last + 1) % n;
	while (is_pointed_to(copies, copies->bytes + (size_t)copies->last * page_size));
	return copies->last;
}

int page_copy(struct snapshot *snapshot, uint64_t number, const uint8_t **page)
{
	struct page_copies *copies = snapshot->copies;
	unsigned n = 0;

	while (n < PAGE_COPIES && copies->numbers[n] != number)
		n++;
	if (n == PAGE_COPIES) {
		uint8_t *place;

		if (!copies->bytes)
			return EAGAIN;
		n = place_free(copies, snapshot->page_size);
		place = copies->bytes + (size_t)n * snapshot->page_size;
		copies->numbers[n] = 0;
		if (!store_copy(snapshot->view.store, number << snapshot->view.page_shift,
				snapshot->page_size, place))
			return EAGAIN;
		copies->numbers[n] = number;
	}
	*page = copies->bytes + (size_t)n * snapshot->page_size;
	return 0;
}
