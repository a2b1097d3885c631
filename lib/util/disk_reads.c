/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a process's account of storage.
 *
 * The kernel keeps it in /proc/PID/io, and for the process itself in the ru_inblock of getrusage(2) as well, in units of
 * 512 bytes. That is one system call for three; but where the kernel keeps no account it says 0, and only the absence of
 * the file tells.
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
