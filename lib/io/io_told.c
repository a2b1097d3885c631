/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds out whether mincore(2) can be believed.
 *
 * Of another user's file that may not be written, it says since Linux 5.2 that all of it is in the
 * page cache, also what is behind its end.
 */
#include "io/io_told.h"

#include "util/checked.h"
#include "util/huge.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_cachestat /* Linux 6.5 */
#define SYS_cachestat 451
#endif

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
	/* A huge page's length behind a file's end nothing is cached. */
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
