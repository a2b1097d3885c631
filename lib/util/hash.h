/* SPDX-License-Identifier: OLDAP-2.8 */
/* Hashes bytes: XXH3, which is compiled in once. */
#ifndef LMDBIO_UTIL_HASH_H
#define LMDBIO_UTIL_HASH_H

#include <stddef.h>
#include <stdint.h>

/* XXH3-64. Any thread. */
uint64_t hash_bytes(const void *bytes, size_t length);
uint64_t hash_seeded(const void *bytes, size_t length, uint64_t seed);

/* XXH3-128: hash[0] is its low half. Any thread. */
void hash_wide(const void *bytes, size_t length, uint64_t seed, uint64_t hash[2]);

#endif
