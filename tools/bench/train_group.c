/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes a control group that limits the memory of readers, including their page cache. */
#include "train.h"

#include "util/group.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Ended processes leave their group a moment later. */
enum { REMOVALS = 500, REMOVAL_WAIT = 10000000 };

struct making {
	uint64_t memory;
	char *group;
	int rc; /* ENOSYS: no group allows one below it */
};

/* Returns whether groups below `directory` may have memory limits; in version 1 all may. */
static bool has_limits(const char *directory, bool v2)
{
	FILE *file = v2 ? group_file("", directory, "cgroup.subtree_control") : NULL;
	char word[64];
	bool found = !v2;

	while (file && !found && fscanf(file, "%63s", word) == 1)
		found = !strcmp(word, "memory");
	if (file)
		fclose(file);
	return found;
}

static int limit_write(const char *group, const char *name, uint64_t bytes)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/%s", group, name);
	return run_group_put(path, bytes);
}

/* Makes a group below another. Returns false if it is made. */
static bool try_below(void *to, const char *directory, bool v2)
{
	struct making *making = to;
	int n;

	if (!has_limits(directory, v2))
		return true;
	n = snprintf(making->group, PATH_MAX, "%s/lmdbio-bench-%d", directory, (int)getpid());
	if (n < 0 || n >= PATH_MAX)
		return true;
	if (mkdir(making->group, 0755)) {
		making->rc = errno;
		return true;
	}
	making->rc = limit_write(making->group, v2 ? "memory.max" : "memory.limit_in_bytes",
				 making->memory);
	/* Swapped-out memory would exceed the limit. */
	if (!making->rc)
		(void)limit_write(making->group, v2 ? "memory.swap.max" : "memory.swappiness", 0);
	if (making->rc)
		rmdir(making->group);
	return making->rc != 0;
}

int train_group_make(uint64_t memory, char group[PATH_MAX])
{
	struct making making = {.memory = memory, .group = group, .rc = ENOSYS};

	group_each("", "memory", try_below, &making);
	if (making.rc)
		*group = 0;
	return making.rc;
}

void train_group_remove(const char *group)
{
	const struct timespec moment = {.tv_nsec = REMOVAL_WAIT};

	for (int i = 0; *group && rmdir(group) && errno == EBUSY && i < REMOVALS; i++)
		nanosleep(&moment, NULL);
}
