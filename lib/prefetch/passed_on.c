/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads announced values into the page cache, where other processes are the ones that read them.
 *
 * A value that goes through shared memory is copied there, and each process that reads it maps its
 * chunk. For a scan, large requests outweigh this. A value that the kernel reads by one request
 * costs less in the page cache: a shuffled epoch of 20,000 values of 100 KB by four workers
 * took 5.1 seconds of processor time, storage's included, and 5.7 through shared memory
 * (bench/bench_sampler.sh). Other processes of the node ask the page cache before they read, and a
 * chunk's claim makes them wait for what is on its way. The announcing process itself would take
 * page faults, so values go through shared memory as soon as one of its transactions has handed out
 * a value.
 */
#include "prefetch/prefetch_private.h"

#include "io/io_page_cache.h"

enum {
	LEAST = 16 << 10, /* bytes of a value: smaller ones are sooner read by one thread */
	LONG_PARTS = 8,   /* of the ranges, of which one may be longer than one request */
	JUDGED = 32,      /* ranges at a time */
};

/* Whether values are, on the average, neither small nor more than the kernel reads by one request.
 */
static bool is_one_request(const struct prefetch *prefetch, const struct snapshot *snapshot,
			   const struct tree *tree)
{
	const struct tree_record *record = &tree->record;
	uint64_t value;

	if (!record->overflow_pages || !record->entries)
		return false;
	value = record->overflow_pages / record->entries * snapshot->page_size;
	return value >= LEAST && value <= prefetch->passed_on.most;
}

void passed_on_read(struct prefetch *prefetch, const struct snapshot *snapshot)
{
	if (snapshot->served)
		atomic_store_explicit(&prefetch->passed_on.read, true, memory_order_relaxed);
}

void passed_on_note(struct prefetch *prefetch, const struct snapshot *snapshot,
		    const struct tree *tree)
{
	struct passed_on *passed_on = &prefetch->passed_on;

	passed_on_read(prefetch, snapshot);
	if (!passed_on->most)
		passed_on->most = io_kernel_ahead(passed_on->direct->fd) + 1;
	passed_on->wanted = !passed_on->dense &&
			    !atomic_load_explicit(&passed_on->read, memory_order_relaxed) &&
			    is_one_request(prefetch, snapshot, tree) &&
			    store_may_pass_on(prefetch->store);
}

void passed_on_judge(struct prefetch *prefetch, const struct wanted_range *ranges, size_t n)
{
	struct passed_on *passed_on = &prefetch->passed_on;

	for (size_t i = 0; passed_on->wanted && i < n; i++) {
		passed_on->ranges += ranges[i].for_others;
		passed_on->longer += ranges[i].for_others && ranges[i].length > passed_on->most;
	}
	if (passed_on->ranges < JUDGED)
		return;
	passed_on->dense = passed_on->longer * LONG_PARTS > passed_on->ranges;
	passed_on->ranges = passed_on->longer = 0;
}

bool passed_on_turn(struct prefetch *prefetch)
{
	struct passed_on *passed_on = &prefetch->passed_on;
	struct ahead *engine = &prefetch->engine;

	/* Without announcements it is the program itself that is looked ahead of. */
	passed_on->wanted = passed_on->wanted && prefetch->small && !passed_on->dense &&
			    !atomic_load_explicit(&passed_on->read, memory_order_relaxed) &&
			    store_may_pass_on(prefetch->store);
	if (passed_on->on == passed_on->wanted)
		return true;
	if (engine->in_flight)
		return false;
	if (passed_on->wanted && passed_on->cached.fd < 0 &&
	    io_open_file(&passed_on->cached, "pread", passed_on->direct->fd)) {
		passed_on->cached.fd = -1;
		passed_on->wanted = false;
		return true;
	}
	passed_on->on = passed_on->wanted;
	engine->io = passed_on->on ? &passed_on->cached : passed_on->direct;
	store_pass_on(prefetch->store, passed_on->on);
	return true;
}

void passed_on_open(struct prefetch *prefetch, struct io *io)
{
	prefetch->passed_on.direct = io;
	prefetch->passed_on.cached.fd = -1;
}

void passed_on_close(struct prefetch *prefetch)
{
	if (prefetch->passed_on.cached.fd >= 0)
		io_close(&prefetch->passed_on.cached);
}

void passed_on_rest(struct prefetch *prefetch)
{
	struct passed_on *passed_on = &prefetch->passed_on;

	io_rest(passed_on->direct);
	if (passed_on->cached.fd >= 0)
		io_rest(&passed_on->cached);
}

void passed_on_forked(struct prefetch *prefetch)
{
	struct passed_on *passed_on = &prefetch->passed_on;

	passed_on->wanted = passed_on->on = false;
	prefetch->engine.io = passed_on->direct;
}
