/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the server of a node and speaks to it.
 *
 * The server listens on an abstract SOCK_SEQPACKET socket; user and node's name make the socket's
 * name. One connection is one arena of one process. It opens with a hello, which carries the data
 * file's descriptor and which the server answers once; then each byte only wakes the server. Its
 * end is the arena's end in that process. A connection may instead open with a command.
 *
 * Abstract names have no permissions: each end checks the user of the other.
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

/* Finds the holder of the address of a node's server. Returns 0 with the user and the process (0 if
 * that is in another namespace), ENOENT if the address is free, or another errno if its holder
 * cannot be found out. */
int node_holder(const char *node, uid_t *user, pid_t *process);

/* Connects to this user's server of a node. Returns a descriptor, or -1: there is no server. */
int node_connect(const char *node);

/* Whether the other end belongs to this user. */
bool node_is_own(int fd);

/* Sends one message, with a descriptor (-1: without). Returns 0 or errno. */
int node_send(int fd, const void *message, size_t length, int passed);

/* Receives one message of exactly `length` bytes and its descriptor (-1: none), which is the
 * caller's to close. Returns false if something else came, or nothing. */
bool node_receive(int fd, void *message, size_t length, int *passed);

/* --- a process's link to its server ------------------------------------------------------------ */

/* If there is no server, or the server refuses or does not answer in time, the link is closed and
 * costs nothing more until it is opened again. */

/* Milliseconds that a server has to take up an arena, times LMDBIO_PATIENCE. */
enum { NODE_LINK_PATIENCE = 250 };

struct node_link {
	struct descriptor_kept socket; /* .fd -1: there is no server */
};

/* Tells the node's server of an arena that this process has attached to and that other processes
 * can find. `fd` is the data file, or the container. Returns 0 (the server will serve it), ENOENT
 * (there is no server), or another errno (it refuses or does not answer). */
int node_link_open(struct node_link *link, const struct identity *identity, const char *node,
		   int fd);
void node_link_close(struct node_link *link);

/* Asks for a chunk, as arena_wish() does, and wakes the server if it sleeps. */
void node_link_wish(struct node_link *link, struct arena *arena, uint64_t chunk, bool urgent);

#endif
