/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which rank reads which bytes of a staging, in which step, and counts which leaf pages of an
 * index. Pure arithmetic, so that every rank knows every other's part without asking. */
#ifndef LMDBIO_MPI_RANK_SHARES_H
#define LMDBIO_MPI_RANK_SHARES_H

#include <stdint.h>

struct stage_shares {
	uint64_t size;   /* bytes of the file */
	uint64_t each;   /* bytes of a share; the last ones may be shorter, or empty */
	uint64_t buffer; /* bytes of a step, of each share */
	uint64_t steps;  /* of every rank */
};

/* Bytes of the file, in [offset, offset + length). Length 0: nothing, and offset is then where the
 * file's last page begins, because it must be inside of what others read (ROMIO spans its reads
 * from the least offset to the greatest). */
struct stage_part {
	uint64_t offset, length;
};

/* Cuts a file of `size` bytes (of 0 only where no rank reads by MPI-IO) into contiguous shares
 * in the order of the ranks, on borders of a page (of a megabyte where shares are large) and of
 * `piece` bytes, a power of two. `buffer` is a multiple of a page. */
void stage_shares_cut(struct stage_shares *shares, uint64_t size, int ranks, uint64_t buffer,
		      uint64_t piece);

/* What `rank` reads in `step`. */
struct stage_part stage_shares_part(const struct stage_shares *shares, int rank, uint64_t step);

/* Bytes that all ranks have behind them after so many steps. */
uint64_t stage_shares_done(const struct stage_shares *shares, int ranks, uint64_t steps);

/* firsts[rank] ... firsts[rank + 1] - 1 are the rank's, of `count` leaves: as evenly as can be,
 * but no rank gets more than it can keep, can[rank], as long as others can. `firsts` has one
 * more entry than there are ranks. */
void index_share(uint64_t count, const uint64_t *can, int ranks, uint64_t *firsts);

#endif
