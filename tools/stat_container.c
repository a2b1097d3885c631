/* SPDX-License-Identifier: OLDAP-2.8 */
/* Chooses the fields of a container's header and index to show. */
#include "stat_container.h"

#include "tool_common.h"
#include "tool_env.h"

#include "container/container.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static double ratio(uint64_t size, uint64_t length)
{
	return length ? (double)size / (double)length : 0;
}

static void print_info(const struct container_info *info)
{
	char data[TOOL_SIZE_TEXT], file[TOOL_SIZE_TEXT], chunk[TOOL_SIZE_TEXT];

	printf("Container Status\n");
	printf("  Format: %u.%u, zstd level %d%s%s\n", info->major, info->minor, info->level,
	       info->long_distance ? ", long-distance matching" : "",
	       info->relaid ? ", pages in the order of keys" : "");
	printf("  Data file of: LMDB %s\n", tool_format_name(info->format));
	printf("  Bytes of data: %" PRIu64 " (%s)\n", info->size, tool_size_text(info->size, data));
	printf("  Bytes of the container: %" PRIu64 " (%s)\n", info->file_size,
	       tool_size_text(info->file_size, file));
	printf("  Ratio: %.3f\n", ratio(info->size, info->file_size));
	printf("  Chunks: %" PRIu64 " of %s\n", info->chunks,
	       tool_size_text(info->chunk_size, chunk));
	printf("  Dictionary: %u bytes\n", info->dictionary_size);
	printf("  Databases in the record index: %" PRIu64 "\n", info->trees);
	printf("  Pages copied into the index: %" PRIu64 " (%" PRIu64 " bytes)\n", info->copies,
	       info->groups_size);
	printf("    %10s %16s %10s %10s %7s %16s\n", "chunk", "offset", "length", "size", "ratio",
	       "checksum");
}

static json_t *json_info(const struct container_info *info)
{
	return json_pack("{s[II], ss, sI, sb, sb, sI, sI, sf, sI, sI, sI, sI, sI, s[]}", "format",
			 (json_int_t)info->major, (json_int_t)info->minor, "lmdb_format",
			 tool_format_name(info->format), "level",
			 (json_int_t)info->level, "long_distance", info->long_distance, "relaid",
			 info->relaid, "size", (json_int_t)info->size, "file_size",
			 (json_int_t)info->file_size, "ratio", ratio(info->size, info->file_size),
			 "chunk_size", (json_int_t)info->chunk_size, "dictionary_size",
			 (json_int_t)info->dictionary_size, "record_index_databases",
			 (json_int_t)info->trees, "copied_pages", (json_int_t)info->copies,
			 "copied_pages_size", (json_int_t)info->groups_size, "chunks");
}

static int show_chunks(struct io *io, json_t *list)
{
	const struct container_info *info = container_info(io);
	struct container_chunk chunk;
	char checksum[17];
	int rc = 0;

	for (uint64_t i = 0; i < info->chunks && !rc; i++) {
		rc = container_chunk(io, i, &chunk);
		if (!rc && tool_signal)
			rc = EINTR;
		if (rc)
			break;
		snprintf(checksum, sizeof(checksum), "%016" PRIx64, chunk.hash);
		if (list)
			json_array_append_new(list, json_pack("{sI, sI, sI, ss}", "offset",
							      (json_int_t)chunk.offset, "length",
							      (json_int_t)chunk.length, "size",
							      (json_int_t)chunk.size, "checksum",
							      checksum));
		else
			printf("    %10" PRIu64 " %16" PRIu64 " %10u %10u %7.3f %s\n", i,
			       chunk.offset, chunk.length, chunk.size,
			       ratio(chunk.size, chunk.length), checksum);
	}
	return rc;
}

static int show(struct io *io, json_t **json)
{
	if (!json) {
		print_info(container_info(io));
		return show_chunks(io, NULL);
	}
	*json = json_info(container_info(io));
	return show_chunks(io, json_object_get(*json, "chunks"));
}

int stat_container(const char *path, json_t **json)
{
	struct io file = {0}, container = {0};
	char *name = tool_data_name(path);
	int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	int rc = fd < 0 ? errno : io_open_file(&file, "pread", fd);

	free(name);
	if (fd < 0)
		return rc;
	if (!rc) {
		rc = io_open_container(&container, &file, NULL);
		if (!rc)
			rc = show(&container, json);
		io_close(&container);
		io_close(&file);
	}
	close(fd);
	return rc;
}
