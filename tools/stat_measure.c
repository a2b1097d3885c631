/* SPDX-License-Identifier: OLDAP-2.8 */
/* Measures a tree by a walk. */
#include "stat_measure.h"

#include "tool_common.h"
#include "tree_walk.h"

#include "container/container.h"

#include <errno.h>

struct measuring {
	struct measure *measure;
	struct walker walker;
	uint64_t last; /* the page of the last step; 0: none yet */
	bool damaged;
};

static void on_damage(void *context, const char *label, struct walk_place where, const char *format,
		      va_list arguments)
{
	struct measuring *measuring = context;

	(void)label, (void)where, (void)format, (void)arguments;
	measuring->damaged = true;
}

static void on_doubt(void *context, const char *label, struct walk_place where, const char *format,
		     va_list arguments)
{
	(void)context, (void)label, (void)where, (void)format, (void)arguments;
}

static void on_step(void *context, uint64_t page, uint64_t pages)
{
	struct measuring *measuring = context;
	struct measure *measure = measuring->measure;

	if (measuring->last) {
		measure->steps++;
		measure->sequential += page == measuring->last + 1;
	}
	measure->steps += pages - 1;
	measure->sequential += pages - 1;
	measuring->last = page + pages - 1;
	if (tool_signal)
		measuring->walker.rc = EINTR;
}

static bool is_across(const struct walk_value *value, uint32_t chunk_pages)
{
	return value->pages <= chunk_pages && value->run % chunk_pages + value->pages > chunk_pages;
}

static void on_value(void *context, const struct walk_tree *tree, const struct walk_value *value)
{
	struct measuring *measuring = context;
	struct measure *measure = measuring->measure;

	(void)tree;
	if (!measure->values || value->size < measure->smallest)
		measure->smallest = value->size;
	if (value->size > measure->largest)
		measure->largest = value->size;
	measure->values++;
	measure->value_bytes += value->size;
	measure->sizes[value->size ? 64 - __builtin_clzll(value->size) : 0]++;
	if (value->pages) {
		measure->overflow_values++;
		measure->overflow_bytes += value->size;
		measure->across += is_across(value, measure->chunk_pages);
	}
}

int measure_take(struct measure *measure, MDB_txn *txn, MDB_dbi dbi, struct page_map *seen)
{
	struct measuring measuring = {
		.measure = measure,
		.walker = {.snapshot = &txn->snapshot,
			   .used = seen,
			   .unordered = true,
			   .damage = on_damage,
			   .doubt = on_doubt,
			   .step = on_step,
			   .value = on_value},
	};
	struct walk_tree tree = {
		.kind = dbi == DBI_MAIN ? WALK_MAIN : WALK_NAMED,
		.record = txn->trees[dbi].record,
	};
	const struct walk_counts *counts = &tree.counts;

	*measure = (struct measure){0};
	if (txn->env->packed)
		measure->chunk_pages = container_info(&txn->env->packed->data)->chunk_size /
				       txn->snapshot.page_size;
	comparators_default(&tree.order, tree.record.flags);
	measuring.walker.context = &measuring;
	walk_tree(&measuring.walker, &tree);
	measure->keys = counts->keys;
	measure->entries = counts->entries;
	measure->key_bytes = counts->key_bytes;
	measure->overflow_pages = counts->overflow_pages;
	measure->pages = counts->branch_pages + counts->leaf_pages + counts->overflow_pages +
			 counts->duplicate_branch_pages + counts->duplicate_leaf_pages;
	if (measuring.walker.rc)
		return measuring.walker.rc;
	return measuring.damaged ? MDB_CORRUPTED : 0;
}

double measure_share(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 100;
}

double measure_quality(const struct measure *measure)
{
	return measure_share(measure->sequential, measure->steps);
}
