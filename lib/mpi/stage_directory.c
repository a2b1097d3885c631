/* SPDX-License-Identifier: OLDAP-2.8 */
/* Stages a copy into a directory, whole or not at all.
 *
 * The copy is DIR/NAME/data.mdb, NAME as env/staged.h says. All ranks of the node write it as
 * DIR/NAME/data.mdb.NONCE-NODE.partial, each at its own offsets. Its length is allocated before the
 * first byte, so that a full disk is known at once. When all bytes are on the disk it gets its
 * name, and then its seal, without which no program uses it. In a directory that all nodes see
 * there is one such file. Each rank opens and judges the directories for itself, and names files in
 * them by their descriptors (util/guarded.h). */
#include "config.h"
#include "mpi/stage_target.h"

#include "io/io.h"
#include "mpi/part_file.h"
#include "util/whole.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char partial_end[] = ".partial";

/* Names the file, which lies in the directory of the data set's identity, and the partial file that
 * it is until it is whole. `of`: the node's number, or 0 if the file is for all nodes. Returns 0 or
 * ENOMEM. */
static int stage_directory_name(struct stage_target *target, const char *file, int of)
{
	staged_name(&target->source->original.identity, target->name);
	target->final = strdup(file);
	if (!target->final)
		return ENOMEM;
	if (asprintf(&target->partial, "%s.%llx-%d%s", file, (unsigned long long)target->nonce, of,
		     partial_end) < 0) {
		target->partial = NULL;
		return ENOMEM;
	}
	return 0;
}

static int copy_name(struct stage_target *target)
{
	return stage_directory_name(target, staged_file(&target->source->original),
				    stage_target_spreads(target) ? target->job->place.node : 0);
}

/* Whether the copy is there already. */
static bool is_there(const struct stage_target *target)
{
	char *path;
	int fd;

	if (staged_open(target->options->directory, &target->source->original, &path, &fd))
		return false;
	close(fd);
	free(path);
	return true;
}

/* Takes room for `length` bytes of the file, so that a full disk is known at once, and makes it at
 * least so long. Call it in rising order of offsets. Returns 0 or an errno. */
static int stage_directory_allocate(const struct stage_target *target, uint64_t offset,
				    uint64_t length)
{
	int rc;

	if (!limits_allow_file(offset + length))
		return EFBIG;
	do {
		rc = fallocate(target->fd, 0, (off_t)offset, (off_t)length) ? errno : 0;
	} while (rc == EINTR);
	/* Not every file system can allocate; then a full disk is found out later. */
	return rc == EOPNOTSUPP || rc == ENOSYS
		       ? (ftruncate(target->fd, (off_t)(offset + length)) ? errno : 0)
		       : rc;
}

/* Whether the file is on a disk of this machine, where each process sees the locks of all other
 * processes. */
static bool sees_locks(int fd)
{
	const char *backend, *why;
	struct io io;
	bool local;

	if (io_open_chosen(&io, fd, "pread", &backend, &why))
		return false;
	local = io.local;
	io_close(&io);
	return local;
}

/* A maker locks its file before the file has a byte. So a file with bytes and no lock is stale at
 * once: a job that is started again at once needs the room of the killed job. A seal is made
 * without a lock. */
static bool is_locked_from_start(int fd, const char *name, const struct stat *st)
{
	return st->st_size && !strstr(name, ".seal.") && sees_locks(fd);
}

/* Whether a killed job has left the file: it is this user's, no process has a lock on it, and it is
 * not so young that its maker could be about to lock it. */
static bool is_stale(int fd, const char *name)
{
	enum { STALE_SECONDS = 60 };
	struct stat st;

	return !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	       (time(NULL) - st.st_mtime > STALE_SECONDS || is_locked_from_start(fd, name, &st)) &&
	       !flock(fd, LOCK_EX | LOCK_NB);
}

static void stale_remove(const struct guarded *place)
{
	int listed = openat(place->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = listed < 0 ? NULL : fdopendir(listed);
	struct dirent *entry;

	if (!directory && listed >= 0)
		close(listed);
	while (directory && (entry = readdir(directory))) {
		size_t length = strlen(entry->d_name), end = sizeof(partial_end) - 1;
		int fd;

		if (length <= end || strcmp(entry->d_name + length - end, partial_end))
			continue;
		fd = openat(place->fd, entry->d_name,
			    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (is_stale(fd, entry->d_name))
			(void)unlinkat(place->fd, entry->d_name, 0);
		close(fd);
	}
	if (directory)
		closedir(directory);
}

static int places_open(struct stage_target *target, bool make)
{
	int rc = guarded_open(&target->top, target->options->directory, make);

	return rc ? rc : guarded_below(&target->place, &target->top, target->name, make);
}

/* Makes the partial file, empty, with its directory, and removes what killed jobs have left.
 * Returns 0; EPERM: other users can change a directory on the way; another errno. */
static int stage_directory_create(struct stage_target *target)
{
	mode_t mode = (target->source->mode & 0444) | S_IRUSR | S_IWUSR;
	int rc = places_open(target, true);

	if (rc)
		return rc;
	stale_remove(&target->place);
	target->fd = openat(target->place.fd, target->partial,
			    O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (target->fd < 0)
		return errno;
	/* The lock lasts as long as this process. Where there are no locks, nothing is removed
	 * either. */
	(void)flock(target->fd, LOCK_EX | LOCK_NB);
	/* Whatever the umask: other users never write to the file, and may read it if they may read
	 * the original. */
	return fchmod(target->fd, mode) ? errno : 0;
}

/* As struct stage_target_ops says, for copies and parts. */
static int stage_directory_join(struct stage_target *target)
{
	int rc = target->there ? 0 : places_open(target, false);

	if (rc || target->there)
		return rc;
	target->fd = openat(target->place.fd, target->partial, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	return target->fd < 0 ? errno : guarded_file(target->fd);
}

static int copy_make(struct stage_target *target)
{
	int rc;

	target->there = is_there(target);
	if (target->there)
		return 0;
	rc = stage_directory_create(target);
	return rc ? rc : stage_directory_allocate(target, 0, target->source->original.identity.size);
}

static int copy_put(struct stage_target *target, uint64_t offset, const void *bytes,
		    uint64_t length)
{
	return whole_write(target->fd, bytes, length, offset);
}

/* Called by each rank: in a directory that several nodes see, each node holds what it has
 * written. */
static int stage_directory_settle(struct stage_target *target)
{
	return fsync(target->fd) ? errno : 0;
}

static int place_sync(const struct guarded *place)
{
	int fd = openat(place->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return errno;
	if (fsync(fd) && errno != EINVAL) /* not every file system can sync directories */
		rc = errno;
	close(fd);
	return rc;
}

static int stage_directory_show(struct stage_target *target)
{
	if (renameat(target->place.fd, target->partial, target->place.fd, target->final))
		return errno;
	free(target->partial);
	target->partial = NULL;
	return place_sync(&target->place);
}

static int copy_show(struct stage_target *target)
{
	int rc = stage_directory_show(target);

	if (!rc)
		rc = staged_seal(&target->place, target->final, &target->source->original.identity);
	return rc ? rc : place_sync(&target->place);
}

/* Whether another job's file now has the name of this one. */
static bool is_replaced(const struct stage_target *target, const char *name)
{
	struct stat own, named;

	return !fstat(target->fd, &own) &&
	       !fstatat(target->place.fd, name, &named, AT_SYMLINK_NOFOLLOW) &&
	       (own.st_dev != named.st_dev || own.st_ino != named.st_ino);
}

static void stage_directory_undo(struct stage_target *target)
{
	const char *name = target->partial ? target->partial : target->final;

	if (target->fd >= 0 && !is_replaced(target, name))
		(void)unlinkat(target->place.fd, name, 0);
	if (target->place.fd >= 0) /* the directory stays if anything else is in it */
		(void)unlinkat(target->top.fd, target->name, AT_REMOVEDIR);
	guarded_undo(&target->top);
}

static void copy_undo(struct stage_target *target)
{
	if (target->fd >= 0 && !target->partial && !is_replaced(target, target->final))
		staged_unseal(&target->place, target->final);
	stage_directory_undo(target);
}

static void stage_directory_close(struct stage_target *target)
{
	if (target->fd >= 0)
		close(target->fd);
	guarded_close(&target->place);
	guarded_close(&target->top);
	free(target->partial);
	free(target->final);
}

const struct stage_target_ops stage_directory = {
	.spread = true,
	.name = copy_name,
	.make = copy_make,
	.join = stage_directory_join,
	.put = copy_put,
	.settle = stage_directory_settle,
	.show = copy_show,
	.undo = copy_undo,
	.close = stage_directory_close,
};

/* Parts: each node of a job gets its own part of a data set, and nothing else, into a local
 * directory: DIR/NAME/part-NODE-of-NODES (mpi/part_file.h). Nodes exchange nothing. Each node reads
 * what it has in the spread, and each of its ranks a contiguous share of that. */
static struct part_identity part_of(const struct stage_target *target)
{
	return (struct part_identity){
		.original = target->source->original.identity,
		.size = target->source->size,
		.node = target->job->place.node,
		.nodes = target->job->place.nodes,
	};
}

static int part_name(struct stage_target *target)
{
	struct part_identity identity = part_of(target);
	char file[PART_NAME];

	part_file_name(&identity, file);
	return stage_directory_name(target, file, identity.node);
}

static uint64_t part_bytes(const struct stage_target *target)
{
	return chunk_spread_bytes(&target->spread, target->job->place.node);
}

static uint64_t part_chunks(const struct stage_target *target)
{
	return (part_bytes(target) + ARENA_CHUNK - 1) / ARENA_CHUNK;
}

static int part_allocate(const struct stage_target *target)
{
	uint64_t bytes = part_bytes(target), chunks = part_chunks(target), n;
	uint64_t head = part_file_head(target->source->size);
	int rc = 0;

	for (uint64_t at = 0; at < bytes && !rc; at += n) {
		n = bytes - at < target->spread.unit ? bytes - at : target->spread.unit;
		rc = stage_directory_allocate(
			target, chunk_spread_offset(&target->spread, target->job->place.node, at),
			n);
	}
	return rc ? rc
		  : stage_directory_allocate(target, head,
					     part_file_length(target->source->size, chunks) - head);
}

static int parts_make(struct stage_target *target)
{
	struct part_identity identity = part_of(target);
	struct part_file part;
	int rc;

	target->there = !part_file_open(&part, target->options->directory, &identity);
	if (target->there) {
		part_file_close(&part);
		return 0;
	}
	rc = stage_directory_create(target);
	return rc ? rc : part_allocate(target);
}

static int parts_put(struct stage_target *target, uint64_t offset, const void *bytes,
		     uint64_t length)
{
	int rc = 0;

	for (uint64_t at = 0; at < length && !rc; at += ARENA_CHUNK)
		rc = part_file_put(
			target->fd, target->source->size, (offset + at) / ARENA_CHUNK,
			chunk_spread_offset(&target->spread, target->job->place.node, offset + at) /
				ARENA_CHUNK,
			(const char *)bytes + at);
	return rc;
}

static int parts_show(struct stage_target *target)
{
	struct part_identity identity = part_of(target);
	int rc = part_file_seal(target->fd, &identity, part_chunks(target));

	if (!rc)
		rc = stage_directory_settle(target);
	return rc ? rc : stage_directory_show(target);
}

const struct stage_target_ops stage_parts = {
	.name = part_name,
	.make = parts_make,
	.join = stage_directory_join,
	.put = parts_put,
	.settle = stage_directory_settle,
	.show = parts_show,
	.undo = stage_directory_undo,
	.close = stage_directory_close,
};
