/* SPDX-License-Identifier: OLDAP-2.8 */
/* Memory that direct reads may land in.
 *
 * A read that is under way while the program forks must not land in a page that the fork has copied:
 * the memory is not inherited, or, where a sandbox refuses to say so, it is shared and never copied. */
#include "io/io.h"

#include "util/huge.h"

void *io_buffer_new(size_t length)
{
	const int protection = PROT_READ | PROT_WRITE;
	/* So that it may stand in huge pages, if it is as long. */
	void *buffer = length % HUGE_PAGE ? NULL : huge_map(length, protection, 0);

	if (!buffer)
		buffer = mmap(NULL, length, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buffer == MAP_FAILED)
		return NULL;
	if (madvise(buffer, length, MADV_DONTFORK)) {
		munmap(buffer, length);
		buffer = mmap(NULL, length, protection, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	}
	if (buffer == MAP_FAILED)
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
