/* SPDX-License-Identifier: OLDAP-2.8 */
/* Asks the node's server to bring chunks, if there is one. */
#include "node/node_link.h"

#include "node/node_socket.h"
#include "util/clock.h"

#include <unistd.h>

bool node_link_open(struct node_link *link, const struct identity *identity, const char *node,
		    int fd)
{
	struct node_message hello = {
		.version = NODE_VERSION, .word = NODE_HELLO, .identity = *identity};
	struct node_answer answer;
	struct pollfd ready = {.events = POLLIN};
	int passed, end = node_connect(node);

	if (end < 0 || descriptor_keep(&link->socket, end))
		return false;
	ready.fd = link->socket.fd;
	if (!node_send(ready.fd, &hello, sizeof(hello), fd) &&
	    clock_poll(&ready, 1, NODE_LINK_PATIENCE * UINT64_C(1000000)) == 1 &&
	    node_receive(ready.fd, &answer, sizeof(answer), &passed)) {
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
	descriptor_kept_close(&link->socket);
}

void node_link_wish(struct node_link *link, struct arena *arena, uint64_t chunk, bool urgent)
{
	static const char bell = 1;

	/* One that cannot be rung has a queue full of bells, or is gone, which waiting shows. */
	if (arena_wish(arena, chunk, urgent) && descriptor_is_kept(&link->socket))
		(void)node_send(link->socket.fd, &bell, sizeof(bell), -1);
}
