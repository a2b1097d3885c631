/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a process's account of storage.
 *
 * The kernel keeps it in /proc/PID/io. For the calling process, ru_inblock of getrusage(2) has it too, in units of 512 bytes:
 * one system call instead of three. Where the kernel keeps no account, ru_inblock is 0 and the file is missing, so the
 * first look is at the file.
 */
#include "util/disk_reads.h"

#include "util/kernel_file.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { UNIT = 512 };

static atomic_bool is_kept; /* this process's account has been read from /proc */

bool disk_reads(pid_t pid, uint64_t *bytes)
{
	static const char field[] = "\nread_bytes: ";
	char path[64] = "/proc/self/io", text[512];
	struct rusage usage;
	const char *at;

	if (!pid && atomic_load_explicit(&is_kept, memory_order_relaxed) &&
	    !getrusage(RUSAGE_SELF, &usage)) {
		*bytes = (uint64_t)usage.ru_inblock * UNIT;
		return true;
	}
	if (pid)
		snprintf(path, sizeof(path), "/proc/%ld/io", (long)pid);
	if (!kernel_file_read(path, text, sizeof(text)))
		return false;
	at = strstr(text, field);
	if (!at)
		return false;
	*bytes = strtoull(at + strlen(field), NULL, 10);
	if (!pid)
		atomic_store_explicit(&is_kept, true, memory_order_relaxed);
	return true;
}
