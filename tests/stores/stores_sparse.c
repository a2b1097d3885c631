/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a container of any size from a small data file, as if the file had been extended by zeros,
 * without writing, reading or compressing all of them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "container_write.h"
#include "format/layout.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, CHUNK = 1 << 20 };

static void check(int rc, const char *what)
{
	if (!rc)
		return;
	fprintf(stderr, "stores_sparse: %s: %s\n", what, strerror(rc));
	exit(1);
}

/* Reads the file's bytes, in whole chunks, and changes the meta pages to a map as long as the
 * container's data. */
static uint8_t *data_read(const char *path, uint64_t size, uint64_t *chunks)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	uint8_t *data;

	if (fd < 0 || fstat(fd, &st)) {
		perror(path);
		exit(1);
	}
	*chunks = ((uint64_t)st.st_size + CHUNK - 1) / CHUNK;
	data = calloc(*chunks, CHUNK);
	if (!data || pread(fd, data, (size_t)st.st_size, 0) != st.st_size) {
		perror(path);
		exit(1);
	}
	close(fd);
	for (unsigned i = 0; i < FORMAT_METAS; i++)
		memcpy(data + i * PAGE + META_MAPSIZE, &size, sizeof(size));
	return data;
}

static void copies_write(struct container_writer *writer, const uint8_t *data, uint64_t chunks)
{
	static uint8_t picked[CHUNK / PAGE / 8];

	for (uint64_t i = 0; i < chunks; i++) {
		const uint8_t *chunk = data + i * CHUNK;

		container_select(FORMAT_0_9, PAGE, chunk, CHUNK, i * CHUNK, picked);
		for (uint64_t page = 0; page < CHUNK / PAGE; page++)
			if (picked[page / 8] >> page % 8 & 1)
				check(container_write_copy(writer, i * (CHUNK / PAGE) + page,
							   chunk + page * PAGE),
				      "a copy");
	}
}

int main(int argc, char **argv)
{
	uint64_t size = argc == 4 ? strtoull(argv[2], NULL, 0) << 30 : 0, chunks;
	struct container_write_options options = {
		.size = size, .page_size = PAGE, .chunk_size = CHUNK};
	struct container_compressor *compressor;
	struct container_writer *writer;
	struct container_frame frame;
	uint8_t *data, *out, *zeroes;
	int fd;

	if (!size) {
		fprintf(stderr, "usage: stores_sparse DATA.MDB GIBIBYTES CONTAINER\n");
		return 2;
	}
	data = data_read(argv[1], size, &chunks);
	fd = open(argv[3], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	out = malloc(container_frame_bound(CHUNK));
	zeroes = calloc(1, CHUNK);
	if (fd < 0 || !out || !zeroes) {
		perror(argv[3]);
		return 1;
	}
	check(container_write_open(&writer, fd, &options), "the container");
	check(container_compressor_open(&compressor, &options), "zstd");
	for (uint64_t i = 0; i < size / CHUNK; i++) {
		if (i <= chunks)
			check(container_compress(compressor, i < chunks ? data + i * CHUNK : zeroes,
						 CHUNK, out, &frame),
			      "zstd");
		check(container_write_frame(writer, out, &frame), "a frame");
	}
	copies_write(writer, data, chunks);
	check(container_write_finish(writer), "the index");
	container_write_close(writer);
	container_compressor_close(compressor);
	free(zeroes);
	free(data);
	free(out);
	close(fd);
	return 0;
}
