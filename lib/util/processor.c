/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads from the kernel how many tasks run, and how many may.
 *
 *   /proc/loadavg                 "0.20 0.18 0.12 1/80 11206": of the machine's 80 tasks one runs
 *   cpu.max                       control groups, version 2: "QUOTA PERIOD" or "max PERIOD", in us
 *   cpu.cfs_quota_us, cpu.cfs_period_us     version 1: the same; -1 for none
 */
#include "util/processor.h"

#include "util/group.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

/* A quota may be more than the machine has, but not by so much. */
enum { PROCESSORS_MAX = 1 << 20 };

/* The one number, or two, that a line of the file begins with. Returns how many there were. */
static int numbers_read(const char *root, const char *directory, const char *name, long numbers[2])
{
	FILE *file = group_file(root, directory, name);
	int count = file ? fscanf(file, "%ld %ld", &numbers[0], &numbers[1]) : 0;

	if (file)
		fclose(file);
	return count;
}

static uint64_t group_quota(const char *root, const char *directory, bool v2)
{
	long numbers[2] = {-1, 0};
	bool read = v2 ? numbers_read(root, directory, "cpu.max", numbers) == 2
		       : numbers_read(root, directory, "cpu.cfs_period_us", numbers) == 1;

	if (read && !v2) {
		numbers[1] = numbers[0];
		read = numbers_read(root, directory, "cpu.cfs_quota_us", numbers) == 1;
	}
	return read && numbers[0] >= 0 && numbers[1] > 0 ? (uint64_t)(numbers[0] / numbers[1])
							 : UINT64_MAX;
}

unsigned processor_quota(const char *root)
{
	uint64_t whole = group_limit(root, "cpu", group_quota);

	return whole < PROCESSORS_MAX ? (unsigned)whole : PROCESSORS_MAX;
}

/* Of this thread. The kernel refuses to tell where it has more than a set of fixed size. */
static unsigned usable(void)
{
	static _Atomic unsigned quota_and_one;
	unsigned quota = atomic_load(&quota_and_one), allowed;
	cpu_set_t set;

	if (!quota) {
		quota = processor_quota("") + 1;
		atomic_store(&quota_and_one, quota);
	}
	quota--;
	allowed = sched_getaffinity(0, sizeof(set), &set) ? CPU_SETSIZE : (unsigned)CPU_COUNT(&set);
	return quota < allowed ? quota : allowed;
}

bool processor_is_free(void)
{
	FILE *file = group_file("", "/proc", "loadavg");
	unsigned running;
	bool known = file && fscanf(file, "%*s %*s %*s %u", &running) == 1;

	if (file)
		fclose(file);
	/* The thread that reads this is one of those that run. */
	return known && running < usable();
}
