/* SPDX-License-Identifier: OLDAP-2.8 */
/* Turns a page number into a pointer.
 *
 * A window is one reservation of address space as long as the environment's map size; page n
 * stands at base + n * page_size. A view is one snapshot's part of it: how many pages exist and
 * are inside the file. window_pages() is the only place where a number becomes an address, and
 * nothing else touches the map.
 */
#ifndef LMDBIO_WINDOW_WINDOW_H
#define LMDBIO_WINDOW_WINDOW_H

#include "io/io.h"
#include "util/checked.h"
#include "window/store.h"
#include "window/sums.h"

#include <lmdb.h>
#include <stdint.h>

struct window {
	const uint8_t *base;
	size_t length; /* bytes reserved */
	uint32_t page_size;
	unsigned page_shift;
	bool mapped; /* the map is the window's; else another object's */
};

enum { WINDOW_MISSED = 4 };

/* What one snapshot may touch. The fields up to `sums` stand together, because each value needs
 * them. */
struct window_view {
	const uint8_t *base;
	uint64_t limit; /* below this number a page may be touched */
	uint64_t pages; /* below this number a page belongs to the snapshot */
	unsigned page_shift;
	bool nowait;                  /* missing bytes are EAGAIN; `wanted_...` tell which */
	bool prefetch_pays;           /* also of pages that are perhaps not mapped */
	struct store *store;          /* brings every page; NULL: at rest */
	struct store *runs;           /* brings overflow runs, or NULL */
	const _Atomic uint64_t *sure; /* blocks of `runs` that the program may touch; NULL: all */
	struct sums_seen *sums; /* verifies pages, and has `sure`; NULL: pages are not verified */
	uint64_t wanted_offset, wanted_length;
	/* The last tree pages that the program has waited for, and their number since the last
	 * lookup. */
	_Atomic uint64_t missed[WINDOW_MISSED];
	_Atomic unsigned misses;
	/* With `sums`: the reference to the next run, as the last thread that asked has set it. */
	const uint8_t *_Atomic reference;
};

/* Runs of fewer pages than this are left to the kernel's own faults when the window is at rest. */
enum { WINDOW_RUN_MIN = 4 };

/* Maps `length` bytes of a file. Returns 0 or errno (ENOMEM, ENODEV ...). Lifetime: pointers stay
 * valid until window_close(); the view tells which pages may be touched. */
int window_open(struct window *window, int fd, size_t length, uint32_t page_size);
/* The same over a map of the file that the caller takes down, after window_close(). */
void window_borrow(struct window *window, const void *base, size_t length, uint32_t page_size);
void window_close(struct window *window);
/* Whether a map of `length` bytes can take the place of this one. Returns 0 or errno (ENOMEM). */
int window_may_be(const struct window *window, size_t length);

/* Sets up a view of `pages` pages over a file of `file_size` bytes. Returns 0, or
 * MDB_MAP_RESIZED when the snapshot is longer than the window. */
int window_look(const struct window *window, uint64_t pages, uint64_t file_size,
		struct window_view *view);

/* The bytes of a meta page (0 or 1), as they are at this moment. */
static inline const uint8_t *window_meta(const struct window *window, unsigned which)
{
	return window->base + ((size_t)which << window->page_shift);
}

/* Slow half of window_pages(): the bytes are not known to be there. */
int window_bring(struct window_view *view, struct store *store, uint64_t number, uint64_t count,
		 bool tree);

static inline int window_locate(struct window_view *view, uint64_t number, uint64_t count,
				struct store *store, bool tree, const uint8_t **address)
{
	const _Atomic uint64_t *sure = view->sure;
	size_t offset;
	bool there;

	if (unlikely(number >= view->limit || count > view->limit - number))
		return number >= view->pages || count > view->pages - number ? MDB_PAGE_NOTFOUND
									     : MDB_CORRUPTED;
	offset = (size_t)number << view->page_shift;
	*address = view->base + offset;
	if (unlikely(store != NULL))
		there = !sure && store_shows(store, offset, (uint64_t)count << view->page_shift);
	else
		there = !sure || (likely(count == 1) && store_is_sure(sure, offset));
	return likely(there) ? 0 : window_bring(view, store, number, count, tree);
}

/* The address of `count` pages of a tree from `number` on. Returns 0; MDB_PAGE_NOTFOUND when they
 * are not the snapshot's (as the original); MDB_CORRUPTED when they are, but not in the file; the
 * errno of a read that failed; MDB_BAD_CHECKSUM; EAGAIN for a view that does not wait. */
static inline int window_pages(struct window_view *view, uint64_t number, uint64_t count,
			       const uint8_t **address)
{
	return window_locate(view, number, count, view->store, true, address);
}

/* The address of a value's pages without a call, if the store is known to have them. Returns false if
 * window_run() has to look. */
static inline __attribute__((always_inline)) bool
window_knows_run(struct window_view *view, uint64_t number, uint64_t count, const uint8_t **address)
{
	struct store *store = count < WINDOW_RUN_MIN ? view->store : view->runs;
	const _Atomic uint64_t *sure = view->sure;
	uint64_t offset = number << view->page_shift;

	if (unlikely(number >= view->limit || count > view->limit - number))
		return false;
	*address = view->base + offset;
	if (unlikely(!sure))
		return !store || store_shows(store, offset, count << view->page_shift);
	if (count == 1)
		return !store && store_is_sure(sure, offset);
	/* Runs of several pages are verified as a whole. */
	if (view->sums || view->nowait)
		return false;
	if (count >= WINDOW_RUN_MIN)
		return !store_is_alone(store) && store_takes_value(store);
	for (uint64_t i = 0; i < count; i++)
		if (!store_is_sure(sure, offset + (i << view->page_shift)))
			return false;
	return !store;
}

/* The same for the pages of one value; for a verified view the caller sets `reference` before. */
static inline int window_run(struct window_view *view, uint64_t number, uint64_t count,
			     const uint8_t **address)
{
	if (likely(window_knows_run(view, number, count, address)))
		return 0;
	return window_locate(view, number, count, count < WINDOW_RUN_MIN ? view->store : view->runs,
			     false, address);
}

#endif
