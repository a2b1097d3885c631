/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a process's account of storage, and its locks.
 *
 * The kernel keeps the account in /proc/PID/io. For the calling process getrusage(2) has it too, as
 * ru_inblock in units of 512 bytes: one system call instead of three. A kernel without accounts
 * leaves 0 there, as for a process that has read nothing.
 */
#include "util/kernel_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

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

/* A file of another device with the same inode number counts too: file systems name their device in
 * /proc/locks as they like. */
bool inode_is_locked_here(ino_t file)
{
	int saved = errno;
	FILE *locks = fopen("/proc/locks", "re");
	bool found = false;
	char line[256];
	uint64_t inode;
	long pid;

	if (locks)
		while (!found && fgets(line, sizeof(line), locks))
			found = sscanf(line, "%*d: POSIX %*s %*s %ld %*x:%*x:%" SCNu64, &pid,
				       &inode) == 2 &&
				pid == (long)getpid() && inode == file;
	if (locks)
		fclose(locks);
	errno = saved;
	return found;
}

bool file_is_locked_here(int fd)
{
	int saved = errno;
	struct stat st;
	bool known = !fstat(fd, &st);

	errno = saved;
	return known && inode_is_locked_here(st.st_ino);
}
