/* What only this file knows: how leaf pages that were read to number their records are kept until
 * somebody takes the records out of them.
 *
 * A shelf is a reservation of address space as long as the snapshot, page n at its own place, with
 * memory under those pages alone that were put there. So whatever reads a snapshot reads a shelf's
 * view in the same way.
 */
#ifndef LMDBIO_INDEX_PAGE_SHELF_H
#define LMDBIO_INDEX_PAGE_SHELF_H

#include "cursor/cursor.h"

#include <stdbool.h>
#include <stdint.h>

struct page_shelf;

/* Makes an empty shelf for pages of `view`, of `most` bytes at most. Where there is no address
 * space it holds nothing. Returns 0 or ENOMEM. */
int shelf_open(struct page_shelf **shelf, const struct window_view *view, uint64_t most);
void shelf_close(struct page_shelf *shelf);

/* Keeps a copy of a page. false: there is no room. Any thread, each page once. */
bool shelf_put(struct page_shelf *shelf, uint64_t number, const uint8_t *page);

/* Any thread. */
bool shelf_has(const struct page_shelf *shelf, uint64_t number);

/* Gives up a page, if it is there, at which nobody looks any more. Any thread, each page once. */
void shelf_drop(struct page_shelf *shelf, uint64_t number);

/* The snapshot as far as it is on the shelf: only for pages that shelf_has(). */
struct snapshot shelf_snapshot(const struct page_shelf *shelf, const struct snapshot *snapshot);

#endif
