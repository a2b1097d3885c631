/* SPDX-License-Identifier: OLDAP-2.8 */
/* Names the checksums that a container is made of. */
#ifndef LMDBIO_CONTAINER_HASH_H
#define LMDBIO_CONTAINER_HASH_H

#include <stddef.h>
#include <stdint.h>

/* XXH3-64. Any thread. */
uint64_t hash_bytes(const void *bytes, size_t length);
uint64_t hash_seeded(const void *bytes, size_t length, uint64_t seed);

/* The content hash goes from chunk to chunk: XXH3-64 of the hash so far (8 bytes, little-endian; at
 * first 0) and the chunk's checksum (the same). */
uint64_t hash_chain(uint64_t so_far, uint64_t chunk);

/* Writes the checksum behind a header or footer (seed 0), or a page. */
void hash_seal(uint8_t *block, size_t hash_at, uint64_t seed);

#endif
