/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes one file of a source with all ranks of a job, chunk by chunk. The file is the same as one
 * process would make. */
#ifndef LMDBIO_TOOLS_CONVERT_SHARE_H
#define LMDBIO_TOOLS_CONVERT_SHARE_H

#include "convert_pack.h"

/* Packs all chunks of a container into target->partial, which rank 0 has made; `pack` is rank 0's,
 * NULL elsewhere. Leaves the indexes to pack_finish(). Collective. */
int share_pack(struct convert *convert, const struct target *target, struct source *source,
	       struct pack *pack);

/* Writes all data, as a data.mdb, in the same way. Collective. */
int share_unpack(struct convert *convert, const struct target *target, struct source *source);

#endif
