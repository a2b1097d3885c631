/* SPDX-License-Identifier: OLDAP-2.8 */
/* Serves an environment on a container instead of a data file.
 *
 * The original still gets a data file: an unlinked sparse one, as long as the data, with two meta
 * pages and nothing else. One has the newest fields, from the container's footer; the other is the
 * same but older. The original opens that file without a lock file, since a container never
 * changes. So all its answers are as usual, and its map is the window, over which the arena lays
 * decompressed chunks. Chunks that must leave memory while pointers into them are valid are spilled
 * to the same file.
 */
#include "env/packed.h"
#include "env/env.h"

#include "container/container.h"
#include "format/layout.h"
#include "util/checked.h"
#include "util/settings.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COPY_STEP = 1 << 20 };

/* Looks whether a descriptor leads to a container. A directory or a pipe is none. Returns EIO if
 * storage does not give the bytes, which may be a container's. */
static int look(int fd, bool *is)
{
	errno = 0;
	*is = container_is_one(fd);
	return !*is && errno == EIO ? EIO : 0;
}

int packed_find(const char *name, int fd, bool missing, int *container)
{
	char *beside;
	bool is;
	int rc, found;

	*container = -1;
	if (fd >= 0) {
		rc = look(fd, &is);
		*container = is ? fd : -1;
		return rc;
	}
	if (!missing)
		return 0;
	if (asprintf(&beside, "%s.zst", name) < 0)
		return ENOMEM;
	/* Anything may have that name, a pipe too, so open() must not wait; reads may. */
	found = open(beside, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	rc = found < 0 && descriptor_is_short(errno) ? errno : 0;
	free(beside);
	if (found < 0)
		return rc;
	rc = look(found, &is);
	if (is && fcntl(found, F_SETFL, 0))
		rc = errno;
	if (is && !rc)
		*container = found;
	else
		close(found);
	return rc;
}

unsigned packed_flags(unsigned flags)
{
	return flags | MDB_NOSUBDIR | MDB_NOLOCK;
}

/* The usual places of a scratch file, on a disk if one of them is; the last is memory. */
enum { SCRATCH_PLACES = 4 };

static int scratch_make(unsigned place)
{
	const char *const places[SCRATCH_PLACES - 1] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};

	if (place == SCRATCH_PLACES - 1)
		return memfd_create("lmdbio-scratch", MFD_CLOEXEC);
	if (!places[place]) {
		errno = ENOENT;
		return -1;
	}
	return open(places[place], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

/* Makes both meta pages, as far as the original looks at them. Returns their bytes. */
static size_t metas_make(const struct container_info *info, uint8_t *pages)
{
	uint32_t shift = page_layouts[info->format].shift;

	for (unsigned i = 0; i < FORMAT_METAS; i++) {
		uint8_t *page = pages + (size_t)i * info->page_size;
		uint64_t txnid;

		store64(page + PAGE_NUMBER, i);
		page += shift;
		store16(page + PAGE_FLAGS, PAGE_META);
		memcpy(page + META_MAGIC, info->meta, sizeof(info->meta));
		txnid = load64(page + META_TXNID);
		if (i != info->meta_page && txnid)
			store64(page + META_TXNID, txnid - 1);
	}
	if (info->format == FORMAT_1_0)
		store16(pages + info->page_size - sizeof(uint16_t), info->sum_size);
	return FORMAT_METAS * (size_t)info->page_size;
}

/* The error for a failed read of the container. EBADF says only that its descriptor may not lead to
 * it: the program has closed the descriptor, or the kernel could not tell. */
static int read_code(const struct packed *packed, int rc)
{
	if (rc != EBADF)
		return container_code(rc);
	return descriptor_is(packed->fd, packed->identity.device, packed->identity.inode) ? EIO : errno;
}

/* Makes a scratch file of `size` bytes that begins with the `count` bytes at `bytes`. */
static int scratch_put(struct packed *packed, unsigned place, const uint8_t *bytes, size_t count,
		       uint64_t size)
{
	int fd = scratch_make(place);
	int rc = fd < 0 ? errno : descriptor_keep(&packed->scratch, fd);

	if (rc)
		return rc;
	fd = packed->scratch.fd;
	(void)fchmod(fd, 0600); /* whatever the program's umask is: the original opens it again */
	errno = 0;
	if (!ftruncate(fd, (off_t)size) && pwrite(fd, bytes, count, 0) == (ssize_t)count)
		return 0;
	rc = errno ? errno : ENOSPC;
	descriptor_kept_close(&packed->scratch);
	return rc;
}

/* Makes the stand-in for the data file, in the first place that has room for its first bytes. */
static int scratch_open(struct packed *packed, const struct container_info *info)
{
	uint64_t front = round_up((uint64_t)FORMAT_METAS * info->page_size, ARENA_BLOCK);
	uint8_t *bytes;
	size_t done = 0;
	int rc = 0;

	if (front > info->size)
		front = info->size;
	if (!limits_allow_file(info->size))
		return EFBIG;
	bytes = calloc(1, front + 1);
	if (!bytes)
		return ENOMEM;
	/* With small pages, the first block also has others. The window always shows that block
	 * from this file. */
	if (info->has_meta && front == (uint64_t)FORMAT_METAS * info->page_size)
		done = metas_make(info, bytes);
	else
		rc = read_code(packed, io_read(&packed->data, bytes, front, 0, &done));
	if (!rc) {
		unsigned place = 0;

		do {
			rc = scratch_put(packed, place++, bytes, done, info->size);
		} while (rc && place < SCRATCH_PLACES);
	}
	free(bytes);
	snprintf(packed->scratch_path, sizeof(packed->scratch_path), "/proc/self/fd/%d",
		 packed->scratch.fd);
	return rc;
}

int packed_open(struct packed **ret, int fd, const char *path)
{
	const struct container_info *info;
	struct packed *packed;
	struct stat st;
	int rc;

	if (fstat(fd, &st))
		return errno;
	packed = calloc(1, sizeof(*packed));
	if (!packed)
		return ENOMEM;
	/* Set first: packed_close() closes only descriptors that still lead to this file. */
	packed->identity = identity_of(&st);
	packed->scratch.fd = -1;
	packed->fd = descriptor_twin(fd);
	if (packed->fd < 0)
		packed->fd = fd;
	packed->path = strdup(path);
	rc = packed->path ? 0 : ENOMEM;
	if (!rc)
		rc = io_open_chosen(&packed->below, packed->fd, settings_get()->io,
				    &packed->backend, &packed->why);
	if (!rc)
		rc = read_code(packed, io_open_container(&packed->data, &packed->below, NULL));
	if (!rc) {
		info = container_info(&packed->data);
		/* As staged_identify() has these, without a second read of the footer. */
		packed->identity.system = identity_system(fd);
		packed->identity.metas = info->footer_hash;
		packed->identity.size = info->size;
		rc = scratch_open(packed, info);
		packed->store = (struct store_packed){packed->scratch.fd, info->chunk_size,
						      container_read_copies};
	}
	if (rc) {
		if (packed->fd == fd)
			packed->fd = -1; /* still the caller's */
		packed_close(packed);
		return rc;
	}
	if (packed->fd != fd)
		close(fd);
	*ret = packed;
	return 0;
}

int packed_read_cached(struct packed *packed, const char *why)
{
	struct io cached;
	int rc = io_open_file(&cached, "pread", packed->fd);

	if (rc)
		return rc;
	io_close(&packed->below);
	packed->below = cached;
	packed->backend = "pread";
	packed->why = why;
	return 0;
}

uint64_t packed_size(const struct packed *packed)
{
	return container_info(&packed->data)->file_size;
}

void packed_close(struct packed *packed)
{
	if (!packed)
		return;
	io_close(&packed->data);
	io_close(&packed->below);
	descriptor_kept_close(&packed->scratch);
	descriptor_close(packed->fd, packed->identity.device, packed->identity.inode);
	free(packed->path);
	free(packed);
}

int packed_copy(struct packed *packed, int fd, uint64_t length)
{
	uint8_t *bytes = malloc(COPY_STEP);
	int rc = bytes ? 0 : ENOMEM;

	for (uint64_t offset = 0; offset < length && !rc;) {
		uint64_t part = length - offset < COPY_STEP ? length - offset : COPY_STEP;
		size_t done;

		rc = read_code(packed, io_read(&packed->data, bytes, part, offset, &done));
		if (!rc)
			rc = done ? copy_write(fd, bytes, done) : MDB_CORRUPTED;
		offset += done;
	}
	free(bytes);
	return rc;
}
