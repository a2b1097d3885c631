/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: which pages of the file's own map the program may touch.
 *
 * A read that fails is a signal to who takes the page fault, and an errno to who asks for the page
 * by madvise(MADV_POPULATE_READ), which goes the same way through the kernel and takes the place of
 * the fault. So a page is asked for before it is handed out for the first time. Later on the kernel
 * may give it up and read it once more: that is out of our hands.
 *
 * Where all is in memory there is nothing to fail, and with a page's fault the kernel maps what
 * lies around it; to be told of each page that it is there took a scan of 98 MiB 6 to 14 % longer.
 * On a local disk that is not paid for: after many pages in a row that were there the next ones are
 * taken to be there, too, as long as no read of the file has failed.
 */
#include "window/residency_private.h"

#include "util/clock.h"
#include "util/stats.h"

#include <errno.h>
#include <sys/resource.h>

enum {
	ROW = 16,          /* pages in a row that were there: now more of them at a time */
	ROW_MAX = ROW + 6, /* pieces more; at most 2 to this difference are taken for granted */
	PIECE = RESIDENCY_FAULT,
	PIECE_LARGE = 4 * PIECE, /* the most that may be read singly for one that was wanted */
	FAULT_MOST = 64 << 20,   /* bytes of one value: who wants its beginning waits for no more */
};

int fault_in(struct residency *residency, uint64_t offset, uint64_t end)
{
	offset &= ~(uint64_t)(ARENA_BLOCK - 1);
	if (end - offset > FAULT_MOST)
		end = offset + FAULT_MOST;
	/* Before Linux 5.14 it is the program that faults. */
	if (!madvise(residency->base + offset, end - offset, MADV_POPULATE_READ))
		return 0;
	return errno == EFAULT || errno == EIO || errno == EHWPOISON ? EIO : 0;
}

void mark_sure(struct residency *residency, uint64_t offset, uint64_t end)
{
	for (uint64_t block = block_of(offset), last = block_end(end), next; block < last;
	     block = next) {
		uint64_t bits = ~(uint64_t)0 << block % 64;

		next = (block / 64 + 1) * 64;
		if (next > last) {
			bits &= ~(uint64_t)0 >> (next - last);
			next = last;
		}
		atomic_fetch_or_explicit(&residency->sure[block / 64], bits, memory_order_relaxed);
	}
}

bool residency_are_sure(const _Atomic uint64_t *sure, uint64_t offset, uint64_t length)
{
	uint64_t last = block_end(offset + length);

	for (uint64_t block = block_of(offset); block < last; block++)
		if (!residency_is_sure(sure, block * ARENA_BLOCK))
			return false;
	return true;
}

void residency_take_care(struct residency *residency)
{
	atomic_store(&residency->careful, true);
	atomic_store(&residency->sure_skip, 0);
}

void sure_failed(struct residency *residency, int error)
{
	if (error != EIO)
		return;
	residency_take_care(residency);
	atomic_store(&residency->sure_row, 0);
}

/* Whether what comes next is taken to be in memory, because all before it was. */
static bool is_granted(struct residency *residency)
{
	unsigned skip = atomic_load_explicit(&residency->sure_skip, memory_order_relaxed);

	if (!skip || residency_is_careful(residency))
		return false;
	atomic_store_explicit(&residency->sure_skip, skip - 1, memory_order_relaxed);
	return true;
}

/* Page faults of this thread that had to read. */
static long faults_major(void)
{
	struct rusage usage = {0};

	(void)getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_majflt;
}

/* What a range has shown: when it had to be read, what lies around the next pages has to be read as
 * well, and not with them, before they are wanted. */
static void note(struct residency *residency, bool there)
{
	unsigned row = atomic_load_explicit(&residency->sure_row, memory_order_relaxed);

	row = !there ? 0 : row < ROW_MAX ? row + 1 : row;
	atomic_store_explicit(&residency->sure_row, row, memory_order_relaxed);
	if (row > ROW)
		atomic_store_explicit(&residency->sure_skip, 1u << (row - ROW),
				      memory_order_relaxed);
}

static int ask(struct residency *residency, uint64_t offset, uint64_t end)
{
	uint64_t began = clock_now();
	long before = faults_major();
	int rc = fault_in(residency, offset, end);
	bool there = faults_major() == before;

	stats_add(STATS_POPULATE_CALLS, 1);
	if (rc) {
		sure_failed(residency, rc);
		return rc;
	}
	if (!there) {
		stats_add(STATS_WAITS, 1);
		stats_add(STATS_WAIT_NS, clock_now() - began);
	}
	mark_sure(residency, offset, end);
	note(residency, there);
	return 0;
}

/* The piece of the file in which a range lies; false: it is not to be asked for as a whole. */
static bool piece_around(const struct residency *residency, uint64_t *offset, uint64_t *end)
{
	unsigned row = atomic_load_explicit(&residency->sure_row, memory_order_relaxed);
	uint64_t piece = row == ROW_MAX && residency_is_careful(residency) ? PIECE_LARGE : PIECE;
	uint64_t first = *offset & ~(piece - 1), size = residency->size;

	if (row < ROW || *end > size || *end > first + piece)
		return false;
	*offset = first;
	*end = first + piece < size ? first + piece : size;
	return true;
}

int residency_assure(struct residency *residency, uint64_t offset, uint64_t length)
{
	uint64_t first = offset, end = offset + length, last = end;

	if (piece_around(residency, &first, &last)) {
		if (is_granted(residency)) {
			mark_sure(residency, first, last);
			return 0;
		}
		/* Perhaps it is not these bytes that fail. */
		if (!ask(residency, first, last))
			return 0;
	}
	return ask(residency, offset, end);
}
