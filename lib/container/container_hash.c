/* SPDX-License-Identifier: OLDAP-2.8 */
/* Compiles xxHash in, so that the library needs no other. */
#include "container/container_hash.h"
#include "container/container.h"
#include "container/container_layout.h"

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

uint64_t hash_chain(uint64_t so_far, uint64_t chunk)
{
	uint8_t both[16];

	put64(both, so_far);
	put64(both + 8, chunk);
	return hash_bytes(both, sizeof(both));
}

void hash_seal(uint8_t *block, size_t hash_at, uint64_t seed)
{
	put64(block + hash_at, hash_seeded(block, hash_at, seed));
}

void container_source_hash(const void *bytes, size_t length, uint8_t hash[16])
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits(bytes, length));
	memcpy(hash, canonical.digest, 16);
}
