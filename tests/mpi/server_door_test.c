/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a node's server that has no free descriptor refuses further programs, and sleeps. */
#include "config.h"
#include "mpi/server_private.h"

#include "env_fixture.h"
#include "node/node_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static int client_come(const struct server *server)
{
	struct sockaddr_un address;
	socklen_t length = node_address(&address, server->node);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (!connect(fd, (struct sockaddr *)&address, length))
		return fd;
	close(fd);
	return -1;
}

static unsigned clients_count(const struct server *server)
{
	unsigned n = 0;

	for (const struct server_client *client = server->clients; client; client = client->next)
		n++;
	return n;
}

/* Lowers the limit so that no further descriptor can be made. Returns the old limit. */
static struct rlimit descriptors_end(void)
{
	struct rlimit was, now;
	int next = dup(0);

	assert_true(next >= 0);
	assert_int_equal(close(next), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	now = was;
	now.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
	return was;
}

static void door_when_descriptors_end_then_it_refuses_and_opens_again(void **state)
{
	char name[40], byte;
	struct server server = {.node = name, .epoll = -1, .listener = -1};
	struct pollfd ready = {.events = POLLIN};
	struct rlimit was;
	int member, refused;

	(void)state;
	snprintf(name, sizeof(name), "door-%d", (int)getpid());
	assert_int_equal(server_door_open(&server), 0);
	member = client_come(&server);
	server_door_step(&server);
	assert_int_equal(clients_count(&server), 1);

	refused = client_come(&server);
	assert_true(refused >= 0);
	was = descriptors_end();
	server_door_step(&server);
	/* The server sleeps on this descriptor. */
	ready.fd = server.epoll;
	assert_int_equal(poll(&ready, 1, 0), 0);
	assert_true(recv(refused, &byte, 1, MSG_DONTWAIT) <= 0 && errno != EAGAIN);
	assert_int_equal(clients_count(&server), 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);

	assert_int_equal(server_door_open(&server), 0);
	close(refused);
	refused = client_come(&server);
	assert_true(refused >= 0);
	server_door_step(&server);
	assert_int_equal(clients_count(&server), 2);
	close(refused);
	close(member);
	server_door_close(&server);
	assert_int_equal(clients_count(&server), 0);
}

/* Programs that connected earlier stay connected. */
static void door_when_its_name_is_taken_then_its_clients_stay(void **state)
{
	char name[40];
	struct server server = {.node = name, .epoll = -1, .listener = -1};
	struct server other = {.node = name, .epoll = -1, .listener = -1};
	int member;

	(void)state;
	snprintf(name, sizeof(name), "door-%d", (int)getpid());
	assert_int_equal(server_door_open(&server), 0);
	member = client_come(&server);
	server_door_step(&server);
	close(server.listener);
	server.listener = -1;
	assert_int_equal(server_door_open(&other), 0);
	assert_int_equal(server_door_open(&server), EADDRINUSE);
	assert_int_equal(clients_count(&server), 1);
	server_door_close(&other);
	assert_int_equal(server_door_open(&server), 0);
	close(member);
	server_door_close(&server);
}

static size_t value_make(void *bytes, uint64_t i)
{
	memset(bytes, (int)i, 4096);
	return 4096;
}

static void filled_make(struct place *place)
{
	place_make(place);
	place_put_records(place, 4, 4096, value_make);
}

/* In a server that stays, as lmdbio-serve does, earlier data sets would keep all further ones
 * out. */
static void sets_when_descriptors_end_then_one_that_is_not_used_goes(void **state)
{
	char name[40];
	struct server server = {
		.node = name, .epoll = -1, .listener = -1, .place = {.ranks = 1, .nodes = 1}};
	struct place place, further;
	struct rlimit was;

	(void)state;
	snprintf(name, sizeof(name), "sets-%d", (int)getpid());
	filled_make(&place);
	filled_make(&further);
	assert_int_equal(server_set_open(&server, place.data), 0);
	server_sets_trim(&server);
	assert_non_null(server.sets);

	was = descriptors_end();
	assert_int_equal(server_set_open(&server, further.data), EMFILE);
	server_sets_trim(&server);
	assert_non_null(server.sets); /* it was named explicitly, and stays */
	server.sets->lasting = false;
	server.sets->used_at = 0;
	server_sets_trim(&server);
	assert_null(server.sets);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(server_set_open(&server, further.data), 0);
	server.sets->lasting = false;
	server.sets->used_at = 0;
	server_sets_trim(&server); /* there are enough descriptors */
	assert_non_null(server.sets);
	server_sets_close(&server);
	place_remove(&further);
	place_remove(&place);
}

/* A server that stays would keep a deleted file on its disk. */
static void set_when_its_file_is_deleted_and_it_is_not_used_then_it_goes(void **state)
{
	char name[40];
	struct server server = {
		.node = name, .epoll = -1, .listener = -1, .place = {.ranks = 1, .nodes = 1}};
	struct place place, further;

	(void)state;
	snprintf(name, sizeof(name), "deleted-%d", (int)getpid());
	filled_make(&place);
	filled_make(&further);
	assert_int_equal(server_set_open(&server, further.data), 0);
	assert_int_equal(server_set_open(&server, place.data), 0);
	assert_int_equal(unlink(place.data), 0);
	server_sets_trim(&server); /* it was used a moment ago */
	assert_non_null(server.sets->next);

	for (struct server_set *set = server.sets; set; set = set->next)
		set->used_at = 0;
	server_sets_trim(&server);
	assert_non_null(server.sets);
	assert_null(server.sets->next);
	assert_true(server_set_holds(server.sets));
	server_sets_close(&server);
	place_remove(&further);
	place_remove(&place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(door_when_descriptors_end_then_it_refuses_and_opens_again),
		cmocka_unit_test(door_when_its_name_is_taken_then_its_clients_stay),
		cmocka_unit_test(sets_when_descriptors_end_then_one_that_is_not_used_goes),
		cmocka_unit_test(set_when_its_file_is_deleted_and_it_is_not_used_then_it_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
