/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells how far the kernel reads ahead by itself. */
#ifndef LMDBIO_IO_AHEAD_H
#define LMDBIO_IO_AHEAD_H

#include <stdint.h>

/* Bytes that the kernel reads ahead of a program that goes through a file, unless it is asked
 * not to. 0: it does not tell, as of a file system over several devices, or where sysfs is not
 * mounted. Any thread. */
uint64_t io_kernel_ahead(int fd);

#endif
