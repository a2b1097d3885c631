/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides how much memory lmdbio uses.
 *
 * Allowed is the smallest of what the machine has available and what is left of every limit that a
 * control group puts on this process, from its own group up to the root of the hierarchy: the
 * kernel cannot take back the memory of an arena, and a process that exceeds a limit is killed. A
 * quarter is lmdbio's budget, at least 16 MiB; LMDBIO_MEMORY sets another, at most three quarters.
 */
#ifndef LMDBIO_UTIL_MEMORY_H
#define LMDBIO_UTIL_MEMORY_H

#include "util/settings.h"

#include <stdbool.h>
#include <stdint.h>

/* The budget in bytes. Reads a few files of /proc and /sys: ask once per environment.
 * When LMDBIO_MEMORY wants too much, the first call says so in one line. Threads: any. */
uint64_t memory_budget(const struct settings *settings);

/* The two steps of it. What is allowed, in bytes, as the files under `root` tell ("" is this
 * machine, as it was 0.1 s ago or later; tests make up others); and the budget out of it. *cut:
 * more was asked for. */
uint64_t memory_allowed(const char *root);
uint64_t memory_budget_of(uint64_t allowed, const struct settings *settings, bool *cut);

#endif
