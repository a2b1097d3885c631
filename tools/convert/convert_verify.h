/* SPDX-License-Identifier: OLDAP-2.8 */
/* Compares the written data with its source. */
#ifndef LMDBIO_TOOLS_CONVERT_VERIFY_H
#define LMDBIO_TOOLS_CONVERT_VERIFY_H

#include "convert_source.h"
#include "convert_target.h"

/* Reads all of `path`, a container or a data.mdb as convert->to says, checks every checksum, and
 * compares the data with the source's. Relaid data (as a container says, or convert->relayout for a
 * data.mdb) is compared with relayout_run() of the source. If a writer has changed the source
 * meanwhile, compares only its snapshot's trees. Scratch files go beside the target. Returns 0;
 * TOOL_PROBLEM (damage, or a difference), after messages with the places; TOOL_FAILED; or
 * interrupted. */
int verify_run(struct convert *convert, struct source *source, const struct target *target,
	       const char *path);

#endif
