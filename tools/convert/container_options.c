/* SPDX-License-Identifier: OLDAP-2.8 */
/* Lists the options of a container, and translates them to and from its header. */
#include "container/container_private.h"
#include "container_write_private.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

enum {
	THREADS_MOST = 1024,
	DICTIONARY_LEAST = 8,
};

static bool are_options_good(const struct container_write_options *options)
{
	if (options->level > ZSTD_maxCLevel() || options->level < ZSTD_minCLevel())
		return false;
	if (options->threads > THREADS_MOST)
		return false;
	if (!options->dictionary)
		return options->dictionary_size == 0;
	return options->dictionary_size >= DICTIONARY_LEAST &&
	       options->dictionary_size <= CONTAINER_DICTIONARY_MAX;
}

/* Makes the header and judges it by the reader's own rules. */
static int make_header(const struct container_write_options *options, uint8_t *header,
		       struct container_info *info)
{
	uint32_t flags = 0;

	if (options->dictionary)
		flags |= LAYOUT_DICTIONARY;
	if (options->format == FORMAT_1_0)
		flags |= LAYOUT_LMDB_1_0;
	if (options->relaid)
		flags |= LAYOUT_RELAID;
	if (options->long_distance)
		flags |= LAYOUT_LONG_DISTANCE;
	memset(header, 0, LAYOUT_END);
	put32(header, LAYOUT_SKIPPABLE);
	put32(header + 4, LAYOUT_END - LAYOUT_FRAME);
	put64(header + END_MAGIC, LAYOUT_HEADER_MAGIC);
	put16(header + END_MAJOR, LAYOUT_MAJOR);
	put16(header + END_MINOR, LAYOUT_MINOR);
	put32(header + HEADER_FLAGS, flags);
	put32(header + HEADER_PAGE_SIZE, options->page_size);
	put32(header + HEADER_CHUNK_SIZE, options->chunk_size);
	put64(header + HEADER_SIZE, options->size);
	put32(header + HEADER_LEVEL, (uint32_t)options->level);
	put32(header + HEADER_ZSTD_VERSION, ZSTD_versionNumber());
	put64(header + HEADER_SOURCE_TXNID, options->source.txnid);
	put64(header + HEADER_SOURCE_SIZE, options->source.size);
	memcpy(header + HEADER_SOURCE_HASH, options->source.hash, sizeof(options->source.hash));
	if (options->dictionary) {
		put32(header + HEADER_DICTIONARY_SIZE, (uint32_t)options->dictionary_size);
		put64(header + HEADER_DICTIONARY_HASH,
		      hash_bytes(options->dictionary, options->dictionary_size));
	}
	hash_seal(header, LAYOUT_END_HASH, 0);
	return container_parse_header(header, info) ? EINVAL : 0;
}

int options_settle(struct container_write_options *settled,
		   const struct container_write_options *options, uint8_t *header,
		   struct container_info *info)
{
	*settled = *options;
	if (!settled->chunk_size)
		settled->chunk_size = CONTAINER_CHUNK_DEFAULT;
	if (!settled->level)
		settled->level = ZSTD_CLEVEL_DEFAULT;
	return are_options_good(settled) ? make_header(settled, header, info) : EINVAL;
}
