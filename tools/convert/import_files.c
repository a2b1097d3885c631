/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads files into values with several threads, and checks where each file really lies. */
#include "import_files.h"

#include "util/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct files_reading {
	struct import_file *const *files;
	size_t count;
	const struct import_allowed *allowed;
	_Atomic size_t next;
};

static int file_fill(int fd, struct import_file *file)
{
	size_t done = 0;

	while (done < file->size) {
		ssize_t n = read(fd, (char *)file->value + done, file->size - done);

		if (n < 0 && errno != EINTR)
			return errno;
		if (n == 0)
			break;
		if (n > 0)
			done += (size_t)n;
	}
	file->size = done; /* the file may have become shorter meanwhile */
	return 0;
}

/* Finds out whether a file of size 0 has content, as the files of /proc and of some FUSE file systems
 * do. A file that has grown meanwhile has a size by now. */
static int content_look(int fd, bool *sizeless)
{
	struct stat st;
	char byte;
	ssize_t n = read(fd, &byte, 1);

	if (n < 0 || (n && fstat(fd, &st)))
		return errno;
	*sizeless = n && !st.st_size;
	return 0;
}

/* Returns whether an open file lies below the directory. The kernel gives the file's name, so
 * neither a link in the path nor an exchange of the file meanwhile deceives. */
static bool is_inside(int fd, const char *directory)
{
	char link[32], path[PATH_MAX];
	size_t length = strlen(directory);
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path));
	if (length == 1) /* the root */
		return n > 0 && *path == '/';
	return n > (ssize_t)length && !memcmp(path, directory, length) && path[length] == '/';
}

static int file_read(struct import_file *file, const struct import_allowed *allowed)
{
	struct stat st;
	int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc = 0;

	if (fd < 0)
		return errno;
	if (fstat(fd, &st))
		rc = errno;
	else if (!S_ISREG(st.st_mode))
		rc = S_ISDIR(st.st_mode) ? EISDIR : EINVAL;
	else if ((uint64_t)st.st_size > allowed->size)
		file->too_large = true;
	else if (allowed->inside && !is_inside(fd, allowed->inside))
		file->outside = true;
	else if (!st.st_size)
		rc = content_look(fd, &file->sizeless);
	if (rc || file->too_large || file->outside || file->sizeless)
		goto fail;
	file->size = (size_t)st.st_size;
	file->value = malloc(file->size + 1);
	rc = file->value ? file_fill(fd, file) : ENOMEM;
fail:
	close(fd);
	return rc;
}

static void reading_run(void *argument, unsigned number)
{
	struct files_reading *reading = argument;
	size_t i;

	(void)number;
	while ((i = atomic_fetch_add(&reading->next, 1)) < reading->count)
		if (reading->files[i]->path)
			reading->files[i]->error = file_read(reading->files[i], reading->allowed);
}

void import_files_read(struct import_file *const *files, size_t count, unsigned threads,
		       const struct import_allowed *allowed)
{
	struct files_reading reading = {.files = files, .count = count, .allowed = allowed};

	thread_share(count < threads ? (unsigned)count : threads, "lmdbio-import", reading_run,
		     &reading);
}
