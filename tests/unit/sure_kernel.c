/* SPDX-License-Identifier: OLDAP-2.8 */
/* Replaces the system calls by which a page-cache store reads, asks what is cached, and reads the
 * clock. */
#include "sure_kernel.h"

#include "io/io_page_cache.h"
#include "util/checked.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

struct sure_kernel kernel;
static long major_faults;
static uint64_t now; /* nanoseconds; a read takes a while */

int __wrap_madvise(void *address, size_t length, int advice);
int __wrap_mincore(void *address, size_t length, unsigned char *pages);
ssize_t __wrap_readahead(int fd, off_t offset, size_t count);
int __wrap_getrusage(int who, struct rusage *usage);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_io_touch(const void *page);
bool __wrap_io_touch_is_dear(void);
int __wrap_io_pass(int fd, uint64_t offset, size_t length);

static int answer(uint64_t offset, size_t length)
{
	kernel.asks++;
	kernel.asked_from = offset;
	kernel.asked = length;
	return kernel.bad && kernel.bad >= offset && kernel.bad < offset + length ? EIO : 0;
}

static int fault(uint64_t offset, size_t length)
{
	major_faults += kernel.cold;
	now += kernel.cold ? 100000 : kernel.fault_ns;
	return answer(offset, length);
}

int __wrap_madvise(void *address, size_t length, int advice)
{
	(void)advice;
	kernel.populates++;
	if (!fault((uint64_t)((uint8_t *)address - kernel.map), length))
		return 0;
	errno = EFAULT;
	return -1;
}

int __wrap_io_touch(const void *page)
{
	kernel.touches++;
	return fault((uint64_t)((const uint8_t *)page - kernel.map), PAGE);
}

bool __wrap_io_touch_is_dear(void)
{
	return kernel.dear;
}

int __wrap_io_pass(int fd, uint64_t offset, size_t length)
{
	assert_true(fd >= 0);
	kernel.passes++;
	now += kernel.cold ? 100000 : 0;
	return answer(offset, length);
}

int __wrap_mincore(void *address, size_t length, unsigned char *pages)
{
	uint64_t offset = (uint64_t)((uint8_t *)address - kernel.map);

	if (offset >= SIZE) {
		*pages = kernel.untold; /* behind the file's end */
		return 0;
	}
	kernel.looks++;
	for (size_t i = 0; i < length / PAGE; i++)
		pages[i] = !kernel.cold && (!kernel.bad || kernel.bad / PAGE != offset / PAGE + i);
	/* Of several pages the store checks the last one first. */
	if (length == PAGE && pages[0])
		answer(offset, length);
	return 0;
}

ssize_t __wrap_readahead(int fd, off_t offset, size_t count)
{
	if (fd < 0) {
		errno = EBADF;
		return -1;
	}
	/* What follows a large request asks for parts of it again. */
	if (!kernel.begun || (uint64_t)offset < kernel.begun_from ||
	    (uint64_t)offset + count > kernel.begun_from + kernel.begun_last) {
		kernel.begun_from = (uint64_t)offset;
		kernel.begun_last = count;
		kernel.begun += count;
	}
	now += kernel.cold ? 10000 : 0;
	return 0;
}

int __wrap_getrusage(int who, struct rusage *usage)
{
	assert_int_equal(who, RUSAGE_THREAD);
	*usage = (struct rusage){.ru_majflt = major_faults};
	return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	*time = (struct timespec){.tv_sec = (time_t)(now / 1000000000),
				  .tv_nsec = (long)(now % 1000000000)};
	return 0;
}

void kernel_clear_counts(void)
{
	kernel.asks = kernel.touches = kernel.populates = kernel.passes = kernel.looks = 0;
	kernel.begun = 0;
}

struct store *sure_store(void **state)
{
	return &((struct fixture *)*state)->first.store;
}

int sure_setup(void **state)
{
	struct fixture *f;

	if (store_setup(state))
		return -1;
	f = *state;
	reader_close(&f->first);
	if (reader_open(&f->first, f, STORE_CACHE, true))
		return -1;
	kernel = (struct sure_kernel){.map = f->first.base};
	return 0;
}

int sure_hand_out(struct store *store, uint64_t offset)
{
	return store_is_sure(store->granted.sure, offset) ? 0 : store_assure(store, offset, PAGE);
}
