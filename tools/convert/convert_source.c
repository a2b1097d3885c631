/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads a snapshot of an LMDB file byte for byte while other processes write.
 *
 * A read transaction keeps the snapshot's pages as they are; only the meta pages change.
 * mdb_env_copy() locks writers out to copy both meta pages as they stood between two commits. Here
 * a look at them replaces that lock. Our transaction's page must carry its number. The other page,
 * read afterwards, must not be newer (lib/env/snapshot.c has the argument). A second reading of
 * both must give the same bytes. Otherwise the transaction is renewed.
 */
#include "convert_source.h"
#include "convert_in_use.h"
#include "tool_env.h"

#include "format/layout.h"
#include "format/meta.h"
#include "util/checked.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	LOOKS_MAX = 100000,
	LOOKS_YIELD = 16, /* failed looks before a pause that lets a writer run */
	COMMIT_PAUSE =
		1000000, /* nanoseconds between two looks at a commit that waits for the disk */
};

#define COMMIT_WAIT (10 * CLOCK_SECOND) /* for one commit: far longer than disks take */

enum look {
	LOOK_GOOD,
	LOOK_UNLUCKY,
	/* The other meta page is of the next transaction, which readers do not see before it is on
	 * the disk. */
	LOOK_COMMIT,
};

#define ZSTD_FRAME     0xFD2FB528u
#define ZSTD_SKIPPABLE 0x184D2A50u

/* ---- the form of a source ---- */

/* Returns whether a name exists. A name that cannot be looked up counts as present, so that an
 * unreadable environment is not imported as a tree of files. Allocates nothing: a failed allocation
 * must not read as "absent". */
static bool exists_in(const char *directory, const char *name)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
		return false;
	return !access(path, F_OK) || (errno != ENOENT && errno != ENOTDIR && errno != ENAMETOOLONG);
}

static enum convert_form file_form(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	uint8_t head[512] = {0};
	ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof(head), 0);
	bool ours = fd >= 0 && container_is_one(fd);
	const char *name = basename(path);
	size_t length = strlen(name);

	if (fd >= 0)
		close(fd);
	if (ours)
		return FORM_CONTAINER;
	for (enum format format = FORMAT_0_9; n >= META_LOOK && format < FORMATS; format++)
		if (load32(head + page_layouts[format].shift + META_MAGIC) == FORMAT_MAGIC)
			return FORM_LMDB;
	if ((n == sizeof(head) && !memcmp(head + 257, "ustar", 5)) || strstr(name, ".tar") ||
	    (length > 4 && !strcmp(name + length - 4, ".tgz")))
		return FORM_TAR;
	if (n >= 4 && (load32(head) == ZSTD_FRAME || (load32(head) & ~0xfu) == ZSTD_SKIPPABLE))
		return FORM_CONTAINER;
	return FORM_AUTO;
}

static bool is_container(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	bool found = fd >= 0 && container_is_one(fd);

	if (fd >= 0)
		close(fd);
	return found;
}

/* Returns whether a directory's data.mdb is a container. Programs read such a file as a
 * data.mdb.zst. */
static bool holds_container(const char *directory)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/data.mdb", directory) < (int)sizeof(path) &&
	       is_container(path);
}

enum convert_form source_form(const char *path, bool no_subdir)
{
	struct stat st;

	if (stat(path, &st))
		return FORM_AUTO;
	if (!S_ISDIR(st.st_mode) || no_subdir)
		return file_form(path);
	if (exists_in(path, "data.mdb"))
		return holds_container(path) ? FORM_CONTAINER : FORM_LMDB;
	return exists_in(path, "data.mdb.zst") ? FORM_CONTAINER : FORM_TREE;
}

bool source_is_other(const char *path, enum convert_form form, bool no_subdir)
{
	struct stat st;

	if (stat(path, &st))
		return false;
	if (!S_ISDIR(st.st_mode) || no_subdir)
		return form == FORM_LMDB ? is_container(path)
					 : form == FORM_CONTAINER && file_form(path) == FORM_LMDB;
	return form == FORM_LMDB ? holds_container(path) || !exists_in(path, "data.mdb")
				 : form == FORM_CONTAINER && !holds_container(path) &&
					   !exists_in(path, "data.mdb.zst");
}

/* Opens a file with the back end that suits its file system. */
static int file_io(struct io *io, int fd)
{
	const char *backend, *why;
	int rc = io_choose(fd, NULL, &backend, &why);

	if (!rc)
		rc = io_open_file(io, backend, fd);
	if (!rc && io_alignment(io) == 1)
		posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
	return rc;
}

/* Makes the file's bytes the data. */
static int source_io(struct source *source)
{
	int rc = file_io(&source->io, source->fd);

	source->ordered = !rc && io_alignment(&source->io) > 1;
	return rc;
}

/* ---- LMDB ---- */

/* Returns whether a data file has its name in an environment. Then it is opened by its directory
 * (NULL: no memory), which has the lock file that writers use, unless a program has the file open by
 * its own name alone. */
static bool is_in_environment(const char *path, char **directory)
{
	size_t before = (size_t)(basename(path) - path);

	if (strcmp(path + before, "data.mdb"))
		return false;
	if (in_use_by(path, true) == EBUSY && in_use_by(path, false) != EBUSY)
		return false;
	*directory = before ? strndup(path, before - (before > 1)) : strdup(".");
	return true;
}

static int lmdb_names(struct source *source, const char *path, bool no_subdir)
{
	struct stat st;
	bool named = no_subdir || (!stat(path, &st) && !S_ISDIR(st.st_mode));

	if (named && !no_subdir && is_in_environment(path, &source->path))
		named = false;
	else
		source->path = strdup(path);
	if (!source->path)
		return ENOMEM;
	source->flags = named ? MDB_NOSUBDIR : 0;
	source->file = env_data_path(source->path, source->flags);
	source->lock = env_lock_path(source->path, source->flags);
	return source->file && source->lock ? 0 : ENOMEM;
}

static int metas_read(const struct source *source, unsigned first, uint8_t *pages)
{
	uint32_t size = source->page_size;

	for (unsigned i = 0; i < FORMAT_METAS; i++) {
		unsigned page = (first + i) & 1;
		ssize_t n = pread(source->fd, pages + page * size, size, (off_t)page * size);

		if (n != (ssize_t)size)
			return n < 0 ? errno : MDB_INVALID;
	}
	return 0;
}

/* Looks once at the meta pages, into `pages`; `again` is room for a second reading. */
static int metas_look(const struct source *source, uint64_t id, uint8_t *pages, uint8_t *again,
		      enum look *look)
{
	uint32_t size = source->page_size;
	struct meta ours, other;
	int rc = metas_read(source, (unsigned)id & 1, pages);

	*look = LOOK_UNLUCKY;
	if (!rc)
		rc = metas_read(source, (unsigned)id & 1, again);
	if (rc)
		return rc;
	if (memcmp(pages, again, 2 * (size_t)size) ||
	    meta_parse(&ours, pages + (id & 1) * size, source->format) ||
	    meta_parse(&other, pages + (~id & 1) * size, source->format) || ours.txnid != id)
		return 0;
	if (other.txnid <= id)
		*look = LOOK_GOOD;
	else if (other.txnid == id + 1)
		*look = LOOK_COMMIT;
	return 0;
}

/* Returns whether to look again at unchanged pages: the next transaction is being committed. */
static bool commit_wait(enum look look, uint64_t until)
{
	if (look != LOOK_COMMIT || tool_signal || clock_now() >= until)
		return false;
	clock_sleep(COMMIT_PAUSE);
	return true;
}

static int lmdb_pin(struct source *source)
{
	size_t size = 2 * (size_t)source->page_size;
	uint8_t *looks = malloc(3 * size), *before = looks + 2 * size;
	enum look look = LOOK_UNLUCKY;
	uint64_t id = 0, until = 0;
	int rc = looks ? 0 : ENOMEM;

	for (unsigned i = 0; i < LOOKS_MAX && !rc && look != LOOK_GOOD; i++) {
		id = source->txn->id;
		rc = metas_look(source, id, looks, looks + size, &look);
		if (rc || look == LOOK_GOOD)
			break;
		if (!i || memcmp(before, looks, size) != 0)
			until = clock_now() + COMMIT_WAIT;
		/* No process writes, and the lock file does not fit: the original would take the
		 * meta page that its number points to. */
		else if (!commit_wait(look, until))
			break;
		memcpy(before, looks, size);
		if (i % LOOKS_YIELD == LOOKS_YIELD - 1)
			sched_yield();
		txn_reset(source->txn);
		rc = txn_renew(source->txn);
	}
	if (!rc && fstat(source->fd, &source->st))
		rc = errno;
	if (rc) {
		free(looks);
		return rc;
	}
	source->metas = looks;
	source->size = (uint64_t)source->st.st_size;
	source->identity.txnid = id;
	source->identity.size = source->size;
	container_source_hash(looks, size, source->identity.hash);
	return 0;
}

static int tree_begin(struct source *source, unsigned flags)
{
	int rc = tool_env_try(source->path, source->flags | flags, 0, &source->env);

	if (rc)
		return rc;
	rc = txn_begin(source->env, NULL, MDB_RDONLY, &source->txn);
	if (rc) {
		env_close(source->env);
		source->env = NULL;
		return rc;
	}
	source->page_size = source->txn->snapshot.page_size;
	source->format = source->txn->snapshot.format;
	return 0;
}

/* Returns whether a program has the data file open by the other of its two lock files: then no reader
 * slot of this process keeps the program from reusing pages. */
static bool is_bypassed(const struct source *source)
{
	return in_use_by(source->file, !(source->flags & MDB_NOSUBDIR)) == EBUSY;
}

/* Opens a data file. If its lock file may not be used, reads it as it is; a look at the end shows
 * whether it was written to meanwhile. */
static int lmdb_open(struct source *source)
{
	int rc;

	source->fd = open(source->file, O_RDONLY | O_CLOEXEC);
	if (source->fd < 0)
		return errno;
	/* The check of its name failed, or the container came there later: its bytes are no
	 * pages. */
	if (container_is_one(source->fd))
		return ESTALE;
	rc = tree_begin(source, 0);
	if (rc == EACCES || rc == EPERM || rc == ENOLCK || rc == ENOSYS || rc == EOPNOTSUPP) {
		source->unlocked = true;
		rc = tree_begin(source, MDB_NOLOCK);
	}
	source->bypassed = !rc && is_bypassed(source);
	if (!rc)
		rc = lmdb_pin(source);
	return rc ? rc : source_io(source);
}

/* ---- containers ---- */

static int container_names(struct source *source, const char *path)
{
	const char *inside = "";
	struct stat st;

	if (stat(path, &st))
		return errno;
	if (S_ISDIR(st.st_mode))
		inside = holds_container(path) ? "/data.mdb" : "/data.mdb.zst";
	if (asprintf(&source->file, "%s%s", path, inside) < 0)
		source->file = NULL;
	/* The directory's name would lead to a data file that stands beside the container. */
	source->path = source->file ? strdup(source->file) : NULL;
	return source->path ? 0 : ENOMEM;
}

static int container_open(struct source *source)
{
	const struct container_info *info;
	int rc;

	source->fd = open(source->file, O_RDONLY | O_CLOEXEC);
	if (source->fd < 0 || fstat(source->fd, &source->st))
		return errno;
	if (S_ISDIR(source->st.st_mode))
		return EISDIR;
	rc = file_io(&source->below, source->fd);
	if (!rc)
		rc = io_open_container(&source->io, &source->below, NULL);
	if (rc)
		return rc;
	info = container_info(&source->io);
	source->size = info->size;
	source->page_size = info->page_size;
	source->format = info->format;
	source->identity = info->source;
	source->ordered = true;
	return 0;
}

/* ---- both ---- */

int source_name(struct source *source, const char *path, enum convert_form form, bool no_subdir)
{
	*source = (struct source){.form = form, .fd = -1, .io.fd = -1, .below.fd = -1};
	return form == FORM_CONTAINER ? container_names(source, path)
				      : lmdb_names(source, path, no_subdir);
}

int source_open(struct source *source, const char *path, enum convert_form form, bool no_subdir)
{
	char *line;
	int rc = source_name(source, path, form, no_subdir);

	if (!rc)
		rc = form == FORM_CONTAINER ? container_open(source) : lmdb_open(source);
	if (!rc)
		return 0;
	line = tool_env_explain(path, no_subdir ? MDB_NOSUBDIR : 0, rc);
	tool_complain(&convert_tool, "%s", line ? line : path);
	free(line);
	source_close(source);
	return form == FORM_CONTAINER && rc == MDB_CORRUPTED ? TOOL_PROBLEM : TOOL_FAILED;
}

int source_open_file(struct source *source, const char *name, int fd)
{
	char path[32];
	int rc = 0;

	*source = (struct source){.form = FORM_LMDB, .fd = fd, .io.fd = -1, .below.fd = -1};
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	source->path = strdup(path);
	source->file = strdup(name);
	if (!source->path || !source->file)
		rc = ENOMEM;
	if (!rc)
		rc = tree_begin(source, MDB_NOLOCK);
	if (!rc)
		rc = lmdb_pin(source);
	if (!rc)
		rc = source_io(source);
	if (!rc)
		return 0;
	source_close(source);
	return convert_fail(name, rc);
}

int source_open_bytes(struct source *source, const char *path)
{
	int rc;

	*source = (struct source){.form = FORM_LMDB, .fd = -1, .io.fd = -1, .below.fd = -1};
	source->file = strdup(path);
	source->fd = source->file ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	rc = !source->file ? ENOMEM : source->fd < 0 || fstat(source->fd, &source->st) ? errno : 0;
	if (!rc)
		rc = source_io(source);
	source->size = (uint64_t)source->st.st_size;
	if (!rc)
		return 0;
	source_close(source);
	return convert_fail(path, rc);
}

size_t source_alignment(const struct source *source)
{
	return io_alignment(&source->io);
}

/* Puts the snapshot's meta pages in place of later ones. */
void source_patch(const struct source *source, void *buffer, size_t length, uint64_t offset)
{
	uint64_t end = 2 * (uint64_t)source->page_size;

	if (!source->metas || offset >= end)
		return;
	memcpy(buffer, source->metas + offset, end - offset < length ? end - offset : length);
}

int source_read(struct source *source, void *buffer, size_t length, uint64_t offset)
{
	uint64_t rest = source->size - offset;
	size_t done;
	int rc = io_read(&source->io, buffer, length, offset, &done);

	if (rc)
		return rc;
	if (done < length && done < rest)
		return EIO;
	source_patch(source, buffer, length, offset);
	return 0;
}

bool source_is_relaid(const struct source *source)
{
	return source->form == FORM_CONTAINER && container_info(&source->io)->relaid;
}

int source_tree(struct source *source, MDB_txn **txn)
{
	int rc = source->txn ? 0 : tree_begin(source, 0);

	*txn = source->txn;
	return rc ? convert_fail(source->file, rc) : 0;
}

bool source_is_unchanged(const struct source *source)
{
	size_t size = 2 * (size_t)source->page_size;
	struct stat st;
	uint8_t *now;
	bool same;

	if (fstat(source->fd, &st) || st.st_size != source->st.st_size ||
	    st.st_mtim.tv_sec != source->st.st_mtim.tv_sec ||
	    st.st_mtim.tv_nsec != source->st.st_mtim.tv_nsec)
		return false;
	if (!source->metas)
		return true;
	/* A writer through a shared map changes no time stamp for a while. */
	now = malloc(size);
	same = now && !metas_read(source, 0, now) && !memcmp(now, source->metas, size);
	free(now);
	return same;
}

int source_judge_changed(const struct source *source)
{
	if (source->unlocked)
		return convert_refuse(source->file, "it was written to while it was read, and its "
						    "lock file cannot be used");
	if (source->form == FORM_LMDB && (source->bypassed || is_bypassed(source)))
		return convert_refuse(
			source->file,
			"it was written to while it was read, and a program names it by "
			"its %s: convert it by that name",
			source->flags & MDB_NOSUBDIR ? "directory" : "file (-n)");
	return 0;
}

int source_fail(const struct source *source, uint64_t offset, int rc)
{
	if (rc == EBADMSG) {
		convert_refuse(source->file, "damaged: the data from byte %llu on",
			       (unsigned long long)offset);
		return TOOL_PROBLEM;
	}
	if (rc == EIO && source->form == FORM_LMDB && !source_is_unchanged(source))
		return convert_refuse(
			source->file,
			"it has become shorter while it was read: convert it again when no "
			"program changes it");
	return convert_fail(source->file, rc);
}

void source_let_go(struct source *source)
{
	if (source->txn)
		txn_abort(source->txn);
	if (source->env)
		env_close(source->env);
	source->txn = NULL;
	source->env = NULL;
}

void source_close(struct source *source)
{
	if (source->io.ops)
		io_close(&source->io);
	if (source->below.ops)
		io_close(&source->below);
	source_let_go(source);
	if (source->fd >= 0)
		close(source->fd);
	free(source->metas);
	free(source->path);
	free(source->file);
	free(source->lock);
	*source = (struct source){.fd = -1};
}
