/* SPDX-License-Identifier: OLDAP-2.8 */
/* Tells whether a thread of this process waits. */
#ifndef LMDBIO_TEST_THREAD_ASLEEP_H
#define LMDBIO_TEST_THREAD_ASLEEP_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

/* `thread` is a number of gettid(2). Any thread may call this. */
static inline bool thread_is_asleep(pid_t thread)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		abort();
	fclose(file);
	return state == 'S';
}

#endif
