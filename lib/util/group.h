/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the control groups of this process, and the limits that they put on it.
 *
 * Both versions: cgroups(7), and cgroup-v1 and cgroup-v2 of the kernel's admin guide.
 */
#ifndef LMDBIO_UTIL_GROUP_H
#define LMDBIO_UTIL_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Calls visit() with the directory of each group, from this process's own up to the top of what is
 * mounted, in the hierarchies that `controller` ("memory") may be in, until it returns false. The
 * files are looked for under `root` ("" is this machine; tests make up others). Threads: any. */
void group_each(const char *root, const char *controller,
		bool (*visit)(void *to, const char *directory, bool v2), void *to);

/* The smallest of what limit() says of these groups; UINT64_MAX is no limit. Threads: any. */
uint64_t group_limit(const char *root, const char *controller,
		     uint64_t (*limit)(const char *root, const char *directory, bool v2));

/* A file to read, the caller's to close; NULL if there is none. */
FILE *group_file(const char *root, const char *directory, const char *name);

#endif
