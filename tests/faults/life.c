/* SPDX-License-Identifier: OLDAP-2.8 */
/* Ends a process whose life has gone wrong. */
#include "life.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool lives_strict, lives_failed;

/* What the descriptors are of. */
static void descriptors_show(void)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;
	char target[300];

	while (directory && (entry = readdir(directory))) {
		ssize_t n = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = 0;
		printf("descriptor %s: %s\n", entry->d_name, target);
	}
	closedir(directory);
}

void lives_end(int how, const char *what, int rc)
{
	printf("%s: %d (%s)\n", what, rc, rc > 0 ? strerror(rc) : "no errno");
	if (how == DESCRIPTORS)
		descriptors_show();
	fflush(stdout);
	_exit(lives_strict && how != DESCRIPTORS ? NOT_AGAIN : how);
}

unsigned lives_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	unsigned n = 0;

	while (directory && readdir(directory))
		n++;
	closedir(directory);
	return n;
}
