/* SPDX-License-Identifier: OLDAP-2.8 */
/* Declares the places of this installation's (or build tree's) libraries as seen from the running
 * command, a directory's name on each node, and the advice for a launcher whose processes are not
 * one job. */
#ifndef LMDBIO_TOOLS_TOOL_PLACE_H
#define LMDBIO_TOOLS_TOOL_PLACE_H

struct mpi_module;
struct mpi_place;

/* Returns a name of the running command's file: a link of /proc, or, where there is no /proc, the
 * name by which the command was started. */
const char *tool_place_self(void);

/* Finds lmdbio's library `name`: installed (also below DESTDIR, also moved as a whole), or in the
 * build tree's folder `built` ("compat"). Without either, returns where it would be installed.
 * `path` has PATH_MAX bytes. */
void tool_place_library(const char *name, const char *built, char *path);

/* The same for a program that only commands start: in libexec, or in the folder `built` itself. */
void tool_place_program(const char *name, const char *built, char *path);

/* Loads the module with MPI, which stays loaded. Returns NULL, after a message that begins with
 * `command`, if the module is missing or of another release. */
const struct mpi_module *tool_place_module(const char *command);

/* Loads the module, starts MPI and fills in `place`. Returns NULL after a message if one of the two
 * fails. The launcher then knows this process as one of the job, so that its failing exit ends the
 * job instead of leaving the other ranks waiting. */
const struct mpi_module *tool_place_begin(const char *command, struct mpi_place *place);

/* Ends the job with status TOOL_FAILED and a message: MPI fails in this rank and others may wait
 * for it. */
void tool_place_break(const struct mpi_module *module, const char *command);
/* Ends MPI: returns as the module's end(), or ends the job as above. */
int tool_place_end(const struct mpi_module *module, const char *command);

/* Returns a directory's name with "%n" replaced by the node's number, for nodes that share a
 * machine. The result stays allocated. NULL: no memory, or `directory` was NULL. */
const char *tool_place_expand(const char *directory, const struct mpi_place *place);

/* Does the same with LMDBIO_STAGED in the environment, before other code reads it. Returns the
 * value, or "". */
const char *tool_place_staged(const struct mpi_place *place);

/* Warns of a launcher that started several processes which MPI does not know as one job, as srun
 * does without a PMI: each has `place` alone. The first process prints the line, which begins with
 * `command` and says what to do. */
void tool_place_tasks(const char *command, const struct mpi_place *place);

#endif
