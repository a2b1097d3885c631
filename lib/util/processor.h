/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells whether the machine has a processor to spare. */
#ifndef LMDBIO_UTIL_PROCESSOR_H
#define LMDBIO_UTIL_PROCESSOR_H

#include <stdbool.h>

/* Whether one more thread would have a processor to itself at this moment: fewer tasks run than
 * this thread may use processors, and its control groups pay for. Reads a file of /proc; false
 * where there is none. The groups are asked at the first call of the process. Any thread. */
bool processor_is_free(void);

/* Whole processors that the control groups of this process have a quota for (cpu.max, cfs_quota);
 * a very large number where there is none. The files are looked for under `root` ("" is this
 * machine; tests make up others). Any thread. */
unsigned processor_quota(const char *root);

#endif
