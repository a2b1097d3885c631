/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: what memory direct reads may land in. */
#include "io/io.h"

#include <sys/mman.h>

void *io_buffer_new(size_t length)
{
	void *buffer =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (buffer == MAP_FAILED)
		return NULL;
	(void)madvise(buffer, length, MADV_DONTDUMP);
	if (madvise(buffer, length, MADV_DONTFORK)) {
		munmap(buffer, length);
		return NULL;
	}
	return buffer;
}

void io_buffer_free(void *buffer, size_t length)
{
	if (buffer)
		munmap(buffer, length);
}
