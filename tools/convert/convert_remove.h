/* SPDX-License-Identifier: OLDAP-2.8 */
/* Removes the source of a conversion that is done (--rm). */
#ifndef LMDBIO_TOOLS_CONVERT_REMOVE_H
#define LMDBIO_TOOLS_CONVERT_REMOVE_H

#include "convert.h"
#include "convert_source.h"

/* Refuses a source that could not be removed, before anything is converted. This process does not
 * have it open. */
int remove_judge(const struct convert *convert);

/* Removes the source's file and its lock file, if it still is what was converted and no program has it
 * open. Does nothing where the target, open as `target_fd`, has taken its name. Lets go of the source
 * (source_let_go). */
int remove_source(struct source *source, int target_fd);

#endif
