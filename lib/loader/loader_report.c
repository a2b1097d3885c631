/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what a loader has done, and how random its order is. */
#include "loader/loader_private.h"

#include "util/clock.h"
#include "util/hash.h"
#include "util/phrases.h"
#include "util/stats.h"
#include "window/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
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
	stats.held_bytes = loader->memory.held + loader->memory.decoded;
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

/* Returns the time, in microseconds, that half of the batches waited less than. */
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

	if (!(loader = loader_enter(loader))) {
		if (size)
			*line = '\0';
		return 0;
	}
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

/* --- the randomness of an order ----------------------------------------------------------------- */

/* By its positions: after DeepIO's randomization level (Zhu et al., MASCOTS 2018): how free the
 * choice of the record at each place is, relative to a full shuffle. In a shuffle, place i has N -
 * i records left to choose from, with entropy log2(N - i), weighed by the chance 1 / (N - i) of
 * each:
 *
 *   RL = sum over i of log2(choices(i)) / (N - i)  /  sum over i of log2(N - i) / (N - i)
 *
 * In rounds, the choices are the records that are left of the round. A sequential order has no
 * choice: 0. For records that are shuffled in groups of g neighbours, the choice of groups counts,
 * N / g of them. With N = 10,240 this gives the published 73, 49 and 16 % for g = 4, 16 and 256.
 *
 * By its content: that measure counts places, and ignores the records in them. So the labels of
 * each batch are counted too: the entropy of their distribution, relative to that of the same
 * batches of a full shuffle. */
/* Returns the binary logarithm of a number above 0. The drop-in needs no library for mathematics,
 * and should not need one for this. */
static double log_2(double x)
{
	const double two_over_ln2 = 2.8853900817779268;
	uint64_t bits;
	double power, s, sum = 0;

	memcpy(&bits, &x, sizeof(bits));
	power = (double)((int)(bits >> 52) - 1023);
	bits = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1023) << 52;
	memcpy(&x, &bits, sizeof(x));
	/* ln x = 2 artanh((x - 1) / (x + 1)), for x from 1 to 2. */
	s = (x - 1) / (x + 1);
	for (int i = 25; i > 0; i -= 2)
		sum = sum * s * s + 1.0 / i;
	return power + two_over_ln2 * s * sum;
}

/* Returns the sum of log2(m) / (rest + m) for m = 1 ... n: n picks, with `rest` more records behind
 * them. */
static double pick_entropy(uint64_t n, uint64_t rest)
{
	double sum = 0;

	for (uint64_t m = 2; m <= n; m++)
		sum += log_2((double)m) / (double)(rest + m);
	return sum;
}

double quality_groups(uint64_t records, uint64_t group)
{
	return pick_entropy(records / group, 0) / pick_entropy(records, 0);
}

/* Returns how free an order is, 0 to 1. */
static double quality_positions(const struct order *order)
{
	struct order_epoch at;
	double sum = 0, full;

	if (order->spec.records < 2)
		return 1;
	if (order->spec.policy == ORDER_SEQUENTIAL)
		return 0;
	full = pick_entropy(order->spec.records, 0);
	order_begin(&at, order, 0);
	for (uint64_t round = 0; round < order->rounds; round++) {
		uint64_t start = order_round_start(&at, round);
		uint64_t end = order_round_start(&at, round + 1);

		sum += pick_entropy(end - start, order->spec.records - end);
	}
	return sum / full;
}

/* Labels of all records, as numbers from 0. */
struct record_labels {
	uint32_t *of;
	uint64_t distinct;
};

struct label_slot {
	uint64_t hash;
	uint32_t number; /* plus 1; 0: free */
};

/* A table twice as large as there are labels. */
struct label_table {
	struct label_slot *slots;
	uint64_t size, used;
};

static bool table_grow(struct label_table *table)
{
	struct label_table larger = {.size = table->size ? table->size * 2 : 64};

	larger.slots = calloc(larger.size, sizeof(*larger.slots));
	if (!larger.slots)
		return false;
	for (uint64_t i = 0; i < table->size; i++) {
		uint64_t at = table->slots[i].hash & (larger.size - 1);

		if (!table->slots[i].number)
			continue;
		while (larger.slots[at].number)
			at = (at + 1) & (larger.size - 1);
		larger.slots[at] = table->slots[i];
	}
	larger.used = table->used;
	free(table->slots);
	*table = larger;
	return true;
}

static bool label_number(struct label_table *table, const MDB_val *key, size_t from, size_t bytes,
			 uint32_t *number)
{
	size_t size = key->mv_size > from ? key->mv_size - from : 0;
	uint64_t hash, at;

	if (2 * table->used >= table->size && !table_grow(table))
		return false;
	hash = hash_bytes((const uint8_t *)key->mv_data + (size ? from : 0),
			  size < bytes ? size : bytes);
	for (at = hash & (table->size - 1); table->slots[at].number;
	     at = (at + 1) & (table->size - 1))
		if (table->slots[at].hash == hash) {
			*number = table->slots[at].number - 1;
			return true;
		}
	*number = (uint32_t)table->used;
	table->slots[at] = (struct label_slot){hash, (uint32_t)++table->used};
	return true;
}

static int labels_read(const struct lmdbio_loader *loader, size_t from, size_t bytes,
		       struct record_labels *labels)
{
	struct snapshot snapshot = loader_view(loader);
	uint64_t records = index_records(loader->data.index);
	struct label_table table = {0};
	struct index_place place;
	MDB_val key;
	int rc = 0;

	labels->of = malloc((records + 1) * sizeof(*labels->of));
	if (!labels->of)
		return ENOMEM;
	for (uint64_t i = 0; i < records && !rc; i++) {
		rc = index_find(loader->data.index, i, &place);
		if (!rc)
			rc = index_get(&snapshot, &loader->data.tree, &place, &key, NULL);
		if (!rc && !label_number(&table, &key, from, bytes, &labels->of[i]))
			rc = ENOMEM;
	}
	labels->distinct = table.used;
	free(table.slots);
	return rc;
}

/* Returns the entropy of the labels in a batch, in bits. `counts` is all zero before and after. */
static double batch_entropy(const struct order_epoch *at, const struct record_labels *labels,
			    uint64_t batch, uint32_t *counts)
{
	uint64_t size = at->order.spec.batch, first = batch * size, n = 0, record;
	double sum = 0;

	for (uint64_t i = first; i < first + size; i++)
		if ((record = order_record(at, i)) != ORDER_NONE) {
			counts[labels->of[record]]++;
			n++;
		}
	for (uint64_t i = first; i < first + size; i++) {
		double part;

		if ((record = order_record(at, i)) == ORDER_NONE || !counts[labels->of[record]])
			continue;
		part = (double)counts[labels->of[record]] / (double)n;
		sum -= part * log_2(part);
		counts[labels->of[record]] = 0;
	}
	return sum;
}

static int label_quality(const struct order *order, uint64_t epoch,
			 const struct record_labels *labels, struct lmdbio_quality *quality)
{
	uint64_t batches = order->spec.records / order->spec.batch;
	uint32_t *counts = calloc(labels->distinct + 1, sizeof(*counts));
	struct order shuffled = *order;
	struct order_epoch at, full;
	double sum = 0, best = 0, worst = 1e300, mean;

	if (!counts)
		return ENOMEM;
	shuffled.spec.policy = ORDER_SHUFFLE;
	(void)order_init(&shuffled, &shuffled.spec);
	order_begin(&at, order, epoch);
	order_begin(&full, &shuffled, epoch);
	for (uint64_t i = 0; i < batches; i++) {
		double entropy = batch_entropy(&at, labels, i, counts);

		sum += entropy;
		worst = entropy < worst ? entropy : worst;
		best += batch_entropy(&full, labels, i, counts);
	}
	free(counts);
	/* With one label alone, or no whole batch, there is nothing to mix. */
	mean = batches ? best / (double)batches : 0;
	quality->labels = mean > 0 ? sum / best : 1;
	quality->worst = mean > 0 ? worst / mean : 1;
	quality->distinct = labels->distinct;
	return 0;
}

int loader_quality(struct lmdbio_loader *loader, uint64_t epoch, size_t from, size_t bytes,
		   struct lmdbio_quality *quality)
{
	struct lmdbio_quality found = {.size = sizeof(found)};
	struct record_labels labels = {0};
	struct order order;
	int rc;

	if (!quality || quality->size < sizeof(quality->size))
		return EINVAL;
	if (!(loader = loader_enter(loader)))
		return loader_gone();
	pthread_mutex_lock(&loader->lock);
	order = loader->order;
	pthread_mutex_unlock(&loader->lock);
	rc = labels_read(loader, from, bytes, &labels);
	loader_leave(loader);
	if (!rc)
		rc = label_quality(&order, epoch, &labels, &found);
	free(labels.of);
	if (rc)
		return rc;
	found.positions = quality_positions(&order);
	if (quality->size < found.size)
		found.size = quality->size;
	memcpy(quality, &found, found.size);
	return 0;
}
