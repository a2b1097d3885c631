/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds where Linux shows the control groups of a process.
 *
 *   /proc/self/cgroup       id:controllers:path, a line per hierarchy; "0::path" is version 2's
 *   /proc/self/mountinfo    which directory shows which part of which hierarchy
 *
 * In a container the path may lead out of what is mounted; then the mount's own top is all that
 * can be seen. Whatever cannot be read limits nothing.
 */
#include "util/group.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

struct paths {
	char v1[PATH_MAX]; /* of the hierarchy with the controller; "" is none */
	char v2[PATH_MAX];
};

struct group_search {
	const char *root, *controller;
	bool (*visit)(void *to, const char *directory, bool v2);
	void *to;
	struct paths paths;
};

FILE *group_file(const char *root, const char *directory, const char *name)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s%s/%s", root, directory, name);

	return n < 0 || (size_t)n >= sizeof(path) ? NULL : fopen(path, "re");
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

static void path_keep(char *kept, const char *path)
{
	size_t length = strlen(path);

	if (length < PATH_MAX)
		memcpy(kept, path, length + 1);
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
			path_keep(reading->paths.v1, rest);
		else if (!strcmp(id, "0") && !*controllers)
			path_keep(reading->paths.v2, rest);
	}
	free(line);
	if (file)
		fclose(file);
}

/* In place: the kernel writes blank, tab, newline and backslash as \ooo. */
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

/* The part of a group's path below what a mount shows; "" when it leads elsewhere. */
static const char *path_below(const char *group, const char *shown)
{
	size_t length = strcmp(shown, "/") ? strlen(shown) : 0;

	if (strstr(group, "/..") || strncmp(group, shown, length) ||
	    (group[length] && group[length] != '/'))
		return "";
	return strcmp(group + length, "/") ? group + length : "";
}

/* Visits from a group up to the mount's top. false: the visitor has had enough. */
static bool visit_along(const struct group_search *reading, const char *mount, const char *below,
			bool v2)
{
	char directory[PATH_MAX];
	int n = snprintf(directory, sizeof(directory), "%s%s", mount, below);

	if (n < 0 || (size_t)n >= sizeof(directory))
		return true;
	while (reading->visit(reading->to, directory, v2)) {
		if (strlen(directory) <= strlen(mount))
			return true;
		*strrchr(directory, '/') = 0;
	}
	return false;
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
	if (!strcmp(type, "cgroup2") && *paths->v2)
		return visit_along(reading, mount, path_below(paths->v2, shown), true);
	strsep(&line, " ");
	if (!strcmp(type, "cgroup") && *paths->v1 && line && list_has(line, reading->controller))
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
