/* SPDX-License-Identifier: OLDAP-2.8 */
/* Compiles xxHash in, so that lmdbio needs no other library for it. */
#include "util/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash_bytes(const void *bytes, size_t length)
{
	return XXH3_64bits(bytes, length);
}

uint64_t hash_seeded(const void *bytes, size_t length, uint64_t seed)
{
	return XXH3_64bits_withSeed(bytes, length, seed);
}

void hash_wide(const void *bytes, size_t length, uint64_t seed, uint64_t hash[2])
{
	XXH128_hash_t both = XXH3_128bits_withSeed(bytes, length, seed);

	hash[0] = both.low64;
	hash[1] = both.high64;
}
