/* SPDX-License-Identifier: OLDAP-2.8 */
/* Accepts the members of a node at their server, and lets them leave. */
#include "config.h"
#include "mpi/server_private.h"

#include "node/node_socket.h"

#include "util/list.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { BACKLOG = 256, EVENTS = 64 };

static void listener_close(struct server *server)
{
	if (server->listener >= 0)
		close(server->listener); /* and epoll forgets it */
	server->listener = -1;
}

int server_door_open(struct server *server)
{
	struct sockaddr_un address;
	socklen_t length = node_address(&address, server->node);
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

	if (server->epoll < 0)
		server->epoll = epoll_create1(EPOLL_CLOEXEC);
	server->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (server->epoll < 0 || server->listener < 0 ||
	    bind(server->listener, (struct sockaddr *)&address, length) ||
	    listen(server->listener, BACKLOG) ||
	    epoll_ctl(server->epoll, EPOLL_CTL_ADD, server->listener, &event)) {
		int rc = errno;

		listener_close(server);
		return rc;
	}
	return 0;
}

static void client_close(struct server *server, struct server_client *client)
{
	list_remove(server->clients, client, next);
	if (client->set)
		client->set->clients--;
	close(client->fd); /* and epoll forgets it */
	free(client);
}

static void client_accept(struct server *server)
{
	int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct server_client *client = fd < 0 ? NULL : calloc(1, sizeof(*client));
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};

	/* A connection that cannot be accepted would stay, and end each sleep of the server. So the
	 * server closes the listener. */
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
		server_sets_starve(server);
		listener_close(server);
		return;
	}
	if (!client || !node_is_own(fd) || epoll_ctl(server->epoll, EPOLL_CTL_ADD, fd, &event)) {
		free(client);
		if (fd >= 0)
			close(fd);
		return;
	}
	client->fd = fd;
	client->next = server->clients;
	server->clients = client;
}

static bool status_send(const struct server *server, int fd)
{
	static char text[NODE_TEXT];
	size_t length = server_sets_table(server, text, sizeof(text));

	return !node_send(fd, text, length, -1);
}

/* Answers the first message of a member. Returns whether the connection goes on. */
static bool client_hello(struct server *server, struct server_client *client)
{
	struct node_answer answer = {.version = NODE_VERSION, .error = EPROTO};
	struct node_message message;
	int fd;

	if (!node_receive(client->fd, &message, sizeof(message), &fd))
		return false;
	if (message.version == NODE_VERSION && message.word == NODE_HELLO && fd >= 0) {
		answer.error = server_set_join(server, fd, &message.identity, &client->set);
		fd = -1;
	} else if (message.word == NODE_HELLO) {
		/* The kernel drops a descriptor that there is no number for. */
		server_sets_starve(server);
	}
	if (fd >= 0)
		close(fd);
	if (message.version == NODE_VERSION && message.word == NODE_STATUS)
		return status_send(server, client->fd);
	if (message.version == NODE_VERSION && message.word == NODE_STOP) {
		answer.error = 0;
		server->stopped = client->waits = true;
		return !node_send(client->fd, &answer, sizeof(answer), -1);
	}
	if (!answer.error)
		client->set->clients++;
	return !node_send(client->fd, &answer, sizeof(answer), -1) && !answer.error;
}

/* Discards bells, which have done their work: they only wake the server. */
static bool client_listen(struct server_client *client)
{
	char bells[16];
	ssize_t n;

	do {
		n = recv(client->fd, bells, sizeof(bells), MSG_DONTWAIT);
	} while (n > 0 || (n < 0 && errno == EINTR));
	return n < 0 && errno == EAGAIN;
}

void server_door_step(struct server *server)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait(server->epoll, events, EVENTS, 0);

	for (int i = 0; i < n; i++) {
		struct server_client *client = events[i].data.ptr;

		if (!client)
			client_accept(server);
		else if (!(client->set || client->waits ? client_listen(client) : client_hello(server, client)))
			client_close(server, client);
	}
}

void server_door_close(struct server *server)
{
	while (server->clients)
		client_close(server, server->clients);
	listener_close(server);
	if (server->epoll >= 0)
		close(server->epoll);
	server->epoll = -1;
}
