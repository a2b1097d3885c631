/* SPDX-License-Identifier: OLDAP-2.8 */
/* Turns the pages that a walk wants into few and large requests. */
#include "prefetch/prefetch_private.h"

enum {
	RANGES_SPARE = 8,     /* places in the queue that one more request may take */
	SCATTERED = 64 << 10, /* bytes a request, of so many requests: */
	SCATTERED_AFTER = 64,
	SCATTERED_SHARE =
		4, /* of what is read by chunks then at least one part in so many is wanted */
};

bool queue_is_full(const struct prefetch *prefetch)
{
	return prefetch->engine.ranges.count >= AHEAD_RANGES - RANGES_SPARE;
}

/* A tree that was written in no order: each of its pages would be a request, and what lies between
 * them is of this tree, too. Goes over to whole chunks then. */
static void stream_densify(struct prefetch *prefetch, struct stream *stream)
{
	if (stream->wants.bounded ||
	    stream->wants.requested / stream->wants.requests >= SCATTERED ||
	    stream->pages * SCATTERED_SHARE < stream->snapshot.view.pages ||
	    !store_holds_all(prefetch->store))
		return;
	stream->wants.dense = true;
	store_scan(prefetch->store, 1);
}

bool stream_want(struct prefetch *prefetch, struct stream *stream, enum want want, uint64_t offset,
		 uint64_t length, bool map)
{
	struct want_last *asked = &stream->wants.last[want];
	uint64_t first = offset / ARENA_CHUNK, last = (offset + length - 1) / ARENA_CHUNK;

	if (!stream->wants.dense) {
		stream->wants.requested += length;
		if (++stream->wants.requests % SCATTERED_AFTER == 0)
			stream_densify(prefetch, stream);
		return prefetch_want(prefetch, (struct wanted_range){.offset = offset,
								     .length = length,
								     .map = map,
								     .whose = stream});
	}
	/* In the order of the walk, so that two neighbours that share a chunk ask for it once. */
	for (uint64_t n = 0; n <= last - first; n++) {
		uint64_t chunk = stream->forward ? first + n : last - n;
		uint64_t start = chunk * ARENA_CHUNK, end = start + ARENA_CHUNK;
		bool map_now = map && chunk != asked->mapped;

		if (chunk == asked->chunk && !map_now)
			continue;
		if (end > store_size(prefetch->store))
			end = store_size(prefetch->store);
		if (start >= end ||
		    !prefetch_want(prefetch, (struct wanted_range){.offset = start,
								   .length = end - start,
								   .map = map_now,
								   .whose = stream}))
			return false;
		asked->chunk = chunk;
		if (map_now)
			asked->mapped = chunk;
	}
	return true;
}

bool stream_gathered(struct prefetch *prefetch, struct stream *stream, struct gathered *run)
{
	struct extent extent = run->extent;

	run->extent = (struct extent){0};
	return extent.from == extent.end || stream_want(prefetch, stream, run->want, extent.from,
							extent.end - extent.from, run->map);
}

bool stream_gather(struct prefetch *prefetch, struct stream *stream, struct gathered *run,
		   uint64_t number, uint64_t pages)
{
	const struct window_view *view = &stream->snapshot.view;
	uint64_t from = number << view->page_shift, end = from + (pages << view->page_shift);
	bool taken = true;

	if (number >= view->limit || pages > view->limit - number)
		return true; /* damage is the program's to find */
	if (run->extent.from == run->extent.end ||
	    !extent_join(&run->extent, from, end, gap_bytes(GAP_STREAM, NULL), UINT64_MAX)) {
		taken = stream_gathered(prefetch, stream, run);
		run->extent = (struct extent){from, end};
	}
	if (run->extent.end - run->extent.from >= ARENA_CHUNK)
		taken &= stream_gathered(prefetch, stream, run);
	return taken;
}
