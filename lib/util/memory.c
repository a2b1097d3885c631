/* What only this file knows: where Linux says how much memory a process may use.
 *
 *   /proc/meminfo           MemAvailable (Linux 3.14), MemTotal; KiB
 *   /proc/self/cgroup       id:controllers:path, a line per hierarchy; "0::path" is version 2's
 *   /proc/self/mountinfo    which directory shows which part of which hierarchy
 *   memory.max, memory.high           version 2: bytes or "max"
 *   memory.limit_in_bytes             version 1: bytes, about 2^63 for none
 *
 * In a container the path may lead out of what is mounted; then the mount's own top is all that
 * can be seen. Whatever cannot be read limits nothing.
 */
#include "util/memory.h"

#include "util/checked.h"
#include "util/log.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, DEFAULT_PART = 4, DEFAULT_LEAST = 16 * MIB };

struct group_paths {
	char v1[PATH_MAX]; /* of the hierarchy with the memory controller; "" is none */
	char v2[PATH_MAX];
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static FILE *open_under(const char *root, const char *directory, const char *name)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s%s/%s", root, directory, name);

	return n < 0 || (size_t)n >= sizeof(path) ? NULL : fopen(path, "re");
}

/* The number that a file consists of; UINT64_MAX for "max" and for a file that is not there. */
static uint64_t limit_read(const char *root, const char *directory, const char *name)
{
	FILE *file = open_under(root, directory, name);
	char line[64], *end;
	unsigned long long value = UINT64_MAX;

	if (!file)
		return UINT64_MAX;
	if (fgets(line, sizeof(line), file) && *line >= '0' && *line <= '9') {
		errno = 0;
		value = strtoull(line, &end, 10);
		if (errno || (*end && *end != '\n'))
			value = UINT64_MAX;
	}
	fclose(file);
	return value;
}

/* What is available now, in bytes; else all there is. */
static uint64_t machine_memory(const char *root)
{
	FILE *file = open_under(root, "/proc", "meminfo");
	uint64_t total = 0, available = 0, value;
	char line[256], name[32];
	long pages;

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%31[^:]: %" SCNu64 " kB", name, &value) != 2)
			continue;
		if (!strcmp(name, "MemTotal"))
			total = value * 1024;
		else if (!strcmp(name, "MemAvailable"))
			available = value * 1024;
	}
	if (file)
		fclose(file);
	if (available || total)
		return available ? available : total;
	pages = sysconf(_SC_PHYS_PAGES);
	return pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : UINT64_MAX;
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

static void group_paths_read(const char *root, struct group_paths *paths)
{
	FILE *file = open_under(root, "/proc/self", "cgroup");
	char *line = NULL;
	size_t room = 0;

	*paths->v1 = *paths->v2 = 0;
	while (file && getline(&line, &room, file) > 0) {
		char *rest = line;
		char *id = strsep(&rest, ":");
		char *controllers = strsep(&rest, ":");

		if (!rest)
			continue;
		rest[strcspn(rest, "\n")] = 0;
		if (list_has(controllers, "memory"))
			path_keep(paths->v1, rest);
		else if (!strcmp(id, "0") && !*controllers)
			path_keep(paths->v2, rest);
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

/* The smallest limit from a group up to the mount's top. */
static uint64_t limit_along(const char *root, const char *mount, const char *below, bool v2)
{
	char directory[PATH_MAX];
	int n = snprintf(directory, sizeof(directory), "%s%s", mount, below);
	const char *const names[] = {v2 ? "memory.max" : "memory.limit_in_bytes", "memory.high"};
	uint64_t limit = UINT64_MAX;

	if (n < 0 || (size_t)n >= sizeof(directory))
		return limit;
	for (;;) {
		for (int i = 0; i < 1 + v2; i++)
			limit = smaller(limit, limit_read(root, directory, names[i]));
		if (strlen(directory) <= strlen(mount))
			return limit;
		*strrchr(directory, '/') = 0;
	}
}

/* A line is: id parent device root mount options [optional ...] - type source options */
static uint64_t limit_of_mount(const char *root, char *line, const struct group_paths *paths)
{
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
		return UINT64_MAX;
	unescape(shown);
	unescape(mount);
	if (!strcmp(type, "cgroup2") && *paths->v2)
		return limit_along(root, mount, path_below(paths->v2, shown), true);
	strsep(&line, " ");
	if (!strcmp(type, "cgroup") && *paths->v1 && line && list_has(line, "memory"))
		return limit_along(root, mount, path_below(paths->v1, shown), false);
	return UINT64_MAX;
}

uint64_t memory_allowed(const char *root)
{
	uint64_t allowed = machine_memory(root);
	FILE *file = open_under(root, "/proc/self", "mountinfo");
	struct group_paths paths;
	char *line = NULL;
	size_t room = 0;

	group_paths_read(root, &paths);
	while (file && getline(&line, &room, file) > 0)
		allowed = smaller(allowed, limit_of_mount(root, line, &paths));
	free(line);
	if (file)
		fclose(file);
	return allowed;
}

uint64_t memory_budget_of(uint64_t allowed, const struct settings *settings, bool *cut)
{
	const struct settings_memory *memory = &settings->memory;
	bool asked = memory->bytes || memory->percent;
	uint64_t most = allowed / 4 * 3, budget;

	if (memory->percent)
		budget = allowed / 100 * memory->percent;
	else if (memory->bytes)
		budget = memory->bytes;
	else
		budget = allowed / DEFAULT_PART;
	if (!asked && budget < DEFAULT_LEAST)
		budget = DEFAULT_LEAST;
	*cut = asked && budget > most;
	budget = smaller(budget, most);
	return budget < SETTINGS_MEMORY_LEAST ? SETTINGS_MEMORY_LEAST : budget;
}

uint64_t memory_budget(const struct settings *settings)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	uint64_t allowed = memory_allowed("");
	bool cut;
	uint64_t budget = memory_budget_of(allowed, settings, &cut);

	if (cut && !atomic_flag_test_and_set(&said))
		log_line("LMDBIO_MEMORY: more than three quarters of the %" PRIu64 " MiB that are "
			 "allowed here, %" PRIu64 " MiB are used",
			 allowed / MIB, budget / MIB);
	return budget;
}
