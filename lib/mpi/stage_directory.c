/* What only this file knows: how a copy gets into a directory whole or not at all.
 *
 * DIR/NAME/data.mdb, NAME as env/staged.h says. It is written as
 * DIR/NAME/data.mdb.NONCE-NODE.partial by all ranks of the node, each at its own offsets; its
 * length is allocated before the first byte, so that a full disk is known at once. In a directory
 * that all nodes see there is one such file.
 */
#include "config.h"
#include "mpi/stage_target.h"

#include "mpi/mpi_agree.h"
#include "util/limits.h"

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

static int names_make(struct stage_target *target)
{
	const struct staged_identity *identity = &target->source->identity;
	int rc = ENOMEM, node = stage_target_spreads(target) ? target->job->place.node : 0;
	char name[STAGED_NAME];

	staged_name(identity, name);
	if (asprintf(&target->directory, "%s/%s", target->options->directory, name) < 0)
		target->directory = NULL;
	else if (asprintf(&target->final, "%s/%s", target->directory, staged_file(identity)) < 0)
		target->final = NULL;
	else if (asprintf(&target->partial, "%s.%llx-%d%s", target->final,
			  (unsigned long long)target->nonce, node, partial_end) < 0)
		target->partial = NULL;
	else
		rc = 0;
	return rc;
}

/* Whether the copy is there already. */
static bool is_there(const struct stage_target *target)
{
	char *path;
	int fd;

	if (staged_open(target->options->directory, &target->source->identity, &path, &fd))
		return false;
	close(fd);
	free(path);
	return true;
}

static int allocate(int fd, uint64_t size)
{
	int rc;

	if (!limits_allow_file(size))
		return EFBIG;
	do {
		rc = fallocate(fd, 0, 0, (off_t)size) ? errno : 0;
	} while (rc == EINTR);
	/* Not every file system can; then a full disk is found out later. */
	return rc == EOPNOTSUPP || rc == ENOSYS ? (ftruncate(fd, (off_t)size) ? errno : 0) : rc;
}

/* Takes away what jobs that were killed have left: nobody has a lock on it, and it is not so young that
 * its maker could be about to take one. */
static void stale_remove(const char *path)
{
	enum { STALE_SECONDS = 60 };
	DIR *directory = opendir(path);
	struct dirent *entry;
	struct stat st;

	while (directory && (entry = readdir(directory))) {
		size_t length = strlen(entry->d_name), end = sizeof(partial_end) - 1;
		int fd;

		if (length <= end || strcmp(entry->d_name + length - end, partial_end))
			continue;
		fd = openat(dirfd(directory), entry->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (!fstat(fd, &st) && time(NULL) - st.st_mtime > STALE_SECONDS &&
		    !flock(fd, LOCK_EX | LOCK_NB))
			(void)unlinkat(dirfd(directory), entry->d_name, 0);
		close(fd);
	}
	if (directory)
		closedir(directory);
}

static int directory_make(struct stage_target *target)
{
	mode_t mode = (target->source->mode & 0444) | S_IRUSR | S_IWUSR;
	int rc = names_make(target);

	if (rc)
		return rc;
	target->there = is_there(target);
	if (target->there)
		return 0;
	if (mkdir(target->directory, 0777) && errno != EEXIST)
		return errno;
	stale_remove(target->directory);
	target->fd =
		open(target->partial, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (target->fd < 0)
		return errno;
	/* As long as this process lives. Where that cannot be had nothing is removed either. */
	(void)flock(target->fd, LOCK_EX | LOCK_NB);
	/* Whatever the umask: others never write to it, and who may read the original reads this.
	 */
	if (fchmod(target->fd, mode))
		return errno;
	return allocate(target->fd, target->source->identity.size);
}

static int directory_join(struct stage_target *target)
{
	int rc = target->there ? 0 : names_make(target);

	if (rc || target->there)
		return rc;
	target->fd = open(target->partial, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	return target->fd < 0 ? errno : 0;
}

static int directory_put(struct stage_target *target, uint64_t offset, const void *bytes,
			 uint64_t length)
{
	while (length > 0) {
		ssize_t n = pwrite(target->fd, bytes, length, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? errno : ENOSPC;
		bytes = (const char *)bytes + n;
		offset += (uint64_t)n;
		length -= (uint64_t)n;
	}
	return 0;
}

/* Each rank: on a directory that several nodes see, each node holds what it has written. */
static int directory_settle(struct stage_target *target)
{
	return fsync(target->fd) ? errno : 0;
}

static int sync_directory(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;

	if (fd < 0)
		return errno;
	if (fsync(fd) && errno != EINVAL) /* not every file system has that for directories */
		rc = errno;
	close(fd);
	return rc;
}

static int directory_show(struct stage_target *target)
{
	if (rename(target->partial, target->final))
		return errno;
	free(target->partial);
	target->partial = NULL;
	return sync_directory(target->directory);
}

static void directory_undo(struct stage_target *target)
{
	if (target->fd >= 0)
		(void)unlink(target->partial ? target->partial : target->final);
	if (target->directory) /* stays if anything else is in it */
		(void)rmdir(target->directory);
}

static void directory_close(struct stage_target *target)
{
	if (target->fd >= 0)
		close(target->fd);
	free(target->directory);
	free(target->partial);
	free(target->final);
}

const struct stage_target_ops stage_directory = {
	.spread = true,
	.make = directory_make,
	.join = directory_join,
	.put = directory_put,
	.settle = directory_settle,
	.show = directory_show,
	.undo = directory_undo,
	.close = directory_close,
};
