/* SPDX-License-Identifier: OLDAP-2.8 */
/* Turns data into a data.mdb. */
#ifndef LMDBIO_TOOLS_CONVERT_UNPACK_H
#define LMDBIO_TOOLS_CONVERT_UNPACK_H

#include "convert_source.h"
#include "convert_target.h"

/* Writes all data of the source into target->fd, chunks in any order. Leaves chunks that a resumed
 * target already holds, by the container's checksums or because they equal the source's; *resumed
 * is their bytes. */
int unpack_run(struct convert *convert, struct target *target, struct source *source,
	       uint64_t *resumed);

/* Reads a range of a resumed target. Returns false if not resumed, or a part is missing. */
bool unpack_has(const struct target *target, uint8_t *buffer, uint64_t offset, size_t length);

/* Bytes of data that one worker reads or writes at a time. */
uint32_t unpack_chunk(const struct source *source);

#endif
