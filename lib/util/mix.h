/* SPDX-License-Identifier: OLDAP-2.8 */
/* Spreads a number over all bits of a word. */
#ifndef LMDBIO_UTIL_MIX_H
#define LMDBIO_UTIL_MIX_H

#include <stdint.h>

/* splitmix64's finalizer: every bit of the word reaches every bit of the result. */
static inline uint64_t mix64(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

#endif
