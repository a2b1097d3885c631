/* SPDX-License-Identifier: OLDAP-2.8 */
/* Finds the arena that the processes of a node share, or makes it.
 *
 * A process that leads to an arena is known by a name (arena_names.c). The arena is then found
 * among that process's descriptors in /proc, which the kernel opens for the same user alone.
 *
 * A process that finds no arena makes one, stamps it with the time from which on it can be found,
 * and looks once more. Of arenas made at the same time, the one with the earliest stamp stays (it
 * is then "settled"); the makers of the others give theirs up. Every process listens before it
 * looks, and leads to an arena from the moment that it has a descriptor of the arena. So an
 * arena never goes out of sight between the leaving of one process and the coming of the next.
 *
 * If no living process has the arena, a forked process may find it where earlier processes have
 * left it (arena_keeper.c).
 */
#include "arena/arena_private.h"

#include "util/clock.h"
#include "util/settings.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Nanoseconds, times LMDBIO_PATIENCE; a maker that is stopped so long loses the contest. */
static const uint64_t contest_limit = 1000000000;

static const char memfd_shared[] = "/memfd:lmdbio (deleted)";
static const char memfd_alone[] = "/memfd:lmdbio-private (deleted)";

struct found_arena {
	int fd;
	bool settled;
};

/* --- arenas of other processes ---------------------------------------------------------------- */

/* Whether this process should use the arena of `head` instead of its own, which it has stamped
 * `mine` (0: it has none). An arena that is not stamped yet may turn out to be the older one. */
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

static bool descriptor_is_named(int directory, const char *number, const char *name)
{
	char target[sizeof(memfd_alone)];
	ssize_t length = readlinkat(directory, number, target, sizeof(target));

	return length == (ssize_t)strlen(name) && !memcmp(target, name, (size_t)length);
}

static bool open_descriptor(const struct arena *arena, int directory, const char *number,
			    uint64_t mine, struct found_arena *found)
{
	struct arena_head head;
	int fd;

	if (!descriptor_is_named(directory, number, memfd_shared))
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

static bool search_process(const struct arena *arena, pid_t pid, uint64_t mine,
			   struct found_arena *found)
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

/* The next process of this user, or 0. */
static pid_t next_process(DIR *directory)
{
	struct dirent *entry;
	struct stat st;

	while ((entry = readdir(directory)))
		if (entry->d_name[0] > '0' && entry->d_name[0] <= '9' &&
		    !fstatat(dirfd(directory), entry->d_name, &st, 0) && st.st_uid == geteuid())
			return (pid_t)atol(entry->d_name);
	return 0;
}

/* Searches all of this user's processes, for the case that another user holds names or a process
 * has not emptied its queue for long. */
static bool search_processes(const struct arena *arena, uint64_t mine, struct found_arena *found)
{
	DIR *directory = opendir("/proc");
	bool is_found = false;
	pid_t pid;

	if (!directory)
		return false;
	while (!is_found && (pid = next_process(directory)))
		is_found = search_process(arena, pid, mine, found);
	closedir(directory);
	return is_found;
}

static bool look_for(const struct arena *arena, uint64_t mine, struct found_arena *found)
{
	struct leaders leaders;
	bool is_found = false;
	pid_t pid;

	leaders_begin(&leaders, arena);
	while (!is_found && (pid = leaders_next(&leaders)))
		is_found = search_process(arena, pid, mine, found);
	leaders_end(&leaders);
	return is_found || (leaders.unsure && search_processes(arena, mine, found));
}

/* --- how many there are ---------------------------------------------------------------------- */

enum { COUNT_MOST = 512 };

struct count {
	unsigned n;
	ino_t inodes[COUNT_MOST]; /* of memfds: all are of one file system */
};

static void count_add(struct count *count, ino_t inode)
{
	for (unsigned i = 0; i < count->n; i++)
		if (count->inodes[i] == inode)
			return;
	if (count->n < COUNT_MOST)
		count->inodes[count->n++] = inode;
}

static void count_process(struct count *count, pid_t pid)
{
	char path[64];
	struct dirent *entry;
	struct stat st;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%ld/fd", (long)pid);
	directory = opendir(path);
	if (!directory)
		return;
	while ((entry = readdir(directory)))
		if ((descriptor_is_named(dirfd(directory), entry->d_name, memfd_shared) ||
		     descriptor_is_named(dirfd(directory), entry->d_name, memfd_alone)) &&
		    !fstatat(dirfd(directory), entry->d_name, &st, 0) && st.st_uid == geteuid())
			count_add(count, st.st_ino);
	closedir(directory);
}

unsigned arena_count(void)
{
	struct count count = {.n = 0};
	DIR *directory = opendir("/proc");
	pid_t pid;

	if (!directory)
		return 0;
	while ((pid = next_process(directory)))
		count_process(&count, pid);
	closedir(directory);
	return count.n;
}

/* --- meeting -------------------------------------------------------------------------------- */

/* A look takes time: a process that has been asked already may get an arena from a process that
 * ends before it is asked. The second look finds that arena. */
static bool look_twice(const struct arena *arena, uint64_t mine, struct found_arena *found)
{
	return look_for(arena, mine, found) || look_for(arena, mine, found);
}

/* Returns 0, with `won` true if this process's arena is to stay, or false if this process now has
 * another process's arena. */
static int contest(struct arena *arena, bool *won)
{
	static const uint64_t pause = 200000; /* ns */
	uint64_t mine = clock_now();
	struct found_arena found;

	atomic_store(&arena->head->stamp, mine);
	arena_step("stamped");
	*won = true;
	while (look_twice(arena, mine, &found)) {
		if (found.settled) {
			*won = false;
			arena_drop(arena);
			return arena_adopt(arena, found.fd);
		}
		close(found.fd);
		if (clock_now() - mine > settings_patience(contest_limit))
			break;
		clock_sleep(pause);
	}
	return 0;
}

static void settle(struct arena *arena)
{
	atomic_store(&arena->head->settled, 1);
	arena_step("settled");
}

/* Takes up an arena that has lost its members. Once attached, this process leads to the
 * arena. A process that has begun to make an arena before takes part in the same contest. */
static int take_up(struct arena *arena, int fd)
{
	bool won;
	int rc;

	arena_step("taken-up");
	rc = arena_adopt(arena, fd);
	if (rc)
		return rc;
	(void)arena_bury_dead(arena); /* before any process counts members */
	(void)arena_recount(arena);
	atomic_store(&arena->head->pieces, 0); /* the pieces' readers have ended */
	/* The process that made the arena with a small budget has ended. A default that is smaller
	 * now is so because of the arena's bytes; a process that wants less than the node has needs
	 * the rest for something else. */
	if (arena->budget < arena->wanted || arena->wanted < arena->node_budget)
		arena->budget = arena->head->budget = arena->wanted;
	rc = contest(arena, &won);
	if (!rc && won)
		settle(arena);
	return rc;
}

static int find_kept(const struct arena *arena)
{
	return arena->keeps ? keeper_find(arena) : -1;
}

/* Between the first look at what is kept and the contest, another process may have made an arena,
 * left it there and ended. So the winner looks there again before it settles. */
static int make(struct arena *arena)
{
	int rc = arena_make(arena, true);
	bool won;
	int fd;

	if (rc)
		return rc;
	rc = contest(arena, &won);
	if (rc || !won)
		return rc;
	fd = find_kept(arena);
	if (fd >= 0) {
		arena_drop(arena);
		return take_up(arena, fd);
	}
	settle(arena);
	return 0;
}

static int meet(struct arena *arena, const char **why)
{
	struct found_arena found;
	int rc = arena_listen(arena);
	int fd;

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
	fd = find_kept(arena);
	if (fd >= 0 && !take_up(arena, fd))
		return 0;
	arena_step("unmet");
	return make(arena);
}

int arena_look(const struct arena *arena)
{
	struct found_arena found;

	return look_for(arena, 0, &found) ? found.fd : keeper_find(arena);
}

int arena_meet(struct arena *arena, const char **why)
{
	int rc = meet(arena, why);

	if (!rc && arena->keeps)
		keeper_put(arena);
	return rc;
}
