/* SPDX-License-Identifier: OLDAP-2.8 */
/* Takes page faults and reads pages on a program's behalf, without the costs of madvise(2).
 *
 * MADV_POPULATE_READ also has an errno for a read that fails. But madvise(2) holds back what its
 * faults submit to the disk (blk_start_plug() in the kernel's mm/madvise.c) until the thread goes to
 * sleep, and then a kernel thread submits it. Traced over 300 values of 3 pages: 900 reads were
 * submitted by kworkers out of 900, against 13 of 900 where the program took the faults. Each of
 * them waits for a processor, and beside busy processes a value of 12 KB took 2 to 4 ms instead of
 * 0.2.
 *
 * A system call that copies its argument from a page takes the same fault as the program, and
 * returns EFAULT where the program gets a signal. setitimer(2) copies 32 bytes and then refuses a
 * timer that does not exist: 240 ns, against 590 of madvise(2). process_vm_readv(2) takes 1400.
 *
 * The kernel submits all pages of one read at a time, whatever advice the map has been given. Each
 * page is copied to the same place, which stays in the processor's cache.
 */
#include "io/io_touch.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif

enum { PAGE = 4096, PAGES_AT_ONCE = 64, NO_TIMER = -1 };

enum way { WAY_UNKNOWN, WAY_COPY, WAY_POPULATE };

/* By system call number: a C library may copy the argument itself. Returns its errno. */
static int copy_from(const void *page)
{
	return syscall(SYS_setitimer, NO_TIMER, page, NULL) ? errno : 0;
}

/* Whether this kernel copies before it refuses. A page of the process that cannot be read tells; a
 * sandbox may have an answer of its own. */
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

static int pass(int fd, uint64_t offset, size_t length, int flags)
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
		done = preadv2(fd, to, (int)n, (off_t)offset, flags);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return errno;
		if (done == 0)
			return EIO;
		if (flags & RWF_NOWAIT && (size_t)done < asked)
			return EAGAIN;
		offset += (uint64_t)done;
		length -= (size_t)done;
	}
	return 0;
}

int io_pass(int fd, uint64_t offset, size_t length)
{
	return pass(fd, offset, length, 0);
}

int io_pass_now(int fd, uint64_t offset, size_t length)
{
	return pass(fd, offset, length, RWF_NOWAIT);
}
