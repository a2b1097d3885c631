/* SPDX-License-Identifier: OLDAP-2.8 */
/* Takes a partial file to a whole one. */
#include "convert_target.h"

#include "partial_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool ends_in(const char *text, const char *end)
{
	size_t a = strlen(text), b = strlen(end);

	return a >= b && !strcmp(text + a - b, end);
}

/* A name that is not there yet is a file's when it looks like one, else the directory's in which
 * LMDB programs look for their data file. */
static bool is_directory(const struct convert *convert)
{
	const char *path = convert->target;
	struct stat st;

	if (convert->no_subdir)
		return false;
	if (!stat(path, &st))
		return S_ISDIR(st.st_mode);
	return ends_in(path, "/") || (!ends_in(path, ".zst") && !ends_in(path, ".mdb"));
}

/* Whether a program has the environment open that a data file belongs to. Its readers would take
 * the old file and the new one for the same. To be asked before this process opens it: closing a
 * lock file gives up all locks that the process has on it. */
static bool is_in_use(const char *data, bool named)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	const char *base = strrchr(data, '/');
	bool used = false;
	char *path;
	int fd;

	base = base ? base + 1 : data;
	if (named ? asprintf(&path, "%s-lock", data) < 0
		  : asprintf(&path, "%.*slock.mdb", (int)(base - data), data) < 0)
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		used = !fcntl(fd, F_GETLK, &lock) && lock.l_type != F_UNLCK;
		close(fd);
	}
	free(path);
	return used;
}

int target_name(struct target *target, const struct convert *convert, enum convert_form form)
{
	const char *path = convert->target, *base;
	const char *name = form == FORM_CONTAINER ? "data.mdb.zst" : "data.mdb";
	struct stat st;
	int n;

	*target = (struct target){.convert = convert, .directory_fd = -1, .fd = -1};
	if (is_directory(convert)) {
		n = asprintf(&target->path, "%s%s%s", path, ends_in(path, "/") ? "" : "/", name);
		target->directory = strdup(path);
	} else {
		base = strrchr(path, '/');
		n = asprintf(&target->path, "%s", path);
		target->directory = !base          ? strdup(".")
				    : base == path ? strdup("/")
						   : strndup(path, (size_t)(base - path));
	}
	if (n < 0 || !target->directory)
		return convert_fail(path, ENOMEM);
	base = strrchr(target->path, '/');
	base = base ? base + 1 : target->path;
	if (!*base)
		return convert_refuse(path, "this is no name of a file");
	if (asprintf(&target->partial, "%.*s.%s.lmdbio-partial", (int)(base - target->path),
		     target->path, base) < 0)
		return convert_fail(path, ENOMEM);
	target->exists = !lstat(target->path, &st);
	if (target->exists && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return convert_refuse(target->path,
				      "it exists and is no regular file: name another target");
	if (target->exists && form == FORM_LMDB && convert->force &&
	    (is_in_use(target->path, true) || is_in_use(target->path, false)))
		return convert_refuse(
			target->path,
			"a program has it open: end the program, or name another target");
	return 0;
}

static const char *partial_name(const struct target *target)
{
	const char *base = strrchr(target->partial, '/');

	return base ? base + 1 : target->partial;
}

/* Before it is renamed or removed: without locks another process may have taken its name. */
static bool partial_is_ours(const struct target *target)
{
	return partial_is_named(target->directory_fd, partial_name(target), target->fd);
}

int target_open(struct target *target)
{
	const struct convert *convert = target->convert;
	int rc;

	if (target->exists && !convert->force)
		return convert_refuse(target->path, "it exists; -f overwrites it");
	if (!mkdir(target->directory, 0777))
		target->made = true;
	target->directory_fd = open(target->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (target->directory_fd < 0)
		return convert_fail(target->directory, errno);
	rc = partial_open(target->directory_fd, partial_name(target), 0600, convert->resume,
			  &target->fd, &target->resumed);
	if (rc == PARTIAL_BUSY || rc == PARTIAL_FOREIGN)
		return convert_refuse(target->partial, "%s",
				      partial_refusal_text((enum partial_refusal)rc));
	if (rc)
		return convert_fail(target->path, rc);
	target->created = true;
	return 0;
}

static int attributes_set(const struct target *target, const struct stat *like)
{
	struct timespec times[2];
	mode_t mask;

	if (!like) {
		mask = umask(0);
		umask(mask);
		return fchmod(target->fd, 0666 & ~mask) ? errno : 0;
	}
	/* Only root may give files away; for others it stays theirs. */
	if (fchown(target->fd, like->st_uid, like->st_gid) && errno != EPERM && errno != EINVAL)
		return errno;
	times[0] = like->st_atim;
	times[1] = like->st_mtim;
	if (fchmod(target->fd, like->st_mode & 0777) || futimens(target->fd, times))
		return errno;
	return 0;
}

/* Without -f nothing is overwritten, also not what has come to stand there meanwhile. */
static int partial_rename(const struct target *target)
{
	if (!partial_is_ours(target))
		return EBUSY;
	if (target->convert->force)
		return rename(target->partial, target->path) ? errno : 0;
	if (!renameat2(AT_FDCWD, target->partial, AT_FDCWD, target->path, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return errno;
	if (!access(target->path, F_OK))
		return EEXIST;
	return rename(target->partial, target->path) ? errno : 0;
}

/* Some file systems have no fsync of a directory. */
static int directory_sync(int fd)
{
	return fsync(fd) && errno != EINVAL && errno != ENOTSUP ? errno : 0;
}

static int parent_sync(int directory)
{
	int fd = openat(directory, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int rc = fd < 0 ? errno : directory_sync(fd);

	if (fd >= 0)
		close(fd);
	return rc;
}

int target_commit(struct target *target, const struct stat *like)
{
	int rc = attributes_set(target, like);

	if (!rc && fsync(target->fd))
		rc = errno;
	if (rc)
		return convert_fail(target->partial, rc);
	rc = partial_rename(target);
	if (rc)
		return convert_fail(target->path, rc);
	target->created = false;
	rc = directory_sync(target->directory_fd);
	if (!rc && target->made)
		rc = parent_sync(target->directory_fd);
	target->made = false;
	return rc ? convert_fail(target->directory, rc) : 0;
}

void target_close(struct target *target, bool resumable)
{
	const struct convert *convert = target->convert;
	bool keep = resumable && convert && (convert->keep_partial || convert->resume);

	if (target->created && !keep && partial_is_ours(target))
		unlink(target->partial);
	if (target->made && !(target->created && keep))
		rmdir(target->directory);
	if (target->fd >= 0)
		close(target->fd);
	if (target->directory_fd >= 0)
		close(target->directory_fd);
	free(target->path);
	free(target->directory);
	free(target->partial);
	*target = (struct target){.directory_fd = -1, .fd = -1};
}

int target_scratch(const struct target *target)
{
	char *name;
	int fd = open(target->directory, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

	if (fd >= 0)
		return fd;
	/* Not every file system can make a file without a name at once. */
	if (asprintf(&name, "%s/.lmdbio-scratch-XXXXXX", target->directory) < 0) {
		convert_fail(target->directory, ENOMEM);
		return -1;
	}
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		convert_fail(name, errno);
	else
		unlink(name);
	free(name);
	return fd;
}
