/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a data set that is in memory already: the example of a back end, and the test double. */
#include "io/io_backend.h"

#include <stdlib.h>
#include <string.h>

static ssize_t memory_read(struct io *io, void *buffer, size_t length, uint64_t offset)
{
	uint64_t left = offset < io->bytes_size ? io->bytes_size - offset : 0;

	if (length > left)
		length = (size_t)left;
	if (length > 0)
		memcpy(buffer, (const char *)io->bytes + offset, length);
	return (ssize_t)length;
}

/* io->state lists the requests that wait() has still to hand back. */
static int memory_submit(struct io *io, struct io_request *const *requests, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++) {
		struct io_request *r = requests[i];

		r->done = (size_t)memory_read(io, r->buffer, r->length, r->offset);
		r->next = io->state;
		io->state = r;
	}
	return 0;
}

static size_t memory_wait(struct io *io, struct io_request **requests, size_t min, size_t max)
{
	size_t n = 0;

	(void)min; /* all is there at once */
	while (n < max && io->state) {
		requests[n] = io->state;
		io->state = requests[n++]->next;
	}
	return n;
}

static void memory_forked(struct io *io)
{
	io->state = NULL;
}

const struct io_ops io_memory_ops = {
	.name = "memory",
	.read = memory_read,
	.submit = memory_submit,
	.wait = memory_wait,
	.forked = memory_forked,
};
