/* SPDX-License-Identifier: OLDAP-2.8 */
/* Maps memory that the kernel may back by huge pages, which begin at a multiple of their size.
 * Defines advice that not every C library has. */
#ifndef LMDBIO_UTIL_HUGE_H
#define LMDBIO_UTIL_HUGE_H

#include "util/checked.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_READ /* Linux 5.14 */
#define MADV_POPULATE_READ 22
#endif

enum { HUGE_PAGE = 2 << 20 /* bytes */ };

/* Maps private anonymous memory at a multiple of HUGE_PAGE. Returns NULL, with errno, on
 * failure. */
static inline void *huge_map(size_t length, int protection, int flags)
{
	size_t room = length + HUGE_PAGE, end, front;
	uint8_t *map = mmap(NULL, room, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (map == MAP_FAILED)
		return NULL;
	front = (size_t)(round_up((uintptr_t)map, HUGE_PAGE) - (uintptr_t)map);
	end = front + round_up(length, 4096);
	if (front)
		munmap(map, front);
	munmap(map + end, room - end);
	return map + front;
}

#endif
