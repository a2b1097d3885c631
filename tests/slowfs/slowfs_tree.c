/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how operations on names and attributes pass through to the backing
 * folder. None of them costs modelled time. */
#include "slowfs_ops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "slowfs_control.h"

#define TREE_TIMEOUT 1.0

static struct slowfs *tree_fs(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static struct slowfs_node *tree_node(fuse_req_t req, fuse_ino_t ino)
{
	return slowfs_node_get(&tree_fs(req)->nodes, ino);
}

static void tree_reply_result(fuse_req_t req, int result)
{
	fuse_reply_err(req, result == 0 ? 0 : errno);
}

/* Answers a request that made name in parent, or failed to. */
static void tree_reply_made(fuse_req_t req, int result, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry;
	int rc = result == 0 ? 0 : errno;

	if (rc == 0) {
		slowfs_tree_own(req, tree_node(req, parent), name);
		rc = slowfs_node_lookup(&tree_fs(req)->nodes, parent, name, &entry);
	}
	if (rc == 0)
		fuse_reply_entry(req, &entry);
	else
		fuse_reply_err(req, rc);
}

void slowfs_tree_own(fuse_req_t req, const struct slowfs_node *parent, const char *name)
{
	const struct fuse_ctx *who = fuse_req_ctx(req);

	/* A daemon that is not root cannot, and then serves its own user alone. */
	if (geteuid() != 0)
		return;
	if (fchownat(parent->fd, name, who->uid, who->gid, AT_SYMLINK_NOFOLLOW) != 0)
		fuse_log(FUSE_LOG_WARNING, "slowfs: chown %s: %s\n", name, strerror(errno));
}

void slowfs_op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry;
	int rc;

	if (slowfs_control_names(parent, name)) {
		slowfs_control_lookup(req, parent, name);
		return;
	}
	rc = slowfs_node_lookup(&tree_fs(req)->nodes, parent, name, &entry);
	if (rc == 0)
		fuse_reply_entry(req, &entry);
	else
		fuse_reply_err(req, rc);
}

void slowfs_op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
	if (!slowfs_control_owns(ino))
		slowfs_node_forget(&tree_fs(req)->nodes, ino, lookups);
	fuse_reply_none(req);
}

void slowfs_op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++) {
		if (!slowfs_control_owns(forgets[i].ino))
			slowfs_node_forget(&tree_fs(req)->nodes, forgets[i].ino,
					   forgets[i].nlookup);
	}
	fuse_reply_none(req);
}

void slowfs_op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;

	(void)fi;
	if (slowfs_control_owns(ino)) {
		slowfs_control_getattr(req, ino);
		return;
	}
	if (fstat(tree_node(req, ino)->fd, &st) != 0) {
		fuse_reply_err(req, errno);
		return;
	}
	slowfs_node_tell(&tree_fs(req)->nodes, &st);
	fuse_reply_attr(req, &st, TREE_TIMEOUT);
}

static struct timespec tree_time(const struct timespec *given, int to_set, int set, int now)
{
	if (to_set & now)
		return (struct timespec){.tv_nsec = UTIME_NOW};
	if (to_set & set)
		return *given;
	return (struct timespec){.tv_nsec = UTIME_OMIT};
}

static int tree_setattr(const struct slowfs_node *node, const struct stat *attr, int to_set,
			const struct fuse_file_info *fi)
{
	const uid_t uid = to_set & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1;
	const gid_t gid = to_set & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1;
	const struct timespec times[2] = {
		tree_time(&attr->st_atim, to_set, FUSE_SET_ATTR_ATIME, FUSE_SET_ATTR_ATIME_NOW),
		tree_time(&attr->st_mtim, to_set, FUSE_SET_ATTR_MTIME, FUSE_SET_ATTR_MTIME_NOW),
	};
	char path[SLOWFS_PROC_PATH];
	int result = 0;

	slowfs_node_proc_path(node, path);
	if (to_set & FUSE_SET_ATTR_MODE)
		result = chmod(path, attr->st_mode);
	if (result == 0 && (to_set & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID)))
		result = fchownat(node->fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW);
	/* An open file may be truncated by who could not open it any more. */
	if (result == 0 && (to_set & FUSE_SET_ATTR_SIZE))
		result = fi != NULL ? ftruncate((int)fi->fh, attr->st_size)
				    : truncate(path, attr->st_size);
	if (result == 0 && (to_set & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME)))
		result = utimensat(AT_FDCWD, path, times, 0);
	return result == 0 ? 0 : errno;
}

void slowfs_op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		       struct fuse_file_info *fi)
{
	int rc;

	if (slowfs_control_owns(ino)) {
		slowfs_control_getattr(req, ino);
		return;
	}
	rc = tree_setattr(tree_node(req, ino), attr, to_set, fi);
	if (rc == 0)
		slowfs_op_getattr(req, ino, fi);
	else
		fuse_reply_err(req, rc);
}

void slowfs_op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	char target[4096 + 1];
	ssize_t length = readlinkat(tree_node(req, ino)->fd, "", target, sizeof(target) - 1);

	if (length < 0) {
		fuse_reply_err(req, errno);
		return;
	}
	target[length] = '\0';
	fuse_reply_readlink(req, target);
}

void slowfs_op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	tree_reply_made(req, mknodat(tree_node(req, parent)->fd, name, mode, rdev), parent, name);
}

void slowfs_op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	tree_reply_made(req, mkdirat(tree_node(req, parent)->fd, name, mode), parent, name);
}

void slowfs_op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	tree_reply_made(req, symlinkat(target, tree_node(req, parent)->fd, name), parent, name);
}

void slowfs_op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param entry;
	char path[SLOWFS_PROC_PATH];
	int rc = 0;

	slowfs_node_proc_path(tree_node(req, ino), path);
	if (linkat(AT_FDCWD, path, tree_node(req, parent)->fd, name, AT_SYMLINK_FOLLOW) != 0)
		rc = errno;
	if (rc == 0)
		rc = slowfs_node_lookup(&tree_fs(req)->nodes, parent, name, &entry);
	if (rc == 0)
		fuse_reply_entry(req, &entry);
	else
		fuse_reply_err(req, rc);
}

void slowfs_op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	tree_reply_result(req, unlinkat(tree_node(req, parent)->fd, name, 0));
}

void slowfs_op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	tree_reply_result(req, unlinkat(tree_node(req, parent)->fd, name, AT_REMOVEDIR));
}

void slowfs_op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		      const char *new_name, unsigned int flags)
{
	int result = renameat2(tree_node(req, parent)->fd, name, tree_node(req, new_parent)->fd,
			       new_name, flags);

	if (result == 0)
		slowfs_node_renamed(&tree_fs(req)->nodes, new_parent, new_name);
	tree_reply_result(req, result);
}

void slowfs_op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	DIR *dir;
	int fd;

	if (slowfs_control_owns(ino)) {
		fuse_reply_open(req, fi);
		return;
	}
	fd = openat(tree_node(req, ino)->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (dir == NULL) {
		fuse_reply_err(req, errno);
		if (fd >= 0)
			close(fd);
		return;
	}
	fi->fh = (uintptr_t)dir;
	fuse_reply_open(req, fi);
}

void slowfs_op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		       struct fuse_file_info *fi)
{
	DIR *dir = (DIR *)(uintptr_t)fi->fh;
	struct dirent *found;
	char *text;
	size_t used = 0;

	if (slowfs_control_owns(ino)) {
		slowfs_control_readdir(req, size, offset);
		return;
	}
	text = malloc(size);
	if (text == NULL) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	seekdir(dir, offset);
	while ((found = readdir(dir)) != NULL) {
		const struct stat st = {
			.st_ino = found->d_ino,
			.st_mode = (mode_t)found->d_type << 12,
		};
		size_t need = fuse_add_direntry(req, text + used, size - used, found->d_name, &st,
						found->d_off);

		if (need > size - used)
			break;
		used += need;
	}
	fuse_reply_buf(req, text, used);
	free(text);
}

void slowfs_op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (!slowfs_control_owns(ino))
		closedir((DIR *)(uintptr_t)fi->fh);
	fuse_reply_err(req, 0);
}

void slowfs_op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct statvfs st;

	(void)ino;
	if (fstatvfs(tree_fs(req)->nodes.root.fd, &st) == 0)
		fuse_reply_statfs(req, &st);
	else
		fuse_reply_err(req, errno);
}
