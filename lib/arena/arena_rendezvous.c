/* SPDX-License-Identifier: OLDAP-2.8 */
/* What only this file knows: how the processes of a node find one another without a file.
 *
 * Each listens on one of 64 abstract socket names that are made of the identity. Nobody accepts:
 * the kernel tells who connects which process listens, and the arena is then found among that
 * process's descriptors in /proc, which the kernel opens for the same user alone. So a name that
 * somebody else has taken is worth nothing to him, and is passed over.
 *
 * Who finds no arena makes one, stamps it with the time from which on it can be found, and looks
 * once more. Of those made at the same time the earliest stamp stays (it is then "settled"), the
 * others' makers give theirs up. Everybody listens before looking, and leads others to an arena
 * from the moment that it has a descriptor of it; so an arena never goes out of sight between the
 * leaving of one process and the coming of the next.
 *
 * When no living process has it, a forked process may find it where its forerunners have left it
 * (arena_keeper.c).
 */
#include "arena/arena_private.h"

#include "util/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* Connections stay in the queue when the one who connected has gone, until arena_drain(). */
enum { BACKLOG = 1024 };

static const uint64_t contest_limit = 1000000000; /* ns; who is stopped meanwhile has lost */

struct found {
	int fd;
	bool settled;
};

/* --- names ---------------------------------------------------------------------------------- */

static socklen_t name_make(const struct arena *arena, unsigned slot, struct sockaddr_un *name)
{
	int length;

	memset(name, 0, sizeof(*name));
	name->sun_family = AF_UNIX;
	length = snprintf(name->sun_path + 1, sizeof(name->sun_path) - 1, "lmdbio.%u.%016llx%016llx.%u",
			  (unsigned)geteuid(), (unsigned long long)arena->key[0],
			  (unsigned long long)arena->key[1], slot);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int socket_make(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int listen_somewhere(struct arena *arena)
{
	int fd = socket_make();
	int rc = EADDRINUSE;

	if (fd < 0)
		return errno;
	for (unsigned slot = 0; slot < ARENA_SLOTS && rc == EADDRINUSE; slot++) {
		struct sockaddr_un name;
		socklen_t length = name_make(arena, slot, &name);

		arena->slot = slot;
		rc = bind(fd, (struct sockaddr *)&name, length) ? errno : 0;
	}
	arena_step("bound");
	if (!rc && listen(fd, BACKLOG))
		rc = errno;
	if (rc) {
		close(fd);
		return rc;
	}
	arena->listener = fd;
	arena_step("listening");
	return 0;
}

void arena_drain(struct arena *arena)
{
	int fd;

	if (arena->listener < 0)
		return;
	while ((fd = accept4(arena->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0)
		close(fd);
}

/* --- arenas of other processes ---------------------------------------------------------------- */

/* Whether this process should use that arena instead of its own, which it has stamped `mine` (0:
 * it has none). One that is not stamped yet may turn out to be the older one. */
static bool is_wanted(const struct arena *arena, const struct arena_head *head, uint64_t mine)
{
	uint64_t stamp = atomic_load(&head->stamp);

	if (arena->base && !memcmp(head->nonce, arena->head->nonce, sizeof(head->nonce)))
		return false;
	if (atomic_load(&head->settled))
		return true;
	if (!mine)
		return false;
	return stamp < mine ||
	       (stamp == mine && memcmp(head->nonce, arena->head->nonce, sizeof(head->nonce)) < 0);
}

static bool open_descriptor(const struct arena *arena, int directory, const char *number,
			    uint64_t mine, struct found *found)
{
	static const char wanted[] = "/memfd:lmdbio (deleted)";
	char target[sizeof(wanted)];
	struct arena_head head;
	ssize_t length = readlinkat(directory, number, target, sizeof(target));
	int fd;

	if (length != sizeof(wanted) - 1 || memcmp(target, wanted, sizeof(wanted) - 1))
		return false;
	fd = openat(directory, number, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (!arena_fits(arena, fd, &head) || !is_wanted(arena, &head, mine)) {
		close(fd);
		return false;
	}
	found->fd = fd;
	found->settled = atomic_load(&head.settled);
	return true;
}

static bool search_process(const struct arena *arena, pid_t pid, uint64_t mine, struct found *found)
{
	char path[64];
	struct dirent *entry;
	bool is_found = false;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%ld/fd", (long)pid);
	directory = opendir(path);
	if (!directory)
		return false;
	while (!is_found && (entry = readdir(directory)))
		if (entry->d_name[0] != '.')
			is_found = open_descriptor(arena, dirfd(directory), entry->d_name, mine, found);
	closedir(directory);
	return is_found;
}

/* The long way, for when somebody has not emptied his queue for very long. */
static bool search_processes(const struct arena *arena, uint64_t mine, struct found *found)
{
	DIR *directory = opendir("/proc");
	struct dirent *entry;
	bool is_found = false;
	struct stat st;

	if (!directory)
		return false;
	while (!is_found && (entry = readdir(directory)))
		if (entry->d_name[0] > '0' && entry->d_name[0] <= '9' &&
		    !fstatat(dirfd(directory), entry->d_name, &st, 0) && st.st_uid == geteuid())
			is_found = search_process(arena, (pid_t)atol(entry->d_name), mine, found);
	closedir(directory);
	return is_found;
}

/* The process behind a name: its id, 0 when there is none of ours, -1 when it cannot be said. */
static pid_t slot_ask(const struct arena *arena, unsigned slot, int *fd)
{
	struct sockaddr_un name;
	socklen_t length = name_make(arena, slot, &name);
	struct ucred peer = {0};
	socklen_t size = sizeof(peer);
	pid_t pid = 0;

	if (*fd < 0)
		*fd = socket_make();
	if (*fd < 0)
		return 0;
	if (!connect(*fd, (struct sockaddr *)&name, length)) {
		if (!getsockopt(*fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) && peer.uid == geteuid())
			pid = peer.pid > 0 ? peer.pid : 0;
	} else if (errno == ECONNREFUSED) {
		return 0;
	} else if (errno == EAGAIN) {
		pid = -1;
	}
	close(*fd);
	*fd = -1;
	return pid;
}

static bool look_for(const struct arena *arena, uint64_t mine, struct found *found)
{
	bool is_found = false, is_unsure = false;
	int fd = -1;

	for (unsigned slot = 0; slot < ARENA_SLOTS && !is_found; slot++) {
		pid_t pid;

		if (arena->listener >= 0 && slot == arena->slot)
			continue;
		pid = slot_ask(arena, slot, &fd);
		if (pid > 0)
			is_found = search_process(arena, pid, mine, found);
		is_unsure |= pid < 0;
	}
	if (fd >= 0)
		close(fd);
	return is_found || (is_unsure && search_processes(arena, mine, found));
}

/* --- meeting -------------------------------------------------------------------------------- */

static int contest(struct arena *arena)
{
	static const struct timespec pause = {.tv_nsec = 200000};
	uint64_t mine = clock_now();
	struct found found;

	atomic_store(&arena->head->stamp, mine);
	arena_step("stamped");
	while (look_for(arena, mine, &found)) {
		if (found.settled) {
			arena_drop(arena);
			return arena_adopt(arena, found.fd);
		}
		close(found.fd);
		if (clock_now() - mine > contest_limit)
			break;
		nanosleep(&pause, NULL);
	}
	atomic_store(&arena->head->settled, 1);
	arena_step("settled");
	return 0;
}

/* One that has lost its members. From the moment that this process has it, it leads others to it; who
 * has begun to make one before that takes part in the same contest. */
static bool take_up(struct arena *arena, int *rc)
{
	int fd = arena->keeps ? keeper_find(arena) : -1;

	if (fd < 0)
		return false;
	arena_step("taken-up");
	if (arena_adopt(arena, fd))
		return false;
	(void)arena_bury_dead(arena); /* before anybody counts them */
	(void)arena_recount(arena);
	/* Who made it with little has gone; a default that is less now is so because of its bytes. */
	if (arena->budget < arena->wanted)
		arena->budget = arena->head->budget = arena->wanted;
	*rc = contest(arena);
	return true;
}

static int meet(struct arena *arena, const char **why)
{
	struct found found;
	int rc = listen_somewhere(arena);

	if (rc && rc != EADDRINUSE) {
		*why = "no socket to find other processes by";
		return rc;
	}
	if (look_for(arena, 0, &found)) {
		rc = arena_adopt(arena, found.fd);
		if (rc)
			*why = "the memory that the node's processes share could not be joined";
		return rc;
	}
	if (rc) {
		*why = "all names by which other processes would be found are taken";
		return rc;
	}
	if (take_up(arena, &rc))
		return rc;
	rc = arena_make(arena, true);
	return rc ? rc : contest(arena);
}

int arena_look(const struct arena *arena)
{
	struct found found;

	return look_for(arena, 0, &found) ? found.fd : keeper_find(arena);
}

int arena_meet(struct arena *arena, const char **why)
{
	int rc = meet(arena, why);

	if (!rc && arena->keeps)
		keeper_put(arena);
	return rc;
}
