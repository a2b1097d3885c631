/* What only this file knows: whether the machine has a processor to spare. */
#ifndef LMDBIO_UTIL_PROCESSOR_H
#define LMDBIO_UTIL_PROCESSOR_H

#include <stdbool.h>

/* Whether one more thread would have a processor to itself at this moment: fewer tasks run than
 * this thread may use processors. Reads a file of /proc; false where there is none. Any thread. */
bool processor_is_free(void);

#endif
