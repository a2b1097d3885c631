/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a process's account of storage. */
#include "util/disk_reads.h"

#include "util/kernel_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool disk_reads(pid_t pid, uint64_t *bytes)
{
	static const char field[] = "\nread_bytes: ";
	char path[64] = "/proc/self/io", text[512];
	const char *at;

	if (pid)
		snprintf(path, sizeof(path), "/proc/%ld/io", (long)pid);
	if (!kernel_file_read(path, text, sizeof(text)))
		return false;
	at = strstr(text, field);
	if (at)
		*bytes = strtoull(at + strlen(field), NULL, 10);
	return at != NULL;
}
