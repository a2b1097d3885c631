/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the level up to which all ranks are filled. */
#include "mpi/index_share.h"

/* What the ranks have up to a level, no more than `most`. */
static uint64_t filled(const uint64_t *can, int ranks, uint64_t level, uint64_t most)
{
	uint64_t sum = 0;

	for (int i = 0; i < ranks && sum < most; i++)
		sum += can[i] < level ? can[i] : level;
	return sum < most ? sum : most;
}

void index_share(uint64_t count, const uint64_t *can, int ranks, uint64_t *firsts)
{
	uint64_t n = (uint64_t)ranks, kept = filled(can, ranks, count, count);
	uint64_t low = 0, high = count, left = count - kept, extra;

	/* The lowest level at which all that can be kept is. */
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (filled(can, ranks, middle, kept) < kept)
			low = middle + 1;
		else
			high = middle;
	}
	/* So many stand at the level for want of anything below it. */
	extra = kept - (low ? filled(can, ranks, low - 1, kept) : 0);
	firsts[0] = 0;
	for (int i = 0; i < ranks; i++) {
		uint64_t mine = can[i] < low ? can[i] : low, rest = left * ((uint64_t)i + 1) / n;

		if (low && can[i] >= low) {
			mine -= !extra;
			extra -= extra > 0;
		}
		firsts[i + 1] = firsts[i] + mine + rest - left * (uint64_t)i / n;
	}
}
