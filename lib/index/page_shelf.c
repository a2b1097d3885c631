/* What only this file knows: what memory a shelf's pages take, and how it is given back. */
#include "index/page_shelf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct page_shelf {
	uint8_t *base; /* NULL: there is none */
	size_t length;
	uint64_t limit; /* pages of the snapshot */
	unsigned page_shift;
	bool gives_back; /* a page is whole pages of the machine's */
	uint64_t most;   /* bytes */
	_Atomic uint64_t used;
	_Atomic uint64_t *there; /* a bit a page */
};

int shelf_open(struct page_shelf **ret, const struct window_view *view, uint64_t most)
{
	struct page_shelf *shelf = calloc(1, sizeof(*shelf));

	if (!shelf)
		return ENOMEM;
	shelf->limit = view->limit;
	shelf->page_shift = view->page_shift;
	shelf->length = (size_t)view->limit << view->page_shift;
	shelf->most = most;
	shelf->gives_back = !((UINT64_C(1) << view->page_shift) % (uint64_t)sysconf(_SC_PAGESIZE));
	shelf->there = calloc(view->limit / 64 + 1, sizeof(*shelf->there));
	if (!shelf->there) {
		free(shelf);
		return ENOMEM;
	}
	shelf->base = mmap(NULL, shelf->length + 1, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (shelf->base == MAP_FAILED)
		shelf->base = NULL;
	else /* pages stand apart: a huge one would be mostly holes */
		(void)madvise(shelf->base, shelf->length + 1, MADV_NOHUGEPAGE);
	*ret = shelf;
	return 0;
}

void shelf_close(struct page_shelf *shelf)
{
	if (!shelf)
		return;
	if (shelf->base)
		munmap(shelf->base, shelf->length + 1);
	free(shelf->there);
	free(shelf);
}

static uint64_t bit_of(uint64_t number)
{
	return UINT64_C(1) << number % 64;
}

bool shelf_put(struct page_shelf *shelf, uint64_t number, const uint8_t *page)
{
	uint64_t size = UINT64_C(1) << shelf->page_shift;

	if (!shelf->base || number >= shelf->limit)
		return false;
	if (atomic_fetch_add(&shelf->used, size) + size > shelf->most) {
		atomic_fetch_sub(&shelf->used, size);
		return false;
	}
	memcpy(shelf->base + (number << shelf->page_shift), page, size);
	atomic_fetch_or_explicit(&shelf->there[number / 64], bit_of(number), memory_order_release);
	return true;
}

bool shelf_has(const struct page_shelf *shelf, uint64_t number)
{
	return number < shelf->limit &&
	       atomic_load_explicit(&shelf->there[number / 64], memory_order_acquire) &
		       bit_of(number);
}

void shelf_drop(struct page_shelf *shelf, uint64_t number)
{
	uint64_t size = UINT64_C(1) << shelf->page_shift;

	if (!shelf_has(shelf, number))
		return;
	atomic_fetch_and(&shelf->there[number / 64], ~bit_of(number));
	if (shelf->gives_back &&
	    !madvise(shelf->base + (number << shelf->page_shift), size, MADV_DONTNEED))
		atomic_fetch_sub(&shelf->used, size);
}

struct snapshot shelf_snapshot(const struct page_shelf *shelf, const struct snapshot *snapshot)
{
	struct snapshot shown = *snapshot;

	shown.view.base = shelf->base;
	shown.view.residency = shown.view.runs = NULL;
	shown.blocked = 0;
	shown.watch = NULL;
	return shown;
}
