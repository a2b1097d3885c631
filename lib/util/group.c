/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds where Linux shows the control groups of a process.
 *
 *   /proc/self/cgroup       id:controllers:path, a line per hierarchy; "0::path" is version 2's
 *   /proc/self/mountinfo    which directory shows which part of which hierarchy
 *
 * In a container the path may lead out of the mounts; then only the mount's own top can be seen. A
 * file that cannot be read limits nothing.
 */
#include "util/group.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Paths are malloc'ed: a program's thread may have a stack of 16 KiB. */
struct paths {
	char *v1; /* of the hierarchy with the controller; NULL: none */
	char *v2;
};

struct group_search {
	const char *root, *controller;
	bool (*visit)(void *to, const char *directory, bool v2);
	void *to;
	struct paths paths;
};

FILE *group_file(const char *root, const char *directory, const char *name)
{
	char *path;
	FILE *file;

	if (asprintf(&path, "%s%s/%s", root, directory, name) < 0)
		return NULL;
	file = fopen(path, "re");
	free(path);
	return file;
}

/* Whether a list "a,b,c" has a word. */
static bool list_has(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += length)
		if ((at == list || at[-1] == ',') && (!at[length] || at[length] == ','))
			return true;
	return false;
}

static void path_keep(char **kept, const char *path)
{
	free(*kept);
	*kept = strdup(path);
}

static void paths_read(struct group_search *reading)
{
	FILE *file = group_file(reading->root, "/proc/self", "cgroup");
	char *line = NULL;
	size_t room = 0;

	while (file && getline(&line, &room, file) > 0) {
		char *rest = line;
		char *id = strsep(&rest, ":");
		char *controllers = strsep(&rest, ":");

		if (!rest)
			continue;
		rest[strcspn(rest, "\n")] = 0;
		if (list_has(controllers, reading->controller))
			path_keep(&reading->paths.v1, rest);
		else if (!strcmp(id, "0") && !*controllers)
			path_keep(&reading->paths.v2, rest);
	}
	free(line);
	if (file)
		fclose(file);
}

/* Decodes in place: the kernel writes blank, tab, newline and backslash as \ooo. */
static void unescape(char *text)
{
	char *out = text;

	for (; *text; out++) {
		if (*text == '\\' && strspn(text + 1, "01234567") >= 3) {
			*out = (char)((text[1] - '0') * 64 + (text[2] - '0') * 8 + text[3] - '0');
			text += 4;
		} else {
			*out = *text++;
		}
	}
	*out = 0;
}

/* Returns the part of a group's path below the directory that a mount shows; "" if it leads
 * elsewhere. */
static const char *path_below(const char *group, const char *shown)
{
	size_t length = strcmp(shown, "/") ? strlen(shown) : 0;

	if (strstr(group, "/..") || strncmp(group, shown, length) ||
	    (group[length] && group[length] != '/'))
		return "";
	return strcmp(group + length, "/") ? group + length : "";
}

/* Visits from a group up to the mount's top. Returns false if visit() did. */
static bool visit_along(const struct group_search *reading, const char *mount, const char *below,
			bool v2)
{
	char *directory;
	bool goes_on;

	if (asprintf(&directory, "%s%s", mount, below) < 0)
		return true;
	while ((goes_on = reading->visit(reading->to, directory, v2)) &&
	       strlen(directory) > strlen(mount))
		*strrchr(directory, '/') = 0;
	free(directory);
	return goes_on;
}

/* A line is: id parent device root mount options [optional ...] - type source options */
static bool visit_mount(const struct group_search *reading, char *line)
{
	const struct paths *paths = &reading->paths;
	char *shown = NULL, *mount = NULL, *type, *word;

	line[strcspn(line, "\n")] = 0;
	for (int i = 0; (word = strsep(&line, " ")) && (i < 6 || strcmp(word, "-")); i++) {
		if (i == 3)
			shown = word;
		else if (i == 4)
			mount = word;
	}
	type = strsep(&line, " ");
	if (!type || !shown || !mount)
		return true;
	unescape(shown);
	unescape(mount);
	if (!strcmp(type, "cgroup2") && paths->v2)
		return visit_along(reading, mount, path_below(paths->v2, shown), true);
	strsep(&line, " ");
	if (!strcmp(type, "cgroup") && paths->v1 && line && list_has(line, reading->controller))
		return visit_along(reading, mount, path_below(paths->v1, shown), false);
	return true;
}

void group_each(const char *root, const char *controller,
		bool (*visit)(void *to, const char *directory, bool v2), void *to)
{
	struct group_search reading = {
		.root = root, .controller = controller, .visit = visit, .to = to};
	FILE *file = group_file(root, "/proc/self", "mountinfo");
	char *line = NULL;
	size_t room = 0;

	paths_read(&reading);
	while (file && getline(&line, &room, file) > 0 && visit_mount(&reading, line))
		;
	free(line);
	free(reading.paths.v1);
	free(reading.paths.v2);
	if (file)
		fclose(file);
}

struct least {
	const char *root;
	uint64_t (*limit)(const char *root, const char *directory, bool v2);
	uint64_t found;
};

static bool least_look(void *to, const char *directory, bool v2)
{
	struct least *least = to;
	uint64_t here = least->limit(least->root, directory, v2);

	least->found = here < least->found ? here : least->found;
	return true;
}

uint64_t group_limit(const char *root, const char *controller,
		     uint64_t (*limit)(const char *root, const char *directory, bool v2))
{
	struct least least = {root, limit, UINT64_MAX};

	group_each(root, controller, least_look, &least);
	return least.found;
}

/* --- processors ----------------------------------------------------------------------------- */

/* How many tasks run, and how many may:
 *
 *   /proc/loadavg                 "0.20 0.18 0.12 1/80 11206": of the machine's 80 tasks one runs
 *   cpu.max                       control groups, version 2: "QUOTA PERIOD" or "max PERIOD", in us
 *   cpu.cfs_quota_us, cpu.cfs_period_us     version 1: the same; -1 for none
 */
/* A quota may exceed the machine's processors, but not by so much. */
enum { PROCESSORS_MAX = 1 << 20 };

/* Reads the one or two numbers at the beginning of a file. Returns how many there are. */
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

/* Returns how many processors this thread may use. The kernel does not tell on a machine with more
 * processors than a cpu_set_t has. */
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
	/* This thread is one of the running tasks. */
	return known && running < usable();
}
