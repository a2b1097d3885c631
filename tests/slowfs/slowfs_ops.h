/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says what one mount consists of, and the operations that serve it. */
#ifndef SLOWFS_OPS_H
#define SLOWFS_OPS_H

#include <fuse_lowlevel.h>
#include <stdbool.h>

#include "slowfs_faults.h"
#include "slowfs_model.h"
#include "slowfs_node.h"
#include "slowfs_stats.h"

struct slowfs {
	struct fuse_session *session;
	struct slowfs_model model;
	struct slowfs_faults faults;
	struct slowfs_stats stats;
	struct slowfs_nodes nodes;
	bool nocache; /* each open forgets the kernel's pages of the file */
	int lock;     /* a descriptor, or -1 */
};

/* Attributes and names (slowfs_tree.c). Signatures and duties are those of fuse_lowlevel_ops. */
void slowfs_op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void slowfs_op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups);
void slowfs_op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
void slowfs_op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void slowfs_op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		       struct fuse_file_info *fi);
void slowfs_op_readlink(fuse_req_t req, fuse_ino_t ino);
void slowfs_op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void slowfs_op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void slowfs_op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void slowfs_op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void slowfs_op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void slowfs_op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void slowfs_op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent,
		      const char *new_name, unsigned int flags);
void slowfs_op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void slowfs_op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		       struct fuse_file_info *fi);
void slowfs_op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void slowfs_op_statfs(fuse_req_t req, fuse_ino_t ino);

/* Contents of files (slowfs_data.c). */
void slowfs_op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
		      struct fuse_file_info *fi);
void slowfs_op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void slowfs_op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
		    struct fuse_file_info *fi);
void slowfs_op_write(fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size, off_t offset,
		     struct fuse_file_info *fi);
void slowfs_op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void slowfs_op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void slowfs_op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length,
			 struct fuse_file_info *fi);

/* What somebody creates is his, also when the daemon is root. */
void slowfs_tree_own(fuse_req_t req, const struct slowfs_node *parent, const char *name);

#endif
