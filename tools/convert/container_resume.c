/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds out how much of a partial container is good.
 *
 * There is no index yet, so the walk goes over the frames from the first on. Each frame states its
 * own size. The walk decodes its data, to check zstd's checksum in it and to compute ours, which
 * the index will need. The writer goes on at the first frame that is incomplete or wrong. A frame
 * that is right was made of the same data with the same options, for the header says the same.
 */
#include "container/container_private.h"
#include "container_write_private.h"

#include <errno.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum {
	CHECKSUM_FLAG = 0x04, /* RFC 8878: in the byte behind the magic */
	WALK_BYTES = 4 << 20, /* read at a time, or one frame */
};

/* The part of the file in memory, which moves with the walk. */
struct resume_walk {
	int fd;
	ZSTD_DCtx *zstd;
	ZSTD_DDict *dictionary;
	uint8_t *bytes, *data, *picked;
	size_t room, length; /* of `bytes`: allocated, and filled */
	uint64_t offset;     /* of bytes[0] in the file */
};

static ssize_t read_at(int fd, void *bytes, size_t length, uint64_t offset)
{
	size_t done = 0;

	while (done < length) {
		ssize_t n = pread(fd, (char *)bytes + done, length - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* Checks that the file begins as this container does, as far as it goes. *fresh: the file ends
 * before the first chunk. */
static int judge_beginning(const struct container_writer *writer, bool *fresh)
{
	size_t size = (size_t)writer->info.data_offset;
	uint8_t *expected = calloc(2, size), *found = expected + size;
	int rc = expected ? 0 : ENOMEM;
	ssize_t n = 0;

	if (rc)
		return rc;
	memcpy(expected, writer->header, LAYOUT_END);
	if (writer->options.dictionary) {
		put32(expected + LAYOUT_END, LAYOUT_SKIPPABLE);
		put32(expected + LAYOUT_END + 4, writer->info.dictionary_size);
		memcpy(expected + LAYOUT_END + LAYOUT_FRAME, writer->options.dictionary,
		       writer->options.dictionary_size);
	}
	n = read_at(writer->fd, found, size, 0);
	if (n < 0)
		rc = errno;
	else if (memcmp(found, expected, (size_t)n) != 0)
		rc = MDB_INCOMPATIBLE;
	*fresh = n < (ssize_t)size;
	free(expected);
	return rc;
}

static int walk_open(struct resume_walk *walk, const struct container_writer *writer)
{
	const struct container_write_options *options = &writer->options;

	memset(walk, 0, sizeof(*walk));
	walk->fd = writer->fd;
	walk->offset = writer->info.data_offset;
	walk->room = container_frame_bound(options->chunk_size);
	if (walk->room < WALK_BYTES)
		walk->room = WALK_BYTES;
	walk->bytes = malloc(walk->room);
	walk->data = malloc(options->chunk_size);
	walk->picked = malloc(options->chunk_size / options->page_size / 8 + 1);
	walk->zstd = ZSTD_createDCtx();
	if (options->dictionary)
		walk->dictionary = ZSTD_createDDict(options->dictionary, options->dictionary_size);
	if (!walk->bytes || !walk->data || !walk->picked || !walk->zstd ||
	    !walk->dictionary != !options->dictionary)
		return ENOMEM;
	return 0;
}

static void walk_close(struct resume_walk *walk)
{
	ZSTD_freeDCtx(walk->zstd);
	ZSTD_freeDDict(walk->dictionary);
	free(walk->bytes);
	free(walk->data);
	free(walk->picked);
}

/* Brings `bound` bytes from `offset` on into memory, or as many as the file has. */
static int walk_to(struct resume_walk *walk, uint64_t offset, size_t bound, const uint8_t **bytes,
		   size_t *length)
{
	size_t before = (size_t)(offset - walk->offset);

	if (before > walk->length || walk->length - before < bound) {
		ssize_t n = read_at(walk->fd, walk->bytes, walk->room, offset);

		if (n < 0)
			return errno;
		walk->offset = offset;
		walk->length = (size_t)n;
		before = 0;
	}
	*bytes = walk->bytes + before;
	*length = walk->length - before;
	return 0;
}

/* Reads the frame of the next chunk. Returns EBADMSG if there is none, or only a part of it. */
static int walk_frame(struct resume_walk *walk, const struct container_writer *writer,
		      struct container_frame *frame)
{
	uint64_t number = writer->data / writer->info.chunk_size;
	const uint8_t *bytes = NULL;
	size_t bound, length = 0, n;
	int rc;

	frame->size = container_chunk_size(&writer->info, number);
	bound = container_frame_bound(frame->size);
	rc = walk_to(walk, writer->offset, bound, &bytes, &length);
	if (rc)
		return rc;
	n = ZSTD_findFrameCompressedSize(bytes, length);
	if (ZSTD_isError(n) || n > bound || !(bytes[4] & CHECKSUM_FLAG))
		return EBADMSG;
	rc = frame_decode(walk->zstd, walk->dictionary, bytes, n, walk->data, frame->size);
	if (rc)
		return rc;
	frame->length = (uint32_t)n;
	frame->check = (uint32_t)hash_bytes(bytes, n);
	frame->hash = hash_bytes(walk->data, frame->size);
	return 0;
}

static int walk_chunks(struct container_writer *writer)
{
	struct container_frame frame;
	struct resume_walk walk;
	int rc = walk_open(&walk, writer);

	while (!rc && writer->data < writer->options.size) {
		uint64_t offset = writer->data;

		rc = walk_frame(&walk, writer, &frame);
		if (!rc)
			rc = writer_add(writer, &frame);
		if (rc)
			break;
		container_select(writer->options.format, writer->options.page_size, walk.data,
				 frame.size, offset, walk.picked);
		rc = collect_picked(&writer->copies, walk.data, frame.size, offset, walk.picked);
	}
	walk_close(&walk);
	return rc == EBADMSG ? 0 : rc;
}

int container_write_resume(struct container_writer **writer, int fd,
			   const struct container_write_options *options, uint64_t *done)
{
	struct container_writer *made;
	bool fresh;
	int rc = writer_new(&made, fd, options);

	if (rc)
		return rc;
	rc = judge_beginning(made, &fresh);
	if (!rc && !fresh) {
		made->offset = made->info.data_offset;
		made->begun = true;
		rc = walk_chunks(made);
	}
	if (!rc && ftruncate(fd, (off_t)made->offset) != 0)
		rc = errno;
	if (rc) {
		container_write_close(made);
		return rc;
	}
	made->given = made->data;
	*done = made->data;
	*writer = made;
	return 0;
}
