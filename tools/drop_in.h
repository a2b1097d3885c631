/* SPDX-License-Identifier: OLDAP-2.8 */
/* Judges whether a file is lmdbio's library, fit for preloading, or an LMDB 1.0. */
#ifndef LMDBIO_TOOLS_DROP_IN_H
#define LMDBIO_TOOLS_DROP_IN_H

#include "tool_common.h"

/* Judges lmdbio's library. `path` holds PATH_MAX bytes and becomes absolute, with its file name.
 * `option` names another library. Returns 0, or TOOL_FAILED after a message. */
int drop_in_judge(const struct tool *tool, const char *option, char *path);

/* Judges the library of an LMDB 1.0, which lmdbio loads to write, in the same way. */
int lmdb_1_judge(const struct tool *tool, const char *option, const char *path);

#endif
