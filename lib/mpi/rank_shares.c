/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says where the shares of ranks begin and end. */
#include "config.h"
#include "mpi/rank_shares.h"

#include "util/checked.h"

#include <stdint.h>

/* Returns what the ranks keep if each keeps up to `level` leaves; at most `most`. */
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

	/* Finds the lowest level at which the ranks keep all that they can. */
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (filled(can, ranks, middle, kept) < kept)
			low = middle + 1;
		else
			high = middle;
	}
	/* `extra`: how many ranks keep `low` leaves. The other ranks that could keep `low` keep one
	 * less. */
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

enum {
	PAGE = 4 << 10,
	BORDER = 1 << 20,       /* the size that suits storage and arena best */
	BORDER_SHARE = 8 << 20, /* rounding such a share up to a border makes no imbalance */
};

void stage_shares_cut(struct stage_shares *shares, uint64_t size, int ranks, uint64_t buffer,
		      uint64_t piece)
{
	uint64_t even = (size + (uint64_t)ranks - 1) / (uint64_t)ranks;

	shares->size = size;
	shares->each = round_up(round_up(even, even >= BORDER_SHARE ? BORDER : PAGE), piece);
	shares->buffer = buffer;
	shares->steps = (shares->each + buffer - 1) / buffer;
}

struct stage_part stage_shares_part(const struct stage_shares *shares, int rank, uint64_t step)
{
	uint64_t start = shares->each * (uint64_t)rank, end = start + shares->each;
	uint64_t offset = start + step * shares->buffer;

	if (end > shares->size)
		end = shares->size;
	if (offset >= end)
		return (struct stage_part){.offset = (shares->size - 1) & ~(uint64_t)(PAGE - 1)};
	return (struct stage_part){
		.offset = offset,
		.length = end - offset < shares->buffer ? end - offset : shares->buffer,
	};
}

uint64_t stage_shares_done(const struct stage_shares *shares, int ranks, uint64_t steps)
{
	uint64_t done = 0;

	for (int rank = 0; rank < ranks; rank++) {
		uint64_t start = shares->each * (uint64_t)rank, length = shares->each;

		if (start >= shares->size)
			break;
		if (length > shares->size - start)
			length = shares->size - start;
		done += length < steps * shares->buffer ? length : steps * shares->buffer;
	}
	return done;
}
