/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens, judges and makes directories that other users cannot change. */
#include "util/guarded.h"

#include "util/hash.h"
#include "util/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_owned(const struct stat *st)
{
	return st->st_uid == geteuid() || st->st_uid == 0;
}

static bool is_shut(const struct stat *st)
{
	return !(st->st_mode & (S_IWGRP | S_IWOTH));
}

/* Prints a refusal, but not the same one again: a program may open data sets by the thousand. */
static int refuse(const char *path, const struct stat *st)
{
	static _Atomic uint64_t told;
	uint64_t hash = hash_seeded(path, strlen(path), st->st_mode ^ (uint64_t)st->st_uid << 32);

	if (atomic_exchange(&told, hash) == hash)
		return EPERM;
	if (S_ISLNK(st->st_mode))
		log_refused("%s: not used, because it is a symbolic link that user %u has put there: "
			    "remove it, or name another directory",
			    path, (unsigned)st->st_uid);
	else if (!is_owned(st))
		log_refused("%s: not used, because it belongs to user %u, not to you or root: name a "
			    "directory of your own",
			    path, (unsigned)st->st_uid);
	else
		log_refused("%s: not used, because other users may write to it (mode %04o): "
			    "chmod go-w it, or name a directory of your own",
			    path, (unsigned)st->st_mode & 07777);
	return EPERM;
}

/* Opens a directory without following a link. Returns ELOOP if the name is a link. O_PATH, because
 * the directory may allow no more than opening its files. */
static int directory_open(int above, const char *name, int *fd)
{
	struct stat st;

	*fd = openat(above, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*fd >= 0)
		return 0;
	if (errno == ENOTDIR && !fstatat(above, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode))
		return ELOOP;
	return errno;
}

/* Whether a directory is for all users, but each user's files in it are the user's own. */
static bool is_sticky(const struct stat *st)
{
	return is_owned(st) && st->st_mode & S_ISVTX && !is_shut(st);
}

/* Opens and judges `name` in `above`. Its path is guarded->path, which is freed on failure. */
static int below(struct guarded *guarded, int above, const char *name)
{
	struct stat st;
	int rc = guarded->path ? directory_open(above, name, &guarded->fd) : ENOMEM;

	if (rc == ELOOP)
		rc = fstatat(above, name, &st, AT_SYMLINK_NOFOLLOW) ? errno
								    : refuse(guarded->path, &st);
	else if (!rc && fstat(guarded->fd, &st))
		rc = errno;
	else if (!rc && (!is_owned(&st) || !is_shut(&st)))
		rc = refuse(guarded->path, &st);
	if (rc)
		guarded_close(guarded);
	return rc;
}

/* Replaces a directory for all users by this user's own directory in it. */
static int own_open(struct guarded *guarded, const char *path, bool make)
{
	struct guarded own = {.fd = -1};
	char name[32];
	int rc, unmade = 0;

	snprintf(name, sizeof(name), "lmdbio-%u", (unsigned)geteuid());
	if (asprintf(&own.path, "%s/%s", path, name) < 0)
		own.path = NULL;
	own.shared = true;
	if (make && mkdirat(guarded->fd, name, 0700))
		unmade = errno;
	rc = below(&own, guarded->fd, name);
	if (rc == ENOENT && unmade)
		rc = unmade;
	guarded_close(guarded);
	*guarded = own;
	return rc;
}

/* Replaces *path, a symbolic link of this user or root, by the directory that the link leads to.
 * Returns 0 or an errno. */
static int follow(char **path)
{
	struct stat st;
	char *name;

	if (lstat(*path, &st))
		return errno;
	if (S_ISLNK(st.st_mode) && !is_owned(&st))
		return refuse(*path, &st);
	name = realpath(*path, NULL);
	if (!name)
		return errno;
	free(*path);
	*path = name;
	return 0;
}

/* Copies a path without slashes at its end, because with one a link would be followed. */
static char *without_slashes(const char *path)
{
	size_t length = strlen(path);

	while (length > 1 && path[length - 1] == '/')
		length--;
	return strndup(path, length);
}

int guarded_open(struct guarded *guarded, const char *path, bool make)
{
	char *name = without_slashes(path);
	struct stat st;
	int rc;

	*guarded = (struct guarded){.fd = -1};
	if (!name)
		return ENOMEM;
	rc = directory_open(AT_FDCWD, name, &guarded->fd);
	if (rc == ELOOP)
		rc = follow(&name);
	if (!rc && guarded->fd < 0)
		rc = directory_open(AT_FDCWD, name, &guarded->fd);
	if (!rc && fstat(guarded->fd, &st))
		rc = errno;
	if (rc)
		goto done;
	if (is_sticky(&st)) {
		rc = own_open(guarded, name, make);
	} else if (!is_owned(&st) || !is_shut(&st)) {
		rc = refuse(name, &st);
	} else {
		guarded->path = name;
		name = NULL;
	}
done:
	free(name);
	if (rc)
		guarded_close(guarded);
	return rc;
}

int guarded_below(struct guarded *guarded, const struct guarded *above, const char *name, bool make)
{
	*guarded = (struct guarded){.fd = -1};
	if (make && mkdirat(above->fd, name, 0755) && errno != EEXIST)
		return errno;
	if (asprintf(&guarded->path, "%s/%s", above->path, name) < 0)
		guarded->path = NULL;
	return below(guarded, above->fd, name);
}

void guarded_close(struct guarded *guarded)
{
	if (guarded->fd >= 0)
		close(guarded->fd);
	free(guarded->path);
	guarded->fd = -1;
	guarded->path = NULL;
}

void guarded_undo(struct guarded *guarded)
{
	if (guarded->shared && guarded->path)
		(void)rmdir(guarded->path);
}

int guarded_file(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return errno;
	return S_ISREG(st.st_mode) && is_owned(&st) && is_shut(&st) ? 0 : EPERM;
}
