/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads pieces: decides how many at once and at which rate, and what becomes of a read that
 * fails. */
#include "loader/loader_private.h"

#include "util/clock.h"
#include "util/stats.h"
#include "window/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SHORT_GROWTH = 8 }; /* 1 / this of the bytes that came is added to what memory may hold */

uint64_t loader_gap(const struct lmdbio_loader *loader)
{
	return gap_bytes(loader->plan.sweep.sectors ? GAP_SWEEP : GAP_ROUND, &loader->reads.depth);
}

struct snapshot loader_view(const struct lmdbio_loader *loader)
{
	struct snapshot snapshot = loader->data.txn->snapshot;

	snapshot.blocked = 0;
	snapshot.watch = NULL;
	return snapshot;
}

void pieces_put(struct lmdbio_loader *loader, struct piece *pieces)
{
	if (!pieces)
		return;
	*loader->reads.last = pieces;
	while (*loader->reads.last)
		loader->reads.last = &(*loader->reads.last)->next;
	crew_wake_all(&loader->readers);
}

void pieces_put_first(struct lmdbio_loader *loader, struct piece *pieces)
{
	struct piece *rest = loader->reads.first;

	loader->reads.first = NULL;
	loader->reads.last = &loader->reads.first;
	pieces_put(loader, pieces);
	pieces_put(loader, rest);
}

/* Pages that the planner waits for have come, or never will. */
static void pages_done(struct lmdbio_loader *loader)
{
	if (!--loader->reads.pages_left)
		crew_wake_all(&loader->planner);
}

void pieces_drop(struct lmdbio_loader *loader)
{
	struct piece *piece;

	while ((piece = loader->reads.first)) {
		loader->reads.first = piece->next;
		for (size_t i = 0; i < piece->n; i++)
			tier_done(piece->works[i]->tier, 1, 0);
		if (!piece->n)
			pages_done(loader);
		free(piece);
	}
	loader->reads.last = &loader->reads.first;
}

/* Whether a piece must wait for memory. A taker that waits for the piece must get it, whatever it
 * takes. And if no memory is held, none will be given back. */
static bool piece_must_wait(const struct lmdbio_loader *loader, const struct piece *piece)
{
	return piece->bytes && loader->memory.held && piece->round > loader->takers.waited_round &&
	       loader->memory.held + piece->bytes > memory_most(loader);
}

/* Takes the next piece to read from the queue. Returns NULL if there is none now; *until says when
 * to look again, unless something changes before. Under the loader lock. */
static struct piece *piece_take(struct lmdbio_loader *loader, uint64_t *until)
{
	struct piece *piece = loader->reads.first;

	*until = CLOCK_NEVER;
	if (!piece || loader->reads.busy >= loader->reads.depth.now)
		return NULL;
	if (loader->reads.quiet && !loader->takers.waiting)
		return NULL;
	if (piece_must_wait(loader, piece))
		return NULL;
	if (loader->reads.free_at > clock_now()) {
		*until = loader->reads.free_at;
		return NULL;
	}
	loader->reads.first = piece->next;
	if (!loader->reads.first)
		loader->reads.last = &loader->reads.first;
	loader->memory.held += piece->bytes;
	return piece;
}

void loader_note(struct lmdbio_loader *loader, uint64_t bytes, uint64_t ns)
{
	uint64_t now, bandwidth = loader->options.bandwidth;

	pthread_mutex_lock(&loader->lock);
	now = clock_now();
	if (bandwidth)
		loader->reads.free_at =
			(loader->reads.free_at > now ? loader->reads.free_at : now - ns) +
			(uint64_t)((unsigned __int128)bytes * CLOCK_SECOND / bandwidth);
	depth_note(&loader->reads.depth, bytes, ns, now, loader->readers.count);
	pthread_mutex_unlock(&loader->lock);
}

int loader_bring(struct lmdbio_loader *loader, const struct snapshot *snapshot, uint64_t from,
		 uint64_t end, uint64_t *ns)
{
	const struct window_view *view = &snapshot->view;
	uint64_t limit = view->limit << view->page_shift, began;
	int rc;

	*ns = 0;
	if (end > limit)
		end = limit;
	if (!view->runs || from >= end || store_covers(view->runs, from, end - from))
		return 0;
	began = clock_now();
	rc = store_bring(view->runs, from, end - from);
	*ns = clock_now() - began;
	loader_note(loader, end - from, *ns);
	return rc;
}

void sample_fill(struct work *work, const struct tier_record *record)
{
	struct lmdbio_sample *sample = &work->batch->samples[work->slot];

	sample->key = record->key;
	sample->data = record->data;
	work->batch->memory[work->slot] = record->memory;
}

/* The bytes that a piece has brought, by source. */
struct tally {
	uint64_t bytes[SOURCE_COUNT];
};

/* Gives a record that has been found memory of its own, if it needs some. Returns false without
 * memory. */
static bool record_own(struct lmdbio_loader *loader, struct direct_bytes *direct,
		       struct tier_record *record)
{
	size_t size = record->data.mv_size + record->key.mv_size;

	if (direct && direct->alone) {
		direct_give(direct, record);
		return true;
	}
	return !loader->memory.copies ||
	       tier_place(record, sample_memory_new(loader, size + 1), &record->key, &record->data);
}

uint64_t sample_take(struct lmdbio_loader *loader, struct snapshot *snapshot,
		     struct direct_bytes *direct, struct work *work, enum tier_source source)
{
	struct lmdbio_sample *sample = &work->batch->samples[work->slot];
	struct tier_record record = {0};

	/* A page of this sample that is not sound says nothing about the next sample's. */
	snapshot->blocked = 0;
	if (!direct ||
	    !direct_get(loader, direct, snapshot, &work->place, &record.key, &record.data)) {
		direct = NULL;
		snapshot->blocked = 0;
		sample->error = index_get(snapshot, &loader->data.tree, &work->place, &record.key,
					  &record.data);
	}
	if (sample->error)
		return 0;
	if (!record_own(loader, direct, &record)) {
		sample->error = ENOMEM;
		return 0;
	}
	/* Not before: what tiers keep must not take the memory that the sample needs. */
	tiers_offer(&loader->tiers, source, sample->record, &record.key, &record.data);
	sample_fill(work, &record);
	return record.data.mv_size;
}

/* Finds the works that one read serves, from `first` on. Returns the work behind them. */
static size_t merge(const struct lmdbio_loader *loader, const struct piece *piece, size_t first,
		    uint64_t gap, struct extent *read)
{
	struct work *const *works = piece->works;
	size_t next = first + 1;

	*read = (struct extent){works[first]->offset, works[first]->offset + works[first]->length};
	while (next < piece->n &&
	       extent_join(read, works[next]->offset, works[next]->offset + works[next]->length,
			   gap, loader->reads.most))
		next++;
	if (piece->whole) {
		read->from -= read->from % ARENA_CHUNK;
		read->end = round_up(read->end, ARENA_CHUNK);
	}
	return next;
}

/* Whether all works are for values that stand apart from their leaves. */
static bool are_runs(const struct lmdbio_loader *loader, struct work *const *works, size_t n)
{
	unsigned shift = loader->data.txn->snapshot.view.page_shift;

	for (size_t i = 0; i < n; i++)
		if (works[i]->offset == works[i]->place.page << shift)
			return false;
	return true;
}

static void read_file(struct lmdbio_loader *loader, struct piece *piece, uint64_t gap,
		      unsigned at_once, struct tally *tally)
{
	struct snapshot snapshot = loader_view(loader);
	struct store *store = snapshot.view.runs;
	struct extent read;
	uint64_t ns;

	for (size_t i = 0, next; i < piece->n; i = next) {
		enum tier_source source = SOURCE_FILE;
		struct direct_bytes direct = {0};

		next = merge(loader, piece, i, gap, &read);
		if (store && store_covers(store, read.from, read.end - read.from))
			source = SOURCE_MEMORY;
		/* If this fails, each sample is read by itself: not all need fail. */
		if (source == SOURCE_MEMORY || !are_runs(loader, piece->works + i, next - i) ||
		    !direct_read(loader, read.from, read.end, next - i == 1, &direct, &ns))
			(void)loader_bring(loader, &snapshot, read.from, read.end, &ns);
		tier_done(piece->works[i]->tier, next - i, ns / at_once);
		for (; i < next; i++)
			tally->bytes[source] +=
				sample_take(loader, &snapshot, &direct, piece->works[i], source);
		direct_end(loader, &direct);
	}
}

static void fetch_each(const struct tier *tier, struct tier_fetch *each, size_t n)
{
	for (size_t i = 0; i < n; i++)
		each[i].error = tier->ops->fetch(tier->state, each[i].record, &each[i].found);
}

/* Reads a few records from another tier. The file gives what the tier cannot. */
static void read_tier_some(struct lmdbio_loader *loader, struct work **works, size_t n,
			   unsigned at_once, struct tally *tally)
{
	struct snapshot snapshot = loader_view(loader);
	struct tier *tier = works[0]->tier;
	struct tier_fetch each[TIER_FETCHES];
	uint64_t began = clock_now();
	size_t came = 0;

	for (size_t i = 0; i < n; i++)
		each[i] = (struct tier_fetch){
			.record = works[i]->batch->samples[works[i]->slot].record,
			.source = tier->source,
		};
	if (tier->ops->fetch_all)
		tier->ops->fetch_all(tier->state, each, n);
	else
		fetch_each(tier, each, n);
	for (size_t i = 0; i < n; i++)
		came += !each[i].error;
	tier_done(tier, n - came, 0);
	tier_done(tier, came, (clock_now() - began) / at_once + 1);
	for (size_t i = 0; i < n; i++) {
		struct tier_record *found = &each[i].found;

		if (each[i].error) {
			tally->bytes[SOURCE_FILE] +=
				sample_take(loader, &snapshot, NULL, works[i], SOURCE_FILE);
			continue;
		}
		tally->bytes[each[i].source] += found->data.mv_size;
		tiers_offer(&loader->tiers, tier->source, each[i].record, &found->key,
			    &found->data);
		sample_fill(works[i], found);
	}
}

static void read_tier(struct lmdbio_loader *loader, struct piece *piece, unsigned at_once,
		      struct tally *tally)
{
	for (size_t i = 0, n; i < piece->n; i += n) {
		struct tier *tier = piece->works[i]->tier;

		for (n = 1; n < TIER_FETCHES && i + n < piece->n; n++)
			if (piece->works[i + n]->tier != tier)
				break;
		read_tier_some(loader, piece->works + i, n, at_once, tally);
	}
}

/* Moves the works whose samples lacked memory to the front. They are tried once more: when memory
 * is given back, or at once if a taker waits for their batch. Returns how many; 0 also when they
 * fail for good. Under the loader lock. */
static size_t works_short(struct lmdbio_loader *loader, struct piece *piece)
{
	bool waited =
		piece->round <= loader->takers.waited_round || loader->memory.held <= piece->bytes;
	size_t n = 0;

	if (loader->life != LIFE_RUNNING || loader->closing || (piece->again && waited))
		return 0;
	for (size_t i = 0; i < piece->n; i++) {
		struct work *work = piece->works[i];
		struct lmdbio_sample *sample = &work->batch->samples[work->slot];

		if (sample->error != ENOMEM)
			continue;
		sample->error = 0;
		atomic_fetch_add(&work->tier->queue, 1);
		piece->works[i] = piece->works[n];
		piece->works[n++] = work;
	}
	return n;
}

/* Puts a piece back whose first works are to be read once more: in front of later rounds, and
 * behind earlier rounds, which a taker may wait for while memory keeps this piece waiting. The
 * bytes held now are all that there is memory for. Under the loader lock. */
static void piece_again(struct lmdbio_loader *loader, struct piece *piece, size_t works)
{
	struct piece **link = &loader->reads.first;

	piece->bytes = piece->bytes / piece->n * works;
	piece->n = works;
	piece->again = true;
	loader->memory.lacking = loader->memory.held;
	while (*link && (!(*link)->n || (*link)->round < piece->round))
		link = &(*link)->next;
	piece->next = *link;
	*link = piece;
	if (!piece->next)
		loader->reads.last = &piece->next;
	crew_wake_all(&loader->readers);
}

static void tally_count(struct lmdbio_loader *loader, const struct tally *tally)
{
	loader->stats.memory_bytes += tally->bytes[SOURCE_MEMORY];
	loader->stats.stage_bytes += tally->bytes[SOURCE_DISK];
	loader->stats.peer_bytes += tally->bytes[SOURCE_PEER];
	loader->stats.file_bytes += tally->bytes[SOURCE_FILE];
	stats_add(STATS_LOADER_MEMORY_BYTES, tally->bytes[SOURCE_MEMORY]);
	stats_add(STATS_LOADER_STAGE_BYTES, tally->bytes[SOURCE_DISK]);
	stats_add(STATS_LOADER_PEER_BYTES, tally->bytes[SOURCE_PEER]);
	stats_add(STATS_LOADER_FILE_BYTES, tally->bytes[SOURCE_FILE]);
}

/* Counts a piece's samples as come, and frees it or puts it back. Under the loader lock. */
static void piece_came(struct lmdbio_loader *loader, struct piece *piece, const struct tally *tally)
{
	size_t again = works_short(loader, piece);
	uint64_t small = 0;

	loader->memory.held -= piece->bytes;
	tally_count(loader, tally);
	for (size_t i = again; i < piece->n; i++) {
		struct work *work = piece->works[i];
		struct batch *batch = work->batch;
		const struct lmdbio_sample *sample = &batch->samples[work->slot];

		if (batch->memory[work->slot]) {
			uint64_t size =
				sample_memory_size(batch->memory[work->slot],
						   sample->key.mv_size + sample->data.mv_size);

			batch->held += size;
			loader->memory.held += size;
			loader->memory.copied_bytes += size;
			loader->memory.copied_samples++;
			small += size < SAMPLE_LARGE ? size : 0;
		}
	}
	sample_memory_fit(loader, small);
	/* Last, because a batch that is complete frees its works. */
	for (size_t i = again; i < piece->n; i++)
		batch_came(loader, piece->works[i]->batch, 1);
	if (!piece->n)
		pages_done(loader);
	if (again) {
		piece_again(loader, piece, again);
		return;
	}
	/* The shortage may have been another program's, and be over. */
	if (loader->memory.lacking)
		loader->memory.lacking += piece->bytes / SHORT_GROWTH;
	free(piece);
}

static void piece_read(struct lmdbio_loader *loader, struct piece *piece, uint64_t gap,
		       unsigned at_once, struct tally *tally)
{
	struct snapshot snapshot;
	uint64_t ns;

	if (!piece->n) {
		snapshot = loader_view(loader);
		(void)loader_bring(loader, &snapshot, piece->read.from, piece->read.end, &ns);
	} else if (piece->works[0]->tier->source == SOURCE_FILE) {
		read_file(loader, piece, gap, at_once, tally);
	} else {
		read_tier(loader, piece, at_once, tally);
	}
}

/* A step of the crew. */
static uint64_t reader_step(void *owner)
{
	struct lmdbio_loader *loader = owner;
	struct tally tally = {0};
	uint64_t until = CLOCK_NEVER, gap;
	struct piece *piece = loader->closing ? NULL : piece_take(loader, &until);
	unsigned at_once;

	if (!piece) {
		if (!loader->reads.first)
			depth_pause(&loader->reads.depth);
		return until;
	}
	at_once = ++loader->reads.busy;
	gap = loader_gap(loader);
	if (!loader->reads.first || loader->reads.first->round != piece->round)
		crew_wake_all(&loader->planner);
	pthread_mutex_unlock(&loader->lock);
	piece_read(loader, piece, gap, at_once, &tally);
	pthread_mutex_lock(&loader->lock);
	loader->reads.busy--;
	piece_came(loader, piece, &tally);
	crew_wake(&loader->readers);
	if (!loader->reads.busy)
		pthread_cond_broadcast(&loader->still);
	return 0;
}

const struct crew_work reader_work = {
	.name = "lmdbio-read",
	.step = reader_step,
	.serves = true,
};
