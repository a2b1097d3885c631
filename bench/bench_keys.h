/* SPDX-License-Identifier: OLDAP-2.8 */
/* The key of a record, the order of random reads, and lists of keys of any data set. */
#ifndef BENCH_KEYS_H
#define BENCH_KEYS_H

#include <lmdb.h>
#include <stdint.h>
#include <string.h>

enum { KEY_DIGITS = 8, KEY_ROOM = 64 };

struct bench_key {
	char text[KEY_ROOM];
	size_t length;
};

static inline void bench_key_init(struct bench_key *key, const char *suffix)
{
	size_t length = strlen(suffix);

	if (length > KEY_ROOM - KEY_DIGITS)
		length = KEY_ROOM - KEY_DIGITS;
	memcpy(key->text + KEY_DIGITS, suffix, length);
	key->length = KEY_DIGITS + length;
}

/* As Caffe's "%08d_name", without the cost of printf in a loop that is timed. */
static inline MDB_val bench_key_set(struct bench_key *key, uint64_t record)
{
	for (int i = KEY_DIGITS - 1; i >= 0; i--) {
		key->text[i] = (char)('0' + record % 10);
		record /= 10;
	}
	return (MDB_val){.mv_size = key->length, .mv_data = key->text};
}

static inline uint64_t bench_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

/* Place i of a seeded permutation of 0 .. n - 1, without a table: a Feistel network over the
 * smallest even number of bits that holds n, walked until it is inside. */
static inline uint64_t bench_permute(uint64_t i, uint64_t n, uint64_t seed)
{
	unsigned half = 1;
	uint64_t mask;

	while (half < 31 && (uint64_t)1 << 2 * half < n)
		half++;
	mask = ((uint64_t)1 << half) - 1;
	do {
		uint64_t left = i >> half, right = i & mask;

		for (unsigned round = 0; round < 4; round++) {
			uint64_t next = left ^ (bench_mix(right ^ seed << 8 ^ round) & mask);

			left = right;
			right = next;
		}
		i = left << half | right;
	} while (i >= n);
	return i;
}

/* A list of keys in a file that driver and worker map: this head, n + 1 offsets of 8 bytes, and the
 * keys. Key i lies between offsets i and i + 1, both counted from the file's beginning. */
struct key_list {
	uint64_t n;
	uint64_t offsets[];
};

static inline MDB_val key_list_get(const struct key_list *list, uint64_t i)
{
	return (MDB_val){.mv_size = list->offsets[i + 1] - list->offsets[i],
			 .mv_data = (char *)(uintptr_t)list + list->offsets[i]};
}

#endif
