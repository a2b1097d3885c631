/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads from the kernel how far it reads ahead.
 *
 *   /sys/class/bdi/MAJOR:MINOR/read_ahead_kb               of a whole disk, FUSE, NFS: kibibytes
 *   /sys/dev/block/MAJOR:MINOR/../queue/read_ahead_kb      of the disk that a partition is on
 */
#include "io/io_ahead.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

static const struct {
	const char *front, *back;
} places[] = {
	{"/sys/class/bdi", "read_ahead_kb"},
	{"/sys/dev/block", "../queue/read_ahead_kb"},
};

uint64_t io_kernel_ahead(int fd)
{
	unsigned long kibibytes = 0;
	struct stat st;
	char path[64];
	FILE *file;

	if (fstat(fd, &st))
		return 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/%u:%u/%s", places[i].front, major(st.st_dev),
			 minor(st.st_dev), places[i].back);
		file = fopen(path, "re");
		if (!file)
			continue;
		if (fscanf(file, "%lu", &kibibytes) != 1)
			kibibytes = 0;
		fclose(file);
		break;
	}
	return (uint64_t)kibibytes << 10;
}
