/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells the largest piece of memory that a program asks for: it is linked with --wrap for each of these calls. */
#ifndef LMDBIO_TEST_COUNTED_MEMORY_H
#define LMDBIO_TEST_COUNTED_MEMORY_H

#include <stddef.h>

extern size_t memory_largest; /* bytes, since it was set to 0 */

/* That a walk over bad bytes took no larger piece than a run of compressed bytes (no more than the file has), or a
 * dictionary. */
void assert_modest(size_t file_size, size_t chunk_size);

#endif
