/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the directory of an output file, and refuses names that another user may have planted on
 * the way.
 *
 * A check by name is void when the name is looked up again: another user can swap the link in
 * between. So each name is opened once, without following it (O_PATH | O_NOFOLLOW), and the open
 * descriptor is judged and read. */
#include "output_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { MOST_LINKS = 40 }; /* as the kernel's MAXSYMLINKS */

struct walk {
	struct output_path *found;
	char *text;     /* the names left to look up after the last link, malloc'ed */
	const char *at; /* the rest of the text */
	int links;      /* links followed so far */
	bool is_last;   /* found->name is the last name */
};

void output_path_close(struct output_path *found)
{
	if (found->file >= 0)
		close(found->file);
	if (found->directory >= 0)
		close(found->directory);
	found->file = found->directory = -1;
}

/* Goes on in the opened directory, or fails if it could not be opened. */
static int directory_enter(struct output_path *found, int directory)
{
	if (directory < 0)
		return errno;
	if (found->directory >= 0)
		close(found->directory);
	found->directory = directory;
	return 0;
}

/* Goes on with `text`, and takes the text over: from the root, or from the current directory. */
static int text_enter(struct walk *walk, char *text)
{
	if (!text)
		return ENOMEM;
	free(walk->text);
	walk->text = text;
	walk->at = text;
	if (*text == '/')
		return directory_enter(walk->found, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
	return *text ? 0 : ENOENT;
}

/* Takes the next name from the text. Returns EISDIR if the text ends with a slash. */
static int name_take(struct walk *walk)
{
	size_t length;

	walk->at += strspn(walk->at, "/");
	length = strcspn(walk->at, "/");
	if (!length)
		return EISDIR;
	if (length >= sizeof(walk->found->name))
		return ENAMETOOLONG;
	memcpy(walk->found->name, walk->at, length);
	walk->found->name[length] = '\0';
	walk->at += length;
	walk->is_last = !*walk->at;
	return 0;
}

/* Opens the current name. A name on the way is tried as a directory first: without O_DIRECTORY the
 * kernel mounts no file system that is mounted on use. */
static int name_open(const struct walk *walk)
{
	int above = walk->found->directory, flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, fd;

	if (!walk->is_last) {
		fd = openat(above, walk->found->name, flags | O_DIRECTORY);
		if (fd >= 0 || (errno != ENOTDIR && errno != ELOOP))
			return fd;
	}
	return openat(above, walk->found->name, flags);
}

/* Returns whether another user may have put the open file into a directory that all users may write
 * to. */
static int planted(const struct output_path *found, const struct stat *named)
{
	struct stat directory;

	if (fstat(found->directory, &directory))
		return errno;
	if (!(directory.st_mode & S_ISVTX) || !(directory.st_mode & S_IWOTH))
		return 0;
	if ((named->st_uid != geteuid() && named->st_uid != directory.st_uid) ||
	    (S_ISREG(named->st_mode) && named->st_nlink > 1))
		return OUTPUT_PATH_PLANTED;
	return 0;
}

/* Follows a link of /proc. It leads to a process's open file, which need not have a name: only the
 * kernel can follow the link, and no other user can change it. The open file takes the link's
 * place, and `named` becomes its status. */
static int descriptor_follow(struct walk *walk, struct stat *named)
{
	struct output_path *found = walk->found;

	close(found->file);
	found->file = openat(found->directory, found->name, O_PATH | O_CLOEXEC);
	if (found->file < 0 || fstat(found->file, named))
		return errno;
	found->is_descriptor = walk->is_last;
	return S_ISLNK(named->st_mode) ? ELOOP : 0;
}

/* Follows the open link and closes it. The link's text goes before the names left to look up. But
 * see descriptor_follow(). */
static int link_follow(struct walk *walk, struct stat *named)
{
	char target[PATH_MAX], *text;
	struct statfs system;
	ssize_t length;

	if (++walk->links > MOST_LINKS)
		return ELOOP;
	if (fstatfs(walk->found->file, &system))
		return errno;
	if (system.f_type == PROC_SUPER_MAGIC)
		return descriptor_follow(walk, named);
	length = readlinkat(walk->found->file, "", target, sizeof(target));
	if (length < 0)
		return errno;
	if (length == sizeof(target))
		return ENAMETOOLONG;
	close(walk->found->file);
	walk->found->file = -1;
	if (asprintf(&text, "%.*s%s", (int)length, target, walk->at) < 0)
		text = NULL;
	return text_enter(walk, text);
}

/* Looks up one name. Sets `done` if it was the last name and is no link. */
static int step(struct walk *walk, bool *done)
{
	struct output_path *found = walk->found;
	struct stat st;
	int rc = name_take(walk);

	if (rc)
		return rc;
	found->file = name_open(walk);
	if (found->file < 0) {
		*done = walk->is_last && errno == ENOENT;
		return *done ? 0 : errno;
	}
	if (fstat(found->file, &st))
		return errno;
	if (walk->is_last || S_ISLNK(st.st_mode))
		rc = planted(found, &st);
	if (!rc && S_ISLNK(st.st_mode))
		rc = link_follow(walk, &st);
	if (rc || found->file < 0)
		return rc;
	*done = walk->is_last;
	if (*done)
		return 0;
	if (!S_ISDIR(st.st_mode))
		return ENOTDIR;
	rc = directory_enter(found, found->file);
	found->file = -1;
	return rc;
}

int output_path_find(struct output_path *found, const char *path)
{
	struct walk walk = {.found = found};
	bool done = false;
	int rc = 0;

	*found = (struct output_path){.directory = -1, .file = -1};
	if (*path != '/')
		rc = directory_enter(found, open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (!rc)
		rc = text_enter(&walk, strdup(path));
	while (!rc && !done)
		rc = step(&walk, &done);
	free(walk.text);
	if (rc)
		output_path_close(found);
	return rc;
}
