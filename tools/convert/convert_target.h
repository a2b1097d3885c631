/* SPDX-License-Identifier: OLDAP-2.8 */
/* Gives a file its final name only when it is whole and on the disk.
 *
 * NAME is written as .NAME.lmdbio-partial in the same directory, locked while a process is at it,
 * and renamed when it has been synced.
 */
#ifndef LMDBIO_TOOLS_CONVERT_TARGET_H
#define LMDBIO_TOOLS_CONVERT_TARGET_H

#include "convert.h"

#include <sys/stat.h>

struct target {
	const struct convert *convert;
	char *path;      /* the final file */
	char *directory; /* that it is in */
	char *partial;   /* its path while it is written */
	int directory_fd;
	int fd;       /* open for reading and writing */
	bool exists;  /* the final file does already */
	bool made;    /* the directory is ours */
	bool resumed; /* the partial file was there */
	bool created; /* it is ours to remove */
};

/* Finds the final name of convert->target for a container or an LMDB file (a directory gets its
 * data.mdb.zst or data.mdb), and whether it is there. Writes nothing. */
int target_name(struct target *target, const struct convert *convert, enum convert_form form);

/* Makes the partial file, or with convert->resume takes up the one that is there. Refuses to go on
 * where the final file exists and convert->force is not given. */
int target_open(struct target *target);

/* Makes the file durable and gives it its name. It gets the mode, the times and, where that is
 * allowed, the owner of `like`; NULL: those of any new file. */
int target_commit(struct target *target, const struct stat *like);

/* Opens the final file, which is there, and makes it durable. */
int target_settle(struct target *target);

/* Lets go of everything. A partial file that was not committed is removed, unless convert says that
 * it is to be kept and `resumable` that it is of use. */
void target_close(struct target *target, bool resumable);

/* A new file without a name in the target's directory; -1, and the person has been told. */
int target_scratch(const struct target *target);

#endif
