/* SPDX-License-Identifier: OLDAP-2.8 */
/* Contents of files pass through; reads meet model, faults and counters here.
 *
 * Locks are not passed on: the kernel keeps them for the mount's own inodes, so all users of one
 * mount exclude each other, with every kind of lock, and no thread here ever waits for one. */
#include "slowfs_ops.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "slowfs_control.h"

static struct slowfs *data_fs(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

/* O_DIRECT decides about the kernel's cache of the mount, not of the backing folder. O_APPEND has
 * been resolved to an offset by the kernel; O_NOFOLLOW would refuse the way through /proc. */
static int data_flags(int flags)
{
	return (flags & ~(O_DIRECT | O_APPEND | O_NOFOLLOW)) | O_CLOEXEC;
}

static void data_opened(fuse_req_t req, struct fuse_file_info *fi, int fd)
{
	fi->fh = (uint64_t)fd;
	fi->direct_io = 0;
	fi->keep_cache = !data_fs(req)->nocache;
}

void slowfs_op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *fi)
{
	struct slowfs *fs = data_fs(req);
	const struct slowfs_node *folder = slowfs_node_get(&fs->nodes, parent);
	struct fuse_entry_param entry;
	int fd;
	int rc;

	fd = openat(folder->fd, name, data_flags(fi->flags) | O_CREAT | O_NOFOLLOW, mode);
	if (fd < 0) {
		fuse_reply_err(req, errno);
		return;
	}
	slowfs_tree_own(req, folder, name);
	rc = slowfs_node_lookup(&fs->nodes, parent, name, &entry);
	if (rc != 0) {
		close(fd);
		fuse_reply_err(req, rc);
		return;
	}
	data_opened(req, fi, fd);
	fuse_reply_create(req, &entry, fi);
}

void slowfs_op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	char path[SLOWFS_PROC_PATH];
	int fd;

	if (slowfs_control_owns(ino)) {
		slowfs_control_open(req, ino, fi);
		return;
	}
	slowfs_node_proc_path(slowfs_node_get(&data_fs(req)->nodes, ino), path);
	fd = open(path, data_flags(fi->flags));
	if (fd < 0) {
		fuse_reply_err(req, errno);
		return;
	}
	data_opened(req, fi, fd);
	fuse_reply_open(req, fi);
}

/* Fills in read->shortened and ->error, and cuts read->served. */
static void data_judge(struct slowfs *fs, const struct fuse_file_info *fi, struct slowfs_read *read)
{
	uint64_t there = read->served;

	read->error = slowfs_faults_apply(&fs->faults, read->file->path,
					  (fi->flags & O_DIRECT) != 0, read->offset, &read->served);
	read->shortened = read->error == 0 && read->served < there;
}

/* The bytes are fetched while the modelled time runs; what follows it is the copy to the reader. */
void slowfs_op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *fi)
{
	struct slowfs *fs = data_fs(req);
	struct slowfs_read read = {.offset = (uint64_t)offset, .asked = size};
	uint64_t arrival = slowfs_model_now();
	struct slowfs_node *node;
	const char *bytes;
	bool held;

	if (slowfs_control_owns(ino)) {
		slowfs_control_read(req, size, offset, fi);
		return;
	}
	node = slowfs_node_get(&fs->nodes, ino);
	read.file = atomic_load(&node->file);
	slowfs_stats_begin(&fs->stats, &read);
	read.error =
		slowfs_map_hold(&node->map, (int)fi->fh, read.offset, size, &bytes, &read.served);
	held = read.error == 0;
	if (held)
		data_judge(fs, fi, &read);
	read.delay_ns = slowfs_model_wait(&fs->model, arrival, read.served);
	slowfs_stats_end(&fs->stats, &read);
	if (read.error != 0)
		fuse_reply_err(req, read.error);
	else /* where the file has become shorter meanwhile, the kernel makes an EIO of it */
		fuse_reply_buf(req, bytes, read.served);
	if (held)
		slowfs_map_release(&node->map);
}

void slowfs_op_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size, off_t offset,
		     struct fuse_file_info *fi)
{
	ssize_t written;

	if (slowfs_control_owns(ino)) {
		slowfs_control_write(req, ino, bytes, size);
		return;
	}
	written = pwrite((int)fi->fh, bytes, size, offset);
	if (written < 0)
		fuse_reply_err(req, errno);
	else
		fuse_reply_write(req, (size_t)written);
}

void slowfs_op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (slowfs_control_owns(ino))
		slowfs_control_release(fi);
	else
		close((int)fi->fh);
	fuse_reply_err(req, 0);
}

void slowfs_op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	int result = 0;

	if (!slowfs_control_owns(ino))
		result = datasync ? fdatasync((int)fi->fh) : fsync((int)fi->fh);
	fuse_reply_err(req, result == 0 ? 0 : errno);
}

void slowfs_op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
			 struct fuse_file_info *fi)
{
	int result;

	if (slowfs_control_owns(ino)) {
		fuse_reply_err(req, EOPNOTSUPP);
		return;
	}
	result = fallocate((int)fi->fh, mode, offset, length);
	fuse_reply_err(req, result == 0 ? 0 : errno);
}
