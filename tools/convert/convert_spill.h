/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps a list that may outgrow memory, in a file without a name. */
#ifndef LMDBIO_TOOLS_CONVERT_SPILL_H
#define LMDBIO_TOOLS_CONVERT_SPILL_H

#include <stddef.h>
#include <stdint.h>

enum { SPILL_BUFFER = 256 << 10 /* bytes of memory for each list */ };

struct spill {
	int fd; /* the spill's own */
	size_t used;
	uint64_t size; /* bytes in all */
	const uint8_t *view;
	uint8_t buffer[SPILL_BUFFER];
};

/* Begins an empty list; `fd` is an empty file for it alone. */
void spill_open(struct spill *spill, int fd);

/* Returns 0 or an errno. */
int spill_append(struct spill *spill, const void *bytes, size_t length);

/* Ends appending: from now on spill->view is the whole list, spill->size bytes in the page cache;
 * NULL if it is empty. Returns 0 or an errno. */
int spill_look(struct spill *spill);

void spill_close(struct spill *spill);

#endif
