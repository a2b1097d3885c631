/* SPDX-License-Identifier: OLDAP-2.8 */
/* Computes without overflow with numbers from a file, loads and stores them at any address, and
 * mixes them to a hash. */
#ifndef LMDBIO_UTIL_CHECKED_H
#define LMDBIO_UTIL_CHECKED_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define likely(x)   __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Stores a + b in *sum. Returns false if it does not fit. */
static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *sum)
{
	return !__builtin_add_overflow(a, b, sum);
}

/* Stores a * b in *product. Returns false if it does not fit. */
static inline bool checked_multiply(uint64_t a, uint64_t b, uint64_t *product)
{
	return !__builtin_mul_overflow(a, b, product);
}

static inline uint64_t round_up(uint64_t value, uint64_t power_of_two)
{
	return (value + power_of_two - 1) & ~(power_of_two - 1);
}

static inline bool is_power_of_two(uint64_t value)
{
	return value && !(value & (value - 1));
}

/* Converts a floating-point result. A value that a uint64_t cannot hold (from a damaged file,
 * perhaps) becomes its least or its largest value; NaN becomes 0. */
static inline uint64_t clamp_u64(double value)
{
	if (!(value > 0))
		return 0;
	return value < 0x1p64 ? (uint64_t)value : UINT64_MAX;
}

/* Load and store numbers at any address, in this machine's byte order, which LMDB's files have. */
static inline uint16_t load16(const void *p)
{
	uint16_t value;
	memcpy(&value, p, sizeof(value));
	return value;
}

static inline uint32_t load32(const void *p)
{
	uint32_t value;
	memcpy(&value, p, sizeof(value));
	return value;
}

static inline uint64_t load64(const void *p)
{
	uint64_t value;
	memcpy(&value, p, sizeof(value));
	return value;
}

static inline void store16(void *p, uint16_t value)
{
	memcpy(p, &value, sizeof(value));
}

static inline void store32(void *p, uint32_t value)
{
	memcpy(p, &value, sizeof(value));
}

static inline void store64(void *p, uint64_t value)
{
	memcpy(p, &value, sizeof(value));
}

/* splitmix64's finalizer: every bit of the word reaches every bit of the result. */
static inline uint64_t mix64(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

#endif
