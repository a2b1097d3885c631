/* What only this file knows: where the libraries of this installation, or of this build tree, lie
 * as seen from the running command.
 */
#ifndef LMDBIO_TOOLS_TOOL_PLACE_H
#define LMDBIO_TOOLS_TOOL_PLACE_H

struct mpi_module;

/* Finds lmdbio's library `name`: installed (also below DESTDIR, also moved as a whole), or in the
 * build tree's folder `built` ("compat"). Without either, where it would have been installed.
 * `path` has PATH_MAX bytes. */
void tool_place_library(const char *name, const char *built, char *path);

/* Loads the module with MPI, which stays loaded. NULL: it is not there or of another release, and
 * the person has been told; `command` stands before the line. */
const struct mpi_module *tool_place_module(const char *command);

#endif
