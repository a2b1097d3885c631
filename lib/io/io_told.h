/* SPDX-License-Identifier: OLDAP-2.8 */
/* Knows that the kernel does not tell every user what its page cache holds. */
#ifndef LMDBIO_IO_TOLD_H
#define LMDBIO_IO_TOLD_H

#include <stdbool.h>

/* Whether mincore(2) says of this file what is in the page cache. false: it says that all is. Any
 * thread. */
bool io_is_told(int fd);

#endif
