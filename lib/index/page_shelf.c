/* SPDX-License-Identifier: OLDAP-2.8 */
/* Takes and frees the memory of a shelf's pages, and places them in its file at their own offsets,
 * so that no table of places is needed. */
#include "index/page_shelf.h"

#include "util/guarded.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct page_shelf {
	uint8_t *base; /* NULL: no address space */
	size_t length;
	uint64_t limit; /* pages of the snapshot */
	unsigned page_shift;
	bool gives_back; /* a page is a multiple of the machine's */
	uint64_t most;   /* bytes */
	_Atomic uint64_t used;
	_Atomic uint64_t *there; /* a bit a page */
	/* The file: */
	int fd; /* -1: there is none */
	uint64_t file_most;
	_Atomic uint64_t file_used;
	_Atomic uint64_t *filed; /* a bit a page */
	pthread_mutex_t lock;    /* guards reading back: once for each page */
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
	shelf->fd = -1;
	pthread_mutex_init(&shelf->lock, NULL);
	shelf->base = mmap(NULL, shelf->length + 1, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (shelf->base == MAP_FAILED)
		shelf->base = NULL;
	else /* pages stand apart: a huge page would be mostly holes */
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
	if (shelf->fd >= 0)
		close(shelf->fd);
	pthread_mutex_destroy(&shelf->lock);
	free(shelf->there);
	free(shelf->filed);
	free(shelf);
}

void shelf_extend(struct page_shelf *shelf, const char *directory, uint64_t most)
{
	struct guarded place;

	if (!shelf->base || !shelf->gives_back || !limits_allow_file(shelf->length))
		return;
	shelf->filed = calloc(shelf->limit / 64 + 1, sizeof(*shelf->filed));
	if (!shelf->filed || guarded_open(&place, directory, true))
		return;
	shelf->fd = openat(place.fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	guarded_close(&place);
	shelf->file_most = shelf->fd < 0 ? 0 : most;
}

uint64_t shelf_file_room(const struct page_shelf *shelf)
{
	return shelf ? shelf->file_most : 0;
}

uint64_t shelf_file_used(const struct page_shelf *shelf)
{
	return shelf ? shelf->file_used : 0;
}

static uint64_t bit_of(uint64_t number)
{
	return UINT64_C(1) << number % 64;
}

/* If the disk is full, or fails, the page is not kept, and is read again when it is wanted. */
static bool file_put(struct page_shelf *shelf, uint64_t number, const uint8_t *page)
{
	uint64_t size = UINT64_C(1) << shelf->page_shift;

	if (atomic_fetch_add(&shelf->file_used, size) + size > shelf->file_most ||
	    whole_write(shelf->fd, page, size, number << shelf->page_shift)) {
		atomic_fetch_sub(&shelf->file_used, size);
		return false;
	}
	atomic_fetch_or_explicit(&shelf->filed[number / 64], bit_of(number), memory_order_release);
	return true;
}

bool shelf_put(struct page_shelf *shelf, uint64_t number, const uint8_t *page)
{
	uint64_t size = UINT64_C(1) << shelf->page_shift;

	if (!shelf->base || number >= shelf->limit)
		return false;
	if (atomic_fetch_add(&shelf->used, size) + size > shelf->most) {
		atomic_fetch_sub(&shelf->used, size);
		return shelf->fd >= 0 && file_put(shelf, number, page);
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

static bool is_filed(const struct page_shelf *shelf, uint64_t number)
{
	return shelf->fd >= 0 && number < shelf->limit &&
	       atomic_load_explicit(&shelf->filed[number / 64], memory_order_acquire) &
		       bit_of(number);
}

/* Frees the page's part of the disk at once: the records taken from the page are written there. */
static void file_drop(struct page_shelf *shelf, uint64_t number)
{
	uint64_t size = UINT64_C(1) << shelf->page_shift;

	atomic_fetch_and(&shelf->filed[number / 64], ~bit_of(number));
	(void)fallocate(shelf->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(off_t)(number << shelf->page_shift), (off_t)size);
	atomic_fetch_sub(&shelf->file_used, size);
}

static bool file_get(struct page_shelf *shelf, uint64_t number)
{
	uint64_t size = UINT64_C(1) << shelf->page_shift, offset = number << shelf->page_shift;

	if (whole_read(shelf->fd, shelf->base + offset, size, offset, EIO))
		return false;
	atomic_fetch_add(&shelf->used, size);
	atomic_fetch_or_explicit(&shelf->there[number / 64], bit_of(number), memory_order_release);
	return true;
}

bool shelf_bring(struct page_shelf *shelf, uint64_t number)
{
	bool came;

	if (shelf_has(shelf, number) || !is_filed(shelf, number))
		return shelf_has(shelf, number);
	pthread_mutex_lock(&shelf->lock);
	came = shelf_has(shelf, number) || file_get(shelf, number);
	pthread_mutex_unlock(&shelf->lock);
	return came;
}

static void memory_drop(struct page_shelf *shelf, uint64_t number)
{
	uint64_t size = UINT64_C(1) << shelf->page_shift;

	if (!shelf_has(shelf, number))
		return;
	atomic_fetch_and(&shelf->there[number / 64], ~bit_of(number));
	if (shelf->gives_back &&
	    !madvise(shelf->base + (number << shelf->page_shift), size, MADV_DONTNEED))
		atomic_fetch_sub(&shelf->used, size);
}

void shelf_rest(struct page_shelf *shelf, uint64_t number)
{
	if (is_filed(shelf, number))
		memory_drop(shelf, number);
}

void shelf_drop(struct page_shelf *shelf, uint64_t number)
{
	if (is_filed(shelf, number))
		file_drop(shelf, number);
	memory_drop(shelf, number);
}

struct snapshot shelf_snapshot(const struct page_shelf *shelf, const struct snapshot *snapshot)
{
	struct snapshot shown = *snapshot;

	shown.view.base = shelf->base;
	shown.view.store = shown.view.runs = NULL;
	shown.view.sure = NULL;
	shown.blocked = 0;
	shown.watch = NULL;
	return shown;
}
