/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how a seed becomes the same stream of numbers on every machine. */
#ifndef TESTS_RANDOM_STREAM_H
#define TESTS_RANDOM_STREAM_H

#include <stdbool.h>
#include <stdint.h>

struct random_stream {
	uint64_t state;
};

/* One step of splitmix64: also good as a hash of a number. */
static inline uint64_t random_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static inline struct random_stream random_start(uint64_t seed, uint64_t number)
{
	return (struct random_stream){random_mix(seed) ^ random_mix(number * 2 + 1)};
}

static inline uint64_t random_next(struct random_stream *stream)
{
	stream->state += 0x9e3779b97f4a7c15u;
	return random_mix(stream->state);
}

/* 0 .. limit - 1, limit > 0. */
static inline uint64_t random_below(struct random_stream *stream, uint64_t limit)
{
	return random_next(stream) % limit;
}

/* first .. last, both included. */
static inline uint64_t random_between(struct random_stream *stream, uint64_t first, uint64_t last)
{
	return first + random_below(stream, last - first + 1);
}

static inline bool random_percent(struct random_stream *stream, unsigned percent)
{
	return random_below(stream, 100) < percent;
}

#endif
