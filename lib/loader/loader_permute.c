/* SPDX-License-Identifier: OLDAP-2.8 */
/* Runs the rounds of the permutation network, and makes their keys.
 *
 * After two rounds the image of one number is uniform. The other rounds make pairs, triples and so
 * on independent. A domain of a few bits has few networks, so a small size walks in from a larger
 * domain. */
#include "loader/loader_permute.h"

#include <Random123/philox.h>

enum { DOMAIN_BITS_LEAST = 8 };

static philox4x32_ctr_t draw(uint64_t seed, uint64_t epoch, uint32_t use, uint32_t number)
{
	philox4x32_ctr_t counter = {
		{(uint32_t)epoch, (uint32_t)(epoch >> 32), use, number},
	};
	philox4x32_key_t key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};

	return philox4x32(counter, key);
}

void permute_init(struct permute *permute, uint64_t size, uint64_t seed, uint64_t epoch,
		  uint32_t use)
{
	unsigned bits = size > 1 ? 64 - (unsigned)__builtin_clzll(size - 1) : 1;

	if (bits < DOMAIN_BITS_LEAST)
		bits = DOMAIN_BITS_LEAST;
	permute->size = size;
	permute->low = bits / 2;
	permute->high = bits - bits / 2;
	for (unsigned i = 0; i < PERMUTE_ROUNDS; i++) {
		philox4x32_ctr_t word = draw(seed, epoch, use, i);

		permute->keys[i][0] = word.v[0];
		permute->keys[i][1] = word.v[1];
	}
}

/* No half has more than 32 bits. */
static inline uint64_t round_of(const struct permute *permute, unsigned i, uint32_t tweak,
				uint64_t half)
{
	philox2x32_ctr_t counter = {{(uint32_t)half, permute->keys[i][1] ^ tweak}};
	philox2x32_key_t key = {{permute->keys[i][0]}};

	return philox2x32_R(7, counter, key).v[0];
}

static uint64_t forward(const struct permute *permute, uint32_t tweak, uint64_t number)
{
	uint64_t low_mask = (UINT64_C(1) << permute->low) - 1;
	uint64_t high_mask = (UINT64_C(1) << permute->high) - 1;
	uint64_t low = number & low_mask, high = number >> permute->low;

	for (unsigned i = 0; i < PERMUTE_ROUNDS; i += 2) {
		low ^= round_of(permute, i, tweak, high) & low_mask;
		high ^= round_of(permute, i + 1, tweak, low) & high_mask;
	}
	return high << permute->low | low;
}

static uint64_t backward(const struct permute *permute, uint32_t tweak, uint64_t number)
{
	uint64_t low_mask = (UINT64_C(1) << permute->low) - 1;
	uint64_t high_mask = (UINT64_C(1) << permute->high) - 1;
	uint64_t low = number & low_mask, high = number >> permute->low;

	for (unsigned i = PERMUTE_ROUNDS; i; i -= 2) {
		high ^= round_of(permute, i - 1, tweak, low) & high_mask;
		low ^= round_of(permute, i - 2, tweak, high) & low_mask;
	}
	return high << permute->low | low;
}

uint64_t permute_apply(const struct permute *permute, uint32_t tweak, uint64_t number)
{
	do
		number = forward(permute, tweak, number);
	while (number >= permute->size);
	return number;
}

uint64_t permute_invert(const struct permute *permute, uint32_t tweak, uint64_t place)
{
	do
		place = backward(permute, tweak, place);
	while (place >= permute->size);
	return place;
}

uint64_t permute_draw(uint64_t size, uint64_t seed, uint64_t epoch, uint32_t use)
{
	philox4x32_ctr_t word = draw(seed, epoch, use, PERMUTE_ROUNDS);
	uint64_t wide = (uint64_t)word.v[1] << 32 | word.v[0];

	return (uint64_t)((unsigned __int128)wide * size >> 64);
}
