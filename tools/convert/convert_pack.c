/* SPDX-License-Identifier: OLDAP-2.8 */
/* Packs data: feeds the container's writer and the record index. */
#include "convert_pack.h"
#include "convert_dictionary.h"
#include "convert_skeleton.h"

#include "container/container_layout.h"
#include "container_write.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum { SCRATCH = 1 << 20 /* bytes of room for data that the target already has */ };

struct pack {
	struct convert *convert;
	struct target *target;
	struct container_writer *writer;
	struct skeleton *skeleton;
	void *dictionary;
	void *scratch;
	void *room;        /* from pack_room() */
	uint64_t size, at; /* bytes of data: in all, and given */
	uint64_t resumed;
	uint64_t looked;            /* resumed bytes that were compared with the source */
	uint64_t content, expected; /* hash_chain() of the source's compared bytes, and of all
				       the target's */
	XXH3_state_t hash;          /* of the chunk that is compared */
	uint64_t counted;           /* bytes of the container that progress has counted */
	uint32_t chunk_size;
	uint64_t tree;
};

static int pack_fail(const struct pack *pack, int rc)
{
	return convert_fail(pack->target->path, rc);
}

static int skeleton_begin(struct pack *pack, const struct source *source)
{
	int leaves = target_scratch(pack->target);
	int pages = leaves < 0 ? -1 : target_scratch(pack->target);
	int rc;

	if (pages < 0) {
		if (leaves >= 0)
			close(leaves);
		return TOOL_FAILED;
	}
	rc = skeleton_open(&pack->skeleton, source->format, source->page_size, leaves, pages);
	return rc ? pack_fail(pack, rc) : 0;
}

/* Begins the writer. Resumes the existing file if that is the beginning of this container. */
static int writer_begin(struct pack *pack, const struct container_write_options *options)
{
	int fd = pack->target->fd, rc;

	if (!pack->target->resumed) {
		rc = container_write_open(&pack->writer, fd, options);
		return rc ? pack_fail(pack, rc) : 0;
	}
	rc = container_write_resume(&pack->writer, fd, options, &pack->resumed);
	if (!rc)
		pack->expected = container_write_content(pack->writer);
	if (rc == MDB_INCOMPATIBLE) {
		tool_complain(&convert_tool,
			      "%s: begun with another source or other options; it begins anew",
			      pack->target->partial);
		rc = ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET) ? errno : 0;
		if (!rc)
			rc = container_write_open(&pack->writer, fd, options);
	}
	return rc ? pack_fail(pack, rc) : 0;
}

uint32_t pack_chunk_size(const struct convert *convert)
{
	return (uint32_t)(convert->chunk_size ? convert->chunk_size : CONTAINER_CHUNK_DEFAULT);
}

int pack_options(const struct convert *convert, const struct target *target, struct source *source,
		 uint64_t size, bool relaid, struct container_write_options *options,
		 void **dictionary)
{
	int rc;

	*options = (struct container_write_options){
		.size = size,
		.format = source->format,
		.page_size = source->page_size,
		.chunk_size = pack_chunk_size(convert),
		.level = convert->level,
		.long_distance = convert->window_log != 0,
		.relaid = relaid || source_is_relaid(source),
		/* One thread is the caller's alone. */
		.threads = convert->threads > 1 ? convert->threads : 0,
		.source = source->identity,
		.temporary = target->directory,
	};
	rc = dictionary_get(convert, source, dictionary, &options->dictionary_size);
	options->dictionary = *dictionary;
	return rc;
}

int pack_open(struct pack **result, struct convert *convert, struct target *target,
	      struct source *source, uint64_t size, bool relaid)
{
	struct pack *pack = calloc(1, sizeof(*pack));
	struct container_write_options options;
	int rc;

	*result = NULL;
	if (!pack)
		return convert_fail(target->path, ENOMEM);
	*pack = (struct pack){
		.convert = convert,
		.target = target,
		.size = size,
		.scratch = malloc(SCRATCH),
	};
	rc = pack->scratch ? 0 : pack_fail(pack, ENOMEM);
	if (!rc)
		rc = pack_options(convert, target, source, size, relaid, &options,
				  &pack->dictionary);
	if (!rc)
		pack->chunk_size = options.chunk_size;
	XXH3_64bits_reset(&pack->hash);
	if (!rc)
		rc = skeleton_begin(pack, source);
	if (!rc)
		rc = writer_begin(pack, &options);
	if (rc) {
		pack_close(pack);
		return rc;
	}
	*result = pack;
	return 0;
}

struct container_writer *pack_writer(const struct pack *pack)
{
	return pack->writer;
}

struct skeleton *pack_skeleton(const struct pack *pack)
{
	return pack->skeleton;
}

uint64_t pack_resumed(const struct pack *pack)
{
	return pack->resumed;
}

int pack_look(struct pack *pack, uint64_t hash, size_t length)
{
	pack->content = hash_chain(pack->content, hash);
	pack->looked += length;
	if (pack->looked < pack->resumed || pack->content == pack->expected)
		return 0;
	progress_clear(&pack->convert->progress);
	tool_complain(&convert_tool,
		      "%s: begun with other data of the same shape: convert again without --resume",
		      pack->target->partial);
	return TOOL_FAILED;
}

/* The header describes the source by its meta pages, which are equal in two data sets of one shape.
 * The source is read anyway, for the index, so the chunks in the target are compared with it. */
static int look(struct pack *pack, const uint8_t *bytes, size_t length)
{
	int rc = 0;

	for (uint64_t at = pack->at; length && !rc;) {
		uint64_t end = (at / pack->chunk_size + 1) * pack->chunk_size;
		size_t n;

		end = end < pack->resumed ? end : pack->resumed;
		n = length < end - at ? length : (size_t)(end - at);
		XXH3_64bits_update(&pack->hash, bytes, n);
		at += n;
		bytes += n;
		length -= n;
		if (at < end)
			break;
		rc = pack_look(pack, XXH3_64bits_digest(&pack->hash), (size_t)(at - pack->looked));
		XXH3_64bits_reset(&pack->hash);
	}
	return rc;
}

int pack_room(struct pack *pack, void **buffer, size_t *length)
{
	int rc;

	if (pack->at < pack->resumed) {
		*buffer = pack->scratch;
		*length = pack->resumed - pack->at < SCRATCH ? (size_t)(pack->resumed - pack->at)
							     : SCRATCH;
	} else {
		rc = container_write_buffer(pack->writer, buffer, length);
		if (rc)
			return pack_fail(pack, rc);
	}
	pack->room = *buffer;
	return 0;
}

static void pack_count(struct pack *pack, size_t length)
{
	uint64_t written = container_write_progress(pack->writer).written;

	pack->at += length;
	progress_count(&pack->convert->progress, length,
		       written > pack->counted ? written - pack->counted : 0);
	pack->counted = written;
	progress_show(&pack->convert->progress);
}

int pack_filled(struct pack *pack, size_t length)
{
	int rc = skeleton_feed(pack->skeleton, pack->room, length);
	bool is_there = pack->at < pack->resumed;

	if (!rc && !is_there)
		rc = container_write_commit(pack->writer, length);
	if (rc)
		return pack_fail(pack, rc);
	rc = is_there ? look(pack, pack->room, length) : 0;
	if (rc)
		return rc;
	pack_count(pack, length);
	return convert_interrupted();
}

int pack_bytes(struct pack *pack, const void *bytes, size_t length)
{
	size_t known = 0;
	int rc = skeleton_feed(pack->skeleton, bytes, length);

	if (pack->at < pack->resumed)
		known = pack->resumed - pack->at < length ? (size_t)(pack->resumed - pack->at)
							  : length;
	if (!rc && known < length)
		rc = container_write_bytes(pack->writer, (const char *)bytes + known,
					   length - known);
	if (rc)
		return pack_fail(pack, rc);
	rc = look(pack, bytes, known);
	if (rc)
		return rc;
	pack_count(pack, length);
	return convert_interrupted();
}

static int index_tree(void *to, const void *name, size_t name_size, uint16_t flags)
{
	struct pack *pack = to;

	return container_write_tree(pack->writer, name, name_size, flags, &pack->tree);
}

static int note_leaf(void *to, uint64_t page, uint64_t records)
{
	struct pack *pack = to;

	pack->convert->records += records;
	return container_write_leaf(pack->writer, pack->tree, page, records);
}

int pack_finish(struct pack *pack)
{
	const struct skeleton_listener listener = {index_tree, note_leaf, pack};
	bool damaged;
	int rc = skeleton_walk(pack->skeleton, &listener, &damaged);

	if (!rc)
		rc = container_write_finish(pack->writer);
	if (rc)
		return pack_fail(pack, rc);
	if (!damaged)
		return 0;
	pack->convert->damaged++;
	progress_clear(&pack->convert->progress);
	tool_complain(&convert_tool,
		      "%s: its trees are damaged: every byte is converted, but there "
		      "is no record index",
		      pack->convert->sources[0]);
	return TOOL_PROBLEM;
}

uint64_t pack_size(const struct pack *pack)
{
	return pack->size;
}

uint64_t pack_chunks(const struct pack *pack)
{
	return (pack->size + pack->chunk_size - 1) / pack->chunk_size;
}

void pack_close(struct pack *pack)
{
	if (!pack)
		return;
	container_write_close(pack->writer);
	skeleton_close(pack->skeleton);
	free(pack->dictionary);
	free(pack->scratch);
	free(pack);
}
