/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a container's dictionary. */
#ifndef LMDBIO_TOOLS_CONVERT_DICTIONARY_H
#define LMDBIO_TOOLS_CONVERT_DICTIONARY_H

#include "convert_source.h"

enum { DICTIONARY_DEFAULT = 112640 /* bytes: zstd's own */ };

/* Gets the requested dictionary, read from a file or trained on samples of the source. *bytes is
 * malloc()ed; NULL if none was requested. */
int dictionary_get(const struct convert *convert, struct source *source, void **bytes,
		   size_t *size);

#endif
