/* SPDX-License-Identifier: OLDAP-2.8 */
/* Plans failures of storage for a test. */
#ifndef LMDBIO_LAB_IO_FAULT_H
#define LMDBIO_LAB_IO_FAULT_H

#include "io/io.h"

#include <stdbool.h>

enum io_fault_calls {
	IO_FAULT_READS = 1,   /* each read of a back end: by io_read(), and by a request */
	IO_FAULT_SUBMITS = 2, /* each io_submit() */
};

#define IO_FAULT_TO_NOTHING SIZE_MAX

/* Zero plans nothing. Each call reads it anew, so it may change between calls. */
struct io_fault {
	unsigned calls;  /* to count: enum io_fault_calls */
	unsigned nth;    /* the first call that fails, from 1; 0: none */
	bool for_ever;   /* all later ones fail as well (EINTR never: the caller repeats) */
	int error;       /* errno; 0: the read is shortened (EINTR and short reads are healed) */
	size_t cut;      /* by how many bytes; IO_FAULT_TO_NOTHING: to 0 bytes */
	unsigned seen;   /* calls counted so far */
	unsigned failed; /* failed calls so far */
};

/* Opens a back end that passes requests on to `below`, except as `plan` says. The caller keeps
 * both, and they must outlive the io. Each request is read when it is submitted, so the n-th is the
 * same in every run. Returns 0 or errno. */
int io_open_fault(struct io *io, struct io *below, struct io_fault *plan);

#endif
