/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes the file that a command's output has while it is not whole: one process at a time has it,
 * and what a killed one has left is taken up or replaced. */
#ifndef LMDBIO_TOOLS_PARTIAL_FILE_H
#define LMDBIO_TOOLS_PARTIAL_FILE_H

#include <stdbool.h>
#include <sys/types.h>

enum partial_refusal {
	PARTIAL_BUSY = -1,    /* another process is writing it */
	PARTIAL_FOREIGN = -2, /* what has the name is no such file of this user */
};

/* Opens `name` in the directory for reading and writing, locked until *fd and all its copies are
 * closed; a new file has `mode`. A file that is there, and that no process has locked, is kept
 * (*resumed is true then) or, without `keep`, replaced by a new one. A file system without locks does
 * without. Returns 0, an errno, or a partial_refusal. */
int partial_open(int directory, const char *name, mode_t mode, bool keep, int *fd, bool *resumed);

/* What a partial_refusal means, and what the user can do. */
const char *partial_refusal_text(enum partial_refusal refusal);

/* Whether the name still is that of the open file: to be asked before the name is given another or
 * removed. */
bool partial_is_named(int directory, const char *name, int fd);

#endif
