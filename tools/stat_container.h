/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows a container's chunks. */
#ifndef LMDBIO_TOOLS_STAT_CONTAINER_H
#define LMDBIO_TOOLS_STAT_CONTAINER_H

#include <jansson.h>

/* Shows the container at `path` (or in that directory): its ratio, and one line for each chunk.
 * Prints them, or puts them into *json if `json` is not NULL; *json stays NULL for a data file that
 * is no container. Returns 0, MDB_INVALID if it is no container, or as io_open_container(). */
int stat_container(const char *path, json_t **json);

#endif
