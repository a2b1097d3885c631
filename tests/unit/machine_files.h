/* SPDX-License-Identifier: OLDAP-2.8 */
/* A made-up machine, as its files of /proc and /sys tell of it. */
#ifndef LMDBIO_TEST_MACHINE_FILES_H
#define LMDBIO_TEST_MACHINE_FILES_H

#include <limits.h>

struct machine {
	char root[PATH_MAX]; /* a folder of its own, below which the files are */
};

/* As most machines mount control groups of version 1 and of version 2. */
extern const char machine_mount_v1[], machine_mount_v2[];

/* 16 GiB, of which 8 are available. */
extern const char machine_meminfo[];

/* A test's: *state is a struct machine without any file. */
int machine_setup(void **state);
int machine_teardown(void **state);

/* Writes a file, and makes the folders above it. */
void machine_put(const struct machine *machine, const char *name, const char *text);

/* One with that memory, and with these lines in /proc/self/cgroup and /proc/self/mountinfo. */
const struct machine *machine_with(void **state, const char *cgroup, const char *mounts);

#define ON_A_MACHINE(test) cmocka_unit_test_setup_teardown(test, machine_setup, machine_teardown)

#endif
