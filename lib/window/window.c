/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reserves the address space of a window. */
#include "window/window.h"

#include <errno.h>
#include <string.h>

void window_borrow(struct window *window, const void *base, size_t length, uint32_t page_size)
{
	window->base = base;
	window->length = length;
	window->page_size = page_size;
	window->page_shift = (unsigned)__builtin_ctz(page_size);
	window->io = NULL;
}

int window_open(struct window *window, struct io *io, size_t length, uint32_t page_size)
{
	const void *base = io_map(io, length);

	if (!base)
		return errno;
	window_borrow(window, base, length, page_size);
	window->io = io;
	return 0;
}

void window_close(struct window *window)
{
	if (window->base && window->io)
		io_unmap(window->io, window->base, window->length);
	window->base = NULL;
}

int window_look(const struct window *window, uint64_t pages, uint64_t file_size,
		struct window_view *view)
{
	if (pages > window->length >> window->page_shift)
		return MDB_MAP_RESIZED;
	memset(view, 0, sizeof(*view));
	view->base = window->base;
	view->pages = pages;
	view->limit = file_size >> window->page_shift;
	if (view->limit > pages)
		view->limit = pages;
	view->page_shift = window->page_shift;
	return 0;
}

/* Pages that only the kernel may have to read. Whether a large value is there store_bring() has
 * judged, unless nothing is taken for granted. */
static int assure(struct window_view *view, uint64_t offset, uint64_t length, bool large)
{
	if ((large && !store_is_careful(view->runs)) || store_are_sure(view->sure, offset, length))
		return 0;
	return store_assure(view->runs, offset, length);
}

int window_bring(struct window_view *view, struct store *store, uint64_t number, uint64_t count,
		 bool tree)
{
	uint64_t offset = number << view->page_shift, length = count << view->page_shift;
	unsigned waits = view->runs ? store_waits(view->runs) : 0;
	int rc = 0;

	if (store && !store_covers(store, offset, length)) {
		if (view->nowait) {
			view->wanted_offset = offset;
			view->wanted_length = length;
			return EAGAIN;
		}
		rc = tree ? store_bring_tree(store, offset, length)
			  : store_bring(store, offset, length);
	}
	if (!rc && view->sure)
		rc = assure(view, offset, length, !tree && count >= WINDOW_RUN_MIN);
	if (tree && !rc && view->runs && store_waits(view->runs) != waits)
		view->missed[view->misses++ % WINDOW_MISSED] = number;
	/* What a checksum says of a container's bytes, or of a file system's. */
	return rc == EBADMSG ? MDB_CORRUPTED : rc;
}
