/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes the files of a simulated machine. */
#include "machine_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the headers above. */
#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char machine_mount_v1[] =
	"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
	"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
	"35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:8 master:3 - cgroup cgroup "
	"rw,memory\n";

const char machine_mount_v2[] =
	"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
	"30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

const char machine_meminfo[] = "MemTotal:       16777216 kB\n"
			       "MemFree:         1048576 kB\n"
			       "MemAvailable:    8388608 kB\n";

int machine_setup(void **state)
{
	const char *tmp = getenv("TMPDIR");
	struct machine *machine = calloc(1, sizeof(*machine));

	if (!machine)
		return -1;
	snprintf(machine->root, sizeof(machine->root), "%s/lmdbio-machine.XXXXXX",
		 tmp ? tmp : "/tmp");
	*state = machine;
	return mkdtemp(machine->root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	(void)status;
	(void)type;
	(void)ftw;
	return remove(path);
}

int machine_teardown(void **state)
{
	struct machine *machine = *state;
	int rc = nftw(machine->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);

	free(machine);
	return rc;
}

void machine_put(const struct machine *machine, const char *name, const char *text)
{
	char path[2 * PATH_MAX];
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", machine->root, name);
	for (char *slash = path + strlen(machine->root) + 1; (slash = strchr(slash, '/'));
	     slash++) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

const struct machine *machine_with(void **state, const char *cgroup, const char *mounts)
{
	const struct machine *machine = *state;

	machine_put(machine, "/proc/meminfo", machine_meminfo);
	machine_put(machine, "/proc/self/cgroup", cgroup);
	machine_put(machine, "/proc/self/mountinfo", mounts);
	return machine;
}
