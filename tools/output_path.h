/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the directory of an output file, and refuses names that another user may have planted on
 * the way. */
#ifndef LMDBIO_TOOLS_OUTPUT_PATH_H
#define LMDBIO_TOOLS_OUTPUT_PATH_H

#include <limits.h>
#include <stdbool.h>

struct output_path {
	int directory;           /* O_PATH descriptor of the directory; -1: not open */
	char name[NAME_MAX + 1]; /* of the file in that directory */
	int file;                /* O_PATH descriptor of this name's file; -1: no such file */
	bool is_descriptor;      /* the name is a link of /proc, to which /dev/stdout leads */
};

/* Returned by output_path_find() for a name that another user may have put there. */
#define OUTPUT_PATH_PLANTED (-1)

/* Follows `path` name by name, each looked up once, to the last link's target. The rules are the
 * kernel's fs.protected_symlinks, _hardlinks, _fifos and _regular, whether they are on or not. In a
 * sticky directory that all users may write to, the caller or the directory's owner must own the
 * file and each link on the way, and a regular file has one name. The file need not exist.
 * Lifetime: the descriptors are open until output_path_close(). Returns: 0, OUTPUT_PATH_PLANTED, or
 * an errno; after an error nothing is open. */
int output_path_find(struct output_path *found, const char *path);

void output_path_close(struct output_path *found);

#endif
