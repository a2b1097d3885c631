/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which leaf pages each rank of a job counts. */
#ifndef LMDBIO_MPI_INDEX_SHARE_H
#define LMDBIO_MPI_INDEX_SHARE_H

#include <stdint.h>

/* firsts[rank] ... firsts[rank + 1] - 1 are the rank's, of `count` leaves: as evenly as can be,
 * but no rank gets more than it can keep, can[rank], as long as others can. `firsts` has one
 * more entry than there are ranks. */
void index_share(uint64_t count, const uint64_t *can, int ranks, uint64_t *firsts);

#endif
