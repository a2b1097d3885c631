/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a process's account of storage.
 *
 * The kernel keeps the account in /proc/PID/io. For the calling process getrusage(2) has it too, as
 * ru_inblock in units of 512 bytes: one system call instead of three. A kernel without accounts
 * leaves 0 there, as for a process that has read nothing.
 */
#include "util/kernel_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { UNIT = 512 };

bool disk_reads(pid_t pid, uint64_t *bytes)
{
	static const char field[] = "\nread_bytes: ";
	char path[64], text[512];
	struct rusage usage;
	const char *at;

	if (!pid) {
		if (getrusage(RUSAGE_SELF, &usage))
			return false;
		*bytes = (uint64_t)usage.ru_inblock * UNIT;
		return true;
	}
	snprintf(path, sizeof(path), "/proc/%ld/io", (long)pid);
	if (!kernel_file_read(path, text, sizeof(text)))
		return false;
	at = strstr(text, field);
	if (!at)
		return false;
	*bytes = strtoull(at + strlen(field), NULL, 10);
	return true;
}
