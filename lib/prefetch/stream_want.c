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
	return prefetch->ranges.count >= PREFETCH_RANGES - RANGES_SPARE;
}

bool is_quiet(const struct prefetch *prefetch)
{
	return !prefetch->ranges.count && !prefetch->later.count && !prefetch->trees.count &&
	       !prefetch->in_flight;
}

/* A tree that was written in no order: each of its pages would be a request, and what lies between
 * them is of this tree, too. Goes over to whole chunks then. */
static void stream_densify(struct prefetch *prefetch, struct stream *stream)
{
	if (stream->bounded || stream->requested / stream->requests >= SCATTERED ||
	    stream->pages * SCATTERED_SHARE < stream->snapshot.view.pages ||
	    !store_holds_all(prefetch->store))
		return;
	stream->dense = true;
	store_scan(prefetch->store, 1);
}

bool stream_want(struct prefetch *prefetch, struct stream *stream, enum want want, uint64_t offset,
		 uint64_t length, bool map)
{
	struct want_last *asked = &stream->last[want];
	uint64_t first = offset / ARENA_CHUNK, last = (offset + length - 1) / ARENA_CHUNK;

	if (!stream->dense) {
		stream->requested += length;
		if (++stream->requests % SCATTERED_AFTER == 0)
			stream_densify(prefetch, stream);
		return prefetch_want(prefetch, (struct wanted_range){offset, length, map, stream});
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
		    !prefetch_want(prefetch,
				   (struct wanted_range){start, end - start, map_now, stream}))
			return false;
		asked->chunk = chunk;
		if (map_now)
			asked->mapped = chunk;
	}
	return true;
}

bool stream_want_pages(struct prefetch *prefetch, struct stream *stream, enum want want,
		       uint64_t number, uint64_t count, bool map)
{
	const struct window_view *view = &stream->snapshot.view;

	if (number >= view->limit || count > view->limit - number)
		return true; /* damage is the program's to find */
	return stream_want(prefetch, stream, want, number << view->page_shift,
			   count << view->page_shift, map);
}

bool stream_gathered(struct prefetch *prefetch, struct stream *stream, struct gathered *run)
{
	bool taken = !run->pages || stream_want_pages(prefetch, stream, run->want, run->number,
						      run->pages, run->map);

	run->pages = 0;
	return taken;
}

bool stream_gather(struct prefetch *prefetch, struct stream *stream, struct gathered *run,
		   uint64_t number, uint64_t pages)
{
	unsigned shift = stream->snapshot.view.page_shift;
	uint64_t gap = PREFETCH_GAP >> shift, end = run->number + run->pages;
	bool taken = true;

	if (run->pages && number >= end && number - end <= gap) {
		run->pages = number + pages - run->number;
	} else if (run->pages && number + pages <= run->number &&
		   run->number - (number + pages) <= gap) {
		run->pages += run->number - number;
		run->number = number;
	} else {
		taken = stream_gathered(prefetch, stream, run);
		run->number = number;
		run->pages = pages;
	}
	if (run->pages << shift >= ARENA_CHUNK)
		taken &= stream_gathered(prefetch, stream, run);
	return taken;
}
