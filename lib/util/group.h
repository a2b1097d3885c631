/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the control groups of this process, the limits that they put on it, and whether the machine
 * has a processor to spare.
 *
 * Both versions: cgroups(7), and cgroup-v1 and cgroup-v2 of the kernel's admin guide.
 */
#ifndef LMDBIO_UTIL_GROUP_H
#define LMDBIO_UTIL_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Calls visit() with the directory of each group, from this process's own up to the mount's top, in
 * the hierarchies that may have `controller` ("memory"), until visit() returns false. The files are
 * looked for under `root` ("": this machine; tests make up others). Threads: any. */
void group_each(const char *root, const char *controller,
		bool (*visit)(void *to, const char *directory, bool v2), void *to);

/* Returns the smallest result of limit() for these groups; UINT64_MAX: no limit. Threads: any. */
uint64_t group_limit(const char *root, const char *controller,
		     uint64_t (*limit)(const char *root, const char *directory, bool v2));

/* Opens a file to read, the caller's to close; NULL if there is none. */
FILE *group_file(const char *root, const char *directory, const char *name);

/* Whether one more thread would have a processor to itself at this moment: fewer tasks run than
 * this thread may use processors, and than the quota of its control groups allows. Reads a file of
 * /proc; false if there is none. The groups' quota is read at the process's first call. Any
 * thread. */
bool processor_is_free(void);

/* Returns the whole processors in the quota of this process's control groups (cpu.max, cfs_quota),
 * or a very large number if there is none. The files are looked for under `root` ("": this machine;
 * tests make up others). Any thread. */
unsigned processor_quota(const char *root);

#endif
