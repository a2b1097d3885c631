/* SPDX-License-Identifier: OLDAP-2.8 */
/* Opens the file of a command's output while it is incomplete. One process at a time has the file;
 * another process resumes or replaces the file of a killed one. */
#ifndef LMDBIO_TOOLS_PARTIAL_FILE_H
#define LMDBIO_TOOLS_PARTIAL_FILE_H

#include <stdbool.h>
#include <sys/types.h>

enum partial_refusal {
	PARTIAL_BUSY = -1,    /* another process is writing it */
	PARTIAL_FOREIGN = -2, /* the name belongs to no such file of this user */
};

/* Opens `name` in the directory for reading and writing, locked until *fd and all its copies are
 * closed. A new file has `mode`. An existing file that no process has locked is kept (*resumed
 * becomes true) or, without `keep`, replaced by a new one. On a file system without locks, nothing
 * is locked. Returns 0, an errno, or a partial_refusal. */
int partial_open(int directory, const char *name, mode_t mode, bool keep, int *fd, bool *resumed);

/* Says what a partial_refusal means, and what the user can do. */
const char *partial_refusal_text(enum partial_refusal refusal);

/* Returns whether the name is still the open file's. Ask before you rename or remove the name. */
bool partial_is_named(int directory, const char *name, int fd);

#endif
