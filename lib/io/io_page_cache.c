/* SPDX-License-Identifier: OLDAP-2.8 */
/* Asks the kernel how far it reads ahead and what its page cache holds, and has it hold more of a
 * file. */
#include "io/io_page_cache.h"

#include "util/checked.h"
#include "util/clock.h"
#include "util/huge.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef SYS_cachestat /* Linux 6.5 */
#define SYS_cachestat 451
#endif

enum {
	PAGE = 4096,
	PAGES_AT_ONCE = 64,
	NO_TIMER = -1,
	BEGIN_MOST = 1 << 20, /* bytes that one call of readahead(2) is asked for */
	DEAR_TRIES = 4,
	DEAR_NS = 2000, /* a touch takes 200 more than a fault, or 5,000 to 10,000 */
};

/* Takes page faults and reads pages on a program's behalf, without the costs of madvise(2).
 *
 * MADV_POPULATE_READ also has an errno for a read that fails. But madvise(2) holds back the reads
 * that its faults submit (blk_start_plug() in the kernel's mm/madvise.c) until the thread goes to
 * sleep, and then a kernel thread submits them. Traced over 300 values of 3 pages, kworkers
 * submitted 900 reads of 900, against 13 of 900 where the program took the faults. Each such read
 * waits for a processor, and beside busy processes a value of 12 KB took 2 to 4 ms instead of 0.2.
 *
 * A system call that copies its argument from a page takes the same fault as the program, and
 * returns EFAULT where the program gets a signal. setitimer(2) copies 32 bytes and then refuses a
 * timer that does not exist: 240 ns, against 590 of madvise(2). process_vm_readv(2) takes 1400.
 *
 * The kernel submits all pages of one read at a time, whatever advice the map has. Each page is
 * copied to the same place, which stays in the processor's cache.
 */
enum way { WAY_UNKNOWN, WAY_COPY, WAY_POPULATE };

/* Calls by system call number: a C library may copy the argument itself. Returns the call's
 * errno. */
static int copy_from(const void *page)
{
	return syscall(SYS_setitimer, NO_TIMER, page, NULL) ? errno : 0;
}

/* Finds out, by a page that cannot be read, whether this kernel copies before it refuses; a sandbox
 * may have an answer of its own. */
static enum way way_find(void)
{
	void *page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	enum way way = WAY_POPULATE;

	if (page == MAP_FAILED)
		return way;
	if (copy_from(page) == EFAULT && copy_from(&way) == EINVAL)
		way = WAY_COPY;
	munmap(page, PAGE);
	return way;
}

int io_touch(const void *page)
{
	static _Atomic enum way known;
	enum way way = atomic_load_explicit(&known, memory_order_relaxed);

	if (way == WAY_UNKNOWN) {
		way = way_find();
		atomic_store_explicit(&known, way, memory_order_relaxed);
	}
	if (way == WAY_COPY)
		return copy_from(page) == EFAULT ? EIO : 0;
	if (!madvise((void *)(uintptr_t)page, PAGE, MADV_POPULATE_READ))
		return 0;
	/* Anything else comes from a kernel before Linux 5.14, or from a sandbox. */
	return errno == EFAULT || errno == EIO || errno == EHWPOISON ? EIO : ENOSYS;
}

/* Times the first looks at pages of zeros: every other one follows a touch. The least of a few is
 * free of other processes. */
static bool find_dear(void)
{
	uint64_t least[2] = {CLOCK_NEVER, CLOCK_NEVER};
	uint8_t *pages = mmap(NULL, (size_t)2 * DEAR_TRIES * PAGE, PROT_READ,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return false;
	for (int i = 0; i < 2 * DEAR_TRIES; i++) {
		uint64_t began = clock_now(), took;

		if (i % 2)
			(void)io_touch(pages + i * PAGE);
		(void)*(const volatile uint8_t *)(pages + i * PAGE);
		took = clock_now() - began;
		if (took < least[i % 2])
			least[i % 2] = took;
	}
	munmap(pages, (size_t)2 * DEAR_TRIES * PAGE);
	return least[1] > least[0] + DEAR_NS;
}

bool io_touch_is_dear(void)
{
	static atomic_int known; /* 0: not yet */
	int dear = atomic_load_explicit(&known, memory_order_relaxed);

	if (!dear) {
		dear = find_dear() ? 1 : -1;
		atomic_store_explicit(&known, dear, memory_order_relaxed);
	}
	return dear > 0;
}

/* A call of readahead(2) reads no more than the kernel reads ahead, or than the device takes in one
 * request, whichever is more (force_page_cache_ra() in mm/readahead.c). So the first call asks for
 * much, and the next ones for what it may have left. */
int io_begin(int fd, uint64_t offset, uint64_t length)
{
	for (uint64_t at = 0; at < length; at += IO_BEGIN_LEAST) {
		uint64_t most = at % BEGIN_MOST ? IO_BEGIN_LEAST : BEGIN_MOST, rest = length - at;

		if (readahead(fd, (off_t)(offset + at), rest < most ? rest : most))
			return errno;
	}
	return 0;
}

int io_pass(int fd, uint64_t offset, size_t length)
{
	struct iovec to[PAGES_AT_ONCE];
	uint8_t page[PAGE];

	while (length > 0) {
		size_t asked = 0, n = 0;
		ssize_t done;

		for (; n < PAGES_AT_ONCE && asked < length; n++) {
			size_t part = length - asked < PAGE ? length - asked : PAGE;

			to[n] = (struct iovec){page, part};
			asked += part;
		}
		done = preadv(fd, to, (int)n, (off_t)offset);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return errno;
		if (done == 0)
			return EIO;
		offset += (uint64_t)done;
		length -= (size_t)done;
	}
	return 0;
}

/* Reads from the kernel how far it reads ahead.
 *
 *   /sys/class/bdi/MAJOR:MINOR/read_ahead_kb               of a whole disk, FUSE, NFS: kibibytes
 *   /sys/dev/block/MAJOR:MINOR/../queue/read_ahead_kb      of the disk that a partition is on
 */
static const struct {
	const char *front, *back;
} places[] = {
	{"/sys/class/bdi", "read_ahead_kb"},
	{"/sys/dev/block", "../queue/read_ahead_kb"},
};

uint64_t io_kernel_ahead(int fd)
{
	unsigned long kibibytes = 0;
	struct stat st;
	char path[64];
	FILE *file;

	if (fstat(fd, &st))
		return 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/%u:%u/%s", places[i].front, major(st.st_dev),
			 minor(st.st_dev), places[i].back);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fscanf(file, "%lu", &kibibytes) != 1)
			kibibytes = 0;
		fclose(file);
		break;
	}
	return (uint64_t)kibibytes << 10;
}

/* Finds out whether mincore(2) can be believed.
 *
 * For another user's file that this process may not write, it says since Linux 5.2 that all of it
 * is in the page cache, even what is beyond its end.
 */
bool io_is_told_behind(void *behind)
{
	unsigned char page;

	return !mincore(behind, 4096, &page) && !(page & 1);
}

bool io_is_told(int fd)
{
	struct stat st;
	bool told;
	void *behind;

	if (fstat(fd, &st))
		return false;
	/* No page is cached a huge page's length beyond a file's end. */
	behind = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd,
		      (off_t)round_up((uint64_t)st.st_size, HUGE_PAGE));
	if (behind == MAP_FAILED)
		return false;
	told = io_is_told_behind(behind);
	munmap(behind, 4096);
	return told;
}

int io_pages_cached(int fd, uint64_t offset, uint64_t length, uint64_t *pages)
{
	const uint64_t range[2] = {offset, length};
	uint64_t counts[5] = {0}; /* struct cachestat, which C libraries do not have yet */

	if (syscall(SYS_cachestat, fd, range, counts, 0))
		return errno;
	*pages = counts[0];
	return 0;
}

/* Has the kernel keep a file in huge folios.
 *
 * Parallel reads fill the page cache with single pages. The kernel looks up, maps and counts each
 * of them whenever the file is mapped. A scan of 90 MiB in the page cache took 13 ms, and 6 ms in
 * folios of 2 MiB. A program's map shows such a folio with one entry of the second level, so one
 * fault and one line of the TLB stand for 512. A fault in a map with huge-page advice reads such a
 * folio (do_sync_mmap_readahead() in the kernel's mm/filemap.c, since 5.18), however short the map
 * is. The file system must know huge folios: xfs since 5.18, ext4 since 6.16.
 */
enum {
	RANGE_MAX = 4 << 20, /* bytes of one look at what has come */
	VAIN_MAX = 32,       /* tries in a row that brought too little */
	VAIN_AGAIN = 64,     /* then one in so many is made: a file may have been there in parts */
};

/* Tries in a row that brought too little, of this process and for all files: a kernel mostly makes
 * huge folios for all of them or for none. */
static atomic_uint in_vain;

static bool is_vain(void)
{
	return atomic_load_explicit(&in_vain, memory_order_relaxed) >= VAIN_MAX &&
	       atomic_fetch_add_explicit(&in_vain, 1, memory_order_relaxed) % VAIN_AGAIN;
}

/* Faults in the first page of each folio of a map, which brings all of the folio. One bad block
 * spoils a folio: its good pages are to be read singly. Where the kernel does not know huge folios,
 * pages that other threads have brought meanwhile stay. */
static bool folios_bring(int fd, uint8_t *map, uint64_t offset, size_t length)
{
	/* Random: other threads ask for what comes behind a folio. */
	bool brought = !madvise(map, length, MADV_HUGEPAGE) && !madvise(map, length, MADV_RANDOM);

	for (size_t at = 0; brought && at < length; at += HUGE_PAGE) {
		int rc = io_touch(map + at);

		brought = !rc;
		if (rc == EIO)
			(void)posix_fadvise(fd, (off_t)(offset + at), HUGE_PAGE,
					    POSIX_FADV_DONTNEED);
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

/* Brings the rest of a range: where a page of a folio was there before, the kernel reads the others
 * singly. */
static bool rest_bring(int fd, void *range, uint64_t offset, size_t length)
{
	return !io_begin(fd, offset, length) && !madvise(range, length, MADV_RANDOM) &&
	       !madvise(range, length, MADV_POPULATE_READ);
}

bool io_huge_keep(int fd, uint64_t offset, size_t length)
{
	uint64_t start = offset & ~(uint64_t)(HUGE_PAGE - 1);
	size_t around = round_up(offset + length, HUGE_PAGE) - start;
	uint8_t *map, *range;
	bool kept, told;

	/* With larger pages, a huge page has far more bytes. */
	if (sysconf(_SC_PAGESIZE) != PAGE)
		return false;
	if (offset % PAGE || length > RANGE_MAX || length < HUGE_PAGE / 4 || is_vain())
		return false;
	/* One map for the whole range: parallel threads wait for the kernel's lock of the process's
	 * maps. */
	map = mmap(NULL, around, PROT_READ, MAP_SHARED, fd, (off_t)start);
	if (map == MAP_FAILED)
		return false;
	range = map + (offset - start);
	kept = folios_bring(fd, map, start, around);
	/* The kernel says of another user's file that all is there, so the range is asked for once
	 * more. */
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
