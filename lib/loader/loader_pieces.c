/* SPDX-License-Identifier: OLDAP-2.8 */
/* Cuts the records of a plan that must be read into pieces, in the order of the file. */
#include "loader/loader_private.h"

#include "window/store.h"

#include <stdlib.h>
#include <string.h>

enum {
	PIECE_SAMPLES = 8192,
	TIER_SAMPLES = TIER_FETCHES,
	ROUNDS_EXACT = 1, /* rounds before whole chunks are read, if all will be wanted */
};

uint64_t record_bytes(const struct lmdbio_loader *loader)
{
	uint64_t records = index_records(loader->data.index);

	return loader->data.bytes / (records ? records : 1) + 1;
}

static int by_page(const void *a, const void *b)
{
	const struct work *x = *(struct work *const *)a, *y = *(struct work *const *)b;

	return (x->place.page > y->place.page) - (x->place.page < y->place.page);
}

static int by_record(const struct work *x, const struct work *y)
{
	uint64_t left = x->batch->samples[x->slot].record;
	uint64_t right = y->batch->samples[y->slot].record;

	return (left > right) - (left < right);
}

static int by_offset(const void *a, const void *b)
{
	const struct work *x = *(struct work *const *)a, *y = *(struct work *const *)b;

	if (x->tier != y->tier)
		return x->tier > y->tier ? 1 : -1;
	/* Another tier's: neighbours are kept together. */
	if (x->tier->source != SOURCE_FILE)
		return by_record(x, y);
	return (x->offset > y->offset) - (x->offset < y->offset);
}

void pieces_free(struct piece *pieces)
{
	for (struct piece *next; pieces; pieces = next) {
		next = pieces->next;
		free(pieces);
	}
}

static struct piece *piece_new(uint64_t round, size_t n)
{
	struct piece *piece = calloc(1, sizeof(*piece) + n * sizeof(piece->works[0]));

	if (piece) {
		piece->round = round;
		piece->works = (struct work **)(piece + 1);
	}
	return piece;
}

/* Hands out reads of the leaves that lie in front of values, and waits for them. They come before
 * earlier pieces, which may wait for memory. A page that cannot be read fails again for the sample
 * that needs it. */
static void bring_leaves(struct lmdbio_loader *loader, struct batch_plan *plan)
{
	const struct window_view *view = &loader->data.txn->snapshot.view;
	struct piece *first = NULL, **last = &first;
	uint64_t gap, page = UINT64_C(1) << view->page_shift;
	unsigned count = 0;

	if (!view->runs)
		return;
	pthread_mutex_lock(&loader->lock);
	gap = loader_gap(loader);
	pthread_mutex_unlock(&loader->lock);
	qsort(plan->works, plan->n, sizeof(*plan->works), by_page);
	for (size_t i = 0, next; i < plan->n; i = next) {
		uint64_t there = plan->works[i]->place.page << view->page_shift;
		struct extent read = {there, there + page};

		next = i + 1;
		if (plan->works[i]->tier->source != SOURCE_FILE)
			continue;
		for (; next < plan->n; next++) {
			there = plan->works[next]->place.page << view->page_shift;
			if (!extent_join(&read, there, there + page, gap, ARENA_CHUNK))
				break;
		}
		if (read.end > view->limit << view->page_shift ||
		    store_covers(view->runs, read.from, read.end - read.from))
			continue;
		if (!(*last = piece_new(plan->round, 0)))
			break;
		(*last)->read = read;
		last = &(*last)->next;
		count++;
	}
	if (!count)
		return;
	pthread_mutex_lock(&loader->lock);
	/* Readers end, or must be still, and read no page. */
	if (loader->closing || loader->life != LIFE_RUNNING) {
		pieces_free(first);
		pthread_mutex_unlock(&loader->lock);
		return;
	}
	loader->reads.pages_left = count;
	pieces_put_first(loader, first);
	while (loader->reads.pages_left)
		crew_wait(&loader->planner, CLOCK_NEVER);
	pthread_mutex_unlock(&loader->lock);
}

/* Sets the extent that a work needs: its value's run, or the leaf that holds the value. */
static void find_extent(struct lmdbio_loader *loader, struct snapshot *snapshot, struct work *work)
{
	unsigned shift = snapshot->view.page_shift;
	uint64_t number = 0, pages = 0;

	if (work->tier->source != SOURCE_FILE)
		return;
	if (loader->data.leaves_first) {
		work->batch->samples[work->slot].error =
			index_run(snapshot, &loader->data.tree, &work->place, &number, &pages);
		snapshot->blocked = 0;
		if (pages &&
		    (number >= snapshot->view.limit || pages > snapshot->view.limit - number))
			pages = number = 0; /* the sample will report it */
	}
	if (!pages) {
		number = work->place.page;
		pages = 1;
	}
	work->offset = number << shift;
	work->length = pages << shift;
}

size_t works_locate(struct lmdbio_loader *loader, struct batch_plan *plan)
{
	struct snapshot snapshot = loader_view(loader);
	size_t found = 0;

	if (loader->data.leaves_first && plan->n)
		bring_leaves(loader, plan);
	for (size_t i = 0; i < plan->n; i++) {
		struct work *work = plan->works[i];

		find_extent(loader, &snapshot, work);
		if (work->batch->samples[work->slot].error)
			continue;
		plan->works[i] = plan->works[found];
		plan->works[found++] = work;
	}
	return found;
}

/* Pieces end at the arena's chunks, because two readers in one chunk would wait for each other. */
struct piece *works_cut(struct lmdbio_loader *loader, struct batch_plan *plan, size_t *cut)
{
	struct piece *first = NULL, **last = &first;
	uint64_t each = record_bytes(loader);

	*cut = 0;
	if (!plan->n)
		return NULL;
	qsort(plan->works, plan->n, sizeof(*plan->works), by_offset);
	for (size_t i = 0, next; i < plan->n; i = next) {
		struct work **works = plan->works + i;
		bool file = works[0]->tier->source == SOURCE_FILE;
		uint64_t chunk = works[0]->offset / ARENA_CHUNK;
		struct piece *piece;

		for (next = i + 1; next < plan->n && next - i < PIECE_SAMPLES; next++)
			if (plan->works[next]->tier->source != works[0]->tier->source ||
			    (file ? plan->works[next]->offset / ARENA_CHUNK != chunk
				  : next - i >= TIER_SAMPLES))
				break;
		piece = piece_new(plan->round, next - i);
		if (!piece)
			return first;
		*cut = next;
		piece->n = next - i;
		piece->whole =
			loader->data.whole && !loader->memory.copies && plan->round > ROUNDS_EXACT;
		memcpy(piece->works, works, piece->n * sizeof(*works));
		for (size_t j = 0; j < piece->n && loader->memory.copies; j++)
			piece->bytes += loader->data.leaves_first && works[j]->length
						? works[j]->length
						: each;
		*last = piece;
		last = &piece->next;
	}
	return first;
}

struct piece *pieces_turned(struct piece *pieces)
{
	struct piece *first = NULL;

	for (struct piece *next; pieces; pieces = next) {
		next = pieces->next;
		pieces->next = first;
		first = pieces;
	}
	return first;
}
