/* SPDX-License-Identifier: OLDAP-2.8 */
/* Removes the source of a finished conversion (--rm). */
#ifndef LMDBIO_TOOLS_CONVERT_REMOVE_H
#define LMDBIO_TOOLS_CONVERT_REMOVE_H

#include "convert.h"
#include "convert_source.h"

/* Refuses a source that cannot be removed, before the conversion. This process must not have it
 * open. */
int remove_judge(const struct convert *convert);

/* Removes the source's file and its lock file, if it still is the converted file and no program has
 * it open. Does nothing if the target, open as `target_fd`, has taken its name. Lets go of the
 * source (source_let_go). */
int remove_source(struct source *source, int target_fd);

#endif
