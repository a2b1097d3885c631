/* SPDX-License-Identifier: OLDAP-2.8 */
/* Memory that direct reads may land in.
 *
 * A read that is under way while the program forks must not land in a page that the fork has copied:
 * the memory is not inherited, or, where a sandbox refuses to say so, it is shared and never copied. */
#include "io/io.h"

#include <sys/mman.h>

enum { HUGE = 2 << 20 };

/* So that it may stand in huge pages, if it is as long. */
static void *mmap_aligned(size_t length, int protection)
{
	size_t room = length % HUGE ? length : length + HUGE, front;
	uint8_t *map = mmap(NULL, room, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED && room > length)
		map = mmap(NULL, room = length, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED)
		return NULL;
	if (room == length)
		return map;
	front = (HUGE - (uintptr_t)map % HUGE) % HUGE;
	if (front)
		munmap(map, front);
	munmap(map + front + length, HUGE - front);
	return map + front;
}

void *io_buffer_new(size_t length)
{
	const int protection = PROT_READ | PROT_WRITE;
	void *buffer = mmap_aligned(length, protection);

	if (buffer && madvise(buffer, length, MADV_DONTFORK)) {
		munmap(buffer, length);
		buffer = mmap(NULL, length, protection, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		buffer = buffer == MAP_FAILED ? NULL : buffer;
	}
	if (!buffer)
		return NULL;
	(void)madvise(buffer, length, MADV_DONTDUMP);
	return buffer;
}

void io_buffer_huge(void *buffer, size_t length)
{
	(void)madvise(buffer, length, MADV_HUGEPAGE);
}

void io_buffer_free(void *buffer, size_t length)
{
	if (buffer)
		munmap(buffer, length);
}
