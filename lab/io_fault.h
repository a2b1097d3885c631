/* SPDX-License-Identifier: OLDAP-2.8 */
/* Plans a failure of the storage for a test. */
#ifndef LMDBIO_LAB_IO_FAULT_H
#define LMDBIO_LAB_IO_FAULT_H

#include "io/io.h"

#include <stdbool.h>

enum io_fault_calls {
	IO_FAULT_READS = 1,   /* each read of a back end: of io_read(), and of a request */
	IO_FAULT_SUBMITS = 2, /* each io_submit() */
};

#define IO_FAULT_TO_NOTHING SIZE_MAX

/* Zero is a plan for nothing. May be changed between calls: it is read at each. */
struct io_fault {
	unsigned calls;  /* which are counted: enum io_fault_calls */
	unsigned nth;    /* the first that fails, from 1; 0: none */
	bool for_ever;   /* all after it fail as well (never with EINTR: that is tried again) */
	int error;       /* errno; 0: the read is shortened (EINTR and a short read are healed) */
	size_t cut;      /* by how many bytes; IO_FAULT_TO_NOTHING: to 0 bytes */
	unsigned seen;   /* calls counted so far */
	unsigned failed; /* of them, so far */
};

/* Opens a back end that passes on to `below`, but as `plan` says. Both stay the caller's and must
 * outlive the io. Requests are read as they are submitted, so that the n-th is the n-th in every
 * run. Returns 0 or errno. */
int io_open_fault(struct io *io, struct io *below, struct io_fault *plan);

#endif
