/* SPDX-License-Identifier: OLDAP-2.8 */
/* Computes the well-known checksums of pages, as a program would store each with one assignment.
 *
 * Numbers are in the processor's byte order; sha256 is a string of bytes. Sources: CRC-32C, RFC
 * 3720 (its polynomial reflected, 0x82f63b78); FNV-1a of 64 bits, draft-eastlake-fnv; SHA-256, FIPS
 * 180-4, which the example module of LMDB 1.0 (cryptoc.c) uses; XXH3 and XXH64 of 64 bits, xxHash's
 * header.
 */
#include "util/checksums.h"

#include "util/checked.h"
#include "util/hash.h"

#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* --- CRC-32C ------------------------------------------------------------------------------- */

enum { BYTE_VALUES = 256 };

static uint32_t crc_table[BYTE_VALUES];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;

static void crc_table_fill(void)
{
	const uint32_t polynomial = 0x82f63b78;

	for (uint32_t i = 0; i < BYTE_VALUES; i++) {
		uint32_t value = i;

		for (int bit = 0; bit < 8; bit++)
			value = value & 1 ? value >> 1 ^ polynomial : value >> 1;
		crc_table[i] = value;
	}
}

static void sum_crc32c(const MDB_val *src, MDB_val *dst, const MDB_val *key)
{
	const uint8_t *bytes = src->mv_data;
	uint32_t value = ~UINT32_C(0);

	(void)key;
	pthread_once(&crc_once, crc_table_fill);
	for (size_t i = 0; i < src->mv_size; i++)
		value = value >> 8 ^ crc_table[(value ^ bytes[i]) & 0xff];
	store32(dst->mv_data, ~value);
}

/* --- FNV-1a -------------------------------------------------------------------------------- */

static void sum_fnv1a(const MDB_val *src, MDB_val *dst, const MDB_val *key)
{
	const uint8_t *bytes = src->mv_data;
	uint64_t value = UINT64_C(0xcbf29ce484222325);

	(void)key;
	for (size_t i = 0; i < src->mv_size; i++)
		value = (value ^ bytes[i]) * UINT64_C(0x100000001b3);
	store64(dst->mv_data, value);
}

/* --- SHA-256 ------------------------------------------------------------------------------- */

enum { SHA_BLOCK = 64, SHA_WORDS = 8, SHA_ROUNDS = 64, SHA_LENGTH_AT = 56 };

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t sha_constants[SHA_ROUNDS] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2,
};

static inline uint32_t rotate(uint32_t word, unsigned bits)
{
	return word >> bits | word << (32 - bits);
}

static void sha_block(uint32_t state[SHA_WORDS], const uint8_t *block)
{
	uint32_t w[SHA_ROUNDS], now[SHA_WORDS];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (int i = 16; i < SHA_ROUNDS; i++)
		w[i] = w[i - 16] + w[i - 7] +
		       (rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3) +
		       (rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(now, state, sizeof(now));
	for (int i = 0; i < SHA_ROUNDS; i++) {
		uint32_t a = now[0], e = now[4];
		uint32_t first = now[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
				 ((e & now[5]) ^ (~e & now[6])) + sha_constants[i] + w[i];
		uint32_t second = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
				  ((a & now[1]) ^ (a & now[2]) ^ (now[1] & now[2]));

		memmove(now + 1, now, (SHA_WORDS - 1) * sizeof(now[0]));
		now[4] += first;
		now[0] = first + second;
	}
	for (int i = 0; i < SHA_WORDS; i++)
		state[i] += now[i];
}

static void sum_sha256(const MDB_val *src, MDB_val *dst, const MDB_val *key)
{
	uint32_t state[SHA_WORDS] = {
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	};
	const uint8_t *bytes = src->mv_data;
	uint8_t last[2 * SHA_BLOCK] = {0}, *sum = dst->mv_data;
	size_t left = src->mv_size, padded;
	uint64_t bits = (uint64_t)src->mv_size * 8;

	(void)key;
	for (; left >= SHA_BLOCK; left -= SHA_BLOCK, bytes += SHA_BLOCK)
		sha_block(state, bytes);
	memcpy(last, bytes, left);
	last[left] = 0x80;
	padded = left < SHA_LENGTH_AT ? SHA_BLOCK : 2 * SHA_BLOCK;
	for (int i = 0; i < 8; i++)
		last[padded - 1 - (size_t)i] = (uint8_t)(bits >> 8 * i);
	for (size_t at = 0; at < padded; at += SHA_BLOCK)
		sha_block(state, last + at);
	for (int i = 0; i < SHA_WORDS; i++)
		for (int byte = 0; byte < 4; byte++)
			*sum++ = (uint8_t)(state[i] >> (24 - 8 * byte));
}

/* --- xxHash -------------------------------------------------------------------------------- */

static void sum_xxh3(const MDB_val *src, MDB_val *dst, const MDB_val *key)
{
	(void)key;
	store64(dst->mv_data, hash_bytes(src->mv_data, src->mv_size));
}

static void sum_xxh64(const MDB_val *src, MDB_val *dst, const MDB_val *key)
{
	(void)key;
	store64(dst->mv_data, XXH64(src->mv_data, src->mv_size, 0));
}

/* ------------------------------------------------------------------------------------------- */

/* Adding a checksum takes: a row here, its name in CHECKSUM_NAMES, settings.c and doc/lmdbio.7, a
 * vector in checksums_test.c. */
static const struct checksum checksums[] = {
	{"crc32c", 4, sum_crc32c}, {"fnv1a", 8, sum_fnv1a}, {"sha256", 32, sum_sha256},
	{"xxh3", 8, sum_xxh3},     {"xxh64", 8, sum_xxh64},
};

const struct checksum *checksum_find(const char *name)
{
	for (size_t i = 0; i < sizeof(checksums) / sizeof(checksums[0]); i++)
		if (!strcasecmp(name, checksums[i].name))
			return &checksums[i];
	return NULL;
}
