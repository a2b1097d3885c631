/* SPDX-License-Identifier: OLDAP-2.8 */
/* Explains to the user why a data set cannot be opened.
 *
 * LMDB's codes name neither the file nor the reason. EACCES may concern the data file or the lock
 * file; MDB_INVALID may mean a text file, another format or damage. The files are looked at again
 * after the failure, so a successful opening costs nothing more.
 */
#include "env/env.h"

#include "container/container.h"
#include "format/identify.h"
#include "util/kernel_file.h"
#include "util/phrases.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { EXPLAINED = 256 };

struct explained {
	const char *file; /* the file to blame */
	char text[EXPLAINED];
};

static void explain_as(struct explained *explained, const char *file, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void explain_as(struct explained *explained, const char *file, const char *format, ...)
{
	va_list arguments;

	explained->file = file;
	va_start(arguments, format);
	vsnprintf(explained->text, sizeof(explained->text), format, arguments);
	va_end(arguments);
}

static void explain_errno(struct explained *explained, const char *file, int rc)
{
	const char *remedy = remedy_find(rc);

	if (remedy)
		explain_as(explained, file, "%s: %s", strerror(rc), remedy);
	else
		explain_as(explained, file, "%s", lmdbio_orig_mdb_strerror(rc));
}

/* Explains why LMDB refuses a data file that can be opened. */
static void explain_content(struct explained *explained, const char *data, int fd, unsigned flags,
			    int rc)
{
	struct format_identity identity;
	char text[FORMAT_TEXT];
	uint8_t *bytes;
	ssize_t n;

	if (container_is_one(fd)) {
		explain_as(explained, data,
			   rc == MDB_VERSION_MISMATCH
				   ? "this is a container of a newer lmdbio: read it with that one"
				   : "the container is damaged or cut off: lmdbio-check says where");
		return;
	}
	bytes = malloc(FORMAT_LOOK);
	n = bytes ? pread(fd, bytes, FORMAT_LOOK, 0) : -1;
	if (n < 0) {
		explain_errno(explained, data, bytes ? errno : ENOMEM);
		free(bytes);
		return;
	}
	identity = format_identify(bytes, (size_t)n);
	free(bytes);
	if (format_explain(&identity, text))
		explain_as(explained, data, "%s", text);
	else if (identity.kind == FORMAT_KIND_LMDB_1 && !(flags & MDB_RDONLY))
		explain_as(explained, data,
			   "this is a data file of LMDB 1.0, which lmdbio only reads: open it with "
			   "MDB_RDONLY (readonly=True), write to it with LMDB 1.0");
	else if (rc == MDB_VERSION_MISMATCH)
		explain_as(
			explained, data,
			"a program that has it open uses another version of LMDB, whose lock "
			"file differs: if no program writes to the data, open it with MDB_NOLOCK "
			"(lock=False, --no-lock)");
	else if (rc == MDB_BAD_CHECKSUM)
		explain_as(explained, data,
			   "its pages have no checksums of the size that LMDBIO_CHECKSUM or "
			   "mdb_env_set_checksum says: name another one, or none");
	else if (rc == MDB_INCOMPATIBLE)
		explain_as(explained, data,
			   "its pages are encrypted (mdb_env_set_encrypt of LMDB "
			   "1.0), which lmdbio does not read");
	else
		explain_as(explained, data, "it is damaged: lmdbio-check says where");
}

static void explain_missing(struct explained *explained, const char *path, const char *data)
{
	struct stat st;

	if (stat(path, &st))
		explain_errno(explained, path, errno);
	else if (S_ISDIR(st.st_mode))
		explain_as(explained, path,
			   "this directory holds no data.mdb and no data.mdb.zst: "
			   "name one that does");
	else
		explain_errno(explained, data, ENOENT);
}

/* Explains why a data file cannot be opened for writing. Returns false if nothing forbids it. */
static bool explain_unwritable(struct explained *explained, const char *data, int fd)
{
	static const char remedy[] = "open it with MDB_RDONLY (readonly=True)";

	if (container_is_one(fd))
		explain_as(explained, data, "a container cannot be written to: %s", remedy);
	else if (faccessat(AT_FDCWD, data, W_OK, AT_EACCESS))
		explain_as(explained, data, "it cannot be written to (%s): %s", strerror(errno),
			   remedy);
	else
		return false;
	return true;
}

static void explain_refused(struct explained *explained, const char *data, const char *lock, int fd,
			    int rc, unsigned flags)
{
	if (flags & MDB_RDONLY || !explain_unwritable(explained, data, fd))
		explain_as(explained, lock,
			   "the lock file cannot be used (%s): if no program writes to the data, "
			   "open it with MDB_NOLOCK (lock=False, --no-lock)",
			   strerror(rc));
}

/* Whether an errno concerns the lock file, if the data file is a regular file: the lock file is a
 * directory, a pipe or a link that leads nowhere. */
static bool is_of_lock(int rc)
{
	return rc == ENOENT || rc == ENOTDIR || rc == EISDIR || rc == ELOOP || rc == ESPIPE ||
	       rc == ENXIO;
}

/* Opens a data file that was refused. An opening that failed with an errno need not have opened the
 * file. If the program has fcntl(2) locks on it, the descriptor cannot read, and its close keeps
 * them. */
static int open_refused(const char *data, int rc)
{
	struct stat st;
	bool locked = rc > 0 && !stat(data, &st) && inode_is_locked_here(st.st_ino);

	return open(data, O_CLOEXEC | (locked ? O_PATH : O_RDONLY | O_NONBLOCK | O_NOCTTY));
}

static void explain(struct explained *explained, const char *path, const char *data,
		    const char *lock, unsigned flags, int rc)
{
	int fd = open_refused(data, rc), error = errno;
	bool refused = rc == EACCES || rc == EPERM || rc == EROFS || rc == ENOLCK || rc == ENOSYS ||
		       rc == EOPNOTSUPP;
	bool of_directory = !(flags & MDB_NOSUBDIR);
	struct stat st;
	mode_t type = fd >= 0 && !fstat(fd, &st) ? st.st_mode & S_IFMT : 0;

	if (rc == ENOENT && fd < 0 && error == ENOENT)
		explain_missing(explained, path, data);
	else if (rc == ENOTDIR && of_directory && !stat(path, &st) && !S_ISDIR(st.st_mode))
		explain_as(explained, path,
			   "this is a file, and a directory was asked for: open "
			   "it with MDB_NOSUBDIR (subdir=False, -n)");
	else if (type == S_IFDIR && of_directory)
		explain_as(explained, data,
			   "this is a directory, and no data file: name the directory of one");
	else if (type == S_IFREG && is_of_lock(rc))
		explain_refused(explained, data, lock, fd, rc, flags);
	else if (type == S_IFDIR || rc == EISDIR)
		explain_as(explained, path,
			   "this is a directory, and a file was asked for: open "
			   "it without MDB_NOSUBDIR (subdir=True, no -n)");
	else if (type && type != S_IFREG)
		explain_as(explained, data,
			   "this is a pipe or a device, and no data file: name a "
			   "file, or its directory");
	else if (fd >= 0 && (rc == MDB_INVALID || rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND ||
			     rc == MDB_VERSION_MISMATCH || rc == MDB_INCOMPATIBLE ||
			     rc == MDB_BAD_CHECKSUM || rc == EBADF))
		explain_content(explained, data, fd, flags, rc);
	else if (refused && fd < 0)
		explain_errno(explained, stat(path, &st) ? path : data, error);
	else if (refused)
		explain_refused(explained, data, lock, fd, rc, flags);
	else
		explain_errno(explained, fd < 0 && stat(path, &st) ? path : data, rc);
	if (fd >= 0)
		close(fd);
}

/* The name of the data file, or of the container in its place; malloc'ed. */
static char *data_name(const char *path, unsigned flags)
{
	char *data = env_data_path(path, flags), *packed;

	if (!data || flags & MDB_NOSUBDIR || !access(data, F_OK) ||
	    asprintf(&packed, "%s.zst", data) < 0)
		return data;
	if (!access(packed, F_OK)) {
		free(data);
		return packed;
	}
	free(packed);
	return data;
}

char *env_explain(const char *path, unsigned flags, int rc)
{
	char *data = data_name(path, flags), *lock = env_lock_path(path, flags), *line = NULL;
	struct explained explained;

	if (data && lock) {
		explain(&explained, path, data, lock, flags, rc);
		if (asprintf(&line, "%s: %s", explained.file, explained.text) < 0)
			line = NULL;
	}
	free(data);
	free(lock);
	return line;
}
