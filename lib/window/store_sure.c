/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes sure of pages of the file's own map before the program touches them.
 *
 * A failed read is a signal to a program that takes the page fault, and an errno to a system call.
 * So a system call makes sure of a page before it is first handed out, and the program maps it by a
 * minor fault. The kernel may drop the page later and read it again; a failure then is a signal.
 *
 * The system call takes the page fault in the program's place (io_touch()). That costs 0.2 us more
 * than the program's own fault, and 5 to 10 us more on a virtual machine whose kernel has to be
 * asked for each page-table entry (io_touch_is_dear()): there a page that is wanted alone is read.
 *
 * Where the kernel reads nothing around a fault, one request for all pages of a value comes before
 * the touches, which wait for it. One request takes 0.09 ms for 3 cold pages in place of 0.22 by
 * faults, 0.4 for 50 in place of 3.3 (ext4, MDB_NORDAHEAD). A read into a scratch page instead of
 * the touches copies all bytes, and leaves the faults to the program: 4,000 values of 12 KB then
 * took 1.2 times as long.
 *
 * When a local file is far larger than memory, the kernel drops the neighbours that it reads around
 * a page (read_ahead_kb, 8 MiB on some disks) before they are wanted. They help only where the
 * program reads on. So a range is read alone if none of the last few ranges ended near it.
 *
 * Where all is in memory, no read can fail. On a local disk, after many pages in a row that were in
 * memory, the store assumes that the next ones are. It stops when a read of the file fails.
 *
 * A window of shared memory that shows the file alone for a while is treated alike.
 */
#include "window/store_private.h"

#include "io/io_page_cache.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/memory.h"
#include "util/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum {
	ROW = 16,          /* pages in a row that were there, before whole pieces are asked for */
	ROW_MAX = ROW + 8, /* ... and whole pieces; at most 2^(ROW_MAX - ROW) are assumed */
	PIECE = STORE_FAULT,
	GRANT = 8, /* pieces that are assumed at once, where so many may be */
	PIECE_LARGE = 4 * PIECE, /* the most to read page by page for one page that was wanted */
	FAULT_MOST = 64 << 20,   /* bytes of one value that the kernel is asked for at a time */
	FAULT_NS = 2000,         /* a fault that takes less time has read nothing */
	READ_NS = 8000,          /* the same for a read of one page: no disk answers within it */
	WAIT_NS = 2 * READ_NS,   /* a fault this slow has waited, for a read or a processor */
	LOOKUP_NS = 100,         /* the kernel finds a cached page twice in less */
	MAJOR_UNKNOWN = -1,
	LOOK_EACH = 8, /* of ranges that were missing in a row, one in so many is looked at */
	/* The kernel reads around faults until so many more of them had to read than did not
	 * (MMAP_LOTSAMISS in mm/filemap.c); it counts each page that a fault maps. */
	AROUND_MISSES = 100,
	AROUND_HIT = STORE_FAULT / ARENA_BLOCK,
	NEAR = 128 << 10, /* bytes from the end of an earlier range: the program reads on there */
};

/* Whether to assume nothing. A window with shared memory assumes nothing: few of the files that it
 * is for are on a local disk. */
static bool is_careful(const struct store *store)
{
	return store_is_careful(store) || !store_shows_file(store);
}

/* Page faults of this thread that had to read. */
static long faults_major(void)
{
	struct rusage usage = {0};

	(void)getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_majflt;
}

/* Asks what memory is allowed when a page is first missing. The answer takes reading a dozen of the
 * kernel's files, which a program whose data is in memory is spared. */
static bool is_found_alone(struct store *store)
{
	uint64_t below = atomic_load_explicit(&store->granted.alone_below, memory_order_relaxed);

	if (below) {
		atomic_store_explicit(&store->granted.alone_below, 0, memory_order_relaxed);
		atomic_store_explicit(&store->granted.alone, memory_allowed("") < below,
				      memory_order_relaxed);
	}
	return store_is_alone(store);
}

/* A backward reader's range ends where its last one began, so the remembered end is one value
 * farther away. Threads that remember their ranges at the same time may lose one: its reader's next
 * request is small. */
bool is_lone(struct store *store, uint64_t offset, uint64_t end)
{
	_Atomic uint64_t *ends = store->granted.ends;
	uint64_t before = offset < NEAR ? 0 : offset - NEAR, behind = end + NEAR + (end - offset);
	unsigned i;

	if (!store_is_alone(store))
		return false;
	for (i = 0; i < STORE_STREAMS; i++) {
		uint64_t last = atomic_load_explicit(&ends[i], memory_order_relaxed);

		if (last >= before && last <= behind) {
			atomic_store_explicit(&ends[i], end, memory_order_relaxed);
			return false;
		}
	}
	i = atomic_fetch_add_explicit(&store->granted.next_end, 1, memory_order_relaxed);
	atomic_store_explicit(&ends[i % STORE_STREAMS], end, memory_order_relaxed);
	return true;
}

/* Whether the kernel reads around a page fault. */
static bool faults_read_around(const struct store *store)
{
	return !store->file.random &&
	       atomic_load_explicit(&store->granted.missed, memory_order_relaxed) <= AROUND_MISSES;
}

bool cache_reads_around(struct store *store)
{
	return !is_found_alone(store) && faults_read_around(store);
}

static void count_missed(struct store *store, bool there)
{
	unsigned missed = atomic_load_explicit(&store->granted.missed, memory_order_relaxed);

	if (!there)
		missed += missed <= AROUND_MISSES;
	else
		missed -= missed < AROUND_HIT ? missed : AROUND_HIT;
	atomic_store_explicit(&store->granted.missed, missed, memory_order_relaxed);
}

/* Where the kernel takes no fault within a call (ENOSYS), the program takes it. */
static int touch(const struct store *store, uint64_t offset)
{
	int rc = io_touch(store->file.base + offset);

	return rc == ENOSYS ? 0 : rc;
}

/* Touches one page. To ask the kernel for the number of major faults costs as much as a fault. So
 * the clock tells quick faults, and slow ones: those waited, for a read or for one by another
 * process, which is no major fault. For the rest the number is compared with that at the thread's
 * last such fault. If the program has taken major faults of its own meanwhile, the page counts as
 * read. After a wait the number is unknown, and the clock decides alone. */
static int touch_one(const struct store *store, uint64_t offset, bool *there)
{
	static _Thread_local long seen = MAJOR_UNKNOWN;
	uint64_t began = clock_now(), took;
	int rc = touch(store, offset);
	long before = seen;

	took = clock_now() - began;
	*there = took < FAULT_NS;
	if (took >= WAIT_NS) {
		seen = MAJOR_UNKNOWN;
	} else if (!*there) {
		seen = faults_major();
		*there = before == MAJOR_UNKNOWN ? took < READ_NS : seen == before;
	}
	return rc;
}

/* Requests the missing pages of a range, without a wait. If the program has closed the descriptor,
 * or uses it for another file, each fault reads its own page. Returns whether all pages were likely
 * cached: a request takes longer to submit. */
static bool begin_read(const struct store *store, uint64_t offset, uint64_t end)
{
	uint64_t began = clock_now();

	(void)io_begin(store->file.fd, offset, end - offset);
	return clock_now() - began < FAULT_NS + block_end(end - offset) * LOOKUP_NS;
}

/* Reads a page where a touch is dear, by a descriptor that reads no more than it is asked for.
 * Returns false if the read failed, or if the program has closed the descriptor. */
static bool is_read(struct store *store, uint64_t offset, bool *there)
{
	uint64_t began = clock_now();
	int fd = probe_of(store);

	fd = fd < 0 ? store->file.fd : fd;
	if (!descriptor_is(fd, store->file.device, store->file.inode) || io_pass(fd, offset, 1))
		return false;
	*there = clock_now() - began < READ_NS;
	return true;
}

/* Brings pages by touches. Where the kernel reads around a fault, the first touch shows whether
 * others are missing. Elsewhere, missing pages are requested before the touches wait for them; a
 * page that is wanted alone needs neither a request nor a look. A read instead of the look could
 * clear the mark at which the kernel reads on ahead.
 *
 * A look takes up to a tenth of the time in which a fast disk answers. So after a range that was
 * missing, the clock tells of most of the next ones; where system calls are slow, it takes cached
 * pages for missing ones. */
static int fault_in_pages(struct store *store, uint64_t offset, uint64_t end, bool lone,
			  bool *there)
{
	bool around = !lone && faults_read_around(store), single = end - offset <= ARENA_BLOCK;
	unsigned absent = atomic_load_explicit(&store->granted.absent, memory_order_relaxed);
	bool quick = true;
	int rc;

	if (lone || around || (!single && absent % LOOK_EACH == 0)) {
		*there = is_told(store) && is_cached(store, offset, end);
		if (*there) {
			atomic_store_explicit(&store->granted.absent, 0, memory_order_relaxed);
			return 0;
		}
	}
	if (around && is_found_alone(store) && is_lone(store, offset, end)) {
		lone = true;
		around = false;
	}
	if (single && !around && io_touch_is_dear() && is_read(store, offset, there))
		return 0;
	if (lone || (!single && !around))
		quick = begin_read(store, offset, end);
	rc = touch_one(store, offset, there);
	offset += ARENA_BLOCK;
	if (around && !rc && !*there && offset < end)
		(void)begin_read(store, offset, end);
	*there &= quick;
	if (!single)
		atomic_store_explicit(&store->granted.absent, *there ? 0 : absent + 1,
				      memory_order_relaxed);
	for (; !rc && offset < end; offset += ARENA_BLOCK)
		rc = touch(store, offset);
	return rc;
}

/* Works in pieces, to bound what the kernel is asked for at a time; and to the end, for all of the
 * range counts as sure afterwards. */
int fault_in(struct store *store, uint64_t offset, uint64_t end, bool lone, bool *there)
{
	bool some;
	int rc = 0;

	offset &= ~(uint64_t)(ARENA_BLOCK - 1);
	*there = true;
	for (uint64_t next; !rc && offset < end; offset = next) {
		next = end - offset > FAULT_MOST ? offset + FAULT_MOST : end;
		rc = fault_in_pages(store, offset, next, lone, &some);
		*there &= some;
	}
	if (!*there)
		(void)is_found_alone(store);
	if (!lone)
		count_missed(store, *there);
	return rc;
}

void mark_sure(struct store *store, uint64_t offset, uint64_t end)
{
	for (uint64_t block = block_of(offset), last = block_end(end), next; block < last;
	     block = next) {
		uint64_t bits = ~(uint64_t)0 << block % 64;

		next = (block / 64 + 1) * 64;
		if (next > last) {
			bits &= ~(uint64_t)0 >> (next - last);
			next = last;
		}
		atomic_fetch_or_explicit(&store->granted.sure[block / 64], bits,
					 memory_order_relaxed);
	}
}

bool store_are_sure(const _Atomic uint64_t *sure, uint64_t offset, uint64_t length)
{
	uint64_t last = block_end(offset + length);

	for (uint64_t block = block_of(offset); block < last; block++)
		if (!store_is_sure(sure, block * ARENA_BLOCK))
			return false;
	return true;
}

void store_take_care(struct store *store)
{
	atomic_store(&store->granted.careful, true);
	atomic_store(&store->granted.sure_skip, 0);
}

void sure_failed(struct store *store, int error)
{
	if (error != EIO)
		return;
	store_take_care(store);
	atomic_store(&store->granted.sure_row, 0);
}

/* Whether a piece is assumed to be in memory, because all before it were. Widens it to those that
 * are assumed with it: a call for each piece took 1 % of a warm scan. */
static bool is_granted(struct store *store, uint64_t *offset, uint64_t *end)
{
	unsigned skip = atomic_load_explicit(&store->granted.sure_skip, memory_order_relaxed);
	unsigned pieces = skip < GRANT ? 1 : GRANT;
	uint64_t size = store->file.size;

	if (!skip || is_careful(store))
		return false;
	atomic_store_explicit(&store->granted.sure_skip, skip - pieces, memory_order_relaxed);
	*offset &= ~((uint64_t)pieces * PIECE - 1);
	*end = size - *offset < pieces * PIECE ? size : *offset + pieces * PIECE;
	return true;
}

/* Notes whether a range was in memory. If not, the neighbours of the next pages have to be read as
 * well, but not before they are wanted. */
static void note(struct store *store, bool there)
{
	unsigned row = atomic_load_explicit(&store->granted.sure_row, memory_order_relaxed);

	row = !there ? 0 : row < ROW_MAX ? row + 1 : row;
	atomic_store_explicit(&store->granted.sure_row, row, memory_order_relaxed);
	if (row > ROW)
		atomic_store_explicit(&store->granted.sure_skip, 1u << (row - ROW),
				      memory_order_relaxed);
}

static int ask(struct store *store, uint64_t offset, uint64_t end, bool lone, bool *there)
{
	uint64_t began = clock_now();
	int rc = fault_in(store, offset, end, lone, there);

	if (rc) {
		sure_failed(store, rc);
		return rc;
	}
	if (!*there)
		store_waited(store, began);
	mark_sure(store, offset, end);
	note(store, *there);
	return 0;
}

/* Asks for all pages of a piece. Returns false if one of them cannot be read. */
static bool ask_piece(struct store *store, uint64_t offset, uint64_t end)
{
	long before = faults_major();

	/* Pages that are in memory are not worth a call each. */
	if (madvise(store->file.base + offset, end - offset, MADV_POPULATE_READ))
		return false;
	stats_add(STATS_POPULATE_CALLS, 1);
	mark_sure(store, offset, end);
	note(store, faults_major() == before);
	return true;
}

/* Widens a range to its piece of the file. Returns false if the piece is not to be asked for. */
static bool piece_around(const struct store *store, uint64_t *offset, uint64_t *end)
{
	unsigned row = atomic_load_explicit(&store->granted.sure_row, memory_order_relaxed);
	uint64_t piece = row == ROW_MAX && is_careful(store) ? PIECE_LARGE : PIECE;
	uint64_t first = *offset & ~(piece - 1), size = store->file.size;

	if (row < ROW || *end > size || *end > first + piece)
		return false;
	*offset = first;
	*end = first + piece < size ? first + piece : size;
	return true;
}

/* Takes sure blocks off both ends of a range: a value across the border of two pieces then lies in
 * one of them, because a scan was granted the other. */
static void sure_trim(const struct store *store, uint64_t *offset, uint64_t *end)
{
	uint64_t from = block_of(*offset), to = block_end(*end);

	while (from < to && store_is_sure(store->granted.sure, from * ARENA_BLOCK))
		*offset = ++from * ARENA_BLOCK;
	while (from < to && store_is_sure(store->granted.sure, (to - 1) * ARENA_BLOCK))
		*end = --to * ARENA_BLOCK;
}

int store_assure(struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length, first, last;
	bool lone, piece, there;
	int rc;

	sure_trim(store, &offset, &end);
	if (offset >= end)
		return 0;
	first = offset;
	last = end;
	lone = is_lone(store, offset, end);
	piece = !lone && piece_around(store, &first, &last);
	if (piece && is_granted(store, &first, &last)) {
		mark_sure(store, first, last);
		return 0;
	}
	if (piece && is_careful(store) && ask_piece(store, first, last))
		return 0;
	rc = ask(store, offset, end, lone, &there);
	if (!rc && piece && there && !is_careful(store))
		mark_sure(store, first, last);
	return rc;
}

/* What the page cache was found to hold may have holes: samples stand for the pages between them. */
int store_assure_ahead(struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length;
	int rc = 0;

	if (store->packed)
		return 0;
	for (offset &= ~(uint64_t)(ARENA_BLOCK - 1); !rc && offset < end; offset += ARENA_BLOCK) {
		if (store_is_sure(store->granted.sure, offset) ||
		    shows_arena(store, block_of(offset)))
			continue;
		rc = touch(store, offset);
		if (!rc)
			mark_sure(store, offset, offset + ARENA_BLOCK);
	}
	sure_failed(store, rc);
	return rc;
}

bool store_begins(struct store *store)
{
	bool passes = store_shows_file(store);

	if (!passes) {
		pthread_mutex_lock(&store->lock);
		passes = passes_pages(store);
		pthread_mutex_unlock(&store->lock);
	}
	return passes && descriptor_is(store->file.fd, store->file.device, store->file.inode);
}

bool store_begin(const struct store *store, uint64_t offset, uint64_t length)
{
	return !io_begin(store->file.fd, offset, length);
}

/* --- page-table entries ahead of the program's faults --- */

/* With the page that is asked for, the kernel maps all others of the same 64 KiB that are in
 * memory. If each page is asked for, the kernel goes over all of them each time, and takes half as
 * long again. But an entry alone is not always enough: the processor's tables may be a hypervisor's
 * shadow tables, which only an access fills. With such shadow tables the first look at a page takes
 * three quarters of a fault. So the store measures looks. Where they are slow it looks at each
 * page, on another processor than the program's; elsewhere that would take as long as the fault
 * itself. */
enum {
	LOOK_NS = 500, /* for a page that has an entry: with shadow tables 1500, else 100 */
	LOOKS = 8,     /* so many more pieces of one kind decide */
};

/* Of this process, for all files: pieces whose pages were slow to look at, less the other pieces,
 * until these are LOOKS more. */
static atomic_int looks_dear;

/* Clips a range to what is behind the window's front. Returns false if that is less than a fault
 * maps. */
static bool clip_to_faults(const struct store *store, uint64_t *offset, uint64_t end)
{
	if (*offset < store->file.low)
		*offset = store->file.low;
	if (*offset >= end || end - *offset < STORE_FAULT)
		return false;
	*offset &= ~(uint64_t)(ARENA_BLOCK - 1);
	stats_add(STATS_POPULATE_CALLS, 1);
	return true;
}

/* A kernel that does not know the advice leaves the faults to the program. */
static void make_entries(const struct store *store, uint64_t offset, uint64_t end)
{
	for (; offset < end; offset = round_up(offset + 1, STORE_FAULT))
		(void)madvise(store->file.base + offset, ARENA_BLOCK, MADV_POPULATE_READ);
}

static void look_at(const struct store *store, uint64_t offset, uint64_t end)
{
	uint64_t began = clock_now(), pages = block_of(end - offset);
	bool dear;

	for (; offset < end; offset += ARENA_BLOCK)
		(void)*(const volatile uint8_t *)(store->file.base + offset);
	dear = clock_now() - began > pages * LOOK_NS;
	if (!dear || atomic_load_explicit(&looks_dear, memory_order_relaxed) < LOOKS)
		atomic_fetch_add_explicit(&looks_dear, dear ? 1 : -1, memory_order_relaxed);
}

void store_map(const struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length, next;

	if (!clip_to_faults(store, &offset, end))
		return;
	for (; offset < end; offset = next) {
		if (atomic_load_explicit(&looks_dear, memory_order_relaxed) <= -LOOKS) {
			make_entries(store, offset, end);
			return;
		}
		next = round_up(offset + 1, STORE_FAULT);
		if (next > end)
			next = round_up(end, ARENA_BLOCK);
		/* Each page, so that a look at one that cannot be read raises no signal. */
		if (madvise(store->file.base + offset, next - offset, MADV_POPULATE_READ))
			return;
		look_at(store, offset, next);
	}
}

void map_read(const struct store *store, uint64_t offset, uint64_t length)
{
	uint64_t end = offset + length;

	if (clip_to_faults(store, &offset, end))
		make_entries(store, offset, end);
}
