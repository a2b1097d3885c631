/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps leaf pages that were read to number their records until the records are taken out.
 *
 * A shelf is a reservation of address space as long as the snapshot, page n at its own place, with
 * memory under those pages alone that were put there. So whatever reads a snapshot reads a shelf's
 * view in the same way. For what memory has no room for there may be a file.
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

/* Has pages that memory has no room for put into a file without a name in `directory`, of `most`
 * bytes at most. Where there can be none they are not kept, as without this call. Before a page is
 * put. */
void shelf_extend(struct page_shelf *shelf, const char *directory, uint64_t most);
/* Bytes of pages that the file takes at most; and that are in it. NULL: 0. */
uint64_t shelf_file_room(const struct page_shelf *shelf);
uint64_t shelf_file_used(const struct page_shelf *shelf);

/* Keeps a copy of a page. false: there is no room. Any thread, each page once. */
bool shelf_put(struct page_shelf *shelf, uint64_t number, const uint8_t *page);

/* Whether a page is in memory. Any thread. */
bool shelf_has(const struct page_shelf *shelf, uint64_t number);
/* The same, but what is in the file comes from there, whatever room there is, and stays until it is
 * dropped or put to rest. Any thread. */
bool shelf_bring(struct page_shelf *shelf, uint64_t number);
/* Gives up the memory of a page that is in the file too, and that no thread looks at. One
 * thread. */
void shelf_rest(struct page_shelf *shelf, uint64_t number);

/* Gives up a page, if it is there, that no thread looks at any more. Any thread, each page once. */
void shelf_drop(struct page_shelf *shelf, uint64_t number);

/* The snapshot as far as it is on the shelf: only for pages that shelf_has() or shelf_bring(). */
struct snapshot shelf_snapshot(const struct page_shelf *shelf, const struct snapshot *snapshot);

#endif
