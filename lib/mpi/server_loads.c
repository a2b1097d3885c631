/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tracks the chunks on their way to this node, orders their reads, and publishes them. */
#include "config.h"
#include "mpi/server_private.h"

#include "util/checked.h"
#include "util/clock.h"
#include "util/list.h"
#include "util/settings.h"
#include "util/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Nanoseconds. room_limit, room_for_asks: how long a load waits for room, the second if peers wait
 * for the load. full_ns: until the server looks for room again. beat_every: between two calls of
 * arena_beat(). */
static const uint64_t room_limit = 100000000, room_for_asks = 50000000, full_ns = 1000000,
		      beat_every = 50000000;

enum { PREPARE = 8 }; /* chunks at a time */

/* --- buffers --------------------------------------------------------------------------------- */

struct server_buffer *server_buffer_take(struct server *server)
{
	struct server_buffer *buffer = server->spare;

	if (buffer) {
		server->spare = buffer->next;
	} else {
		buffer = calloc(1, sizeof(*buffer));
		if (buffer)
			buffer->bytes = io_buffer_new(ARENA_CHUNK);
		if (!buffer || !buffer->bytes) {
			free(buffer);
			return NULL;
		}
	}
	buffer->users = 1;
	buffer->for_read = false;
	return buffer;
}

void server_buffer_release(struct server *server, struct server_buffer *buffer)
{
	if (--buffer->users)
		return;
	server->reads -= buffer->for_read;
	buffer->next = server->spare;
	server->spare = buffer;
}

/* --- queues ---------------------------------------------------------------------------------- */

static void queue_put(struct server_queue *queue, struct server_load *load)
{
	if (!queue->first)
		queue->last = &queue->first;
	load->next = NULL;
	*queue->last = load;
	queue->last = &load->next;
}

static void queue_remove(struct server_queue *queue, struct server_load *load)
{
	struct server_load **link = &queue->first;

	while (*link != load)
		link = &(*link)->next;
	*link = load->next;
	if (queue->last == &load->next)
		queue->last = link;
}

static struct server_load **bucket_of(struct server *server, const struct server_set *set,
				      uint64_t chunk)
{
	return &server->buckets[(chunk + ((uintptr_t)set >> 6)) % SERVER_BUCKETS];
}

static void load_enqueue(struct server *server, struct server_load *load)
{
	load->queued = true;
	queue_put(load->urgent ? &server->urgent : &server->ahead, load);
}

static struct server_load *load_find(struct server *server, const struct server_set *set,
				     uint64_t chunk)
{
	struct server_load *load = *bucket_of(server, set, chunk);

	while (load && (load->set != set || load->chunk != chunk))
		load = load->chained;
	return load;
}

struct server_load *server_want(struct server *server, struct server_set *set, uint64_t chunk,
				bool urgent)
{
	struct server_load **bucket = bucket_of(server, set, chunk);
	struct server_load *load = load_find(server, set, chunk);

	if (load) {
		if (urgent && !load->urgent && load->queued) {
			queue_remove(&server->ahead, load);
			load->urgent = true;
			load_enqueue(server, load);
		}
		return load;
	}
	load = calloc(1, sizeof(*load));
	if (!load)
		return NULL;
	load->set = set;
	load->chunk = chunk;
	load->order = chunk_spread_order(&set->spread, chunk * ARENA_CHUNK);
	load->urgent = urgent;
	load->began = clock_now();
	load->chained = *bucket;
	*bucket = load;
	set->loads++;
	load_enqueue(server, load);
	return load;
}

static void place_give_up(struct server_load *load)
{
	if (load->place)
		arena_release(load->set->arena, load->chunk);
	load->place = NULL;
}

static void load_free(struct server *server, struct server_load *load)
{
	list_remove(*bucket_of(server, load->set, load->chunk), load, chained);
	if (load->buffer)
		server_buffer_release(server, load->buffer);
	place_give_up(load);
	arena_unreserve(load->set->arena, load->reserved);
	load->set->loads--;
	free(load);
}

/* Members that wait for the chunk then read it themselves. */
static void refuse(struct server_load *load)
{
	place_give_up(load);
	load->set->counts.refused++;
	arena_answer(load->set->arena, load->chunk, true);
}

/* --- into the arena -------------------------------------------------------------------------- */

uint64_t server_missing(const struct server_set *set, uint64_t chunk)
{
	uint64_t start = chunk * ARENA_BLOCKS, run, n, missing = 0;
	uint64_t end = start + server_chunk_length(set, chunk) / ARENA_BLOCK;

	for (; (n = arena_missing(set->arena, start, end, &run)) > 0; start = run + n)
		missing += n;
	return missing;
}

/* Makes room for what is missing of a chunk before the chunk is fetched, because a fetch in vain is
 * expensive. A failure is expensive too, so the server does not try again at once. */
static bool room_make(struct server_load *load, uint64_t now)
{
	struct server_set *set = load->set;
	uint64_t missing;

	if (load->reserved)
		return true;
	if (now < set->full_until)
		return false;
	missing = server_missing(set, load->chunk);
	if (!missing || arena_reserve(set->arena, missing)) {
		load->reserved = missing;
		return true;
	}
	set->full_until = now + full_ns;
	return false;
}

/* Chunks that are wanted beside one another get their memory in huge pages before they are fetched.
 * A single chunk would leave half of a huge page unused. */
static void memory_prepare(struct server *server, const struct server_load *load)
{
	struct server_set *set = load->set;
	uint64_t first = load->chunk, end = first + 1;

	if (!arena_may_prepare(set->arena, first))
		return;
	while (first > 0 && end - first < PREPARE && load_find(server, set, first - 1))
		first--;
	while (end - first < PREPARE && load_find(server, set, end))
		end++;
	first = round_up(first, ARENA_PAIR);
	end -= end % ARENA_PAIR;
	if (first < end)
		arena_prepare(set->arena, first, end - first);
}

/* Claims memory in the arena for all of a chunk, where that is a huge page, so that bytes that are
 * read need no copy from a buffer. A chunk that another node is asked for is claimed meanwhile: a
 * reader of this node that waits for it sees that it is on its way. */
static void place_take(struct server *server, struct server_load *load)
{
	struct arena *arena = load->set->arena;
	uint64_t offset = load->chunk * ARENA_CHUNK;
	uint64_t length = server_chunk_length(load->set, load->chunk),
		 blocks = length / ARENA_BLOCK;

	memory_prepare(server, load);
	if (load->place || load->reserved < blocks || !arena_place(arena, offset, length) ||
	    !arena_claim(arena, load->chunk))
		return;
	/* No process evicts a claimed chunk. */
	if (server_missing(load->set, load->chunk) == blocks)
		load->place = arena_place(arena, offset, length);
	if (!load->place)
		arena_release(arena, load->chunk);
}

/* Puts what is missing of a claimed chunk into the arena, as far as there is room. */
static bool fill(struct server_load *load)
{
	struct arena *arena = load->set->arena;
	uint64_t first = load->chunk * ARENA_BLOCKS, start = first, run, n;
	uint64_t end = first + server_chunk_length(load->set, load->chunk) / ARENA_BLOCK;

	if (load->place) {
		arena_publish(arena, first, end - first);
		load->reserved -= end - first;
		load->set->counts.placed_bytes += (end - first) * ARENA_BLOCK;
		return true;
	}
	for (; (n = arena_missing(arena, start, end, &run)) > 0; start = run + n) {
		/* Blocks of the chunk may have been evicted since. */
		if (n > load->reserved && !arena_reserve(arena, n - load->reserved))
			return false;
		load->reserved = n > load->reserved ? n : load->reserved;
		if (arena_fill(arena, run * ARENA_BLOCK,
			       load->buffer->bytes + (run - first) * ARENA_BLOCK, n * ARENA_BLOCK))
			return false;
		arena_publish(arena, run, n);
		load->reserved -= n;
	}
	return true;
}

/* Answers the members that wait in any case. They then look for themselves. */
static void put(struct server *server, struct server_load *load)
{
	struct arena *arena = load->set->arena;
	bool put = true;

	/* Otherwise a member brings the chunk itself. */
	if (load->place || arena_claim(arena, load->chunk)) {
		put = fill(load);
		if (put && server->place.nodes > 1 && load->order.owner == server->place.node)
			arena_keep(arena, load->chunk);
		if (put) {
			arena_unreserve(arena, load->reserved);
			arena_release(arena, load->chunk);
		} else {
			arena_abandon(arena, load->chunk, load->reserved);
		}
		load->reserved = 0;
		load->place = NULL;
	}
	if (put)
		arena_answer(arena, load->chunk, false);
	else
		refuse(load);
}

/* Ends a load: the chunk is in its place or buffer, or `error` says why not. */
static void load_land(struct server *server, struct server_load *load, int error)
{
	load->buffered = !error && !load->place;
	if (!load->set->failed)
		load->set->failed = error;
	if (error)
		refuse(load);
	else
		put(server, load);
	server_answer_all(server, load, error);
	list_remove(server->under_way, load, next);
	load_free(server, load);
}

void server_load_asked(struct server *server, struct server_load *load)
{
	if (load->place)
		memcpy(load->place, load->buffer->bytes, server_chunk_length(load->set, load->chunk));
	server->asks--;
	load_land(server, load, 0);
}

/* --- from storage ---------------------------------------------------------------------------- */

static struct io *io_of(struct server_set *set)
{
	return set->packed ? &set->data : &set->file;
}

static uint8_t *read_bytes(const struct server_load *load)
{
	return load->place ? load->place : load->buffer->bytes;
}

static void read_submit(struct server *server, struct server_load *load, bool local)
{
	struct io_request *request = &load->request;
	struct server_set *set = load->set;

	*request = (struct io_request){
		.offset = load->chunk * ARENA_CHUNK,
		.length = server_chunk_length(set, load->chunk),
		.buffer = read_bytes(load),
		.tag = load,
	};
	load->local = local;
	if (!local) {
		set->counts.read_requests++;
		set->counts.read_bytes += request->length;
		set->counts.missed += set->staged && load->order.owner == server->place.node;
		stats_serve();
		stats_add(STATS_STORAGE_REQUESTS, 1);
		stats_add(STATS_STORAGE_BYTES, request->length);
	}
	if (!io_submit(local ? &set->local : io_of(set), &request, 1))
		return;
	if (local)
		read_submit(server, load, false);
	else
		load_land(server, load, EAGAIN);
}

static bool read_start(struct server *server, struct server_load *load)
{
	load->buffer = server->reads < SERVER_READS ? server_buffer_take(server) : NULL;
	if (!load->buffer)
		return false;
	load->buffer->for_read = true;
	server->reads++;
	load->set->counts.alone += load->order.owner != server->place.node;
	place_take(server, load);
	load->queued = false;
	load->began = clock_now();
	load->next = server->under_way;
	server->under_way = load;
	load->set->used_at = load->began;
	read_submit(server, load, server_part_has(load->set, load->chunk));
	return true;
}

/* The bytes that have come belong to the snapshot if the file has not changed since. */
static void read_end(struct server *server, struct io_request *request)
{
	struct server_load *load = request->tag;
	struct server_set *set = load->set;
	int error = request->error;

	if (load->local && !server_part_came(set, request)) {
		read_submit(server, load, false);
		return;
	}
	if (!error && request->done < request->length) {
		if (request->offset + request->done < set->identity.size)
			error = EIO;
		memset(read_bytes(load) + request->done, 0, request->length - request->done);
	}
	if (!error && !server_set_holds(set))
		error = ESTALE;
	if (!error && !load->local)
		pace_read(&server->pace, clock_now() - load->began);
	load_land(server, load, error);
}

static bool reads_reap(struct server *server, struct io *io)
{
	struct io_request *done[SERVER_READS];
	size_t n = io->in_flight ? io_wait(io, done, 0, SERVER_READS) : 0;

	for (size_t i = 0; i < n; i++)
		read_end(server, done[i]);
	return n > 0;
}

static bool reads_step(struct server *server)
{
	bool any = false;

	for (struct server_set *set = server->sets; set; set = set->next) {
		any |= reads_reap(server, io_of(set));
		any |= reads_reap(server, &set->local);
	}
	return any;
}

/* --- the door -------------------------------------------------------------------------------- */

static bool ask_start(struct server *server, struct server_load *load)
{
	if (server->asks == SERVER_ASKS)
		return false;
	place_take(server, load);
	load->queued = false;
	load->began = clock_now();
	if (server_ask(server, load)) {
		load->next = server->under_way;
		server->under_way = load;
		server->asks++;
		return true;
	}
	load->alone = true;
	return false;
}

/* Starts a load, or puts it back at the head of its queue. */
static bool load_start(struct server *server, struct server_load *load, enum load_way way)
{
	struct server_queue *queue = load->urgent ? &server->urgent : &server->ahead;

	if (way == COMES_FROM_STORAGE ? read_start(server, load) : ask_start(server, load))
		return true;
	load->queued = true;
	load->next = queue->first;
	if (!queue->first)
		queue->last = &load->next;
	queue->first = load;
	return false;
}

/* After two late nodes, a chunk is read from storage. */
void server_load_pass(struct server *server, struct server_load *load, bool alone)
{
	server->asks--;
	list_remove(server->under_way, load, next);
	if (load->passed <= load->turn) /* a peer may have told of more nodes meanwhile */
		load->passed = load->turn + 1;
	load->alone = alone || ++load->late > 1;
	load->urgent = true;
	load_enqueue(server, load);
}

/* Also returns COMES_LATER if no buffer of the kind is free. */
static enum load_way way_now(struct server *server, struct server_load *load)
{
	enum load_way way = server_turn(server, load);
	bool full = way == COMES_FROM_STORAGE ? server->reads == SERVER_READS : server->asks == SERVER_ASKS;

	return full ? COMES_LATER : way;
}

/* Gives a load up that finds no room, or no memory for a buffer. Members and peers read the chunk
 * themselves. */
static void load_drop(struct server *server, struct server_queue *queue, struct server_load *load)
{
	queue_remove(queue, load);
	server_answer_all(server, load, ENOMEM);
	refuse(load);
	load_free(server, load);
}

static bool has_waited(const struct server_load *load, uint64_t now, uint64_t limit)
{
	return now - load->began > settings_patience(limit);
}

/* Starts the loads of a queue that can start. Loads that must wait for a buffer of their kind
 * stay. */
static bool queue_step(struct server *server, struct server_queue *queue, uint64_t now)
{
	struct server_load *load = queue->first, *next;
	bool any = false;

	for (; load && (server->reads < SERVER_READS || server->asks < SERVER_ASKS); load = next) {
		bool there = !server_missing(load->set, load->chunk) &&
			     server_answer_there(server, load);
		enum load_way way = there ? COMES_FROM_STORAGE : way_now(server, load);

		next = load->next;
		if (!there && way == COMES_LATER)
			continue;
		if (!there && !room_make(load, now) &&
		    (!load->asks || !has_waited(load, now, room_for_asks))) {
			if (server->ending ? !load->asks
					   : load->urgent && has_waited(load, now, room_limit))
				load_drop(server, queue, load);
			continue;
		}
		queue_remove(queue, load);
		any = true;
		if (there) {
			arena_answer(load->set->arena, load->chunk, false);
			load_free(server, load);
		} else if (!load_start(server, load, way)) {
			if (way == COMES_FROM_STORAGE && has_waited(load, now, room_limit))
				load_drop(server, queue, load);
			break;
		}
	}
	return any;
}

static bool wishes_step(struct server *server)
{
	bool any = false, urgent;
	uint64_t chunk;

	for (struct server_set *set = server->sets; set; set = set->next)
		while (set->serving && arena_wish_next(set->arena, &chunk, &urgent)) {
			any = true;
			set->used_at = clock_now();
			if (!server->ending && !server_want(server, set, chunk, urgent))
				arena_answer(set->arena, chunk, true);
		}
	return any;
}

/* Brings the named sets while there are no wishes. */
static bool lasting_step(struct server *server)
{
	if (server->ending || server->urgent.first || server->ahead.first)
		return false;
	for (struct server_set *set = server->sets; set; set = set->next) {
		uint64_t chunks = set->lasting ? arena_chunks(set->arena) : 0;

		while (set->next_own < chunks) {
			uint64_t chunk = set->next_own++;

			if (server_owner(set, chunk) == server->place.node)
				return server_want(server, set, chunk, false) != NULL;
		}
	}
	return false;
}

static void beat(struct server *server, uint64_t now)
{
	for (struct server_set *set = server->sets; set; set = set->next)
		if (set->loads && now - set->beat_at > beat_every) {
			set->beat_at = now;
			arena_beat(set->arena);
		}
}

bool server_loads_step(struct server *server, uint64_t now)
{
	bool any = wishes_step(server);

	any |= lasting_step(server);
	any |= reads_step(server);
	any |= server_questions_late(server, now);
	any |= queue_step(server, &server->urgent, now);
	any |= queue_step(server, &server->ahead, now);
	beat(server, now);
	return any;
}

bool server_is_idle(const struct server *server)
{
	return !server->under_way && !server->urgent.first && !server->ahead.first &&
	       wire_is_idle(&server->wire);
}
