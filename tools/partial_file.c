/* SPDX-License-Identifier: OLDAP-2.8 */
/* Has processes that write to one name exclude each other by a lock of the file. */
#include "partial_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_ATTEMPTS = 100 }; /* each but the last has met another process's change */

/* 0: the name is the open file's; EAGAIN: it is not; or another errno: that cannot be told. */
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

/* Whether an entry that was found is none that this user may read and write: a link, a directory, a socket,
 * a file that another user has made. */
static bool is_foreign(int rc)
{
	return rc == ELOOP || rc == EISDIR || rc == ENXIO || rc == EACCES || rc == EPERM;
}

/* EAGAIN: the name has gone meanwhile. */
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

/* One attempt; EAGAIN: another process has changed what the name stands for. */
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
	/* Its last holder may have given it its name, or removed it, before the lock was free. */
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
