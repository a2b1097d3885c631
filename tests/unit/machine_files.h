/* SPDX-License-Identifier: OLDAP-2.8 */
/* Simulates a machine by files such as those of /proc and /sys. */
#ifndef LMDBIO_TEST_MACHINE_FILES_H
#define LMDBIO_TEST_MACHINE_FILES_H

#include <limits.h>

struct machine {
	char root[PATH_MAX]; /* a folder of its own, which has the files */
};

/* The mounts of control groups of version 1 and version 2, as most machines have them. */
extern const char machine_mount_v1[], machine_mount_v2[];

/* 16 GiB, of which 8 are available. */
extern const char machine_meminfo[];

/* A test's setup and teardown: *state is a struct machine without any file. */
int machine_setup(void **state);
int machine_teardown(void **state);

/* Writes a file, and makes the folders above it. */
void machine_put(const struct machine *machine, const char *name, const char *text);

/* Returns a machine with that memory and these lines in /proc/self/cgroup and
 * /proc/self/mountinfo. */
const struct machine *machine_with(void **state, const char *cgroup, const char *mounts);

#define ON_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, machine_setup, machine_teardown)

#endif
