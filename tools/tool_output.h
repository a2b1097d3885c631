/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes what a command makes to a named file that is whole or not there. A command has one such
 * file. */
#ifndef LMDBIO_TOOLS_TOOL_OUTPUT_H
#define LMDBIO_TOOLS_TOOL_OUTPUT_H

#include "tool_common.h"

#include <stdio.h>

/* The data set that the command reads: its data file is refused as the output file. */
void tool_output_spare(const char *data_set);

/* Standard output becomes the file `path`. What is written goes to ".NAME.lmdbio-partial" beside
 * it, which takes its name in tool_output_commit(): a file that was there before stays until then.
 * Where no file can be made beside it, or it is a device, a pipe or what /dev/stdout leads to, it
 * is written in place. Links on the way are followed as output_path_find() says. Returns 0 or
 * TOOL_FAILED, and the person has been told. */
int tool_output_file(const struct tool *tool, const char *path);

/* The same for a command that prints something else to standard output: a stream of its own, or
 * NULL, and the person has been told. */
FILE *tool_output_beside(const struct tool *tool, const char *path);

/* As tool_output_end(), for the stream that goes to the file. If all was written and
 * `whole` says that this is all there is, the file gets its name; otherwise it is removed, and
 * where that cannot be, a person is told that it is not whole. */
int tool_output_commit(const struct tool *tool, int status, bool whole);

#endif
