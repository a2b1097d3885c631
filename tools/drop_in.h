/* SPDX-License-Identifier: OLDAP-2.8 */
/* Judges whether a file is lmdbio's library, which the dynamic loader can preload, or an LMDB 1.0. */
#ifndef LMDBIO_TOOLS_DROP_IN_H
#define LMDBIO_TOOLS_DROP_IN_H

#include "tool_common.h"

/* `path` holds PATH_MAX and becomes absolute; the file's name stays as it is. `option` is what the
 * user names another library by. Returns 0 or TOOL_FAILED, and the user has been told. */
int drop_in_judge(const struct tool *tool, const char *option, char *path);

/* The same of the library of an LMDB 1.0, which lmdbio loads to write. */
int lmdb_1_judge(const struct tool *tool, const char *option, const char *path);

#endif
