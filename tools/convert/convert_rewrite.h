/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a data file of LMDB 0.9 from the records of a file in another format. */
#ifndef LMDBIO_TOOLS_CONVERT_REWRITE_H
#define LMDBIO_TOOLS_CONVERT_REWRITE_H

#include "convert_source.h"

/* Writes all databases of the source, with their flags, into the empty file `path`. With
 * `comparing`, writes nothing and compares that file with the source. Messages call it `name`.
 * Refuses a record that LMDB 0.9 cannot hold, with its database: TOOL_FAILED. Memory: a batch's
 * (import_records.h). */
int rewrite_run(struct convert *convert, struct source *source, const char *path, const char *name,
		bool comparing);

#endif
