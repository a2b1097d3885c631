/* SPDX-License-Identifier: OLDAP-2.8 */
/* Shows how inode numbers stand for files of the backing folder. */
#ifndef SLOWFS_NODE_H
#define SLOWFS_NODE_H

#include <fuse_lowlevel.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "slowfs_map.h"
#include "slowfs_stats.h"

#define SLOWFS_NODE_BUCKETS 256

struct slowfs_node {
	struct slowfs_node *next; /* of its bucket */
	int fd;			  /* O_PATH */
	dev_t dev;
	ino_t ino;
	uint64_t lookups; /* that the kernel has not yet forgotten */
	struct slowfs_file *_Atomic file;
	struct slowfs_map map;
};

struct slowfs_nodes {
	pthread_mutex_t lock;
	struct slowfs_stats *stats;
	atomic_int_fast64_t
		clock; /* seconds that files' times of change are told later than they are */
	struct slowfs_node root;
	struct slowfs_node *buckets[SLOWFS_NODE_BUCKETS];
};

/* Room for "/proc/self/fd/N": the way to reopen or to change what an O_PATH descriptor names. */
#define SLOWFS_PROC_PATH 32

/* Takes over root_fd, an O_PATH descriptor of the backing folder. Returns 0 or errno. */
int slowfs_nodes_init(struct slowfs_nodes *nodes, struct slowfs_stats *stats, int root_fd);

/* ino is one that the kernel was given and has not forgotten, FUSE_ROOT_ID included. */
struct slowfs_node *slowfs_node_get(struct slowfs_nodes *nodes, fuse_ino_t ino);

/* Finds name in parent and counts one look-up of it; *entry is ready for fuse_reply_entry.
 * Returns 0 or errno. */
int slowfs_node_lookup(struct slowfs_nodes *nodes, fuse_ino_t parent, const char *name,
		       struct fuse_entry_param *entry);
/* What the kernel is told of a file that has this status. */
void slowfs_node_tell(const struct slowfs_nodes *nodes, struct stat *st);
void slowfs_node_forget(struct slowfs_nodes *nodes, fuse_ino_t ino, uint64_t lookups);

/* What is called name in parent by now, if the kernel knows it, is counted under that name. */
void slowfs_node_renamed(struct slowfs_nodes *nodes, fuse_ino_t parent, const char *name);

/* The numbers of all inodes that the kernel holds, without the root; *inos is to be freed.
 * Returns 0 or ENOMEM. */
int slowfs_nodes_list(struct slowfs_nodes *nodes, fuse_ino_t **inos, size_t *count);

void slowfs_node_proc_path(const struct slowfs_node *node, char path[SLOWFS_PROC_PATH]);

#endif
