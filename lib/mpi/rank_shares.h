/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which rank reads which bytes of a staging in which step, and which rank counts which leaf
 * pages of an index. This is pure arithmetic, so every rank can compute the other ranks' parts. */
#ifndef LMDBIO_MPI_RANK_SHARES_H
#define LMDBIO_MPI_RANK_SHARES_H

#include <stdint.h>

struct stage_shares {
	uint64_t size;   /* bytes of the file */
	uint64_t each;   /* bytes of a share; the last shares may be shorter, or empty */
	uint64_t buffer; /* bytes of each share that one step reads */
	uint64_t steps;  /* of every rank */
};

/* Bytes of the file, in [offset, offset + length). Length 0: nothing. Then offset is where the
 * file's last page begins, because it must be inside of what other ranks read (ROMIO spans its
 * reads from the least offset to the greatest). */
struct stage_part {
	uint64_t offset, length;
};

/* Cuts a file of `size` bytes (of 0 only where no rank reads by MPI-IO) into contiguous shares
 * in the order of the ranks, on borders of a page (of a megabyte where shares are large) and of
 * `piece` bytes, a power of two. `buffer` is a multiple of a page. */
void stage_shares_cut(struct stage_shares *shares, uint64_t size, int ranks, uint64_t buffer,
		      uint64_t piece);

/* Returns what `rank` reads in `step`. */
struct stage_part stage_shares_part(const struct stage_shares *shares, int rank, uint64_t step);

/* Returns how many bytes all ranks have read after `steps` steps. */
uint64_t stage_shares_done(const struct stage_shares *shares, int ranks, uint64_t steps);

/* Deals `count` leaves: a rank's are firsts[rank] ... firsts[rank + 1] - 1. The shares are as even
 * as can be, but no rank gets more than it can keep, can[rank], as long as other ranks can keep
 * more. `firsts` has one more entry than there are ranks. */
void index_share(uint64_t count, const uint64_t *can, int ranks, uint64_t *firsts);

#endif
