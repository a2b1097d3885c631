/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the server of a node and speaks to it. */
#include "node/node_socket.h"

#include "util/clock.h"
#include "util/settings.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* FNV-1a: a node's name may be longer than an address. */
static uint64_t name_hash(const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; name && *name; name++)
		hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
	return hash;
}

socklen_t node_address(struct sockaddr_un *address, const char *node)
{
	int length;

	memset(address, 0, sizeof(*address));
	address->sun_family = AF_UNIX;
	length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
			  "lmdbio-server.%u.%016llx", (unsigned)geteuid(),
			  (unsigned long long)name_hash(node));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

bool node_is_own(int fd)
{
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.uid == geteuid();
}

/* Tries an address to which no process listens. Only binding shows whether such an abstract name is
 * taken. Returns ENOENT if it is free, or an errno. */
static int address_try(const struct sockaddr_un *address, socklen_t length)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), rc = 0;

	if (fd < 0)
		return errno;
	rc = bind(fd, (const struct sockaddr *)address, length) ? errno : ENOENT;
	close(fd);
	return rc;
}

int node_holder(const char *node, uid_t *user, pid_t *process)
{
	struct sockaddr_un address;
	socklen_t length = node_address(&address, node);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);

	if (fd < 0)
		return errno;
	if (connect(fd, (struct sockaddr *)&address, length))
		rc = address_try(&address, length);
	else
		rc = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) ? errno : 0;
	close(fd);
	*user = peer.uid;
	*process = peer.pid;
	return rc;
}

int node_connect(const char *node)
{
	struct sockaddr_un address;
	socklen_t length = node_address(&address, node);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -1;
	if (!connect(fd, (struct sockaddr *)&address, length) && node_is_own(fd))
		return fd;
	close(fd);
	return -1;
}

int node_send(int fd, const void *message, size_t length, int passed)
{
	struct iovec part = {.iov_base = (void *)(uintptr_t)message, .iov_len = length};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr all = {.msg_iov = &part, .msg_iovlen = 1};
	struct cmsghdr *head;
	ssize_t n;

	if (passed >= 0) {
		memset(&control, 0, sizeof(control));
		all.msg_control = control.bytes;
		all.msg_controllen = sizeof(control.bytes);
		head = CMSG_FIRSTHDR(&all);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(head), &passed, sizeof(int));
	}
	do {
		n = sendmsg(fd, &all, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? errno : 0;
}

bool node_receive(int fd, void *message, size_t length, int *passed)
{
	struct iovec part = {.iov_base = message, .iov_len = length};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr all = {.msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	ssize_t n;

	*passed = -1;
	do {
		n = recvmsg(fd, &all, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return false;
	for (struct cmsghdr *head = CMSG_FIRSTHDR(&all); head; head = CMSG_NXTHDR(&all, head))
		if (head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
		    head->cmsg_len == CMSG_LEN(sizeof(int)))
			memcpy(passed, CMSG_DATA(head), sizeof(int));
	if ((size_t)n == length && !(all.msg_flags & MSG_TRUNC))
		return true;
	if (*passed >= 0)
		close(*passed);
	*passed = -1;
	return false;
}

int node_link_open(struct node_link *link, const struct identity *identity, const char *node,
		   int fd)
{
	struct node_message hello = {
		.version = NODE_VERSION, .word = NODE_HELLO, .identity = *identity};
	struct node_answer answer;
	struct pollfd ready = {.events = POLLIN};
	int passed, end = node_connect(node), rc;

	if (end < 0)
		return ENOENT;
	rc = descriptor_keep(&link->socket, end);
	if (rc)
		return rc;
	rc = ECONNREFUSED;
	ready.fd = link->socket.fd;
	if (!node_send(ready.fd, &hello, sizeof(hello), fd) &&
	    clock_poll(&ready, 1, settings_patience(NODE_LINK_PATIENCE * UINT64_C(1000000))) == 1 &&
	    node_receive(ready.fd, &answer, sizeof(answer), &passed)) {
		if (passed >= 0)
			close(passed);
		if (answer.version == NODE_VERSION && !answer.error)
			rc = 0;
	}
	if (rc)
		node_link_close(link);
	return rc;
}

void node_link_close(struct node_link *link)
{
	descriptor_kept_close(&link->socket);
}

void node_link_wish(struct node_link *link, struct arena *arena, uint64_t chunk, bool urgent)
{
	static const char bell = 1;

	/* If the send fails, the server's queue is full of bells, or the server is gone, which the
	 * wait for the chunk shows. */
	if (arena_wish(arena, chunk, urgent) && descriptor_is_kept(&link->socket))
		(void)node_send(link->socket.fd, &bell, sizeof(bell), -1);
}
