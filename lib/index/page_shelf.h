/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps leaf pages that were read to number their records until the records are taken out.
 *
 * A shelf is reserved address space as long as the snapshot, page n at its own place, with memory
 * only under pages that were put there. So code that reads a snapshot reads a shelf's view in the
 * same way. Pages for which memory has no room may go to a file.
 */
#ifndef LMDBIO_INDEX_PAGE_SHELF_H
#define LMDBIO_INDEX_PAGE_SHELF_H

#include "cursor/cursor.h"

#include <stdbool.h>
#include <stdint.h>

struct page_shelf;

/* Makes an empty shelf for pages of `view`, of `most` bytes at most. Without address space the
 * shelf holds nothing. Returns 0 or ENOMEM. */
int shelf_open(struct page_shelf **shelf, const struct window_view *view, uint64_t most);
void shelf_close(struct page_shelf *shelf);

/* Adds an unnamed file in `directory`, which guarded_open() opens, of `most` bytes at most, for pages
 * for which memory has no room. If no file can be made, those pages are not kept. Call it before the
 * first shelf_put(). */
void shelf_extend(struct page_shelf *shelf, const char *directory, uint64_t most);
/* Return how many bytes of pages the file may take, and how many it holds. NULL: 0. */
uint64_t shelf_file_room(const struct page_shelf *shelf);
uint64_t shelf_file_used(const struct page_shelf *shelf);

/* Keeps a copy of a page. Returns false if there is no room. Any thread, each page once. */
bool shelf_put(struct page_shelf *shelf, uint64_t number, const uint8_t *page);

/* Whether a page is in memory. Any thread. */
bool shelf_has(const struct page_shelf *shelf, uint64_t number);
/* Whether a page is in memory; first reads it from the file if it is there, whatever room there is.
 * The page stays in memory until it is dropped or put to rest. Any thread. */
bool shelf_bring(struct page_shelf *shelf, uint64_t number);
/* Gives up the memory of a page that is in the file too, and that no thread looks at. One
 * thread. */
void shelf_rest(struct page_shelf *shelf, uint64_t number);

/* Gives up a page, if the shelf has it, that no thread looks at. Any thread, each page once. */
void shelf_drop(struct page_shelf *shelf, uint64_t number);

/* Returns the snapshot with the shelf's pages, for those that shelf_has() or shelf_bring()
 * reports. */
struct snapshot shelf_snapshot(const struct page_shelf *shelf, const struct snapshot *snapshot);

#endif
