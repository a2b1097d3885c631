/* SPDX-License-Identifier: OLDAP-2.8 */
/* The abstract socket names by which the processes of a node find each other.
 *
 * A process listens on one of 64 names that follow from the identity. It never accepts: the kernel
 * tells a process that connects which process listens, and for which user. Abstract names belong to
 * no user, so another user may hold any of them; its answer is passed over.
 *
 * A process that finds all 64 names taken listens on a name with a random end. No other user can
 * take a name before it is made, and /proc/net/unix lists all of them. Another user may still add
 * names to that list, so a process asks at most 256 of them. Then it searches all processes of this
 * user, which no other user can hinder.
 */
#include "arena/arena_private.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	BACKLOG = 1024,	   /* connections stay in the queue until arena_drain() */
	LISTED_MOST = 256, /* names of the list that are connected to */
	RANDOM_TRIES = 4,
	NAME_ROOM = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1,
};

/* --- names ---------------------------------------------------------------------------------- */

/* Writes the common beginning of this arena's names. Returns its length. */
static size_t name_begin(const struct arena *arena, char text[NAME_ROOM])
{
	return (size_t)snprintf(text, NAME_ROOM, "lmdbio.%u.%016llx%016llx.", (unsigned)geteuid(),
				(unsigned long long)arena->key[0],
				(unsigned long long)arena->key[1]);
}

static socklen_t name_make(const struct arena *arena, const char *end, struct sockaddr_un *name)
{
	size_t length;

	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	length = name_begin(arena, name->sun_path + 1);
	length += (size_t)snprintf(name->sun_path + 1 + length, NAME_ROOM - length, "%s", end);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static int name_bind(const struct arena *arena, int fd, const char *end)
{
	struct sockaddr_un name;
	socklen_t length = name_make(arena, end, &name);

	return bind(fd, (struct sockaddr *)&name, length) ? errno : 0;
}

static int socket_make(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int bind_somewhere(struct arena *arena, int fd)
{
	char end[NAMES_END];
	int rc = EADDRINUSE;
	uint64_t random;

	for (arena->slot = 0; arena->slot < ARENA_SLOTS; arena->slot++) {
		snprintf(end, sizeof(end), "%u", arena->slot);
		rc = name_bind(arena, fd, end);
		if (rc != EADDRINUSE)
			return rc;
	}
	for (unsigned i = 0; i < RANDOM_TRIES && rc == EADDRINUSE; i++) {
		if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
			return EAGAIN;
		snprintf(end, sizeof(end), "x%016llx", (unsigned long long)random);
		rc = name_bind(arena, fd, end);
	}
	return rc;
}

int arena_listen(struct arena *arena)
{
	int fd = socket_make();
	int rc;

	if (fd < 0)
		return errno;
	rc = bind_somewhere(arena, fd);
	arena_step("bound");
	if (!rc && listen(fd, BACKLOG))
		rc = errno;
	if (rc) {
		close(fd);
		return rc;
	}
	rc = descriptor_keep(&arena->listener, fd);
	if (!rc)
		arena_step("listening");
	return rc;
}

void arena_drain(struct arena *arena)
{
	int fd;

	if (!descriptor_is_kept(&arena->listener))
		return;
	while ((fd = accept4(arena->listener.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		close(fd);
}

/* --- leaders -------------------------------------------------------------------------------- */

void leaders_begin(struct leaders *leaders, const struct arena *arena)
{
	*leaders = (struct leaders){.arena = arena, .fd = -1};
	/* All slots were taken, perhaps by another user. */
	leaders->unsure = arena->listener.fd >= 0 && arena->slot == ARENA_SLOTS;
}

void leaders_end(struct leaders *leaders)
{
	if (leaders->fd >= 0)
		close(leaders->fd);
	if (leaders->list)
		fclose(leaders->list);
	free(leaders->line);
}

/* Returns the process that listens on a name, or 0 if there is none or it is another user's. */
static pid_t ask(struct leaders *leaders, const char *end)
{
	struct sockaddr_un name;
	socklen_t length = name_make(leaders->arena, end, &name);
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);
	pid_t pid = 0;

	if (leaders->fd < 0)
		leaders->fd = socket_make();
	if (leaders->fd < 0) {
		leaders->unsure = true;
		return 0;
	}
	if (!connect(leaders->fd, (struct sockaddr *)&name, length)) {
		if (!getsockopt(leaders->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) &&
		    peer.uid == geteuid())
			pid = peer.pid > 0 ? peer.pid : 0;
		else
			leaders->unsure = true;
	} else if (errno == ECONNREFUSED) {
		return 0; /* the socket may be used again */
	} else {
		leaders->unsure = true; /* the listener's queue is full, EAGAIN, or out of reach */
	}
	close(leaders->fd);
	leaders->fd = -1;
	return pid;
}

static pid_t next_of_slots(struct leaders *leaders)
{
	const struct arena *arena = leaders->arena;
	char end[NAMES_END];
	pid_t pid = 0;

	while (leaders->slot < ARENA_SLOTS && !pid) {
		unsigned slot = leaders->slot++;

		if (arena->listener.fd >= 0 && slot == arena->slot)
			continue;
		snprintf(end, sizeof(end), "%u", slot);
		pid = ask(leaders, end);
	}
	return pid;
}

/* Finds the random end of a name in a line of the list. Returns false if the name is not this
 * arena's. A line is: address references protocol flags type state inode @name */
static bool line_end(const char *line, const char *begin, char end[NAMES_END])
{
	static const unsigned long listening = 1 << 16;
	unsigned long flags = 0;
	size_t length = strlen(begin);
	int at = 0;

	if (sscanf(line, "%*s %*s %*s %lx %*s %*s %*s %n", &flags, &at) != 1 || !at ||
	    !(flags & listening) || line[at] != '@' || strncmp(line + at + 1, begin, length))
		return false;
	return sscanf(line + at + 1 + length, "%17[x0-9a-f]", end) == 1 && *end == 'x' &&
	       strlen(end) == NAMES_END - 1;
}

static pid_t next_of_list(struct leaders *leaders)
{
	char begin[NAME_ROOM], end[NAMES_END];
	pid_t pid = 0;

	if (!leaders->list)
		leaders->list = fopen("/proc/thread-self/net/unix", "re");
	if (!leaders->list) {
		leaders->unsure = true;
		return 0;
	}
	name_begin(leaders->arena, begin);
	while (!pid && getline(&leaders->line, &leaders->room, leaders->list) > 0) {
		if (!line_end(leaders->line, begin, end))
			continue;
		if (leaders->listed++ == LISTED_MOST) {
			leaders->unsure = true;
			return 0;
		}
		pid = ask(leaders, end);
	}
	/* A list that ends by an error may have had more names. */
	if (!pid && !feof(leaders->list))
		leaders->unsure = true;
	return pid;
}

pid_t leaders_next(struct leaders *leaders)
{
	pid_t pid = next_of_slots(leaders);

	return pid ? pid : next_of_list(leaders);
}
