/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a container gives back every byte that was put into it. */
#ifndef LMDBIO_TOOLS_CHECK_CONTAINER_H
#define LMDBIO_TOOLS_CHECK_CONTAINER_H

#include "check_report.h"

#include "io/io.h"

#include <stdint.h>

/* Reads all of a container (an io of io_open_container()): first the index and the rules that
 * connect its parts, then every chunk, and compares the chunk's checksum. Calls `progress` with the
 * chunks read and all chunks. Returns 0 (findings are in the report), ENOMEM, EINTR (a signal has
 * come), or the errno of a read. Memory: one chunk, and the memory of the container's io. */
int check_container(struct check_report *report, struct io *container,
		    void (*progress)(uint64_t done, uint64_t all));

#endif
