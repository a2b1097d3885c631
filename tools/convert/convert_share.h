/* SPDX-License-Identifier: OLDAP-2.8 */
/* Has the ranks of a job make one file of a source together, chunk by chunk, the same as one
 * process would make. */
#ifndef LMDBIO_TOOLS_CONVERT_SHARE_H
#define LMDBIO_TOOLS_CONVERT_SHARE_H

#include "convert_pack.h"

/* All chunks of a container, into target->partial, which rank 0 has made; `pack` is rank 0's, NULL
 * elsewhere. What is left for pack_finish() is the indexes. Collective. */
int share_pack(struct convert *convert, const struct target *target, struct source *source,
	       struct pack *pack);

/* All data, as a data.mdb, in the same way. Collective. */
int share_unpack(struct convert *convert, const struct target *target, struct source *source);

#endif
