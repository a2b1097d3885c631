/* SPDX-License-Identifier: OLDAP-2.8 */
/* Writes what a command makes to a named file that is whole or not there. */
#include "tool_output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
	const char *name; /* as the person wrote it; NULL: there is no such file */
	char *path;       /* it, with links followed */
	char *partial;    /* what is written, or NULL: the file itself */
	FILE *stream;     /* NULL: standard output */
} output;

static int output_failed(const struct tool *tool, int rc)
{
	tool_complain(tool, "%s: %s", output.name, strerror(rc));
	return TOOL_FAILED;
}

/* A new file beside the one that is wanted, with its mode if it is there. Returns a descriptor, or
 * -1: none can be made there. */
static int partial_make(const struct stat *like)
{
	const char *slash = strrchr(output.path, '/'), *base = slash ? slash + 1 : output.path;
	int fd;

	if (asprintf(&output.partial, "%.*s.%s.lmdbio-partial", (int)(base - output.path),
		     output.path, base) < 0) {
		output.partial = NULL;
		return -1;
	}
	/* What a command that was killed has left. */
	if (unlink(output.partial) && errno != ENOENT)
		fd = -1;
	else
		fd = open(output.partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd >= 0 && like &&
	    (fchmod(fd, like->st_mode & 0777) ||
	     (fchown(fd, like->st_uid, like->st_gid) && errno != EPERM))) {
		close(fd);
		unlink(output.partial);
		fd = -1;
	}
	if (fd < 0) {
		free(output.partial);
		output.partial = NULL;
	}
	return fd;
}

/* Whether another user may have put what a name stands for into a directory for everybody. It is what the kernel
 * refuses to programs where fs.protected_symlinks, _hardlinks, _fifos and _regular are on. */
static bool is_planted(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *above = !slash          ? strdup(".")
		      : slash == path ? strdup("/")
				      : strndup(path, (size_t)(slash - path));
	struct stat named, directory;
	bool shared = above && !lstat(path, &named) && !stat(above, &directory) &&
		      directory.st_mode & S_ISVTX && directory.st_mode & S_IWOTH;

	free(above);
	return shared && ((named.st_uid != geteuid() && named.st_uid != directory.st_uid) ||
			  (S_ISREG(named.st_mode) && named.st_nlink > 1));
}

/* Opens what is at output.path, or makes it. With `like` it must still be that file. */
static int whole_open(const struct stat *like, bool leads_nowhere)
{
	int flags = like || leads_nowhere ? 0 : O_EXCL | O_NOFOLLOW, fd;
	struct stat st;

	fd = open(output.path, O_WRONLY | O_CLOEXEC | flags | (like ? 0 : O_CREAT), 0666);
	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && (!like || (st.st_dev == like->st_dev && st.st_ino == like->st_ino))) {
		if (!S_ISREG(st.st_mode) || !ftruncate(fd, 0))
			return fd;
	} else {
		errno = EPERM;
	}
	close(fd);
	return -1;
}

/* The descriptor of what is to be written, or -1, and the person has been told. */
static int output_open(const struct tool *tool, const char *path)
{
	struct stat st;
	bool exists = !stat(path, &st);
	bool leads_nowhere = !exists && !lstat(path, &st);
	char *target;
	int fd = -1;

	if (is_planted(path)) {
		tool_complain(tool, "%s: another user may have put it there: name another file", path);
		return -1;
	}
	target = exists ? realpath(path, NULL) : NULL;
	output.name = path;
	output.path = target ? target : *path ? strdup(path) : NULL;
	if (!output.path) {
		output_failed(tool, errno);
		return -1;
	}
	/* What /dev/stdout leads to may have no name (a pipe, a deleted file): it is written as it is, and a
	 * link is never replaced. */
	if ((!exists && !leads_nowhere) ||
	    (target && S_ISREG(st.st_mode) && st.st_nlink == 1 && !access(path, W_OK)))
		fd = partial_make(exists ? &st : NULL);
	if (fd < 0)
		fd = whole_open(exists ? &st : NULL, leads_nowhere);
	if (fd < 0)
		output_failed(tool, errno);
	return fd;
}

int tool_output_file(const struct tool *tool, const char *path)
{
	int fd = output_open(tool, path);

	if (fd < 0)
		return TOOL_FAILED;
	if (dup2(fd, STDOUT_FILENO) < 0)
		return output_failed(tool, errno);
	close(fd);
	return 0;
}

FILE *tool_output_beside(const struct tool *tool, const char *path)
{
	int fd = output_open(tool, path);

	if (fd < 0)
		return NULL;
	output.stream = fdopen(fd, "w");
	if (!output.stream)
		output_failed(tool, errno);
	return output.stream;
}

/* Takes away what is not whole. */
static void output_drop(const struct tool *tool, int fd)
{
	struct stat st;

	if (output.partial)
		unlink(output.partial);
	else if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		tool_complain(tool, "%s: it is not whole", output.name);
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
	/* Some file systems tell only now that they are full. */
	if (!failed && output.partial && fsync(fileno(stream)) && errno != EINVAL)
		failed = true;
	if (!failed && whole) {
		if (!output.partial || !rename(output.partial, output.path))
			return status;
		failed = true;
	}
	if (failed && !tool_signal) {
		/* stdio forgets which error it was when a later write goes well. */
		tool_complain(tool, "%s: %s", output.name,
			      errno ? strerror(errno) : "it could not be written");
		status = TOOL_FAILED;
	}
	output_drop(tool, fileno(stream));
	return tool_signal ? tool_signal_status() : status;
}
