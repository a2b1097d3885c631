/* SPDX-License-Identifier: OLDAP-2.8 */
/* Maps the data file for a window. */
#include "window/window.h"

#include "format/page.h"
#include "util/thread.h"

#include <errno.h>
#include <sys/mman.h>

void window_borrow(struct window *window, const void *base, size_t length, uint32_t page_size)
{
	window->base = base;
	window->length = length;
	window->page_size = page_size;
	window->page_shift = (unsigned)__builtin_ctz(page_size);
	window->mapped = false;
}

int window_open(struct window *window, int fd, size_t length, uint32_t page_size)
{
	const void *base = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);

	if (base == MAP_FAILED)
		return errno;
	window_borrow(window, base, length, page_size);
	window->mapped = true;
	return 0;
}

void window_close(struct window *window)
{
	if (window->base && window->mapped)
		(void)munmap((void *)(uintptr_t)window->base, window->length);
	window->base = NULL;
}

int window_may_be(const struct window *window, size_t length)
{
	void *map;

	if (length <= window->length)
		return 0;
	/* Closing this window frees the rest of the length. */
	map = mmap(NULL, length - window->length, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return errno;
	munmap(map, length - window->length);
	return 0;
}

/* Whether this processor's software prefetch is worth its time where some of the pages are not
 * mapped yet: on an Intel Xeon it was, on an AMD EPYC it was not (doc/decisions/look-ahead.md). No
 * other processor was measured. */
static bool prefetch_pays(void)
{
#ifdef __x86_64__
	return __builtin_cpu_is("intel");
#else
	return false;
#endif
}

int window_look(const struct window *window, uint64_t pages, uint64_t file_size,
		struct window_view *view)
{
	if (pages > window->length >> window->page_shift)
		return MDB_MAP_RESIZED;
	*view = (struct window_view){
		.base = window->base,
		.pages = pages,
		.limit = file_size >> window->page_shift,
		.page_shift = window->page_shift,
		.prefetch_pays = prefetch_pays(),
	};
	if (view->limit > pages)
		view->limit = pages;
	return 0;
}

/* Makes sure of pages of the file's own map, which only the kernel reads. */
static __attribute__((noinline)) int assure_pages(struct window_view *view,
						  const _Atomic uint64_t *sure, uint64_t offset,
						  uint64_t length)
{
	if (store_are_sure(sure, offset, length))
		return 0;

	UNCANCELLED;
	return store_assure(view->runs, offset, length);
}

/* The same, but for large values: store_bring() has judged whether they are in memory, unless
 * nothing may be assumed. */
static inline int assure(struct window_view *view, const _Atomic uint64_t *sure, uint64_t offset,
			 uint64_t length, bool large)
{
	if (large && !store_is_careful(view->runs))
		return 0;
	return assure_pages(view, sure, offset, length);
}

/* The same while a store with shared memory knows nothing and the window shows the file itself:
 * beside a writer that commits, while a copy is made, or where there is no shared memory. A view
 * that does not wait would take the page fault. */
static int assure_at_rest(struct store *store, uint64_t offset, uint64_t length)
{
	if (!store || likely(store_knows(store)) ||
	    store_are_sure(store_sure(store), offset, length))
		return 0;

	UNCANCELLED;
	return store_assure(store, offset, length);
}

/* Brings bytes that come from a store. */
static inline __attribute__((always_inline)) int
bring(struct window_view *view, struct store *store, uint64_t offset, uint64_t length, bool tree)
{
	if (!store || store_covers(store, offset, length))
		return 0;
	if (view->nowait) {
		view->wanted_offset = offset;
		view->wanted_length = length;
		return EAGAIN;
	}

	UNCANCELLED;
	return tree ? store_bring_tree(store, offset, length) : store_bring(store, offset, length);
}

/* EBADMSG: a checksum of a container or of a file system does not match its bytes. */
static inline int bring_code(int rc)
{
	return rc == EBADMSG ? MDB_CORRUPTED : rc;
}

/* The pages of a run by its first page, for callers that look at this page alone. 0: it is no
 * run. */
static uint64_t run_length(const uint8_t *page)
{
	const struct page_layout *layout = &page_layouts[FORMAT_1_0];

	return page_flags(layout, page) & PAGE_OVERFLOW ? page_run(layout, page) : 0;
}

/* The view's own bits say which pages were verified, the store's which may be touched. */
static int bring_sure(struct window_view *view, struct store *store, uint64_t number,
		      uint64_t count, bool tree)
{
	uint64_t offset = number << view->page_shift, length = count << view->page_shift;
	int rc = bring(view, store, offset, length, tree);

	if (!rc && view->runs && store_shows_file(view->runs))
		rc = assure(view, store_sure(view->runs), offset, length,
			    !tree && count >= WINDOW_RUN_MIN);
	else if (!rc)
		rc = assure_at_rest(store, offset, length);
	return bring_code(rc);
}

/* Returns the length of a run by the reference to it, which was verified. 0: another thread that
 * shares the transaction has set its own reference meanwhile. */
static uint64_t referred_pages(const struct window_view *view, uint64_t number)
{
	const uint8_t *reference = atomic_load_explicit(&view->reference, memory_order_relaxed);

	return load64(reference) == number ? load64(reference + REFERENCE_PAGES) : 0;
}

/* A run's checksum is at the end of its last page, which the value may not reach. Where no
 * reference tells the run's length, its first page does. If that page is damaged, the checksum is
 * looked for at another place, and fails. */
static __attribute__((noinline)) int bring_verified(struct window_view *view, struct store *store,
						     uint64_t number, uint64_t count, bool tree)
{
	const uint8_t *bytes = view->base + (number << view->page_shift);
	uint64_t pages = tree ? 0 : referred_pages(view, number);
	int rc = bring_sure(view, store, number, count, tree);

	if (rc || sums_hold(view->sums, number, count))
		return rc;
	if (!pages)
		pages = run_length(bytes);
	if (pages > count && pages <= view->limit - number) {
		count = pages;
		/* The store that window_run() would choose. */
		rc = bring_sure(view, count < WINDOW_RUN_MIN ? store : view->runs, number, count,
				false);
	}
	return rc ? rc : sums_verify(view->sums, bytes, number, count);
}

static inline __attribute__((always_inline)) int bring_assured(struct window_view *view,
							       struct store *store,
							       uint64_t number, uint64_t count,
							       bool tree)
{
	uint64_t offset = number << view->page_shift, length = count << view->page_shift;
	int rc = bring(view, store, offset, length, tree);

	if (!rc && view->nowait)
		rc = store ? store_assure_ahead(store, offset, length) : 0;
	else if (!rc && view->sure)
		rc = assure(view, view->sure, offset, length, !tree && count >= WINDOW_RUN_MIN);
	else if (!rc)
		rc = assure_at_rest(store, offset, length);
	return bring_code(rc);
}

int window_bring(struct window_view *view, struct store *store, uint64_t number, uint64_t count,
		 bool tree)
{
	unsigned waits;
	int rc;

	if (unlikely(view->sums != NULL) && !view->nowait)
		return bring_verified(view, store, number, count, tree);
	if (!tree)
		return bring_assured(view, store, number, count, false);
	waits = view->runs ? store_waits(view->runs) : 0;
	rc = bring_assured(view, store, number, count, true);
	if (!rc && view->runs && store_waits(view->runs) != waits)
		atomic_store_explicit(
			&view->missed[atomic_fetch_add_explicit(&view->misses, 1,
								memory_order_relaxed) %
				      WINDOW_MISSED],
			number, memory_order_relaxed);
	return rc;
}
