/* What only this file knows: how far ahead batches are made, and in which order their records are
 * asked of the file.
 *
 * A round is as many batches as memory holds; its records are read in the order of the file, so
 * that neighbours come in one read, while the round before is being used and makes room: two halves
 * of a buffer in turn whose border moves. The first round is two batches, each of the next twice as
 * long, so that the first batch comes at once. Where records are so far apart that nothing would be
 * merged, rounds stay short.
 */
#include "loader/loader_private.h"

#include "window/residency.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	SAMPLES_AHEAD = 1 << 16, /* in memory that is not copied, and of the smallest records */
	SAMPLES_MOST = 1 << 20,
	ROUND_LEAST = 2,        /* batches */
	APART_ROUND = 32 << 20, /* bytes of a round in which nothing can be merged */
	PIECE_SAMPLES = 8192,
	TIER_SAMPLES = TIER_FETCHES,
	ROUNDS_EXACT = 1,   /* after these, whole chunks are read of what will all be wanted */
	ROUND_READY = 1024, /* samples of a round for which nothing has to be read */
};

struct plan {
	struct batch *first, **last;
	size_t batches, samples, n;
	struct work **works; /* of records that are to be read */
	uint64_t round;
	uint64_t memory_bytes; /* that need not be read */
};

/* Bytes that a record takes in memory, on average. */
static uint64_t record_bytes(const struct lmdbio_loader *loader)
{
	uint64_t records = index_records(loader->index);

	return loader->file_bytes / (records ? records : 1) + 1;
}

/* Samples that the next round may have. Under the lock. */
static uint64_t round_size(struct lmdbio_loader *loader, uint64_t share)
{
	uint64_t size = record_bytes(loader), most = SAMPLES_AHEAD, merged;

	if (loader->copies) {
		most = loader->memory / size;
		merged = loader->file_bytes / (most ? most : 1);
		if (merged > 2 * loader_gap(loader) && most > APART_ROUND / size)
			most = APART_ROUND / size;
	}
	if (most > SAMPLES_MOST)
		most = SAMPLES_MOST;
	if (loader->round_samples < ROUND_LEAST * share)
		loader->round_samples = ROUND_LEAST * share;
	if (loader->round_samples > most)
		loader->round_samples = most;
	return loader->round_samples > share ? loader->round_samples : share;
}

/* Whether there is room for another round. Under the lock. */
static bool has_room(const struct lmdbio_loader *loader)
{
	if (!loader->begun || loader->closing || loader->plan_epoch > loader->epoch + 1 ||
	    loader->pieces)
		return false;
	if (loader->options.ahead && loader->batches_ahead >= loader->options.ahead)
		return false;
	/* Of more ranks than samples in a batch, some have none. */
	if (loader->batches_ahead >= SAMPLES_AHEAD)
		return false;
	return !loader->ahead ||
	       loader->ahead <= (loader->copies ? loader->round_samples : SAMPLES_AHEAD);
}

static struct batch *batch_new(struct lmdbio_loader *loader, uint64_t epoch, uint64_t number,
			       size_t count)
{
	struct batch *batch = calloc(1, sizeof(*batch));

	if (!batch)
		return NULL;
	batch->loader = loader;
	batch->samples = calloc(count + 1, sizeof(*batch->samples));
	batch->works = calloc(count + 1, sizeof(*batch->works));
	batch->memory = calloc(count + 1, sizeof(*batch->memory));
	if (loader->options.decode)
		batch->shown.decoded = calloc(count + 1, loader->options.decode_size + 1);
	if (!batch->samples || !batch->works || !batch->memory ||
	    (loader->options.decode && !batch->shown.decoded)) {
		batch_free(batch);
		return NULL;
	}
	batch->shown.epoch = epoch;
	batch->shown.number = number;
	batch->shown.count = count;
	batch->shown.samples = batch->samples;
	return batch;
}

/* A record that need not be read. true: it has come. */
static bool take_here(struct lmdbio_loader *loader, struct plan *plan, struct work *work)
{
	uint64_t record = work->batch->samples[work->slot].record;
	struct tier_record found;

	work->tier = tiers_choose(&loader->tiers, record);
	if (work->tier->source != SOURCE_MEMORY)
		return false;
	if (work->tier->ops->fetch(work->tier->state, record, &found)) {
		tier_done(work->tier, 1, 0);
		work->tier = tiers_file(&loader->tiers);
		atomic_fetch_add(&work->tier->queue, 1);
		return false;
	}
	tier_done(work->tier, 1, 1);
	sample_fill(work, &found);
	plan->memory_bytes += found.data.mv_size;
	return true;
}

static int plan_batch(struct lmdbio_loader *loader, struct plan *plan, const struct order_epoch *at,
		      uint64_t number)
{
	const struct lmdbio_loader_options *options = &loader->options;
	uint32_t share = order_share(&at->order, options->ranks, options->rank);
	struct batch *batch = batch_new(loader, at->epoch, number, share);

	if (!batch)
		return ENOMEM;
	batch->round = plan->round;
	*plan->last = batch;
	plan->last = &batch->next;
	plan->batches++;
	plan->samples += share;
	for (uint32_t i = 0; i < share; i++) {
		struct lmdbio_sample *sample = &batch->samples[i];
		struct work *work = &batch->works[i];

		sample->record = order_record(
			at, order_slot(&at->order, options->ranks, options->rank, number, i));
		if (sample->record == ORDER_NONE)
			continue;
		*work = (struct work){.batch = batch, .slot = i};
		sample->error = index_find(loader->index, sample->record, &work->place);
		if (!sample->error && !take_here(loader, plan, work)) {
			plan->works[plan->n++] = work;
			batch->missing++;
		}
	}
	return 0;
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
	/* Of another tier: neighbours are kept together. */
	if (x->tier->source != SOURCE_FILE)
		return by_record(x, y);
	return (x->offset > y->offset) - (x->offset < y->offset);
}

static void pieces_free(struct piece *pieces)
{
	for (struct piece *next; pieces; pieces = next) {
		next = pieces->next;
		piece_free(pieces);
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

/* Hands out what lies in front of the values, and waits for it. A page that cannot be read fails
 * again for the sample that needs it. */
static void bring_leaves(struct lmdbio_loader *loader, struct plan *plan)
{
	const struct window_view *view = &loader->txn->snapshot.view;
	struct piece *first = NULL, **last = &first;
	uint64_t gap;
	unsigned count = 0;

	if (!view->runs)
		return;
	pthread_mutex_lock(&loader->lock);
	gap = loader_gap(loader);
	pthread_mutex_unlock(&loader->lock);
	qsort(plan->works, plan->n, sizeof(*plan->works), by_page);
	for (size_t i = 0, next; i < plan->n; i = next) {
		uint64_t from = plan->works[i]->place.page << view->page_shift;
		uint64_t page = UINT64_C(1) << view->page_shift, end = from + page;

		next = i + 1;
		if (plan->works[i]->tier->source != SOURCE_FILE)
			continue;
		for (; next < plan->n; next++) {
			uint64_t there = plan->works[next]->place.page << view->page_shift;

			if (there > end + gap || there + page > from + ARENA_CHUNK)
				break;
			end = there + page;
		}
		if (end > view->limit << view->page_shift ||
		    residency_covers(view->runs, from, end - from))
			continue;
		if (!(*last = piece_new(plan->round, 0)))
			break;
		(*last)->offset = from;
		(*last)->length = end - from;
		last = &(*last)->next;
		count++;
	}
	if (!count)
		return;
	pthread_mutex_lock(&loader->lock);
	if (loader->closing) {
		/* Nobody reads any more. */
		pieces_free(first);
		pthread_mutex_unlock(&loader->lock);
		return;
	}
	loader->pages_left = count;
	pieces_put(loader, first);
	while (loader->pages_left)
		pthread_cond_wait(&loader->room, &loader->lock);
	pthread_mutex_unlock(&loader->lock);
}

/* What must be there for a work: its value's run, or the leaf that holds it. */
static void find_extent(struct lmdbio_loader *loader, struct snapshot *snapshot, struct work *work)
{
	unsigned shift = snapshot->view.page_shift;
	uint64_t number = 0, pages = 0;

	if (work->tier->source != SOURCE_FILE)
		return;
	if (loader->leaves_first) {
		work->batch->samples[work->slot].error =
			index_run(snapshot, &loader->tree, &work->place, &number, &pages);
		snapshot->blocked = 0;
		if (pages &&
		    (number >= snapshot->view.limit || pages > snapshot->view.limit - number))
			pages = number = 0; /* the sample will tell */
	}
	if (!pages) {
		number = work->place.page;
		pages = 1;
	}
	work->offset = number << shift;
	work->length = pages << shift;
}

/* Cuts works, sorted by their place, at the arena's chunks: two readers in one would wait for each
 * other. */
static struct piece *cut(struct lmdbio_loader *loader, struct plan *plan, bool *short_of_memory)
{
	struct piece *first = NULL, **last = &first;
	uint64_t each = record_bytes(loader);

	*short_of_memory = false;
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
		if (!piece) {
			*short_of_memory = true;
			return first;
		}
		piece->n = next - i;
		piece->whole = loader->whole && !loader->copies && plan->round > ROUNDS_EXACT;
		memcpy(piece->works, works, piece->n * sizeof(*works));
		for (size_t j = 0; j < piece->n && loader->copies; j++)
			piece->bytes +=
				loader->leaves_first && works[j]->length ? works[j]->length : each;
		*last = piece;
		last = &piece->next;
	}
	return first;
}

/* In a database that stays in memory: what is there already is shown as it is. */
static void take_covered(struct lmdbio_loader *loader, struct plan *plan, struct snapshot *snapshot)
{
	struct residency *residency = snapshot->view.runs;
	size_t left = 0;

	for (size_t i = 0; i < plan->n; i++) {
		struct work *work = plan->works[i];
		struct lmdbio_sample *sample = &work->batch->samples[work->slot];
		struct tier_record found = {0};
		bool covered =
			work->tier->source == SOURCE_FILE && !sample->error &&
			(!residency || residency_covers(residency, work->offset, work->length));

		if (!covered) {
			plan->works[left++] = work;
			continue;
		}
		sample->error =
			index_get(snapshot, &loader->tree, &work->place, &found.key, &found.data);
		snapshot->blocked = 0;
		if (!sample->error)
			sample_fill(work, &found);
		tier_done(work->tier, 1, 0);
		work->batch->missing--;
		plan->memory_bytes += found.data.mv_size;
	}
	plan->n = left;
}

/* A sample whose place cannot be told is done with. */
static void take_failed(struct plan *plan)
{
	size_t left = 0;

	for (size_t i = 0; i < plan->n; i++) {
		struct work *work = plan->works[i];

		if (work->batch->samples[work->slot].error) {
			tier_done(work->tier, 1, 0);
			work->batch->missing--;
		} else {
			plan->works[left++] = work;
		}
	}
	plan->n = left;
}

/* Makes a plan's batches known, and asks for their records. Under the lock. */
static void plan_publish(struct lmdbio_loader *loader, struct plan *plan, struct piece *pieces)
{
	*loader->last = plan->first;
	loader->last = plan->last;
	loader->ahead += plan->samples;
	loader->batches_ahead += plan->batches;
	loader->stats.memory_bytes += plan->memory_bytes;
	pieces_put(loader, pieces);
	for (struct batch *batch = plan->first; batch; batch = batch->next)
		if (!batch->missing)
			batch_came(loader, batch, 0);
}

static void plan_drop(struct plan *plan)
{
	for (size_t i = 0; i < plan->n; i++)
		tier_done(plan->works[i]->tier, 1, 0);
	for (struct batch *batch = plan->first, *next; batch; batch = next) {
		next = batch->next;
		batch_free(batch);
	}
}

/* The last pieces first: in a database larger than memory every other round goes backward through
 * the file, because what was read last may still be there. */
static struct piece *turned(struct piece *pieces)
{
	struct piece *first = NULL;

	for (struct piece *next; pieces; pieces = next) {
		next = pieces->next;
		pieces->next = first;
		first = pieces;
	}
	return first;
}

/* Everything about a round that needs no lock: `samples` of them from a batch on, also over the end
 * of its epoch, but not over the one after it. Returns its pieces, and where the next round begins;
 * *rc is 0 or ENOMEM. */
static struct piece *plan_make(struct lmdbio_loader *loader, struct plan *plan, uint64_t batches,
			       uint64_t *epoch, uint64_t *number, int *rc)
{
	uint64_t all = order_batches(&loader->order), last = *epoch + (*number != 0);
	struct snapshot snapshot = loader_view(loader);
	struct order_epoch at;
	struct piece *pieces;
	bool short_of_memory;

	order_begin(&at, &loader->order, *epoch);
	while (batches-- && !*rc) {
		*rc = plan_batch(loader, plan, &at, *number);
		if (++*number < all)
			continue;
		*number = 0;
		if (++*epoch > last)
			break;
		order_begin(&at, &loader->order, *epoch);
	}
	if (*rc)
		return NULL;
	if (loader->leaves_first)
		bring_leaves(loader, plan);
	for (size_t i = 0; i < plan->n; i++)
		find_extent(loader, &snapshot, plan->works[i]);
	take_failed(plan);
	if (!loader->copies)
		take_covered(loader, plan, &snapshot);
	qsort(plan->works, plan->n, sizeof(*plan->works), by_offset);
	pieces = cut(loader, plan, &short_of_memory);
	if (short_of_memory)
		*rc = ENOMEM;
	return loader->copies && plan->round % 2 ? turned(pieces) : pieces;
}

/* Batches that the next round may have. Under the lock. */
static uint64_t batches_next(struct lmdbio_loader *loader, uint32_t share)
{
	uint64_t batches = round_size(loader, share) / share;
	const struct lmdbio_loader_options *options = &loader->options;

	if (batches > SAMPLES_AHEAD)
		batches = SAMPLES_AHEAD;
	loader->round_samples = batches * share * 2;
	if (options->ahead && batches > options->ahead - loader->batches_ahead)
		batches = options->ahead - loader->batches_ahead;
	return batches;
}

/* The next round. Under the lock, which it takes down while it computes. */
static void plan_round(struct lmdbio_loader *loader)
{
	uint32_t share = order_share(&loader->order, loader->options.ranks, loader->options.rank);
	uint64_t epoch = loader->plan_epoch, number = loader->plan_next, batches;
	unsigned generation = loader->generation;
	struct plan plan = {.last = &plan.first, .round = ++loader->round};
	struct piece *pieces = NULL;
	int rc = 0;

	batches = batches_next(loader, share ? share : 1);
	pthread_mutex_unlock(&loader->lock);
	plan.works = calloc(batches * share + 1, sizeof(*plan.works));
	if (plan.works)
		pieces = plan_make(loader, &plan, batches, &epoch, &number, &rc);
	else
		rc = ENOMEM;
	pthread_mutex_lock(&loader->lock);
	if (rc || generation != loader->generation || loader->closing) {
		pieces_free(pieces);
		plan_drop(&plan);
		/* Memory may be there again when batches have been given back. */
		loader->round_samples = 0;
		loader->out_of_memory = rc != 0;
	} else {
		plan_publish(loader, &plan, pieces);
		/* The next one will be no other, and had better come soon. */
		if (!pieces && loader->round_samples > ROUND_READY)
			loader->round_samples = ROUND_READY;
		loader->plan_epoch = epoch;
		loader->plan_next = number;
	}
	free(plan.works);
}

void *planner_run(void *argument)
{
	struct lmdbio_loader *loader = argument;

	pthread_mutex_lock(&loader->lock);
	while (!loader->closing) {
		if (!has_room(loader) || !order_batches(&loader->order) || loader->out_of_memory) {
			pthread_cond_wait(&loader->room, &loader->lock);
			continue;
		}
		loader->planning = true;
		plan_round(loader);
		loader->planning = false;
		pthread_cond_broadcast(&loader->still);
		pthread_cond_broadcast(&loader->ready);
	}
	pthread_mutex_unlock(&loader->lock);
	return NULL;
}
