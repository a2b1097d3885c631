/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds a program and becomes it, or says why not. */
#ifndef LMDBIO_TOOLS_PROGRAM_START_H
#define LMDBIO_TOOLS_PROGRAM_START_H

/* 0 and the file that execvp() would take, or the errno: ENOENT, EACCES, ... `found` holds
 * PATH_MAX. */
int program_find(const char *name, char *found);

/* What the user can do about a program that cannot be started. `path`: what program_find() has left. */
const char *program_remedy(const char *name, const char *path, int rc);

/* Becomes the program. Returns only where that fails, after a line of `tool` on standard error: 126, or
 * 127 where the program or its interpreter is not there. */
int program_become(const char *tool, char **arguments);

/* A file as a program finds it that begins in another directory: from the root. What is returned lasts; `path` itself where
 * there is no memory or no working directory. */
const char *program_path(const char *path);

#endif
