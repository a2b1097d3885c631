/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a container's parts in order, and names them in findings. */
#include "check_container.h"

#include "tool_common.h"

#include "container/container.h"
#include "format/layout.h"

#include <errno.h>
#include <inttypes.h>
#include <lmdb.h>
#include <stdlib.h>
#include <string.h>

static const char label[] = "container";

static int check_chunk(struct check_report *report, struct io *io, uint64_t number, uint8_t *buffer)
{
	const struct container_info *info = container_info(io);
	uint64_t begin = number * info->chunk_size;
	struct container_chunk chunk;
	uint64_t page;
	size_t done;
	int rc = container_chunk(io, number, &chunk);

	if (rc == MDB_CORRUPTED) {
		check_found(report, CHECK_DAMAGE, label, 0, "chunk %" PRIu64 " has no index entry",
			    number);
		return 0;
	}
	if (rc)
		return rc;
	rc = io_read(io, buffer, chunk.size, begin, &done);
	if (rc == EBADMSG || (!rc && done != chunk.size)) {
		check_found(report, CHECK_DAMAGE, label, chunk.offset,
			    "chunk %" PRIu64 " (%u bytes) is damaged: pages %" PRIu64
			    " to %" PRIu64,
			    number, chunk.length, begin / info->page_size,
			    (begin + chunk.size - 1) / info->page_size);
		return 0;
	}
	if (!rc)
		rc = container_check_copies(io, buffer, chunk.size, begin, &page);
	if (rc == MDB_CORRUPTED) {
		check_found(report, CHECK_DAMAGE, label, chunk.offset,
			    "the index has a copy of page %" PRIu64 " that is not like it", page);
		return 0;
	}
	return rc;
}

/* Compares the data's first pages with the origin that the container states. */
static int check_identity(struct check_report *report, struct io *io)
{
	static const uint8_t unknown[sizeof(((struct container_source *)0)->hash)];
	const struct container_info *info = container_info(io);
	size_t size = FORMAT_METAS * (size_t)info->page_size, done;
	uint8_t hash[sizeof(unknown)], *pages;
	int rc;

	if (info->relaid || !memcmp(info->source.hash, unknown, sizeof(unknown)) ||
	    info->size < size)
		return 0;
	pages = malloc(size);
	if (!pages)
		return ENOMEM;
	rc = io_read(io, pages, size, 0, &done);
	if (!rc) {
		container_source_hash(pages, size, hash);
		if (memcmp(hash, info->source.hash, sizeof(hash)) != 0)
			check_found(report, CHECK_DAMAGE, label, 0,
				    "the data is not from the file that it is said to be from");
	}
	free(pages);
	return rc == EBADMSG ? 0 : rc;
}

int check_container(struct check_report *report, struct io *io,
		    void (*progress)(uint64_t done, uint64_t all))
{
	const struct container_info *info = container_info(io);
	uint8_t *buffer = malloc(info->chunk_size);
	uint64_t bad = 0;
	int rc = buffer ? container_check_index(io, &bad) : ENOMEM;

	if (rc == MDB_CORRUPTED) {
		check_found(report, CHECK_DAMAGE, label, bad, "the index is damaged");
		rc = 0;
	}
	for (uint64_t i = 0; i < info->chunks && !rc; i++) {
		rc = check_chunk(report, io, i, buffer);
		if (tool_signal)
			rc = EINTR;
		progress(i + 1, info->chunks);
	}
	if (!rc)
		rc = check_identity(report, io);
	free(buffer);
	return rc;
}
