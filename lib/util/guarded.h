/* SPDX-License-Identifier: OLDAP-2.8 */
/* Directories that other users cannot change, and how they are kept by descriptor.
 *
 * lmdbio keeps files in directories that the user names: staged copies, parts, the disk tier's
 * file. Where another user may write, that user can put a link, a directory or a file of its own in
 * the way, or swap two of ours. So a directory is opened first, judged then, and used by its
 * descriptor from there on: it must belong to this user or to root, and neither its group nor
 * others may write to it.
 *
 * In a directory for everybody (/tmp: mode 1777) a subdirectory of this user's alone takes its
 * place, lmdbio-UID. Only its owner can rename or remove it there, because the directory above is
 * sticky.
 */
#ifndef LMDBIO_UTIL_GUARDED_H
#define LMDBIO_UTIL_GUARDED_H

#include <stdbool.h>
#include <sys/stat.h>

struct guarded {
	int fd;      /* -1: not open */
	char *path;  /* of the directory that is used, malloc'ed */
	bool shared; /* it is this user's subdirectory in a directory for everybody */
};

/* Opens the directory that `path` leads to. A symbolic link is followed where it belongs to this user or
 * root. `make`: the subdirectory in a directory for everybody is made if it is missing. Returns 0; EPERM:
 * other users can change the directory, which a line on standard error names with what to do, once;
 * another errno. To be closed if it was opened. */
int guarded_open(struct guarded *guarded, const char *path, bool make);

/* The same for a directory in one that was opened so. `make`: it is made, mode 0755 less the umask. */
int guarded_below(struct guarded *guarded, const struct guarded *above, const char *name, bool make);

/* Closes it. guarded_undo() removes this user's subdirectory in a directory for everybody if the
 * subdirectory is empty, also if another process has made it: each process that undoes its work tries, and
 * the last one succeeds. */
void guarded_close(struct guarded *guarded);
void guarded_undo(struct guarded *guarded);

/* Whether only this user or root can have put an open file there: a regular one that belongs to one of
 * them, with no other user's leave to write. 0, EPERM or an errno. */
int guarded_file(int fd);

#endif
