/* SPDX-License-Identifier: OLDAP-2.8 */
/* Moves a list from memory to its file when it grows. */
#include "convert_spill.h"

#include "util/whole.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void spill_open(struct spill *spill, int fd)
{
	spill->fd = fd;
	spill->used = 0;
	spill->size = 0;
	spill->view = NULL;
}

static int spill_flush(struct spill *spill)
{
	int rc = whole_put(spill->fd, spill->buffer, spill->used);

	if (!rc)
		spill->used = 0;
	return rc;
}

int spill_append(struct spill *spill, const void *bytes, size_t length)
{
	int rc = 0;

	if (length > SPILL_BUFFER - spill->used)
		rc = spill_flush(spill);
	if (rc)
		return rc;
	memcpy(spill->buffer + spill->used, bytes, length);
	spill->used += length;
	spill->size += length;
	return 0;
}

int spill_look(struct spill *spill)
{
	void *view;
	int rc = spill_flush(spill);

	if (rc || !spill->size)
		return rc;
	view = mmap(NULL, spill->size, PROT_READ, MAP_SHARED, spill->fd, 0);
	if (view == MAP_FAILED)
		return errno;
	spill->view = view;
	return 0;
}

void spill_close(struct spill *spill)
{
	if (spill->view)
		munmap((void *)(uintptr_t)spill->view, spill->size);
	close(spill->fd);
}
