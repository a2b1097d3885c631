/* What only this file knows: how the kernel tells how many tasks run. */
#include "util/processor.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool processor_is_free(void)
{
	int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
	ssize_t n = -1;
	char text[64];
	const char *at;
	cpu_set_t set;
	int usable;

	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	/* The kernel refuses to tell where it has more processors than a set of fixed size. */
	usable = sched_getaffinity(0, sizeof(set), &set) ? CPU_SETSIZE : CPU_COUNT(&set);
	if (n <= 0)
		return false;
	text[n] = '\0';
	/* "0.20 0.18 0.12 1/80 11206": of 80 tasks one runs, and that is who reads this. */
	at = strchr(text, '/');
	while (at && at > text && at[-1] != ' ')
		at--;
	return at && strtol(at, NULL, 10) < usable;
}
