/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes a command's output to a named file that is complete or absent. */
#include "tool_output.h"

#include "output_path.h"
#include "partial_file.h"
#include "tool_env.h"

#include "util/phrases.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
	const char *name; /* as the user wrote it; NULL: no such file */
	struct output_path path;
	char *partial; /* the name of the unfinished file in that directory; NULL: the file
			  itself is written */
	FILE *stream;  /* NULL: standard output */
	const char *spared; /* a data set, or NULL */
} output;

void tool_output_spare(const char *data_set)
{
	output.spared = data_set;
}

static bool is_file(const char *directory, const char *name, const char *end, const struct stat *st)
{
	char path[PATH_MAX];
	struct stat found;

	return snprintf(path, sizeof(path), "%s%s%s", directory, name, end) < PATH_MAX &&
	       !stat(path, &found) && found.st_dev == st->st_dev && found.st_ino == st->st_ino;
}

/* Returns which file of the data set this is, or NULL. */
static const char *spared_as(const struct stat *st)
{
	char *data = output.spared ? tool_data_name(output.spared) : NULL;
	const char *what = NULL;

	if (!data)
		return NULL;
	if (is_file("", data, "", st)) {
		what = "the data set";
	} else if (is_file("", data, "-lock", st)) {
		what = "the lock file of the data set";
	} else if (!strcmp(basename(data), "data.mdb")) {
		*basename(data) = 0;
		if (is_file(data, "lock.mdb", "", st))
			what = "the lock file of the data set";
	}
	free(data);
	return what;
}

/* Says what the user can do about a file that cannot be written. */
static const char *output_remedy(int rc)
{
	switch (rc) {
	case ENOENT:
		return *output.name ? "make its directory, or name another file" : "name a file";
	case EISDIR:
		return "name a file in it";
	case EACCES:
	case EPERM:
		return "your user may not write it: name another file";
	default:
		return remedy_find(rc) ? remedy_find(rc) : "name another file";
	}
}

static int output_failed(const struct tool *tool, int rc)
{
	tool_complain(tool, "%s: %s: %s", output.name, strerror(rc), output_remedy(rc));
	return TOOL_FAILED;
}

/* Returns whether the written file still has its name: without locks, another command may have
 * taken the name. */
static bool partial_is_ours(int fd)
{
	return partial_is_named(output.path.directory, output.partial, fd);
}

/* Makes a new file beside the wanted one, with that file's mode if it exists. Returns 0, or why
 * none can be made there. */
static int partial_make(const struct stat *like, int *fd)
{
	bool resumed;
	int rc;

	if (asprintf(&output.partial, ".%s.lmdbio-partial", output.path.name) < 0) {
		output.partial = NULL;
		return ENOMEM;
	}
	rc = partial_open(output.path.directory, output.partial, 0666, false, fd, &resumed);
	if (!rc && like &&
	    (fchmod(*fd, like->st_mode & 0777) ||
	     (fchown(*fd, like->st_uid, like->st_gid) && errno != EPERM))) {
		rc = errno;
		unlinkat(output.path.directory, output.partial, 0);
		close(*fd);
		*fd = -1;
	}
	if (rc) {
		free(output.partial);
		output.partial = NULL;
	}
	return rc;
}

/* Opens the file that was found, or makes it. With `like` the opened file must be that one. */
static int whole_open(const struct stat *like)
{
	int flags = (like ? 0 : O_CREAT | O_EXCL) | (output.path.is_descriptor ? 0 : O_NOFOLLOW);
	struct stat st;
	int fd;

	fd = openat(output.path.directory, output.path.name, O_WRONLY | O_CLOEXEC | flags, 0666);
	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) &&
	    (!like || (st.st_dev == like->st_dev && st.st_ino == like->st_ino))) {
		if (!S_ISREG(st.st_mode) || !ftruncate(fd, 0))
			return fd;
	} else {
		errno = EPERM;
	}
	close(fd);
	return -1;
}

/* Returns whether only the owner of a file may replace it in the directory. */
static bool is_kept_by_directory(const struct stat *st)
{
	struct stat directory;

	return geteuid() && st->st_uid != geteuid() && !fstat(output.path.directory, &directory) &&
	       (directory.st_mode & S_ISVTX) && directory.st_uid != geteuid();
}

/* Returns whether a new file may replace the found one: a file of one name that the user may write.
 * The target of /dev/stdout may have no name (a pipe, a deleted file) and is written in place. */
static bool is_replaceable(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_nlink == 1 && !output.path.is_descriptor &&
	       !is_kept_by_directory(st) && !faccessat(output.path.directory, output.path.name, W_OK, 0);
}

/* Returns the descriptor to write to, or -1 after a message. */
static int output_open(const struct tool *tool, const char *path)
{
	int rc = output_path_find(&output.path, path), fd = -1;
	struct stat st, *like = NULL;
	const char *spared;

	if (rc == OUTPUT_PATH_PLANTED) {
		tool_complain(tool, "%s: another user may have put it there: name another file",
			      path);
		return -1;
	}
	output.name = path;
	if (!rc && output.path.file >= 0) {
		like = &st;
		rc = fstat(output.path.file, like) ? errno : 0;
	}
	if (rc) {
		output_failed(tool, rc);
		return -1;
	}
	spared = like ? spared_as(like) : NULL;
	if (spared) {
		tool_complain(tool, "%s: it is %s that is read: name another file", path, spared);
		return -1;
	}
	if ((!like || is_replaceable(like)) && partial_make(like, &fd) == PARTIAL_BUSY) {
		tool_complain(tool, "%s: %s", path, partial_refusal_text(PARTIAL_BUSY));
		return -1;
	}
	if (fd < 0)
		fd = whole_open(like);
	if (fd < 0)
		output_failed(tool, errno);
	return fd;
}

/* Removes the incomplete file. */
static void output_drop(const struct tool *tool, int fd)
{
	struct stat st;

	if (output.partial) {
		if (partial_is_ours(fd))
			unlinkat(output.path.directory, output.partial, 0);
	} else if (!fstat(fd, &st) && S_ISREG(st.st_mode)) {
		tool_complain(tool, "%s: it is not whole", output.name);
	}
}

int tool_output_file(const struct tool *tool, const char *path)
{
	int fd = output_open(tool, path);

	if (fd < 0)
		return TOOL_FAILED;
	if (dup2(fd, STDOUT_FILENO) < 0) {
		output_failed(tool, errno);
		output_drop(tool, fd);
		close(fd);
		return TOOL_FAILED;
	}
	close(fd);
	return 0;
}

FILE *tool_output_beside(const struct tool *tool, const char *path)
{
	int fd = output_open(tool, path);

	if (fd < 0)
		return NULL;
	output.stream = fdopen(fd, "w");
	if (!output.stream) {
		output_failed(tool, errno);
		output_drop(tool, fd);
		close(fd);
	}
	return output.stream;
}

/* Gives the complete file its final name. */
static bool output_rename(int fd)
{
	if (!output.partial)
		return true;
	if (!partial_is_ours(fd)) {
		errno = EBUSY;
		return false;
	}
	return !renameat(output.path.directory, output.partial, output.path.directory,
			 output.path.name);
}

int tool_output_commit(const struct tool *tool, int status, bool whole)
{
	FILE *stream = output.stream ? output.stream : stdout;
	bool failed;

	if (!output.name)
		return tool_output_end(tool, status);
	failed = ferror(stream);
	errno = 0;
	failed = fflush(stream) || failed;
	/* Some file systems report only now that they are full. */
	if (!failed && output.partial && fsync(fileno(stream)) && errno != EINVAL)
		failed = true;
	if (!failed && whole) {
		if (output_rename(fileno(stream)))
			return status;
		failed = true;
	}
	if (failed && !tool_signal) {
		/* stdio forgets the errno of a write when a later write succeeds. */
		status = TOOL_FAILED;
		if (errno)
			output_failed(tool, errno);
		else
			tool_complain(tool, "%s: it could not be written", output.name);
	}
	output_drop(tool, fileno(stream));
	return tool_signal ? tool_signal_status() : status;
}
