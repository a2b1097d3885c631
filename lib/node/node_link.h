/* SPDX-License-Identifier: OLDAP-2.8 */
/* Asks the node's server to bring chunks, if there is one.
 *
 * Where there is none, or it does not answer in time, the link is closed and costs nothing more.
 */
#ifndef LMDBIO_NODE_NODE_LINK_H
#define LMDBIO_NODE_NODE_LINK_H

#include "arena/arena.h"
#include "util/descriptor.h"

/* Milliseconds that a server has to take up an arena. */
enum { NODE_LINK_PATIENCE = 250 };

struct node_link {
	struct descriptor_kept socket; /* .fd -1: there is no server */
};

/* Tells the node's server of an arena that this process has attached to and that other processes can
 * find. `fd` is the data file, or the container. Returns whether it will be served. */
bool node_link_open(struct node_link *link, const struct identity *identity, const char *node,
		    int fd);
void node_link_close(struct node_link *link);

/* Asks for a chunk, as arena_wish() does, and wakes the server if it sleeps. */
void node_link_wish(struct node_link *link, struct arena *arena, uint64_t chunk, bool urgent);

#endif
