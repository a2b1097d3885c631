/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a partial file a complete one. */
#include "convert_target.h"

#include "convert_in_use.h"
#include "output_path.h"
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

/* Returns whether the target is a directory. A name that does not exist is a file's if it looks
 * like one, else a directory's, in which LMDB programs look for their data file. */
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

/* Returns whether a failure leaves the partial file for --resume. */
static bool is_kept(const struct target *target)
{
	const struct convert *convert = target->convert;

	return target->resumable && convert && (convert->keep_partial || convert->resume);
}

/* Refuses to replace a data file that a program has open. Readers would take the old and the new file
 * for the same, and writers would go on with the old one. */
static int unused_judge(const struct target *target)
{
	const char *work = "";

	if (!target->convert->force || in_use_look(target->path) != EBUSY)
		return 0;
	/* After hours of work, say how to keep it. */
	if (target->created && is_kept(target))
		work = "; --resume then goes on from the partial file";
	else if (target->created && target->resumable)
		work = "; with --keep-partial the work is not lost";
	return convert_refuse(target->path,
			      "a program has it open: end the program, or name another target%s",
			      work);
}

int target_name(struct target *target, const struct convert *convert, enum convert_form form)
{
	const char *path = convert->target, *base = basename(path);
	bool in_directory = is_directory(convert);
	size_t length = in_directory ? strlen(path) : (size_t)(base - path);
	struct stat st;
	int n;

	*target = (struct target){.convert = convert, .directory_fd = -1, .fd = -1};
	if (!*(in_directory ? path : base))
		return convert_refuse(path, "this is no name of a file");
	while (length > 1 && path[length - 1] == '/')
		length--;
	target->directory = length ? strndup(path, length) : strdup(".");
	if (!target->directory)
		return convert_fail(path, ENOMEM);
	if (in_directory)
		base = form == FORM_CONTAINER ? "data.mdb.zst" : "data.mdb";
	n = in_directory ? asprintf(&target->path, "%s%s%s", target->directory,
				    ends_in(target->directory, "/") ? "" : "/", base)
			 : asprintf(&target->path, "%s", path);
	if (n < 0 || asprintf(&target->partial, "%.*s.%s.lmdbio-partial",
			      (int)(basename(target->path) - target->path), target->path, base) < 0)
		return convert_fail(path, ENOMEM);
	target->exists = !lstat(target->path, &st);
	if (target->exists && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return convert_refuse(target->path,
				      "it exists and is no regular file: name another target");
	return target->exists ? unused_judge(target) : 0;
}

static const char *partial_name(const struct target *target)
{
	return basename(target->partial);
}

/* Returns whether the partial file still has its name, before it is renamed or removed: without
 * locks another process may have taken the name. */
static bool partial_is_ours(const struct target *target)
{
	return partial_is_named(target->directory_fd, partial_name(target), target->fd);
}

/* Opens the target's existing directory. */
static int directory_enter(struct target *target)
{
	struct output_path found;
	char *inside;
	int rc;

	if (asprintf(&inside, "%s/.", target->directory) < 0)
		return convert_fail(target->directory, ENOMEM);
	/* Another user may own the directory, but not the links to it. */
	rc = output_path_find(&found, inside);
	free(inside);
	if (rc == OUTPUT_PATH_PLANTED)
		return convert_refuse(target->path, "another user may have put a link of this path "
						    "there: name another target");
	if (!rc) {
		target->directory_fd = openat(found.directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		rc = target->directory_fd < 0 ? errno : 0;
	}
	output_path_close(&found);
	return rc ? convert_fail(target->directory, rc) : 0;
}

/* Opens the target's directory, or makes it. From then on only this descriptor names files in the
 * directory: another user may change links on the way at any time. */
static int directory_open(struct target *target)
{
	struct output_path found;
	int rc = output_path_find(&found, target->directory);

	if (!rc && found.file < 0) {
		target->made = !mkdirat(found.directory, found.name, 0777);
		rc = target->made || errno == EEXIST ? 0 : convert_fail(target->directory, errno);
	} else {
		rc = 0; /* directory_enter() looks again and reports it */
	}
	if (!rc)
		rc = directory_enter(target);
	if (rc && target->made) {
		unlinkat(found.directory, found.name, AT_REMOVEDIR);
		target->made = false;
	}
	output_path_close(&found);
	return rc;
}

int target_open(struct target *target)
{
	const struct convert *convert = target->convert;
	int rc;

	if (target->exists && !convert->force)
		return convert_refuse(target->path, "it exists; -f overwrites it");
	rc = directory_open(target);
	if (rc)
		return rc;
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

/* Returns the errno of a failed call that sets an attribute. Only root may give files away, and some
 * file systems have no owners, modes or times, or one owner for all files: the data is whole
 * without. */
static int attribute_error(int failed)
{
	bool refused = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL;

	return failed && !refused ? errno : 0;
}

static int attributes_set(const struct target *target, const struct stat *like)
{
	struct timespec times[2];
	mode_t mask;
	int rc;

	if (!like) {
		mask = umask(0);
		umask(mask);
		return attribute_error(fchmod(target->fd, 0666 & ~mask));
	}
	times[0] = like->st_atim;
	times[1] = like->st_mtim;
	rc = attribute_error(fchown(target->fd, like->st_uid, like->st_gid));
	if (!rc)
		rc = attribute_error(fchmod(target->fd, like->st_mode & 0777));
	if (!rc)
		rc = attribute_error(futimens(target->fd, times));
	return rc;
}

/* Renames the partial file. Without -f this overwrites nothing, not even a file that came there
 * meanwhile. */
static int partial_rename(const struct target *target)
{
	const char *from = partial_name(target), *to = basename(target->path);
	int in = target->directory_fd;

	if (!partial_is_ours(target))
		return EBUSY;
	if (!target->convert->force) {
		if (!renameat2(in, from, in, to, RENAME_NOREPLACE))
			return 0;
		if (errno != EINVAL && errno != ENOSYS)
			return errno;
		if (!faccessat(in, to, F_OK, AT_SYMLINK_NOFOLLOW))
			return EEXIST;
		if (errno != ENOENT)
			return errno;
	}
	return renameat(in, from, in, to) ? errno : 0;
}

/* Syncs a directory. Some file systems cannot. */
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
	/* The conversion may have taken hours. */
	rc = unused_judge(target);
	if (rc)
		return rc;
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

int target_settle(struct target *target)
{
	int rc = directory_enter(target);

	if (rc)
		return rc;
	target->fd = openat(target->directory_fd, basename(target->path), O_RDONLY | O_CLOEXEC);
	if (target->fd < 0 || fsync(target->fd))
		return convert_fail(target->path, errno);
	rc = directory_sync(target->directory_fd);
	return rc ? convert_fail(target->directory, rc) : 0;
}

/* Removes the directory that was made here, if it is empty and still has its name. */
static void directory_remove(const struct target *target)
{
	char name[NAME_MAX + sizeof("../")];

	snprintf(name, sizeof(name), "../%s", basename(target->directory));
	if (partial_is_named(target->directory_fd, name, target->directory_fd))
		unlinkat(target->directory_fd, name, AT_REMOVEDIR);
}

void target_close(struct target *target)
{
	bool keep = is_kept(target);

	if (target->created && !keep && partial_is_ours(target))
		unlinkat(target->directory_fd, partial_name(target), 0);
	if (target->made && !(target->created && keep))
		directory_remove(target);
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
	/* Some file systems cannot make a file without a name at once. */
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
