/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads the members of tars, one after the other, within the limits of struct convert_limits. */
#ifndef LMDBIO_TOOLS_IMPORT_ARCHIVE_H
#define LMDBIO_TOOLS_IMPORT_ARCHIVE_H

#include "convert.h"

/* A member. All of it but `value` lives until the receiving function returns. */
struct archive_member {
	const char *archive; /* the tar's path */
	const char *name;    /* without "./" in front */
	const char
		*hardlink; /* the name of the earlier member that is the same file; NULL: none is */
	void *value;       /* malloc()ed and owned by the taker; NULL with `hardlink` */
	size_t size;       /* bytes */
};

/* Reads the tars convert->sources, in order, compressed ones too, and calls `take` for each member
 * that is a file. Counts other members in convert->skipped. `take` returns 0 or an exit status,
 * which ends the walk. */
int archive_walk(struct convert *convert, int (*take)(void *to, struct archive_member *member),
		 void *to);

/* Counts `size` bytes from the current archive, before they are taken, and once more if a link
 * repeats them. Returns 0, or an exit status if the archive expands too far. */
int archive_charge(struct convert *convert, const char *path, const char *name, uint64_t size);

#endif
