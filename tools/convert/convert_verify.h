/* SPDX-License-Identifier: OLDAP-2.8 */
/* Compares what has been written with what it was made of. */
#ifndef LMDBIO_TOOLS_CONVERT_VERIFY_H
#define LMDBIO_TOOLS_CONVERT_VERIFY_H

#include "convert_source.h"
#include "convert_target.h"

/* Reads all of `path`, a container or a data.mdb as convert->to says, checks every checksum
 * there is, and compares the data with the source's. What was laid anew, which a container says
 * of itself and convert->relayout of a data.mdb, is compared with what relayout_run() gives of
 * the source. Where a writer has changed the source meanwhile, its snapshot's trees are compared
 * alone. Scratch files go beside the target. Returns 0; TOOL_PROBLEM (damage, or a difference),
 * and the person has been told where; TOOL_FAILED; or interrupted. */
int verify_run(struct convert *convert, struct source *source, const struct target *target,
	       const char *path);

#endif
