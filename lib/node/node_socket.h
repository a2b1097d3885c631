/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the server of a node and speaks to it.
 *
 * An abstract SOCK_SEQPACKET socket whose name is made of the user and the node's name. One
 * connection is one arena of one process: it opens with a hello, which carries the data file's
 * descriptor, and is answered once; after that each byte that comes only wakes the server. Its end
 * is the arena's end in that process. A connection may instead open with a command.
 *
 * Abstract names have no permissions: each end looks at the user of the other.
 */
#ifndef LMDBIO_NODE_NODE_SOCKET_H
#define LMDBIO_NODE_NODE_SOCKET_H

#include "arena/arena.h"
#include "util/descriptor.h"

#include <sys/socket.h>
#include <sys/un.h>

enum { NODE_VERSION = 2, NODE_TEXT = 64 << 10 };

enum node_word {
	NODE_HELLO = 1, /* with a descriptor; answered with struct node_answer */
	NODE_STATUS,    /* answered with text of at most NODE_TEXT bytes, no zero at its end */
	NODE_STOP,      /* answered with struct node_answer when the server is about to end */
};

struct node_message {
	uint32_t version;
	uint32_t word; /* enum node_word */
	struct identity identity; /* node form */
};

struct node_answer {
	uint32_t version;
	int32_t error; /* 0 or an errno */
};

/* The address of a node's server; `node` may be NULL. Returns its length. */
socklen_t node_address(struct sockaddr_un *address, const char *node);

/* Finds the holder of the address of a node's server. Returns 0 with the user and the process, which is 0 if
 * it is in another namespace; ENOENT: it is free; or another errno, when it is held and its holder
 * cannot be found out. */
int node_holder(const char *node, uid_t *user, pid_t *process);

/* A connection to it, which is of this user. Returns a descriptor, or -1: there is no server. */
int node_connect(const char *node);

/* Whether the other end is of this user. */
bool node_is_own(int fd);

/* One message, with a descriptor (-1: without). Returns 0 or errno. */
int node_send(int fd, const void *message, size_t length, int passed);

/* One message of exactly `length` bytes and the descriptor that came along, or -1; the descriptor
 * is the caller's. false: something else came, or nothing. */
bool node_receive(int fd, void *message, size_t length, int *passed);

/* --- a process's link to its server ------------------------------------------------------------ */

/* Where there is no server, or it does not answer in time, the link is closed and costs nothing more. */

/* Milliseconds that a server has to take up an arena, times LMDBIO_PATIENCE. */
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
