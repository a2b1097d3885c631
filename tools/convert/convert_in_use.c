/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tests and takes the locks of programs that have an environment open. */
#include "convert_in_use.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first byte of a lock file. Each program holds a shared lock of it as long as it has the
 * environment open; the program that sets up the file holds an exclusive one. The kernel releases a
 * lock of the open file description when that is closed, but no other lock of this process. */
static const struct flock first_byte = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

/* Opens one of the lock files; *fd is -1 if it does not exist. Returns 0 or an errno. */
static int lock_open(const char *data, bool named, int flags, int *fd)
{
	const char *base = basename(data);
	char *path;
	int rc = 0;

	*fd = -1;
	if (!named && strcmp(base, "data.mdb"))
		return 0;
	if (named ? asprintf(&path, "%s-lock", data) < 0
		  : asprintf(&path, "%.*slock.mdb", (int)(base - data), data) < 0)
		return ENOMEM;
	*fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (*fd < 0 && errno != ENOENT)
		rc = errno;
	free(path);
	return rc;
}

int in_use_by(const char *data, bool named)
{
	struct flock lock = first_byte;
	int fd, rc = lock_open(data, named, O_RDONLY, &fd);

	if (fd < 0)
		return rc;
	/* On a file system without locks, no program can hold one. */
	if (!fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK)
		rc = EBUSY;
	close(fd);
	return rc;
}

int in_use_look(const char *data)
{
	int rc = in_use_by(data, true);

	return rc ? rc : in_use_by(data, false);
}

int in_use_prevent(const char *data, int held[IN_USE_LOCKS])
{
	int rc = 0;

	for (int i = 0; i < IN_USE_LOCKS; i++) {
		struct flock lock = first_byte;

		held[i] = -1;
		if (!rc)
			rc = lock_open(data, i, O_RDWR, &held[i]);
		if (!rc && held[i] >= 0 && fcntl(held[i], F_OFD_SETLK, &lock) &&
		    (errno == EAGAIN || errno == EACCES))
			rc = EBUSY;
	}
	return rc;
}

void in_use_allow(const int held[IN_USE_LOCKS])
{
	for (int i = 0; i < IN_USE_LOCKS; i++)
		if (held[i] >= 0)
			close(held[i]);
}
