/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how the operations hand over what concerns the folder .slowfs. */
#ifndef SLOWFS_CONTROL_H
#define SLOWFS_CONTROL_H

#include <fuse_lowlevel.h>
#include <stdbool.h>

struct slowfs;

/* True for the inodes of .slowfs and what is in it, and for names that lead to them. */
bool slowfs_control_owns(fuse_ino_t ino);
bool slowfs_control_names(fuse_ino_t parent, const char *name);

/* These serve such inodes; each replies, release excepted. */
void slowfs_control_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void slowfs_control_getattr(fuse_req_t req, fuse_ino_t ino);
void slowfs_control_readdir(fuse_req_t req, size_t size, off_t offset);
void slowfs_control_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void slowfs_control_read(fuse_req_t req, size_t size, off_t offset, struct fuse_file_info *fi);
void slowfs_control_write(fuse_req_t req, fuse_ino_t ino, const char *text, size_t size);
void slowfs_control_release(struct fuse_file_info *fi);

/* One command, as a line written to .slowfs/control: reset, latency US, bandwidth MIB, fail SPEC,
 * clear, drop, clock S, log on|off. Returns 0 or errno (EINVAL: not understood). */
int slowfs_control_run(struct slowfs *fs, const char *line);

#endif
