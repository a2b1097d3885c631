/* SPDX-License-Identifier: OLDAP-2.8 */
/* Formats what a loader tells of itself. */
#include "loader/loader_private.h"

#include "util/clock.h"
#include "util/phrases.h"
#include "util/stats.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct lmdbio_loader_stats collect(struct lmdbio_loader *loader)
{
	struct lmdbio_loader_stats stats;
	enum tier_state health;
	uint64_t end;
	bool there;

	pthread_mutex_lock(&loader->lock);
	stats = loader->stats;
	end = loader->epoch.ended ? loader->epoch.ended : clock_now();
	stats.epoch_ns = loader->epoch.began ? end - loader->epoch.began : 0;
	stats.storage_bytes =
		loader->epoch.began ? stats_storage_bytes() - loader->epoch.storage_before : 0;
	stats.held_bytes = loader->memory.held;
	stats.reads_at_once = loader->reads.depth.now;
	pthread_mutex_unlock(&loader->lock);
	stats.staged_bytes = tiers_written(&loader->tiers);
	stats.stage_state = (uint64_t)tiers_health(&loader->tiers, SOURCE_DISK, &there);
	health = tiers_health(&loader->tiers, SOURCE_PEER, &there);
	stats.peer_state = !there ? 0 : health == TIER_GOOD ? 1 : 2;
	stats.peer_records = loader->tiers.planned;
	return stats;
}

int loader_stats(struct lmdbio_loader *loader, struct lmdbio_loader_stats *stats)
{
	struct lmdbio_loader_stats all;
	uint64_t size;

	if (!stats || stats->size < sizeof(stats->size))
		return EINVAL;
	if (!(loader = loader_enter(loader)))
		return loader_gone();
	size = stats->size < sizeof(all) ? stats->size : sizeof(all);
	all = collect(loader);
	loader_leave(loader);
	all.size = size;
	memcpy(stats, &all, size);
	return 0;
}

/* The time that half of the batches waited less than, in microseconds. */
static uint64_t median(const struct lmdbio_loader_stats *stats)
{
	uint64_t seen = 0;
	unsigned i = 0;

	while (i < LMDBIO_STALLS && 2 * (seen += stats->stalls[i]) < stats->batches)
		i++;
	return i ? UINT64_C(1) << (i - 1) : 0;
}

size_t loader_verdict(struct lmdbio_loader *loader, char *line, size_t size)
{
	struct lmdbio_loader_stats stats;
	char verdict[VERDICT_LINE];
	unsigned takers;
	uint64_t all;
	int length;

	if (!(loader = loader_enter(loader)))
		return 0;
	stats = collect(loader);
	pthread_mutex_lock(&loader->lock);
	takers = loader->takers.waiting_most ? loader->takers.waiting_most : 1;
	pthread_mutex_unlock(&loader->lock);
	loader_leave(loader);
	all = stats.memory_bytes + stats.stage_bytes + stats.peer_bytes + stats.file_bytes;
	all = all ? all : 1;
	(void)verdict_format(verdict, sizeof(verdict), stats.stall_ns, stats.epoch_ns * takers);
	length = snprintf(line, size,
			  "%s; median of a batch %llu us; bytes from memory %llu %%, local disk "
			  "%llu %%, peers %llu %%, storage %llu %%",
			  verdict, (unsigned long long)median(&stats),
			  (unsigned long long)(stats.memory_bytes * 100 / all),
			  (unsigned long long)(stats.stage_bytes * 100 / all),
			  (unsigned long long)(stats.peer_bytes * 100 / all),
			  (unsigned long long)(stats.file_bytes * 100 / all));
	return length < 0 ? 0 : (size_t)length;
}
