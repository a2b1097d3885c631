/* SPDX-License-Identifier: OLDAP-2.8 */
/* Gives a file its final name only when it is complete and on the disk.
 *
 * NAME is written as .NAME.lmdbio-partial in the same directory, locked during the work, and
 * renamed after it was synced.
 */
#ifndef LMDBIO_TOOLS_CONVERT_TARGET_H
#define LMDBIO_TOOLS_CONVERT_TARGET_H

#include "convert.h"

#include <sys/stat.h>

struct target {
	const struct convert *convert;
	char *path;      /* the final file */
	char *directory; /* of the final file */
	char *partial;   /* its path during the work */
	int directory_fd;
	int fd;       /* open for reading and writing */
	bool exists;  /* the final file exists already */
	bool made;    /* this process made the directory */
	bool resumed; /* the partial file existed */
	bool created; /* this process may remove it */
	bool resumable; /* --resume can go on from the partial file; the caller sets it */
};

/* Finds the final name of convert->target for a container or an LMDB file (a directory gets its
 * data.mdb.zst or data.mdb), and whether it exists. Writes nothing. */
int target_name(struct target *target, const struct convert *convert, enum convert_form form);

/* Makes the partial file, or with convert->resume opens the existing one. Refuses if the final file
 * exists and convert->force is not given. */
int target_open(struct target *target);

/* Makes the file durable and gives it its name, unless a program has the file of that name open: this
 * process must have closed it. The file gets the mode, the times and, if allowed,
 * the owner of `like`; NULL: those of any new file. */
int target_commit(struct target *target, const struct stat *like);

/* Opens the final file, which exists, and makes it durable. */
int target_settle(struct target *target);

/* Lets go of the target. Removes an uncommitted partial file, unless convert says to keep it and it
 * is `resumable`. */
void target_close(struct target *target);

/* Makes a new file without a name in the target's directory. Returns -1 after a message. */
int target_scratch(const struct target *target);

#endif
