/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds out whether mincore(2) can be believed.
 *
 * Of another user's file that may not be written, it says since Linux 5.2 that all of it is in the
 * page cache, also what is behind its end.
 */
#include "io/io_told.h"

#include "util/checked.h"

#include <sys/mman.h>
#include <sys/stat.h>

enum { BEHIND = 2 << 20 }; /* a huge page's length behind a file's end nothing is cached */

bool io_is_told(int fd)
{
	unsigned char page = 1;
	struct stat st;
	void *behind;

	if (fstat(fd, &st))
		return false;
	behind = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd,
		      (off_t)round_up((uint64_t)st.st_size, BEHIND));
	if (behind == MAP_FAILED)
		return false;
	if (mincore(behind, 4096, &page))
		page = 1;
	munmap(behind, 4096);
	return !(page & 1);
}
