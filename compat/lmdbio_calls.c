/* SPDX-License-Identifier: OLDAP-2.8 */
/* The exported lmdbio_* calls of <lmdbio.h> that need no transaction. */
#include <lmdbio.h>

#include "config.h"
#include "handles.h"
#include "util/stats.h"

#include <errno.h>
#include <string.h>

EXPORT const char *lmdbio_version(void)
{
	return PACKAGE_VERSION;
}

EXPORT int lmdbio_serves(const MDB_env *env)
{
	if (!env_is_ours(env))
		return LMDBIO_FOREIGN;
	return env->mode == ENV_OWN ? LMDBIO_READS : LMDBIO_FORWARDED;
}

/* The public struct is its size, then the counters in their order, so that one loop fills it. */
#define SAME(field, counter)                                                                       \
	_Static_assert(offsetof(struct lmdbio_stats, field) == ((counter) + 1) * sizeof(uint64_t), \
		       #field " stands where its counter does")
SAME(storage_requests, STATS_STORAGE_REQUESTS);
SAME(storage_bytes, STATS_STORAGE_BYTES);
SAME(served_bytes, STATS_SERVED_BYTES);
SAME(waits, STATS_WAITS);
SAME(wait_ns, STATS_WAIT_NS);
SAME(hits_cache, STATS_HITS_CACHE);
SAME(hits_arena_own, STATS_HITS_ARENA_OWN);
SAME(hits_arena_peer, STATS_HITS_ARENA_PEER);
SAME(at_rest, STATS_AT_REST);
SAME(evictions, STATS_EVICTIONS);
SAME(populate_calls, STATS_POPULATE_CALLS);
SAME(prefetch_requests, STATS_PREFETCH_REQUESTS);
SAME(prefetch_bytes, STATS_PREFETCH_BYTES);
SAME(prefetch_used, STATS_PREFETCH_USED);
SAME(streams_started, STATS_STREAMS_STARTED);
SAME(streams_broken, STATS_STREAMS_BROKEN);
SAME(fallbacks, STATS_FALLBACKS);
SAME(huge_bytes, STATS_HUGE_BYTES);
SAME(loader_memory_bytes, STATS_LOADER_MEMORY_BYTES);
SAME(loader_stage_bytes, STATS_LOADER_STAGE_BYTES);
SAME(loader_peer_bytes, STATS_LOADER_PEER_BYTES);
SAME(loader_file_bytes, STATS_LOADER_FILE_BYTES);
SAME(container_chunks, STATS_CONTAINER_CHUNKS);
_Static_assert(sizeof(struct lmdbio_stats) == (STATS_COUNT + 1) * sizeof(uint64_t),
	       "each counter has a field");

EXPORT int lmdbio_stats(struct lmdbio_stats *stats)
{
	uint64_t known[STATS_COUNT + 1];

	if (!stats || stats->size < sizeof(stats->size))
		return EINVAL;
	known[0] = stats->size < sizeof(known) ? stats->size : sizeof(known);
	for (size_t i = 0; i < STATS_COUNT; i++)
		known[i + 1] = stats_get((enum stats_counter)i);
	known[STATS_STORAGE_BYTES + 1] = stats_storage_bytes();
	memcpy(stats, known, known[0]);
	return 0;
}
