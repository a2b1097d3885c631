/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes reads fail, for the tests of the layers above lib/io. */
#include "io_fault.h"

#include "io/io_backend.h"

#include <errno.h>
#include <stdlib.h>

struct fault {
	struct io_fault *plan;
	struct io_request *done; /* requests that wait() must still return */
};

/* Counts one call. Returns whether the call must fail. */
static bool is_due(struct io *io, enum io_fault_calls kind)
{
	struct io_fault *plan = ((struct fault *)io->state)->plan;
	unsigned nth;

	if (!(plan->calls & (unsigned)kind))
		return false;
	nth = __atomic_add_fetch(&plan->seen, 1, __ATOMIC_RELAXED);
	if (plan->nth == 0 || nth < plan->nth || (nth > plan->nth && !plan->for_ever))
		return false;
	(void)__atomic_add_fetch(&plan->failed, 1, __ATOMIC_RELAXED);
	return true;
}

static ssize_t fault_read(struct io *io, void *buffer, size_t length, uint64_t offset)
{
	const struct io_fault *plan = ((struct fault *)io->state)->plan;
	bool due = is_due(io, IO_FAULT_READS);
	size_t done;
	int rc;

	if (due && plan->error) {
		errno = plan->error;
		return -1;
	}
	rc = io_read(io->below, buffer, length, offset, &done);
	if (rc) {
		errno = rc;
		return -1;
	}
	if (due)
		done -= plan->cut < done ? plan->cut : done;
	return (ssize_t)done;
}

static int fault_submit(struct io *io, struct io_request *const *requests, size_t n)
{
	struct fault *fault = io->state;
	size_t i;

	if (is_due(io, IO_FAULT_SUBMITS) && fault->plan->error)
		return fault->plan->error;
	for (i = 0; i < n; i++) {
		struct io_request *r = requests[i];

		r->error = io_read_rest(io, r->buffer, r->length, r->offset, &r->done);
		r->next = fault->done;
		fault->done = r;
	}
	return 0;
}

static size_t fault_wait(struct io *io, struct io_request **requests, size_t min, size_t max)
{
	struct fault *fault = io->state;
	size_t n = 0;

	(void)min; /* all requests are complete at once */
	while (n < max && fault->done) {
		requests[n] = fault->done;
		fault->done = requests[n++]->next;
	}
	return n;
}

static void fault_forked(struct io *io)
{
	((struct fault *)io->state)->done = NULL;
}

static int fault_open(struct io *io)
{
	io->state = calloc(1, sizeof(struct fault));
	io->alignment = io->below->alignment;
	return io->state ? 0 : ENOMEM;
}

static void fault_close(struct io *io)
{
	free(io->state);
}

static const struct io_ops io_fault_ops = {
	.name = "fault",
	.open = fault_open,
	.read = fault_read,
	.submit = fault_submit,
	.wait = fault_wait,
	.forked = fault_forked,
	.close = fault_close,
};

int io_open_fault(struct io *io, struct io *below, struct io_fault *plan)
{
	int rc = io_open_stacked(io, &io_fault_ops, below);

	if (rc)
		return rc;
	((struct fault *)io->state)->plan = plan;
	return 0;
}
