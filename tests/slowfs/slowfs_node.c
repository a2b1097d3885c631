/* SPDX-License-Identifier: OLDAP-2.8 */
/* Says which inodes the kernel holds, and the descriptor and name of each.
 *
 * An inode number is its node's address: the kernel gives back only what it was given. */
#include "slowfs_node.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* Files change through the mount alone, so the kernel may believe what it was told. */
#define NODE_TIMEOUT 1.0

int slowfs_nodes_init(struct slowfs_nodes *nodes, struct slowfs_stats *stats, int root_fd)
{
	struct slowfs_file *file = slowfs_stats_file(stats, "");
	struct stat st;

	if (file == NULL)
		return ENOMEM;
	if (fstat(root_fd, &st) != 0)
		return errno;
	*nodes = (struct slowfs_nodes){
		.stats = stats,
		.root = {.fd = root_fd, .dev = st.st_dev, .ino = st.st_ino, .lookups = 1},
	};
	atomic_store(&nodes->root.file, file);
	return pthread_mutex_init(&nodes->lock, NULL);
}

struct slowfs_node *slowfs_node_get(struct slowfs_nodes *nodes, fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID ? &nodes->root : (struct slowfs_node *)(uintptr_t)ino;
}

static struct slowfs_node **node_bucket(struct slowfs_nodes *nodes, ino_t ino)
{
	return &nodes->buckets[ino % SLOWFS_NODE_BUCKETS];
}

static struct slowfs_node *node_find(struct slowfs_nodes *nodes, const struct stat *st)
{
	struct slowfs_node *node = *node_bucket(nodes, st->st_ino);

	while (node != NULL && (node->ino != st->st_ino || node->dev != st->st_dev))
		node = node->next;
	return node;
}

static struct slowfs_file *node_file(struct slowfs_nodes *nodes, struct slowfs_node *parent,
				     const char *name)
{
	const char *folder = atomic_load(&parent->file)->path;
	char path[PATH_MAX];
	int length;

	length = snprintf(path, sizeof(path), "%s%s%s", folder, folder[0] ? "/" : "", name);
	return length < (int)sizeof(path) ? slowfs_stats_file(nodes->stats, path) : NULL;
}

/* With the lock held. Takes over fd. Returns NULL when memory is short. */
static struct slowfs_node *node_make(struct slowfs_nodes *nodes, struct slowfs_file *file, int fd,
				     const struct stat *st)
{
	struct slowfs_node **bucket = node_bucket(nodes, st->st_ino);
	struct slowfs_node *node = calloc(1, sizeof(*node));

	if (node == NULL)
		return NULL;
	node->fd = fd;
	node->dev = st->st_dev;
	node->ino = st->st_ino;
	slowfs_map_init(&node->map);
	atomic_store(&node->file, file);
	node->next = *bucket;
	*bucket = node;
	return node;
}

void slowfs_node_tell(const struct slowfs_nodes *nodes, struct stat *st)
{
	if (S_ISREG(st->st_mode))
		st->st_ctim.tv_sec += atomic_load(&nodes->clock);
}

int slowfs_node_lookup(struct slowfs_nodes *nodes, fuse_ino_t parent_ino, const char *name,
		       struct fuse_entry_param *entry)
{
	struct slowfs_node *parent = slowfs_node_get(nodes, parent_ino);
	struct slowfs_file *file = node_file(nodes, parent, name);
	struct slowfs_node *node;
	int fd;
	int rc = 0;

	*entry = (struct fuse_entry_param){
		.attr_timeout = NODE_TIMEOUT,
		.entry_timeout = NODE_TIMEOUT,
	};
	if (file == NULL)
		return ENOMEM;
	fd = openat(parent->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (fstat(fd, &entry->attr) != 0) {
		rc = errno;
		goto out;
	}
	pthread_mutex_lock(&nodes->lock);
	node = node_find(nodes, &entry->attr);
	if (node == NULL) {
		node = node_make(nodes, file, fd, &entry->attr);
		if (node != NULL)
			fd = -1;
		else
			rc = ENOMEM;
	}
	if (node != NULL)
		node->lookups++;
	entry->ino = (fuse_ino_t)(uintptr_t)node;
	slowfs_node_tell(nodes, &entry->attr);
	pthread_mutex_unlock(&nodes->lock);
out:
	if (fd >= 0)
		close(fd);
	return rc;
}

void slowfs_node_forget(struct slowfs_nodes *nodes, fuse_ino_t ino, uint64_t lookups)
{
	struct slowfs_node *node = slowfs_node_get(nodes, ino);
	struct slowfs_node **link;

	if (node == &nodes->root)
		return;
	pthread_mutex_lock(&nodes->lock);
	node->lookups -= lookups;
	if (node->lookups == 0) {
		link = node_bucket(nodes, node->ino);
		while (*link != node)
			link = &(*link)->next;
		*link = node->next;
		slowfs_map_destroy(&node->map);
		close(node->fd);
		free(node);
	}
	pthread_mutex_unlock(&nodes->lock);
}

void slowfs_node_renamed(struct slowfs_nodes *nodes, fuse_ino_t parent_ino, const char *name)
{
	struct slowfs_node *parent = slowfs_node_get(nodes, parent_ino);
	struct slowfs_file *file = node_file(nodes, parent, name);
	struct slowfs_node *node;
	struct stat st;

	if (file == NULL || fstatat(parent->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return;
	pthread_mutex_lock(&nodes->lock);
	node = node_find(nodes, &st);
	if (node != NULL)
		atomic_store(&node->file, file);
	pthread_mutex_unlock(&nodes->lock);
}

int slowfs_nodes_list(struct slowfs_nodes *nodes, fuse_ino_t **inos, size_t *count)
{
	size_t room = 0;

	*count = 0;
	pthread_mutex_lock(&nodes->lock);
	for (size_t i = 0; i < SLOWFS_NODE_BUCKETS; i++) {
		for (struct slowfs_node *node = nodes->buckets[i]; node != NULL; node = node->next)
			room++;
	}
	*inos = calloc(room + 1, sizeof(**inos));
	for (size_t i = 0; *inos != NULL && i < SLOWFS_NODE_BUCKETS; i++) {
		for (struct slowfs_node *node = nodes->buckets[i]; node != NULL; node = node->next)
			(*inos)[(*count)++] = (fuse_ino_t)(uintptr_t)node;
	}
	pthread_mutex_unlock(&nodes->lock);
	return *inos != NULL ? 0 : ENOMEM;
}

void slowfs_node_proc_path(const struct slowfs_node *node, char path[SLOWFS_PROC_PATH])
{
	snprintf(path, SLOWFS_PROC_PATH, "/proc/self/fd/%d", node->fd);
}
