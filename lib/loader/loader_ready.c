/* SPDX-License-Identifier: OLDAP-2.8 */
/* Estimates when sources finish, and breaks ties between them. */
#include "loader/loader_ready.h"

#include "util/hash.h"

uint64_t ready_count(const uint64_t *words, uint64_t units)
{
	uint64_t count = 0;

	for (size_t i = 0; i < ready_words(units); i++)
		count += (uint64_t)__builtin_popcountll(
			__atomic_load_n(&words[i], __ATOMIC_RELAXED));
	return count;
}

double ready_finish(const struct ready_source *source, uint64_t bytes)
{
	return (double)(source->queued_requests + 1) * source->seconds_a_request +
	       (double)(source->queued_bytes + bytes) * source->seconds_a_byte;
}

static uint64_t hash_of(uint64_t key, uint64_t number)
{
	return hash_seeded(&number, sizeof(number), key);
}

unsigned ready_choose(const struct ready_source *sources, unsigned n, uint64_t bytes, uint64_t key)
{
	unsigned best = n;
	double least = 0;

	for (unsigned i = 0; i < n; i++) {
		double finish;

		if (!sources[i].ready)
			continue;
		finish = ready_finish(&sources[i], bytes);
		if (best == n || finish < least ||
		    (finish == least && hash_of(key, i) < hash_of(key, best))) {
			best = i;
			least = finish;
		}
	}
	return best;
}
