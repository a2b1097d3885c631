/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: what must be equal for two ranks to see the same data set. */
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

/* An environment's directory holds one of the two; anything else is the file itself. */
static int open_file(struct stage_source *source, const char *path)
{
	static const char *const names[] = {"/data.mdb", "/data.mdb.zst", ""};
	struct stat st;
	int rc = ENOENT;

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		free(source->path);
		if (asprintf(&source->path, "%s%s", path, names[i]) < 0) {
			source->path = NULL;
			return ENOMEM;
		}
		source->fd = open(source->path, O_RDONLY | O_CLOEXEC);
		rc = errno;
		if (source->fd >= 0 || (rc != ENOENT && rc != ENOTDIR))
			break;
	}
	if (source->fd < 0)
		return rc;
	if (fstat(source->fd, &st))
		return errno;
	source->device = st.st_dev;
	source->mode = st.st_mode;
	return S_ISREG(st.st_mode) ? 0 : ENOENT; /* a directory without a data file */
}

/* By its status alone, which costs storage no read. */
static int glance(int fd, struct staged_identity *identity)
{
	struct stat st;

	if (fstat(fd, &st))
		return errno;
	identity->inode = st.st_ino;
	identity->size = (uint64_t)st.st_size;
	identity->mtime_ns = st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec;
	return 0;
}

static int compare(const struct staged_identity *a, const struct staged_identity *b)
{
	return a->inode == b->inode && a->size == b->size && a->mtime_ns == b->mtime_ns ? 0
											: ESTALE;
}

/* What rank 0 tells the others. */
struct found {
	int64_t rc;
	struct staged_identity identity;
	uint64_t size, snapshot, page_size, piece, unpacked;
};

static int look_inside(int fd, struct found *found)
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
		found->snapshot = load64(info->meta + META_TXNID - META_MAGIC);
		found->unpacked = true;
		if (!info->has_meta)
			rc = MDB_INVALID; /* no program can open it */
	}
	io_close(&data);
	io_close(&below);
	return rc;
}

static int look(int fd, bool unpack, struct found *found)
{
	int rc = staged_identify(fd, &found->identity);

	found->size = found->identity.size;
	found->snapshot = found->identity.snapshot;
	found->page_size = found->identity.page_size;
	found->piece = 1;
	return rc || !unpack || found->page_size ? rc : look_inside(fd, found);
}

int stage_source_open(struct stage_source *source, MPI_Comm comm, const char *path, bool unpack)
{
	struct found first = {0};
	struct staged_identity mine = {0};
	int rc, mpi;

	*source = (struct stage_source){.fd = -1};
	MPI_Comm_rank(comm, &source->rank);
	rc = open_file(source, path);
	if (!source->rank)
		first.rc = rc ? rc : look(source->fd, unpack, &first);
	mpi = mpi_bcast(&first, sizeof(first), MPI_BYTE, 0, comm);
	if (mpi != MPI_SUCCESS)
		return mpi_error_code(mpi);
	source->identity = first.identity;
	source->size = first.size;
	source->snapshot = first.snapshot;
	source->page_size = (uint32_t)first.page_size;
	source->piece = (uint32_t)first.piece;
	source->unpacked = first.unpacked;
	if (first.rc)
		return (int)first.rc;
	if (!rc)
		rc = glance(source->fd, &mine);
	return rc ? rc : compare(&mine, &first.identity);
}

int stage_source_check(const struct stage_source *source)
{
	struct staged_identity now = {0};
	struct stat named;
	int rc = source->rank ? glance(source->fd, &now) : staged_identify(source->fd, &now);

	if (rc)
		return rc == EIO || rc == ENOMEM ? rc : ESTALE;
	if (!source->rank && now.snapshot != source->identity.snapshot)
		return ESTALE;
	/* A file that another one has replaced by rename still has all its bytes. */
	if (stat(source->path, &named) || named.st_ino != source->identity.inode)
		return ESTALE;
	return compare(&now, &source->identity);
}

void stage_source_close(struct stage_source *source)
{
	if (source->fd >= 0)
		close(source->fd);
	free(source->path);
	source->fd = -1;
	source->path = NULL;
}
