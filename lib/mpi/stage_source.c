/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens the file that a job stages, and checks that all ranks see the same data set. */
#include "config.h"
#include "mpi/stage_source.h"

#include "container/container.h"
#include "format/layout.h"
#include "io/io.h"
#include "mpi/mpi_error.h"
#include "mpi/mpi_wait.h"
#include "util/checked.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* An environment's directory holds one of the two files; any other path is the file itself. */
int stage_file_open(const char *path, int *fd, char **name)
{
	static const char *const names[] = {"/data.mdb", "/data.mdb.zst", ""};
	int rc = ENOENT;

	*fd = -1;
	*name = NULL;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (asprintf(name, "%s%s", path, names[i]) < 0) {
			*name = NULL;
			return ENOMEM;
		}
		*fd = open(*name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (*fd >= 0)
			return 0;
		rc = errno;
		free(*name);
		*name = NULL;
		/* With a name behind it, a path may be too long. */
		if (rc != ENOENT && rc != ENOTDIR && rc != ENAMETOOLONG)
			break;
	}
	return rc;
}

static int open_file(struct stage_source *source, const char *path)
{
	struct stat st;
	int rc = stage_file_open(path, &source->fd, &source->path);

	if (rc)
		return rc;
	if (fstat(source->fd, &st))
		return errno;
	source->device = st.st_dev;
	source->mode = st.st_mode;
	return S_ISREG(st.st_mode)   ? 0
	       : S_ISDIR(st.st_mode) ? ENOENT /* a directory without a data file */
				     : MDB_INVALID;
}

/* Whether the file is the one that rank 0 has seen, by its status alone, which costs storage no
 * read. */
static int compare(int fd, const struct identity *first)
{
	struct stat st;

	if (fstat(fd, &st))
		return errno;
	return identity_holds(first, &st) && (uint64_t)st.st_size == first->size ? 0 : ESTALE;
}

/* What rank 0 tells the other ranks. */
struct stage_found {
	int64_t rc;
	struct staged_original original;
	uint64_t size, snapshot, page_size, piece, unpacked;
};

static int look_inside(int fd, struct stage_found *found)
{
	struct io below = {0}, data = {0};
	const struct container_info *info;
	int rc = io_open_file(&below, "pread", fd);

	if (rc)
		return rc;
	rc = io_open_container(&data, &below, NULL);
	if (!rc) {
		info = container_info(&data);
		found->size = info->size;
		found->page_size = info->page_size;
		found->piece = info->chunk_size;
		found->snapshot = load64(info->meta + (META_TXNID - META_MAGIC));
		found->unpacked = true;
		if (!info->has_meta)
			rc = MDB_INVALID; /* no program can open the data */
	}
	io_close(&data);
	io_close(&below);
	return rc;
}

static int look(int fd, bool unpack, struct stage_found *found)
{
	struct stage_found inside;
	int rc = staged_identify(fd, &found->original);

	found->original.identity = identity_job(&found->original.identity);
	found->size = found->original.identity.size;
	found->snapshot = found->original.identity.snapshot;
	found->page_size = found->original.page_size;
	found->piece = 1;
	/* A container that is cut off is no use to a node, even if its bytes are staged as they
	 * are. */
	inside = *found;
	return rc || found->page_size ? rc : look_inside(fd, unpack ? found : &inside);
}

int stage_source_open(struct stage_source *source, const struct mpi_job *job, const char *path,
		      bool unpack)
{
	struct stage_found first = {0};
	int rc, mpi;

	*source = (struct stage_source){.fd = -1, .rank = job->place.rank};
	rc = open_file(source, path);
	if (!source->rank)
		first.rc = rc ? rc : look(source->fd, unpack, &first);
	mpi = mpi_bcast(&first, sizeof(first), MPI_BYTE, 0, job->all);
	if (mpi != MPI_SUCCESS)
		return mpi_error_code(mpi);
	source->original = first.original;
	source->size = first.size;
	source->snapshot = first.snapshot;
	source->page_size = (uint32_t)first.page_size;
	source->piece = (uint32_t)first.piece;
	source->unpacked = first.unpacked;
	if (first.rc)
		return (int)first.rc;
	return rc ? rc : compare(source->fd, &first.original.identity);
}

int stage_source_check(const struct stage_source *source)
{
	const struct identity *before = &source->original.identity;
	struct staged_original now;
	struct stat named;
	int rc = 0;

	if (!source->rank)
		rc = staged_identify(source->fd, &now);
	if (rc)
		return rc == EIO || rc == ENOMEM ? rc : ESTALE;
	if (!source->rank && !identity_equal_job(&now.identity, before))
		return ESTALE;
	/* A file that a rename has replaced still has all its bytes. */
	if (stat(source->path, &named) || named.st_ino != before->inode)
		return ESTALE;
	return compare(source->fd, before);
}

void stage_source_close(struct stage_source *source)
{
	if (source->fd >= 0)
		close(source->fd);
	free(source->path);
	source->fd = -1;
	source->path = NULL;
}
