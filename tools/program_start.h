/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds a program and becomes it, or says why it cannot. */
#ifndef LMDBIO_TOOLS_PROGRAM_START_H
#define LMDBIO_TOOLS_PROGRAM_START_H

/* Finds the file that execvp() would take. Returns 0 or the errno: ENOENT, EACCES, ... `found`
 * holds PATH_MAX bytes. */
int program_find(const char *name, char *found);

/* Says what the user can do about a failed start. `path` is program_find()'s `found`. */
const char *program_remedy(const char *name, const char *path, int rc);

/* Becomes the program. Returns only if that fails, after a message of `tool` on standard error:
 * 126, or 127 if the program or its interpreter does not exist. */
int program_become(const char *tool, char **arguments);

/* Returns a file's path from the root, for a program that begins in another directory. The result
 * lasts until the next call. It is `path` itself if there is no memory or no working directory.
 * Threads: the main thread. */
const char *program_path(const char *path);

#endif
