/* SPDX-License-Identifier: OLDAP-2.8 */
/* Brings the kernel to keep a file in huge folios.
 *
 * Reads beside one another fill the page cache with single pages, of which each is looked up,
 * mapped and counted by itself whenever the file is mapped: a scan of 90 MiB that finds all of it
 * there took 13 ms, and 6 ms when it was there in folios of 2 MiB. Those a program's map shows with
 * one entry of the second level, so one fault and one line of the TLB stand for 512. A fault in a
 * map that huge pages are advised for reads such a folio (do_sync_mmap_readahead() in the kernel's
 * mm/filemap.c, since 5.18), however short the map is. The file system must know them: xfs since
 * 5.18, ext4 since 6.16.
 */
#include "io/io_huge.h"
#include "io/io_told.h"
#include "io/io_touch.h"

#include "util/checked.h"
#include "util/huge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif

enum {
	PAGE = 4096,
	RANGE_MAX = 4 << 20,        /* bytes of one look at what has come */
	READAHEAD_STEP = 128 << 10, /* bytes: of one call the kernel may do no more */
	VAIN_MAX = 32,   /* tries in a row that brought too little */
	VAIN_AGAIN = 64, /* then one is made of so many: a file may have been there in parts */
};

/* In this program, whatever the file: mostly a kernel does it or not. */
static atomic_uint in_vain;

static bool is_vain(void)
{
	return atomic_load_explicit(&in_vain, memory_order_relaxed) >= VAIN_MAX &&
	       atomic_fetch_add_explicit(&in_vain, 1, memory_order_relaxed) % VAIN_AGAIN;
}

/* Faults the first page of each folio of a map in, which brings all of the folio. One bad block
 * spoils all of a folio: what is good of it is to be read singly. Where the kernel does not know
 * huge folios, what other threads have brought meanwhile stays. */
static bool folios_bring(int fd, uint8_t *map, uint64_t offset, size_t length)
{
	/* Random: what comes behind a folio is asked for by others beside us. */
	bool brought = !madvise(map, length, MADV_HUGEPAGE) && !madvise(map, length, MADV_RANDOM);

	for (size_t at = 0; brought && at < length; at += HUGE_PAGE) {
		int rc = io_touch(map + at);

		brought = !rc;
		if (rc == EIO)
			(void)posix_fadvise(fd, (off_t)(offset + at), HUGE_PAGE, POSIX_FADV_DONTNEED);
	}
	return brought;
}

static bool is_there(void *range, size_t length)
{
	unsigned char there[RANGE_MAX / PAGE], all = 1;

	if (mincore(range, length, there))
		return false;
	for (size_t i = 0; i < (length + PAGE - 1) / PAGE; i++)
		all &= there[i];
	return all;
}

/* Where some page of a folio was there before, the kernel reads the others singly. */
static bool rest_bring(int fd, void *range, uint64_t offset, size_t length)
{
	for (size_t at = 0; at < length; at += READAHEAD_STEP)
		if (readahead(fd, (off_t)(offset + at), READAHEAD_STEP))
			return false;
	return !madvise(range, length, MADV_RANDOM) && !madvise(range, length, MADV_POPULATE_READ);
}

bool io_huge_keep(int fd, uint64_t offset, size_t length)
{
	uint64_t start = offset & ~(uint64_t)(HUGE_PAGE - 1);
	size_t around = round_up(offset + length, HUGE_PAGE) - start;
	uint8_t *map, *range;
	bool kept, told;

	/* Elsewhere a huge page has far more bytes. */
	if (sysconf(_SC_PAGESIZE) != PAGE)
		return false;
	if (offset % PAGE || length > RANGE_MAX || length < HUGE_PAGE / 4 || is_vain())
		return false;
	/* One map for all: threads beside one another wait for the process's lock of maps. */
	map = mmap(NULL, around, PROT_READ, MAP_SHARED, fd, (off_t)start);
	if (map == MAP_FAILED)
		return false;
	range = map + (offset - start);
	kept = folios_bring(fd, map, start, around);
	/* Of another user's file the kernel says that all is there: it is asked for once more. */
	told = !kept || io_is_told(fd);
	kept = kept && told && is_there(range, length);
	if (kept)
		atomic_store_explicit(&in_vain, 0, memory_order_relaxed);
	else if (told)
		atomic_fetch_add_explicit(&in_vain, 1, memory_order_relaxed);
	kept = kept || rest_bring(fd, range, offset, length);
	munmap(map, around);
	return kept;
}
