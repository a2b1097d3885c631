/* SPDX-License-Identifier: OLDAP-2.8 */
/* Decides how much memory lmdbio uses.
 *
 * Allowed is the least of the machine's available memory and the rest of every limit that a control
 * group puts on this process, from its own group up to the root of the hierarchy. The kernel cannot
 * take back an arena's memory, and kills a process that exceeds a limit. A quarter is lmdbio's
 * budget, at least 16 MiB; LMDBIO_MEMORY sets another, at most three quarters.
 */
#ifndef LMDBIO_UTIL_MEMORY_H
#define LMDBIO_UTIL_MEMORY_H

#include "util/settings.h"

#include <stdbool.h>
#include <stdint.h>

/* Returns the budget in bytes. Reads a few files of /proc and /sys: call it once per environment.
 * If LMDBIO_MEMORY asks for too much, the first call says so in a line. Threads: any. */
uint64_t memory_budget(const struct settings *settings);

/* The two steps of memory_budget(). The first returns the bytes allowed, from files under `root`
 * ("": this machine, at most 0.1 s ago; tests make up others); the second the budget. *cut:
 * LMDBIO_MEMORY asks for more. */
uint64_t memory_allowed(const char *root);
uint64_t memory_budget_of(uint64_t allowed, const struct settings *settings, bool *cut);

#endif
