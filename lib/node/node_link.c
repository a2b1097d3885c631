/* SPDX-License-Identifier: OLDAP-2.8 */
/* Asks the node's server to bring chunks, if there is one. */
#include "node/node_link.h"

#include "node/node_socket.h"
#include "util/clock.h"
#include "util/descriptor.h"

#include <unistd.h>

bool node_link_open(struct node_link *link, const struct identity *identity, const char *node,
		    int fd)
{
	struct node_message hello = {
		.version = NODE_VERSION, .word = NODE_HELLO, .identity = *identity};
	struct node_answer answer;
	struct pollfd ready = {.events = POLLIN};
	struct stat st;
	int passed;

	link->fd = node_connect(node);
	if (link->fd < 0)
		return false;
	ready.fd = link->fd = descriptor_lift(link->fd);
	if (!fstat(link->fd, &st)) {
		link->device = st.st_dev;
		link->inode = st.st_ino;
	}
	if (!node_send(link->fd, &hello, sizeof(hello), fd) &&
	    clock_poll(&ready, 1, NODE_LINK_PATIENCE * UINT64_C(1000000)) == 1 &&
	    node_receive(link->fd, &answer, sizeof(answer), &passed)) {
		if (passed >= 0)
			close(passed);
		if (answer.version == NODE_VERSION && !answer.error)
			return true;
	}
	node_link_close(link);
	return false;
}

void node_link_close(struct node_link *link)
{
	if (link->fd >= 0 && descriptor_is(link->fd, link->device, link->inode))
		close(link->fd);
	link->fd = -1;
}

void node_link_wish(struct node_link *link, struct arena *arena, uint64_t chunk, bool urgent)
{
	static const char bell = 1;

	/* One that cannot be rung has a queue full of bells, or is gone, which waiting shows. */
	if (arena_wish(arena, chunk, urgent) &&
	    descriptor_is(link->fd, link->device, link->inode))
		(void)node_send(link->fd, &bell, sizeof(bell), -1);
}
