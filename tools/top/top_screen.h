/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows samples of the node on a terminal, and takes keys. */
#ifndef LMDBIO_TOOLS_TOP_SCREEN_H
#define LMDBIO_TOOLS_TOP_SCREEN_H

#include "tool_common.h"
#include "top_view.h"

/* Runs until the key q, or a signal. Returns the exit status; TOOL_FAILED follows a message. */
int top_screen(const struct tool *tool, struct top_sampler *sampler, uint64_t every_ms,
	       enum top_sort sort);

#endif
