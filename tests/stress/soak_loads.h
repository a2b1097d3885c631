/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how a reader of the soak takes batches of a loader. */
#ifndef SOAK_LOADS_H
#define SOAK_LOADS_H

#include "soak_reads.h"

/* Takes so many batches of a random epoch, by a loader of a random order over the open environment
 * or over one of its own. `newest`: a snapshot that is not newer than the loader's.
 * Returns 0 or what has been complained of. */
int soak_load(struct soak_reader *reader, struct random_stream *random, unsigned batches,
	      uint64_t newest);

#endif
