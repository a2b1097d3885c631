/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a process's account of storage. */
#include "util/disk_reads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool disk_reads(pid_t pid, uint64_t *bytes)
{
	static const char field[] = "\nread_bytes: ";
	char path[64] = "/proc/self/io", text[512];
	int saved = errno, fd;
	const char *at;
	ssize_t n;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%ld/io", (long)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	errno = saved;
	if (n <= 0)
		return false;
	text[n] = 0;
	at = strstr(text, field);
	if (at)
		*bytes = strtoull(at + strlen(field), NULL, 10);
	return at != NULL;
}
