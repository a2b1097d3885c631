/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds a limit that control groups put on this process.
 *
 * Both versions: cgroups(7), and cgroup-v1 and cgroup-v2 of the kernel's admin guide.
 */
#ifndef LMDBIO_UTIL_GROUP_H
#define LMDBIO_UTIL_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The smallest of what limit() says of a group, from this process's own up to the top of what is
 * mounted, in the hierarchies that `controller` ("memory") may be in; UINT64_MAX is no limit. The
 * files are looked for under `root` ("" is this machine; tests make up others). Threads: any. */
uint64_t group_limit(const char *root, const char *controller,
		     uint64_t (*limit)(const char *root, const char *directory, bool v2));

/* A file to read, the caller's to close; NULL if there is none. */
FILE *group_file(const char *root, const char *directory, const char *name);

#endif
