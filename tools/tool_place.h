/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares where the libraries of this installation, or of this build tree, lie as seen from the
 * running command; what a directory is called on a node; and what a launcher must be told so that its
 * processes are one job. */
#ifndef LMDBIO_TOOLS_TOOL_PLACE_H
#define LMDBIO_TOOLS_TOOL_PLACE_H

struct mpi_module;
struct mpi_place;

/* Finds lmdbio's library `name`: installed (also below DESTDIR, also moved as a whole), or in the
 * build tree's folder `built` ("compat"). Without either, where it would have been installed.
 * `path` has PATH_MAX bytes. */
void tool_place_library(const char *name, const char *built, char *path);

/* The same for a program that only commands start: in libexec, or in the folder `built` itself. */
void tool_place_program(const char *name, const char *built, char *path);

/* Loads the module with MPI, which stays loaded. NULL: it is not there or of another release, and
 * the person has been told; `command` stands before the line. */
const struct mpi_module *tool_place_module(const char *command);

/* Loads the module, starts MPI and fills in `place`. NULL: one of the two has failed; the user has been told, and the
 * launcher knows this process as one of the job, so that its failing exit ends the job instead of leaving the other
 * ranks waiting. */
const struct mpi_module *tool_place_begin(const char *command, struct mpi_place *place);

/* Ends the job, because MPI fails in this rank and others may wait for it; a person is told.
 * Status TOOL_FAILED. */
void tool_place_break(const struct mpi_module *module, const char *command);
/* Ends MPI: returns as the module's end(), or ends the job as above. */
int tool_place_end(const struct mpi_module *module, const char *command);

/* A directory's name with "%n" in it made the node's number, for nodes that are made of one
 * machine. What is returned lasts; NULL: there is no memory, or `directory` was NULL. */
const char *tool_place_expand(const char *directory, const struct mpi_place *place);

/* The same with LMDBIO_STAGED, in the environment, before anybody has looked there. What is in it
 * then, or "". */
const char *tool_place_staged(const struct mpi_place *place);

/* Warns of a launcher that has started several processes which MPI does not know to be one job, as
 * srun does without a PMI: each has `place` alone. The first of the processes prints the line, which
 * says what to do; `command` stands before it. */
void tool_place_tasks(const char *command, const struct mpi_place *place);

#endif
