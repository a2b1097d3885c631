/* SPDX-License-Identifier: OLDAP-2.8 */
/* Fills and empties the page cache, and counts what is in it. */
#include "bench_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif
#ifndef SYS_cachestat /* Linux 6.5 */
#define SYS_cachestat 451
#endif

enum { READ_SIZE = 1 << 20, LOOK = 1 << 30 };

int bench_cache_fill(const char *path, uint64_t bytes)
{
	char *buffer = malloc(READ_SIZE);
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	uint64_t left = bytes ? bytes : UINT64_MAX;
	ssize_t n = 1;

	if (fd < 0 || !buffer)
		rc = fd < 0 ? errno : ENOMEM;
	while (!rc && n > 0 && left) {
		n = read(fd, buffer, left < READ_SIZE ? (size_t)left : READ_SIZE);
		if (n < 0)
			rc = errno;
		else
			left -= (uint64_t)n;
	}
	if (fd >= 0)
		close(fd);
	free(buffer);
	return rc;
}

/* Maps a GiB at a time, so that a file of any size needs little memory. */
static int resident_by_mincore(int fd, uint64_t size, uint64_t *bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	unsigned char *map = malloc(LOOK / page);
	int rc = map ? 0 : ENOMEM;

	for (uint64_t from = 0; from < size && !rc; from += LOOK) {
		uint64_t length = size - from < LOOK ? size - from : LOOK;
		void *at = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, (off_t)from);

		if (at == MAP_FAILED) {
			rc = errno;
			break;
		}
		if (mincore(at, length, map))
			rc = errno;
		for (uint64_t i = 0; i < (length + page - 1) / page && !rc; i++)
			*bytes += map[i] & 1 ? page : 0;
		munmap(at, length);
	}
	free(map);
	return rc;
}

int bench_cache_resident(int fd, uint64_t *bytes)
{
	struct {
		uint64_t offset, length;
	} range = {0, 0};
	struct {
		uint64_t cached, dirty, writeback, evicted, recently_evicted;
	} found;
	char name[64];
	struct stat st;

	*bytes = 0;
	if (fstat(fd, &st))
		return errno;
	/* For other users' files mincore(2) says that all pages are in memory. */
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	if (geteuid() && st.st_uid != geteuid() && faccessat(AT_FDCWD, name, W_OK, AT_EACCESS))
		return EPERM;
	if (!syscall(SYS_cachestat, fd, &range, &found, 0)) {
		*bytes = found.cached * (uint64_t)sysconf(_SC_PAGESIZE);
		return 0;
	}
	return resident_by_mincore(fd, (uint64_t)st.st_size, bytes);
}

void bench_cache_forget(int fd)
{
	if (fdatasync(fd) == 0)
		posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

int bench_cache_drop_all(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC), rc;

	if (fd < 0)
		return errno;
	rc = write(fd, "3\n", 2) == 2 ? 0 : errno;
	close(fd);
	return rc;
}

void bench_cache_touch_memory(uint64_t bytes)
{
	void *at;

	if (!bytes)
		return;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return;
	(void)madvise(at, bytes, MADV_HUGEPAGE);
	(void)madvise(at, bytes, MADV_POPULATE_WRITE);
	munmap(at, bytes);
}
