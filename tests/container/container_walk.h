/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how everything in a container that may be damaged is read, and what
 * may come of it. */
#ifndef LMDBIO_TEST_CONTAINER_WALK_H
#define LMDBIO_TEST_CONTAINER_WALK_H

#include <stddef.h>
#include <stdint.h>

/* Opens the container in these bytes and asks it for the whole index, and for all data in reads of
 * several kinds, up to data_size bytes; with `data`, they are compared. Calls abort() when an
 * answer is none that the format has (an error that nobody named), and when a byte is handed out
 * that is not that of `data`. Returns 0 if all is good, or the first error. */
int container_walk(const uint8_t *bytes, size_t size, const uint8_t *data, size_t data_size);

#endif
