/* SPDX-License-Identifier: OLDAP-2.8 */
/* Deals the pages of a tree out to threads, level by level.
 *
 * Threads here mostly wait for storage, so there may be more of them than processors. A small tree
 * starts none.
 */
#include "index/index_private.h"

#include "container/container.h"
#include "util/memory.h"
#include "util/settings.h"
#include "util/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	THREADS_MAX = 16,
	THREAD_PAGES = 256,        /* fewer pages are not worth a thread */
	PIECE = 1024,              /* pages that one thread brings at a time */
	PIECE_LEAST = ARENA_CHUNK, /* bytes of room that each thread must have */
	ROOM_SHARE = 4,            /* a quarter of the arena is for pages under way */
};

struct index_worker {
	struct counter counter;
	const uint64_t *numbers;
	size_t n, piece; /* piece: how many pages are brought at a time */
	bool leaves;     /* the numbers are of leaf pages */
	int rc;
};

static void worker_run(void *workers, unsigned number)
{
	struct index_worker *worker = (struct index_worker *)workers + number;
	struct counter *counter = &worker->counter;
	int rc = 0;

	for (size_t i = 0, end; i < worker->n && !rc; i = end) {
		end = worker->n - i < worker->piece ? worker->n : i + worker->piece;
		rc = counter_bring(counter, worker->numbers + i, end - i);
		for (size_t j = i; j < end && !rc; j++)
			rc = worker->leaves ? counter_leaf(counter, worker->numbers[j])
					    : counter_branch(counter, worker->numbers[j]);
	}
	worker->rc = rc;
}

/* Appends `from` to `to`, whose record and leaf numbers go on. */
static int part_append(struct index_part *to, const struct index_part *from, bool weights)
{
	size_t leaves = to->count + from->count, owners = to->owner_count + from->owner_count;
	void *grown;

	if (weights && leaves) {
		grown = reallocarray(to->weights, leaves, sizeof(*to->weights));
		if (!grown)
			return ENOMEM;
		to->weights = grown;
		for (size_t i = 0; i < from->count; i++)
			to->weights[to->count + i] = from->weights[i];
	}
	if (leaves > to->room) {
		grown = reallocarray(to->leaves, leaves, sizeof(*to->leaves));
		if (!grown)
			return ENOMEM;
		to->leaves = grown;
		to->room = leaves;
	}
	if (owners > to->owner_room) {
		grown = reallocarray(to->owners, owners, sizeof(*to->owners));
		if (!grown)
			return ENOMEM;
		to->owners = grown;
		to->owner_room = owners;
	}
	for (size_t i = 0; i < from->count; i++) {
		to->leaves[to->count + i] = from->leaves[i];
		to->leaves[to->count + i].first += to->records;
	}
	for (size_t i = 0; i < from->owner_count; i++) {
		to->owners[to->owner_count + i] = from->owners[i];
		to->owners[to->owner_count + i].leaf += to->count;
	}
	to->count = leaves;
	to->owner_count = owners;
	to->records += from->records;
	return 0;
}

/* Returns how many threads look at n pages, at most `many`; *piece is how many pages each brings at
 * a time. Pages brought too early must not evict pages that other threads wait for. */
static size_t pieces_size(const struct snapshot *snapshot, size_t n, size_t many, size_t *piece)
{
	const struct store *runs = snapshot->view.runs;
	uint64_t room;

	*piece = PIECE;
	if (!runs || store_shows_file(runs))
		return many;
	/* The limit is not known in a process that has read nothing yet. */
	room = store_limited(runs) ? store_limited(runs) : memory_budget(settings_get());
	room /= ROOM_SHARE;
	if ((uint64_t)n << snapshot->view.page_shift <= room)
		return many;
	if (many > room / PIECE_LEAST)
		many = room > PIECE_LEAST ? (size_t)(room / PIECE_LEAST) : 1;
	room = room / many >> snapshot->view.page_shift;
	if (*piece > room)
		*piece = room ? (size_t)room : 1;
	return many;
}

/* Lets `threads` threads look at n pages, each at a run of them, and joins their parts. */
static int deal(const struct snapshot *snapshot, const struct tree *tree, unsigned threads,
		const uint64_t *numbers, size_t n, bool leaves, struct page_shelf *shelf,
		struct index_part *part)
{
	size_t suit = n / THREAD_PAGES + 1, many = threads ? threads : THREADS_MAX, piece;
	struct index_worker *workers;
	int rc = 0;

	many = pieces_size(snapshot, n, many < suit ? many : suit, &piece);
	workers = calloc(many, sizeof(*workers));
	if (!workers)
		return ENOMEM;
	for (size_t i = 0; i < many; i++) {
		size_t first = n * i / many, end = n * (i + 1) / many;

		workers[i].counter.snapshot = *snapshot;
		workers[i].counter.snapshot.watch = NULL;
		workers[i].counter.tree = tree;
		workers[i].counter.shelf = shelf;
		workers[i].numbers = numbers + first;
		workers[i].n = end - first;
		workers[i].piece = piece;
		workers[i].leaves = leaves;
	}
	thread_share((unsigned)many, "lmdbio-index", worker_run, workers);
	for (size_t i = 0; i < many; i++) {
		if (!rc)
			rc = workers[i].rc;
		if (!rc)
			rc = part_append(part, &workers[i].counter.part, shelf != NULL);
		index_part_free(&workers[i].counter.part);
	}
	free(workers);
	return rc;
}

int index_leaves(const struct snapshot *snapshot, const struct tree *tree, unsigned threads,
		 uint64_t **pages, size_t *n)
{
	const struct tree_record *record = &tree->record;
	uint64_t *numbers;
	int rc = 0;

	*pages = NULL;
	*n = 0;
	if (record->root == PAGE_NONE)
		return 0;
	if (!record->depth || record->depth > FORMAT_DEPTH_MAX)
		return MDB_CORRUPTED;
	numbers = malloc(sizeof(*numbers));
	if (!numbers)
		return ENOMEM;
	*numbers = record->root;
	*n = 1;
	for (unsigned depth = record->depth; depth > 1 && !rc; depth--) {
		struct index_part part = {0};

		rc = deal(snapshot, tree, threads, numbers, *n, false, NULL, &part);
		free(numbers);
		numbers = NULL;
		if (!rc && part.count > snapshot->view.limit)
			rc = MDB_CORRUPTED;
		if (!rc && !(numbers = malloc(part.count * sizeof(*numbers))))
			rc = ENOMEM;
		for (size_t i = 0; i < part.count && !rc; i++)
			numbers[i] = part.leaves[i].page;
		*n = part.count;
		index_part_free(&part);
	}
	if (rc) {
		free(numbers);
		*n = 0;
		return rc;
	}
	*pages = numbers;
	return 0;
}

int index_count(const struct snapshot *snapshot, const struct tree *tree, unsigned threads,
		const uint64_t *pages, size_t n, struct page_shelf *shelf, struct index_part *part)
{
	*part = (struct index_part){0};
	return n ? deal(snapshot, tree, threads, pages, n, true, shelf, part) : 0;
}

int index_join(struct record_index **ret, const struct tree *tree, const struct index_part *parts,
	       size_t n)
{
	struct index_part all = {0};
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++)
		rc = part_append(&all, &parts[i], false);
	if (!rc && all.records != tree->record.entries)
		rc = MDB_CORRUPTED;
	if (!rc) {
		*ret = index_new(0, 0, all.records);
		rc = *ret ? 0 : ENOMEM;
	}
	if (rc) {
		index_part_free(&all);
		return rc;
	}
	(*ret)->leaves = all.leaves;
	(*ret)->count = all.count;
	(*ret)->owners = all.owners;
	(*ret)->owner_count = all.owner_count;
	return 0;
}

int index_build(struct record_index **index, const struct snapshot *snapshot,
		const struct tree *tree, unsigned threads)
{
	struct index_part part = {0};
	uint64_t *pages;
	size_t n;
	int rc = index_leaves(snapshot, tree, threads, &pages, &n);

	if (!rc)
		rc = index_count(snapshot, tree, threads, pages, n, NULL, &part);
	if (!rc)
		rc = index_join(index, tree, &part, 1);
	index_part_free(&part);
	free(pages);
	return rc;
}

/* --- out of a container's own index ------------------------------------------------------------- */

/* The container's index names leaf pages of the database alone. If keys may have trees of
 * duplicates, the pages themselves are read. */

/* Reads every leaf in the container's index, in order: each index page once. No leaf may claim more
 * records than a page has offsets for. So the number of records, by which tables are made later, is
 * bounded by the size of the data. */
static int leaves_read(struct record_index *index, struct io *container,
		       const struct container_tree *from)
{
	uint64_t before = 0, most = container_info(container)->page_size / sizeof(uint16_t);
	struct container_leaf leaf;
	int rc;

	for (uint64_t i = 0; i < from->leaves; i++) {
		rc = container_leaf(container, from, i, &leaf);
		if (rc)
			return rc;
		if (i ? leaf.first <= before || leaf.first - before > most : leaf.first != 0)
			return MDB_CORRUPTED;
		before = leaf.first;
		index->leaves[i] = (struct index_leaf){.page = leaf.page & 0xffffffffffff,
						       .first = leaf.first};
	}
	if (!index->records)
		return 0;
	return before < index->records && index->records - before <= most ? 0 : MDB_CORRUPTED;
}

int index_read(struct record_index **ret, struct io *container, const struct tree *tree,
	       const MDB_val *name)
{
	struct record_index *index;
	struct container_tree from;
	int rc;

	if (tree->record.flags & MDB_DUPSORT)
		return ENOENT;
	rc = container_tree_find(container, name ? name->mv_data : NULL, name ? name->mv_size : 0,
				 &from);
	if (rc)
		return rc == MDB_NOTFOUND ? ENOENT : rc;
	if (from.records != tree->record.entries || from.leaves > tree->record.entries)
		return MDB_CORRUPTED;
	index = index_new(from.leaves, 0, from.records);
	if (!index)
		return ENOMEM;
	rc = leaves_read(index, container, &from);
	if (rc)
		index_free(index);
	else
		*ret = index;
	return rc;
}
