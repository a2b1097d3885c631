/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes a command's output to a named file that is complete or absent. A command has one such
 * file. */
#ifndef LMDBIO_TOOLS_TOOL_OUTPUT_H
#define LMDBIO_TOOLS_TOOL_OUTPUT_H

#include "tool_common.h"

#include <stdio.h>

/* Names the data set that the command reads: its data file and its lock file are refused as the
 * output file. Programs that have the lock file open would not see those that find another. */
void tool_output_spare(const char *data_set);

/* Makes standard output the file `path`. The output goes to ".NAME.lmdbio-partial" beside it, which
 * gets the name in tool_output_commit(); an existing file stays until then. Output is written in
 * place if no file can be made beside `path`, or if it is a device, a pipe or the target of
 * /dev/stdout. Links on the way are followed as output_path_find() says. Returns 0, or TOOL_FAILED
 * after a message. */
int tool_output_file(const struct tool *tool, const char *path);

/* The same for a command that prints something else to standard output. Returns a stream of its
 * own, or NULL after a message. */
FILE *tool_output_beside(const struct tool *tool, const char *path);

/* As tool_output_end(), for the stream to the file. If all was written, and `whole` says that the
 * output is complete, the file gets its name. Otherwise the file is removed; if that fails, a
 * message says that it is incomplete. */
int tool_output_commit(const struct tool *tool, int status, bool whole);

#endif
