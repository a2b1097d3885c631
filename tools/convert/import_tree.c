/* SPDX-License-Identifier: OLDAP-2.8 */
/* Walks a directory tree in the order of keys and makes a record of each file.
 *
 * Keys should come in LMDB's order, so that the environment is written from front to back. That is
 * the order of the names in each directory, if a directory's name ends in a slash. The names of one
 * directory and of its parents are in memory at a time.
 */
#include "import_sources.h"
#include "tool_env.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct tree_import {
	struct import *import;
	struct convert *convert;
	struct labels *labels;
	size_t root; /* bytes of the path in front of the key, the slash included */
};

/* The contents of one directory. Directories' names end in a slash. */
struct listing {
	char **names;
	size_t count, room;
};

static int listing_add(struct listing *listing, const char *name, bool directory)
{
	size_t length = strlen(name);
	char *copy;

	if (listing->count == listing->room) {
		size_t room = listing->room ? 2 * listing->room : 64;
		char **names = realloc(listing->names, room * sizeof(*names));

		if (!names)
			return ENOMEM;
		listing->names = names;
		listing->room = room;
	}
	copy = malloc(length + 2);
	if (!copy)
		return ENOMEM;
	memcpy(copy, name, length);
	strcpy(copy + length, directory ? "/" : "");
	listing->names[listing->count++] = copy;
	return 0;
}

static void listing_free(struct listing *listing)
{
	while (listing->count)
		free(listing->names[--listing->count]);
	free(listing->names);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Returns whether a link leads nowhere, in circles or through a file. */
static bool is_dead_link(int rc)
{
	return rc == ENOENT || rc == ELOOP || rc == ENOTDIR;
}

static bool is_written(const struct convert *convert, const struct stat *st)
{
	for (size_t i = 0; i < sizeof(convert->written) / sizeof(*convert->written); i++)
		if (convert->written[i].inode && convert->written[i].inode == st->st_ino &&
		    convert->written[i].device == st->st_dev)
			return true;
	return false;
}

/* Lists an entry. A link to a file stands for the file; a link to a directory could lead in
 * circles. A failure follows a message. */
static int entry_list(struct tree_import *walk, struct listing *listing, int fd,
		      const char *directory, const char *name)
{
	struct stat st;
	bool link = false, written;
	int rc;

	rc = fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) ? errno : 0;
	written = !rc && is_written(walk->convert, &st);
	if (!rc && S_ISLNK(st.st_mode)) {
		link = true;
		rc = fstatat(fd, name, &st, 0) ? errno : 0;
		written = written || (!rc && is_written(walk->convert, &st));
	}
	if (written)
		return 0;
	if (!rc && (S_ISREG(st.st_mode) || (S_ISDIR(st.st_mode) && !link))) {
		rc = listing_add(listing, name, S_ISDIR(st.st_mode));
	} else if (!rc || (link && is_dead_link(rc))) {
		walk->convert->skipped++;
		rc = 0;
	}
	if (!rc)
		return 0;
	tool_complain(&convert_tool, "%s%s: %s", directory, name, tool_read_text(rc));
	return TOOL_FAILED;
}

static int directory_list(struct tree_import *walk, const char *path, struct listing *listing)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	int rc = 0;

	if (!directory)
		return convert_fail(path, errno);
	while (!rc && (errno = 0, entry = readdir(directory)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			rc = entry_list(walk, listing, dirfd(directory), path, entry->d_name);
	if (!rc && errno)
		rc = convert_fail(path, errno);
	closedir(directory);
	if (rc)
		return rc;
	if (listing->count)
		qsort(listing->names, listing->count, sizeof(*listing->names), compare_names);
	return 0;
}

static int file_put(struct tree_import *walk, const char *path)
{
	struct import_record record = {
		.key = path + walk->root,
		.key_size = strlen(path + walk->root),
		.path = path,
	};
	struct stat st;

	if (stat(path, &st))
		return convert_fail(path, errno);
	record.size = (uint64_t)st.st_size;
	return import_put_labelled(walk->import, walk->convert, walk->labels, &record);
}

/* Walks a directory; `path` ends in a slash. */
static int directory_walk(struct tree_import *walk, const char *path)
{
	struct listing listing = {0};
	int rc = directory_list(walk, path, &listing);

	for (size_t i = 0; i < listing.count && !rc; i++) {
		size_t length = strlen(listing.names[i]);
		char *below;

		rc = convert_interrupted();
		if (rc)
			break;
		if (asprintf(&below, "%s%s", path, listing.names[i]) < 0) {
			rc = convert_fail(path, ENOMEM);
			break;
		}
		rc = listing.names[i][length - 1] == '/' ? directory_walk(walk, below)
							 : file_put(walk, below);
		free(below);
	}
	listing_free(&listing);
	return rc;
}

int import_tree(struct import *import, struct convert *convert, struct labels *labels)
{
	struct tree_import walk = {import, convert, labels, 0};
	char *path;
	int rc = import_stay_inside(convert, convert->sources[0]);

	if (rc)
		return rc;
	if (asprintf(&path, "%s/", convert->sources[0]) < 0)
		return convert_fail(convert->sources[0], ENOMEM);
	walk.root = strlen(path);
	rc = directory_walk(&walk, path);
	free(path);
	return rc;
}
