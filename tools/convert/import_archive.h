/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads the members of tars, one after the other, within the limits of struct convert_limits. */
#ifndef LMDBIO_TOOLS_IMPORT_ARCHIVE_H
#define LMDBIO_TOOLS_IMPORT_ARCHIVE_H

#include "convert.h"

/* A member. All of it lives until the function that got it returns, but `value`. */
struct archive_member {
	const char *archive; /* the tar's path */
	const char *name;    /* without "./" in front */
	const char
		*hardlink; /* the name of the earlier member that it is the same file as, or NULL */
	void *value;       /* malloc()ed and the taker's; NULL with `hardlink` */
	size_t size;       /* bytes */
};

/* Reads the tars convert->sources, in order, compressed ones too, and calls `take` for each member
 * that is a file. What is none is counted in convert->skipped. `take` returns 0 or an exit status,
 * which ends it. */
int archive_walk(struct convert *convert, int (*take)(void *to, struct archive_member *member),
		 void *to);

/* Counts `size` bytes that come out of the archive that is being walked, before they are taken, and
 * once more when a link repeats them. Returns 0, or an exit status when it expands too far. */
int archive_charge(struct convert *convert, const char *path, const char *name, uint64_t size);

#endif
