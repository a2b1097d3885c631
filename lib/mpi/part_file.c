/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes, checks and looks up the head and rows of a node's part of a data set in a file. */
#include "config.h"
#include "mpi/part_file.h"

#include "arena/arena.h"
#include "util/hash.h"
#include "util/checked.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	HEAD_NODE = 8,
	HEAD_NODES = 12,
	HEAD_SIZE = 16,
	HEAD_ORIGINAL = 24,
	HEAD_COUNT = 88,
	HEAD_HASH = 96,
	HEAD_END = 104,
};

static const char magic[HEAD_NODE] = {'l', 'm', 'd', 'b', 'i', 'o', 'P', '2'};

struct part_row {
	uint64_t chunk, hash;
};

void part_file_name(const struct part_identity *identity, char name[PART_NAME])
{
	snprintf(name, PART_NAME, "part-%d-of-%d", identity->node, identity->nodes);
}

uint64_t part_file_head(uint64_t size)
{
	return round_up(size, ARENA_BLOCK);
}

uint64_t part_file_length(uint64_t size, uint64_t count)
{
	return part_file_head(size) + HEAD_END + count * sizeof(struct part_row);
}

static uint64_t chunk_length(uint64_t size, uint64_t chunk)
{
	uint64_t left = size - chunk * ARENA_CHUNK;

	return left < ARENA_CHUNK ? left : ARENA_CHUNK;
}

int part_file_put(int fd, uint64_t size, uint64_t index, uint64_t chunk, const void *bytes)
{
	uint64_t length = chunk_length(size, chunk);
	struct part_row row = {.chunk = chunk, .hash = hash_bytes(bytes, length)};
	int rc = whole_write(fd, bytes, length, chunk * ARENA_CHUNK);

	return rc ? rc : whole_write(fd, &row, sizeof(row), part_file_length(size, index));
}

static void head_make(uint8_t head[HEAD_END], const struct part_identity *identity,
		      const struct part_row *rows, uint64_t count)
{
	struct identity original = identity_job(&identity->original);

	memcpy(head, magic, sizeof(magic));
	store32(head + HEAD_NODE, (uint32_t)identity->node);
	store32(head + HEAD_NODES, (uint32_t)identity->nodes);
	store64(head + HEAD_SIZE, identity->size);
	memcpy(head + HEAD_ORIGINAL, &original, sizeof(original));
	store64(head + HEAD_COUNT, count);
	store64(head + HEAD_HASH,
		hash_seeded(rows, count * sizeof(*rows), hash_bytes(head, HEAD_HASH)));
}

/* Reads the rows of `count` chunks, malloc'ed. Returns 0, EBADMSG (these are no rows) or an
 * errno. */
static int rows_read(int fd, uint64_t size, uint64_t count, struct part_row **rows)
{
	uint64_t chunks = (size + ARENA_CHUNK - 1) / ARENA_CHUNK;
	int rc;

	*rows = NULL;
	if (count > chunks)
		return EBADMSG;
	*rows = malloc(count * sizeof(**rows) + 1);
	if (!*rows)
		return ENOMEM;
	rc = whole_read(fd, *rows, count * sizeof(**rows), part_file_length(size, 0), EBADMSG);
	for (uint64_t i = 0; i < count && !rc; i++)
		if ((*rows)[i].chunk >= chunks || (i && (*rows)[i].chunk <= (*rows)[i - 1].chunk))
			rc = EBADMSG;
	return rc;
}

int part_file_seal(int fd, const struct part_identity *identity, uint64_t count)
{
	uint8_t head[HEAD_END];
	struct part_row *rows;
	int rc = rows_read(fd, identity->size, count, &rows);

	if (!rc) {
		head_make(head, identity, rows, count);
		rc = whole_write(fd, head, sizeof(head), part_file_head(identity->size));
	}
	free(rows);
	return rc == EBADMSG ? EIO : rc;
}

static int part_judge(struct part_file *part, const struct part_identity *identity)
{
	uint8_t head[HEAD_END], right[HEAD_END];
	struct stat st;
	int rc = guarded_file(part->fd);

	if (!rc && fstat(part->fd, &st))
		rc = errno;
	if (!rc)
		rc = whole_read(part->fd, head, sizeof(head), part_file_head(part->size), EBADMSG);
	if (rc)
		return rc;
	part->count = load64(head + HEAD_COUNT);
	rc = rows_read(part->fd, part->size, part->count, &part->rows);
	if (rc)
		return rc;
	head_make(right, identity, part->rows, part->count);
	if (memcmp(head, right, sizeof(head)) ||
	    (uint64_t)st.st_size != part_file_length(part->size, part->count))
		rc = EBADMSG;
	return rc;
}

int part_file_open(struct part_file *part, const char *directory,
		   const struct part_identity *identity)
{
	char name[STAGED_NAME], file[PART_NAME];
	struct guarded top, place = {.fd = -1};
	int rc;

	*part = (struct part_file){.fd = -1, .size = identity->size};
	rc = guarded_open(&top, directory, false);
	if (rc)
		return rc;
	staged_name(&identity->original, name);
	part_file_name(identity, file);
	rc = guarded_below(&place, &top, name, false);
	guarded_close(&top);
	if (rc)
		return rc;
	/* Any process may have made the file. O_NONBLOCK: the open must not wait for a FIFO. */
	part->fd = openat(place.fd, file,
			  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	rc = part->fd < 0 ? errno : part_judge(part, identity);
	guarded_close(&place);
	if (rc)
		part_file_close(part);
	return rc;
}

static const struct part_row *row_find(const struct part_file *part, uint64_t chunk)
{
	uint64_t low = 0, high = part->count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (part->rows[middle].chunk < chunk)
			low = middle + 1;
		else
			high = middle;
	}
	return low < part->count && part->rows[low].chunk == chunk ? &part->rows[low] : NULL;
}

bool part_file_has(const struct part_file *part, uint64_t chunk)
{
	return part->fd >= 0 && row_find(part, chunk);
}

bool part_file_is(const struct part_file *part, uint64_t chunk, const void *bytes)
{
	const struct part_row *row = row_find(part, chunk);

	return row && row->hash == hash_bytes(bytes, chunk_length(part->size, chunk));
}

void part_file_close(struct part_file *part)
{
	if (part->fd >= 0)
		close(part->fd);
	free(part->rows);
	*part = (struct part_file){.fd = -1};
}
