/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shares out chunks to ranks.
 *
 * In each round every rank takes some neighbouring chunks; the shares of the ranks lie one behind
 * the other. So a sum over the ranks before gives the place of a rank's frames, and each rank's
 * write is one range. Rank 0 has the container's writer, which gets all frames, and the pages from
 * which it makes the index. Ranks agree once a round whether to go on.
 */
#include "convert_share.h"
#include "convert_chunks.h"
#include "convert_job.h"
#include "convert_skeleton.h"
#include "convert_unpack.h"

#include "util/hash.h"
#include "container_write.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
	ROUND_BYTES =
		8 << 20, /* of data that a rank takes in a round, or a chunk for each thread */
	BUFFER_ALIGNMENT = 4096,
};

/* The results of a chunk. */
struct chunk_slot {
	struct container_frame frame;
	uint8_t *bytes;  /* the frame, or the data */
	uint8_t *copies; /* numbers (8) and pages, one behind the other */
	size_t copies_size, copies_room;
	struct skeleton_leaf *leaves; /* room for one a page */
	size_t leaf_count;
};

struct share {
	struct convert *convert;
	const struct mpi_sharing *sharing;
	struct source *source;
	struct pack *pack; /* of rank 0 */
	struct container_write_options options;
	uint32_t chunk, page_size;
	uint64_t resumed;   /* bytes of data whose frames exist */
	uint64_t round;     /* chunks of a rank in a round */
	struct chunk_slot *slots; /* one for each of them */
	struct chunk_share mine;
	pthread_mutex_t lock; /* guards `spares` */
	struct spare_compressor *spares;
	uint8_t *out; /* of all slots, for one write */
	bool packing;
};

/* A thread's state during compression. */
struct spare_compressor {
	struct spare_compressor *next;
	struct container_compressor *compressor;
	uint8_t *picked;
};

static int share_fail(const struct share *share, int rc)
{
	return convert_fail(share->convert->target, rc);
}

static struct spare_compressor *spare_take(struct share *share)
{
	struct spare_compressor *spare;

	pthread_mutex_lock(&share->lock);
	spare = share->spares;
	if (spare)
		share->spares = spare->next;
	pthread_mutex_unlock(&share->lock);
	if (spare)
		return spare;
	spare = calloc(1, sizeof(*spare));
	if (!spare)
		return NULL;
	spare->picked = malloc(share->chunk / share->page_size / 8 + 1);
	if (spare->picked && !container_compressor_open(&spare->compressor, &share->options))
		return spare;
	free(spare->picked);
	free(spare);
	return NULL;
}

static void spare_give(struct share *share, struct spare_compressor *spare)
{
	pthread_mutex_lock(&share->lock);
	spare->next = share->spares;
	share->spares = spare;
	pthread_mutex_unlock(&share->lock);
}

/* Keeps the picked pages. Returns 0 or ENOMEM. */
static int copies_keep(const struct share *share, struct chunk_slot *slot, const uint8_t *data,
		       size_t length, uint64_t offset, const uint8_t *picked)
{
	size_t size = share->page_size, needed = 0, n = length / size;

	for (size_t i = 0; i < n; i++)
		needed += picked[i / 8] >> i % 8 & 1 ? sizeof(uint64_t) + size : 0;
	if (needed > slot->copies_room) {
		free(slot->copies);
		slot->copies = malloc(needed);
		slot->copies_room = slot->copies ? needed : 0;
	}
	slot->copies_size = 0;
	if (needed && !slot->copies)
		return ENOMEM;
	for (size_t i = 0; i < n; i++) {
		uint64_t number = offset / size + i;

		if (!(picked[i / 8] >> i % 8 & 1))
			continue;
		memcpy(slot->copies + slot->copies_size, &number, sizeof(number));
		memcpy(slot->copies + slot->copies_size + sizeof(number), data + i * size, size);
		slot->copies_size += sizeof(number) + size;
	}
	return 0;
}

static struct chunk_slot *slot_of(const struct share *share, uint64_t offset)
{
	return &share->slots[offset / share->chunk - share->mine.first];
}

static int chunk_pack(void *to, uint8_t *buffer, uint64_t offset, size_t length)
{
	struct share *share = to;
	struct chunk_slot *slot = slot_of(share, offset);
	struct spare_compressor *spare = spare_take(share);
	int rc = spare ? source_read(share->source, buffer, share->chunk, offset) : ENOMEM;

	if (rc) {
		if (spare)
			spare_give(share, spare);
		return spare ? source_fail(share->source, offset, rc) : share_fail(share, rc);
	}
	slot->frame = (struct container_frame){.size = (uint32_t)length};
	if (offset < share->resumed)
		slot->frame.hash = hash_bytes(buffer, length);
	else
		rc = container_compress(spare->compressor, buffer, length, slot->bytes,
					&slot->frame);
	container_select(share->options.format, share->page_size, buffer, length, offset,
			 spare->picked);
	if (!rc)
		rc = copies_keep(share, slot, buffer, length, offset, spare->picked);
	slot->leaf_count = skeleton_leaves(share->options.format, share->page_size, buffer, length,
					   offset, slot->leaves);
	spare_give(share, spare);
	return rc ? share_fail(share, rc) : 0;
}

static int chunk_read(void *to, uint8_t *buffer, uint64_t offset, size_t length)
{
	struct share *share = to;
	struct chunk_slot *slot = slot_of(share, offset);
	int rc = source_read(share->source, buffer, share->chunk, offset);

	if (rc)
		return source_fail(share->source, offset, rc);
	memcpy(slot->bytes, buffer, length);
	slot->frame.length = (uint32_t)length;
	return 0;
}

/* ---- rank 0's part ---- */

static int frames_take(struct share *share, const struct container_frame *frames, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < n && !rc; i++)
		rc = frames[i].length
			     ? container_write_frame(pack_writer(share->pack), NULL, &frames[i])
			     : pack_look(share->pack, frames[i].hash, frames[i].size);
	return rc;
}

static int copies_take(struct share *share, const uint8_t *copies, size_t length)
{
	size_t size = sizeof(uint64_t) + share->page_size;
	int rc = 0;

	for (size_t at = 0; at + size <= length && !rc; at += size) {
		const uint8_t *page = copies + at + sizeof(uint64_t);
		uint64_t number;

		memcpy(&number, copies + at, sizeof(number));
		rc = skeleton_add_page(pack_skeleton(share->pack), number, page);
		if (!rc && number * share->page_size >= share->resumed)
			rc = container_write_copy(pack_writer(share->pack), number, page);
	}
	return rc;
}

/* Brings one of the lists of all slots of all ranks to rank 0. */
static int lists_collect(struct share *share,
			 size_t (*list)(const struct chunk_slot *, const void **), void **all,
			 size_t *length)
{
	size_t mine = 0;
	uint8_t *bytes;
	const void *part;
	int rc;

	for (uint64_t i = 0; i < share->mine.count; i++)
		mine += list(&share->slots[i], &part);
	bytes = malloc(mine + 1);
	if (share->sharing->agree(bytes ? 0 : ENOMEM)) {
		free(bytes);
		*all = NULL;
		return ENOMEM;
	}
	mine = 0;
	for (uint64_t i = 0; i < share->mine.count; i++) {
		size_t n = list(&share->slots[i], &part);

		if (n)
			memcpy(bytes + mine, part, n);
		mine += n;
	}
	rc = share->sharing->collect(bytes, mine, all, length);
	free(bytes);
	return rc;
}

static size_t list_frames(const struct chunk_slot *slot, const void **bytes)
{
	*bytes = &slot->frame;
	return sizeof(slot->frame);
}

static size_t list_copies(const struct chunk_slot *slot, const void **bytes)
{
	*bytes = slot->copies;
	return slot->copies_size;
}

static size_t list_leaves(const struct chunk_slot *slot, const void **bytes)
{
	*bytes = slot->leaves;
	return slot->leaf_count * sizeof(*slot->leaves);
}

static int lists_take(struct share *share)
{
	size_t frames_size, copies_size, leaves_size;
	void *frames = NULL, *copies = NULL, *leaves = NULL;
	int rc = lists_collect(share, list_frames, &frames, &frames_size);

	if (!rc)
		rc = lists_collect(share, list_copies, &copies, &copies_size);
	if (!rc)
		rc = lists_collect(share, list_leaves, &leaves, &leaves_size);
	if (!rc && share->pack) {
		rc = frames_take(share, frames, frames_size / sizeof(struct container_frame));
		if (!rc)
			rc = copies_take(share, copies, copies_size);
		if (!rc)
			rc = skeleton_add_leaves(pack_skeleton(share->pack), leaves, leaves_size);
	}
	free(frames);
	free(copies);
	free(leaves);
	return rc;
}

/* ---- rounds ---- */

/* Writes the slots' contents as one range, behind the ranges of lower ranks. *offset moves behind
 * the ranges of all ranks. Returns an errno. */
static int slots_write(struct share *share, uint64_t *offset)
{
	uint64_t before, all;
	size_t length = 0;
	int rc;

	for (uint64_t i = 0; i < share->mine.count; i++) {
		const struct chunk_slot *slot = &share->slots[i];

		memcpy(share->out + length, slot->bytes, slot->frame.length);
		length += slot->frame.length;
	}
	rc = share->sharing->place(length, &before, &all);
	if (!rc)
		rc = share->sharing->write(share->out, length, *offset + before);
	*offset += all;
	return rc;
}

static struct chunk_share round_share(const struct share *share, uint64_t first, uint64_t chunks)
{
	uint64_t rank = (uint64_t)job_place(share->convert).rank;
	uint64_t begin = first + rank * share->round, left = begin < chunks ? chunks - begin : 0;

	return (struct chunk_share){begin, left < share->round ? left : share->round};
}

static int round_run(struct share *share, uint64_t first, uint64_t *offset)
{
	struct convert *convert = share->convert;
	struct chunk_work work = {
		.size = share->source->size,
		.chunk = share->chunk,
		.buffers = 1,
		.work = share->packing ? chunk_pack : chunk_read,
		.to = share,
	};
	uint64_t chunks = (work.size + work.chunk - 1) / work.chunk;
	uint64_t before = *offset, data;
	int rc;

	share->mine = round_share(share, first, chunks);
	rc = job_agree(convert, share->mine.count ? chunks_run_share(convert, &work, share->mine)
						  : convert_interrupted());
	if (rc)
		return rc;
	/* All ranks learn of one failure, the user once. */
	rc = job_agree(convert, slots_write(share, offset));
	if (!rc && share->packing)
		rc = job_agree(convert, lists_take(share));
	if (rc)
		return job_leads(convert) ? share_fail(share, rc) : TOOL_FAILED;
	data = work.size - first * work.chunk;
	if (data > (uint64_t)job_place(convert).ranks * share->round * work.chunk)
		data = (uint64_t)job_place(convert).ranks * share->round * work.chunk;
	progress_count(&convert->progress, data, *offset - before);
	progress_show(&convert->progress);
	return 0;
}

static int slots_make(struct share *share)
{
	size_t bound = share->packing ? container_frame_bound(share->chunk) : share->chunk;
	unsigned threads = share->convert->threads;

	share->round = ROUND_BYTES / share->chunk;
	if (share->round < threads)
		share->round = threads;
	share->slots = calloc(share->round, sizeof(*share->slots));
	share->out = malloc(share->round * bound);
	if (!share->slots || !share->out)
		return ENOMEM;
	for (uint64_t i = 0; i < share->round; i++) {
		struct chunk_slot *slot = &share->slots[i];

		slot->bytes = malloc(bound);
		if (share->packing)
			slot->leaves =
				calloc(share->chunk / share->page_size, sizeof(*slot->leaves));
		if (!slot->bytes || (share->packing && !slot->leaves))
			return ENOMEM;
	}
	return 0;
}

static void share_close(struct share *share)
{
	for (uint64_t i = 0; share->slots && i < share->round; i++) {
		free(share->slots[i].bytes);
		free(share->slots[i].copies);
		free(share->slots[i].leaves);
	}
	while (share->spares) {
		struct spare_compressor *spare = share->spares;

		share->spares = spare->next;
		container_compressor_close(spare->compressor);
		free(spare->picked);
		free(spare);
	}
	free(share->slots);
	free(share->out);
	pthread_mutex_destroy(&share->lock);
}

/* Runs the rounds from `offset` of the target on. */
static int share_run(struct share *share, const struct target *target, uint64_t offset)
{
	struct convert *convert = share->convert;
	uint64_t ranks = (uint64_t)job_place(convert).ranks;
	int rc = slots_make(share), closed;

	rc = job_agree(convert, rc ? share_fail(share, rc) : 0);
	if (!rc) {
		rc = share->sharing->open(target->partial);
		rc = job_agree(convert, rc ? convert_fail(target->partial, rc) : 0);
	}
	for (uint64_t first = 0; !rc && first * share->chunk < share->source->size;
	     first += ranks * share->round)
		rc = round_run(share, first, &offset);
	closed = share->sharing->close();
	closed = job_agree(convert, closed ? convert_fail(target->partial, closed) : 0);
	share_close(share);
	return rc ? rc : closed;
}

int share_pack(struct convert *convert, const struct target *target, struct source *source,
	       struct pack *pack)
{
	struct share share = {
		.convert = convert,
		.sharing = job_sharing(convert),
		.source = source,
		.pack = pack,
		.page_size = source->page_size,
		.packing = true,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	struct {
		uint64_t offset, resumed;
	} at = {0, 0};
	void *dictionary = NULL;
	int rc = pack_options(convert, target, source, source->size, false, &share.options,
			      &dictionary);

	share.chunk = share.options.chunk_size;
	if (!rc && pack) {
		at.resumed = pack_resumed(pack);
		rc = container_write_offset(pack_writer(pack), &at.offset);
		rc = rc ? convert_fail(target->partial, rc) : 0;
	}
	rc = job_agree(convert, rc);
	if (!rc)
		rc = job_agree(convert, job_tell(convert, &at, sizeof(at)));
	share.resumed = at.resumed;
	if (!rc)
		rc = share_run(&share, target, at.offset);
	if (!rc && pack)
		skeleton_end(pack_skeleton(pack), source->size / source->page_size);
	free(dictionary);
	return rc;
}

int share_unpack(struct convert *convert, const struct target *target, struct source *source)
{
	struct share share = {
		.convert = convert,
		.sharing = job_sharing(convert),
		.source = source,
		.chunk = unpack_chunk(source),
		.page_size = source->page_size,
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};

	return share_run(&share, target, 0);
}
