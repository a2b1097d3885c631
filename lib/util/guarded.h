/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens directories that other users cannot change, and keeps them by descriptor.
 *
 * lmdbio keeps files in directories that the user names: staged copies, parts, the disk tier's
 * file. Where another user may write, that user can put a link, a directory or a file of its own in
 * the way, or swap two of lmdbio's. So a directory is opened first, judged then, and used by its
 * descriptor from there on: it must belong to this user or to root, and neither its group nor
 * other users may write to it.
 *
 * A directory for all users (/tmp: mode 1777) is replaced by this user's own subdirectory in it,
 * lmdbio-UID. Only its owner can rename or remove it there, because the directory above is sticky.
 */
#ifndef LMDBIO_UTIL_GUARDED_H
#define LMDBIO_UTIL_GUARDED_H

#include <stdbool.h>
#include <sys/stat.h>

struct guarded {
	int fd;      /* -1: not open */
	char *path;  /* of the directory that is used, malloc'ed */
	bool shared; /* this user's subdirectory in a directory for all users */
};

/* Opens the directory that `path` leads to. Follows a symbolic link if it belongs to this user or
 * root. `make`: makes a missing subdirectory in a directory for all users. Returns 0, EPERM or
 * another errno. EPERM: other users can change the directory; a line on standard error names it,
 * once, and what to do. To be closed if it was opened. */
int guarded_open(struct guarded *guarded, const char *path, bool make);

/* Opens directory `name` in `above` in the same way. `make`: makes it, mode 0755 less the umask. */
int guarded_below(struct guarded *guarded, const struct guarded *above, const char *name, bool make);

/* Closes a directory. guarded_undo() removes this user's subdirectory in a directory for all users
 * if the subdirectory is empty, also if another process has made it: each process that undoes its
 * work tries, and the last one succeeds. */
void guarded_close(struct guarded *guarded);
void guarded_undo(struct guarded *guarded);

/* Whether only this user or root can have made an open file: a regular file that belongs to one of
 * them, and that no other user may write. Returns 0, EPERM or an errno. */
int guarded_file(int fd);

#endif
