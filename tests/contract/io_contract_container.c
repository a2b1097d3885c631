/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how the files of the io contract become containers. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "io_contract.h"
#include "container_write.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Smaller than most requests of the suite, larger than some. */
enum { CHUNK = 256 << 10 };

static int write_container(int fd, const struct data_file *file)
{
	const struct container_write_options options = {
		.size = file->size,
		.page_size = 4096,
		.chunk_size = CHUNK,
		.level = 1,
	};
	struct container_writer *writer;
	int rc = container_write_open(&writer, fd, &options);

	if (rc)
		return rc;
	rc = container_write_bytes(writer, file->bytes, file->size);
	if (!rc)
		rc = container_write_finish(writer);
	container_write_close(writer);
	return rc;
}

int make_container(struct data_file *file)
{
	const char *folder = getenv("TMPDIR");
	char path[4096];

	(void)snprintf(path, sizeof(path), "%s/io_contract.XXXXXX", folder ? folder : "/tmp");
	file->container = mkstemp(path);
	if (file->container < 0)
		return errno;
	(void)unlink(path);
	return write_container(file->container, file);
}

static int open_container(struct subject *subject, const char *below, const struct data_file *file)
{
	int rc;

	memset(subject, 0, sizeof(*subject));
	rc = io_open_file(&subject->below, below, file->container);
	return rc ? rc : io_open_container(&subject->io, &subject->below, NULL);
}

int open_container_on_pread(struct subject *subject, const char *name,
	const struct data_file *file)
{
	(void)name;
	return open_container(subject, "pread", file);
}

int open_container_on_direct(struct subject *subject, const char *name,
	const struct data_file *file)
{
	(void)name;
	return open_container(subject, "direct", file);
}
