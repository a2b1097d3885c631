/* SPDX-License-Identifier: OLDAP-2.8 */
/* Locks the file of one name, so that processes that write to it exclude each other. */
#include "partial_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_ATTEMPTS = 100 }; /* each attempt but the last has met another process's change */

/* Returns 0 if the name is the open file's, EAGAIN if it is not, or the errno of a failed look. */
static int named_look(int directory, const char *name, int fd)
{
	struct stat named, open;

	if (fstatat(directory, name, &named, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? EAGAIN : errno;
	if (fstat(fd, &open))
		return errno;
	return named.st_dev == open.st_dev && named.st_ino == open.st_ino ? 0 : EAGAIN;
}

bool partial_is_named(int directory, const char *name, int fd)
{
	return !named_look(directory, name, fd);
}

/* Returns whether a code means an entry that this user cannot read and write as a file: a link, a
 * directory, a socket, another user's file. */
static bool is_foreign(int rc)
{
	return rc == ELOOP || rc == EISDIR || rc == ENXIO || rc == EACCES || rc == EPERM;
}

/* Opens the existing file. Returns EAGAIN if another process has removed the name meanwhile. */
static int there_open(int directory, const char *name, int *fd)
{
	struct stat st;

	*fd = openat(directory, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (*fd < 0)
		return errno == ENOENT ? EAGAIN : is_foreign(errno) ? PARTIAL_FOREIGN : errno;
	if (fstat(*fd, &st))
		return errno;
	return S_ISREG(st.st_mode) && st.st_uid == geteuid() && st.st_nlink <= 1 ? 0
										 : PARTIAL_FOREIGN;
}

/* Makes one attempt. Returns EAGAIN if another process has changed the name's file. */
static int attempt(int directory, const char *name, mode_t mode, bool keep, int *fd, bool *resumed)
{
	int rc;

	*resumed = false;
	*fd = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (*fd < 0) {
		if (errno != EEXIST)
			return errno;
		*resumed = true;
		rc = there_open(directory, name, fd);
		if (rc)
			return rc;
	}
	if (flock(*fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
		return PARTIAL_BUSY;
	/* The last holder may have renamed or removed the file before it released the lock. */
	rc = named_look(directory, name, *fd);
	if (rc || !*resumed || keep)
		return rc;
	return unlinkat(directory, name, 0) ? errno : EAGAIN;
}

int partial_open(int directory, const char *name, mode_t mode, bool keep, int *fd, bool *resumed)
{
	int rc = EAGAIN;

	for (int n = 0; n < MOST_ATTEMPTS && rc == EAGAIN; n++) {
		rc = attempt(directory, name, mode, keep, fd, resumed);
		if (rc && *fd >= 0)
			close(*fd);
		if (rc)
			*fd = -1;
	}
	return rc == EAGAIN ? EBUSY : rc;
}

const char *partial_refusal_text(enum partial_refusal refusal)
{
	return refusal == PARTIAL_BUSY
		       ? "another command is writing it: wait until that one ends"
		       : "it is there and not a partial file of yours: remove it, or name another target";
}
