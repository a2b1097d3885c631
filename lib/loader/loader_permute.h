/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a permutation of the numbers below any n from a key, without a table: each number's place,
 * and each place's number, in constant time.
 *
 * It is a Feistel network (Luby and Rackoff 1988) over the least power of two that holds n. A
 * number that falls outside walks on until it is inside (Black and Rogaway 2002, "Ciphers with
 * Arbitrary Finite Domains"): less than two rounds of walking on average. The round function is
 * Philox2x32-7 of Random123 (Salmon et al., SC'11), the fewest rounds that pass BigCrush. So the
 * numbers are the same on every machine. */
#ifndef LMDBIO_LOADER_PERMUTE_H
#define LMDBIO_LOADER_PERMUTE_H

#include <stdint.h>

enum { PERMUTE_ROUNDS = 8 };

/* A permutation of 0 ... size - 1. Plain data: it may be copied, and read by any thread. */
struct permute {
	uint64_t size;
	unsigned low, high; /* bits of the two halves */
	uint32_t keys[PERMUTE_ROUNDS][2];
};

/* `use` tells permutations of the same seed and epoch apart. */
void permute_init(struct permute *permute, uint64_t size, uint64_t seed, uint64_t epoch,
		  uint32_t use);

/* Return where `number` (below size) goes, and which number goes there. `tweak` chooses one of many
 * permutations of the same key. */
uint64_t permute_apply(const struct permute *permute, uint32_t tweak, uint64_t number);
uint64_t permute_invert(const struct permute *permute, uint32_t tweak, uint64_t place);

/* Returns a number below `size` (more than 0) that belongs to the key, as even as 64 bits allow. */
uint64_t permute_draw(uint64_t size, uint64_t seed, uint64_t epoch, uint32_t use);

#endif
