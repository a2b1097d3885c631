/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps an arena alive beyond the processes that were attached to it.
 *
 * A program whose workers come and go, each opening the data set for itself, would read storage
 * anew with every set of workers. So before its first fork a process makes a pair of connected
 * sockets, the keeper, which all its descendants inherit until they start another program. A child
 * that has met an arena sends itself a message with a descriptor of the arena, which no process
 * receives. The kernel holds the memory as long as the message waits, and frees it when the last
 * process with the keeper has ended, however it ended. The process that made the keeper looks into
 * it too, but puts nothing in: an arena that it alone has used goes when it closes the data set.
 *
 * All messages have one length, so SO_PEEK_OFF leads to each of them, and recvmsg(2) hands out a
 * descriptor while the message stays. Only a process that drops an arena takes messages out. A
 * process that looks into the keeper holds the lock on the receiving socket (a POSIX record lock,
 * which belongs to a process and dies with it).
 *
 * The descriptor in the message is a place only (O_PATH), and only the owner may open the memfd. A
 * process that has inherited the keeper and become another user since can neither read nor change
 * the bytes.
 */
#include "arena/arena_private.h"

#include "util/at_fork.h"
#include "util/checked.h"
#include "util/clock.h"
#include "util/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	KEPT_MOST = 128,
	LOCK_TRIES = 100, /* how often to wait for a lock holder that is stopped, once per process */
};

static const uint64_t lock_pause = 2000000; /* ns */

/* A file system with times in whole seconds may give two changes of a file the same time. */
static const uint64_t young = 2000000000; /* ns */

/* A message: one arena. */
struct kept_arena {
	uint64_t key[2], nonce[2]; /* of its head */
	uint64_t node;
	uint64_t budget; /* of its node, blocks */
	struct identity identity;
};

enum { IN, OUT };

static struct {
	pthread_mutex_t lock;
	_Atomic bool is_made, is_inherited;
	_Atomic bool has_forked; /* this process has checked whether it has a keeper */
	struct descriptor_kept ends[2];
	_Atomic(struct arena *) shrinking; /* attached for arena_shrink() alone */
	/* From look_begin() to look_end(); a program's thread may have a stack of 16 KiB. */
	struct kept_arena all[KEPT_MOST];
} keeper = {.lock = PTHREAD_MUTEX_INITIALIZER, .ends = {{.fd = -1}, {.fd = -1}}};

/* --- the sockets ------------------------------------------------------------------------------ */

static bool ends_are_ours(void)
{
	return descriptor_is_kept(&keeper.ends[IN]) && descriptor_is_kept(&keeper.ends[OUT]);
}

/* Does not close a descriptor that the program has closed, or replaced by one of its own. */
static void keeper_give_up(void)
{
	atomic_store(&keeper.is_made, false);
	atomic_store(&keeper.is_inherited, false);
	descriptor_kept_close(&keeper.ends[IN]);
	descriptor_kept_close(&keeper.ends[OUT]);
}

/* Leaves the upper half of the descriptors to the program, as descriptors_spare() does. */
static void keeper_make(void)
{
	struct rlimit limit;
	int ends[2];

	keeper_give_up();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		return;
	if (!getrlimit(RLIMIT_NOFILE, &limit) && (rlim_t)ends[OUT] >= limit.rlim_cur / 2) {
		close(ends[IN]);
		close(ends[OUT]);
	} else if (!descriptor_keep(&keeper.ends[IN], ends[IN]) &
		   !descriptor_keep(&keeper.ends[OUT], ends[OUT])) {
		atomic_store(&keeper.is_made, true);
	} else {
		keeper_give_up();
	}
}

/* Waits for no lock: this fork may be in a signal handler. */
static void before_fork(void)
{
	int saved = errno;

	if (atomic_load_explicit(&keeper.has_forked, memory_order_relaxed) ||
	    pthread_mutex_trylock(&keeper.lock))
		return;
	if (!atomic_load(&keeper.has_forked)) {
		if (!atomic_load(&keeper.is_made) || !ends_are_ours())
			keeper_make();
		atomic_store(&keeper.has_forked, true);
	}
	pthread_mutex_unlock(&keeper.lock);
	errno = saved;
}

static void in_child(void)
{
	struct arena *shrinking = atomic_exchange(&keeper.shrinking, NULL);

	if (shrinking)
		arena_cut(shrinking);
	pthread_mutex_init(&keeper.lock, NULL); /* another thread of the parent may hold it */
	atomic_store(&keeper.is_inherited, atomic_load(&keeper.is_made));
	atomic_store(&keeper.has_forked, false);
}

static void watch(void)
{
	static const struct fork_steps steps = {.prepare = before_fork, .child = in_child};

	at_fork(FORK_KEEPER, &steps);
}

void arena_keeper_watch(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch);
}

/* Waits for no lock: the program may be ending while its threads are at work. */
void arena_keeper_end(void)
{
	if (pthread_mutex_trylock(&keeper.lock))
		return;
	keeper_give_up();
	pthread_mutex_unlock(&keeper.lock);
}

/* --- the lock -------------------------------------------------------------------------------- */

static bool lock_set(short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};

	return !fcntl(keeper.ends[OUT].fd, F_SETLK, &lock);
}

static bool lock_take(void)
{
	for (unsigned i = 0; i < LOCK_TRIES; i++) {
		if (lock_set(F_WRLCK))
			return true;
		if (errno != EAGAIN && errno != EACCES)
			return false;
		clock_sleep(lock_pause);
	}
	return false;
}

/* --- messages --------------------------------------------------------------------------------- */

union control {
	struct cmsghdr header;
	char room[CMSG_SPACE(sizeof(int))];
};

/* `fd` gets the message's descriptor, or -1 if it has none; NULL: the caller does not want it. */
static bool receive(struct kept_arena *kept, int *fd, int flags)
{
	union control control;
	struct iovec bytes = {.iov_base = kept, .iov_len = sizeof(*kept)};
	struct msghdr message = {.msg_iov = &bytes, .msg_iovlen = 1};

	if (fd) {
		message.msg_control = control.room;
		message.msg_controllen = CMSG_LEN(sizeof(int)); /* no room for a second one */
		*fd = -1;
	}
	if (recvmsg(keeper.ends[OUT].fd, &message, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) !=
	    (ssize_t)sizeof(*kept))
		return false;
	if (fd && message.msg_controllen >= CMSG_LEN(sizeof(int)) &&
	    control.header.cmsg_level == SOL_SOCKET && control.header.cmsg_type == SCM_RIGHTS)
		memcpy(fd, CMSG_DATA(&control.header), sizeof(*fd));
	return true;
}

/* The arena is not kept if too many descriptors are on their way already, or memory is short. */
static void send_kept(const struct kept_arena *kept, int fd)
{
	union control control = {
		.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
			   .cmsg_level = SOL_SOCKET,
			   .cmsg_type = SCM_RIGHTS},
	};
	struct iovec bytes = {.iov_base = (void *)(uintptr_t)kept, .iov_len = sizeof(*kept)};
	struct msghdr message = {.msg_iov = &bytes,
				 .msg_iovlen = 1,
				 .msg_control = control.room,
				 .msg_controllen = sizeof(control.room)};

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	(void)!sendmsg(keeper.ends[IN].fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static bool seek(unsigned number)
{
	int offset = (int)(number * sizeof(struct kept_arena));

	return !setsockopt(keeper.ends[OUT].fd, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset));
}

/* Returns false if this kernel cannot peek at the messages. */
static bool list(unsigned *count)
{
	*count = 0;
	if (!seek(0))
		return false;
	errno = 0;
	while (*count < KEPT_MOST && receive(&keeper.all[*count], NULL, MSG_PEEK))
		++*count;
	return *count == KEPT_MOST || errno == EAGAIN;
}

/* Takes the keeper's locks and lists its messages in keeper.all. If that fails, gives this keeper
 * up; the next fork makes another. */
static bool look_begin(unsigned *count)
{
	if (!atomic_load_explicit(&keeper.is_made, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&keeper.lock);
	if (ends_are_ours() && lock_take() && list(count))
		return true;
	keeper_give_up();
	atomic_store(&keeper.has_forked, false);
	pthread_mutex_unlock(&keeper.lock);
	return false;
}

static void look_end(void)
{
	(void)lock_set(F_UNLCK);
	pthread_mutex_unlock(&keeper.lock);
}

static int open_place(int fd, int flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_CLOEXEC);
}

/* Opens the memfd that a message holds. Returns a descriptor, or -1. */
static int fetch(unsigned number, struct stat *st)
{
	int place = -1, fd = -1;
	struct kept_arena kept;

	if (!seek(number) || !receive(&kept, &place, MSG_PEEK) || place < 0)
		return -1;
	if (!fstat(place, st) && S_ISREG(st->st_mode))
		fd = open_place(place, O_RDWR);
	close(place);
	return fd;
}

/* Takes out the messages that go. The others come out and go in again, in their order; a process
 * that dies in between loses the arena whose message it holds. */
static void drop(const bool *goes, unsigned count)
{
	struct kept_arena kept;
	int fd;

	for (unsigned i = 0; i < count && receive(&kept, &fd, 0); i++) {
		arena_step("kept-taken");
		if (!goes[i] && fd >= 0)
			send_kept(&kept, fd);
		if (fd >= 0)
			close(fd);
	}
}

/* --- the budget ------------------------------------------------------------------------------- */

struct idle {
	unsigned number;
	uint64_t blocks, stamp;
};

/* What to drop: messages that go, and one arena that loses a part. */
struct verdict {
	bool goes[KEPT_MOST];
	bool any; /* goes */
	bool shrinks;
	unsigned part; /* message */
	uint64_t by;   /* blocks */
};

/* Whether no process is attached: no row is locked. */
static bool is_idle(int fd)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = ARENA_ROWS - 1};

	return !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type == F_UNLCK;
}

/* Finds how many blocks an arena has if it is idle, and when it was made or taken up again. */
static bool look_idle(unsigned number, const struct kept_arena *kept, struct idle *idle)
{
	off_t head = (off_t)round_up(kept->identity.size, ARENA_CHUNK);
	struct stat st;
	int fd = fetch(number, &st);
	bool found = fd >= 0 && is_idle(fd);

	*idle = (struct idle){.number = number};
	if (found) {
		idle->blocks = (uint64_t)st.st_blocks * 512 / ARENA_BLOCK;
		(void)!pread(fd, &idle->stamp, sizeof(idle->stamp),
			     head + (off_t)offsetof(struct arena_head, stamp));
	}
	if (fd >= 0)
		close(fd);
	return found;
}

/* Whether no process will look for this arena again: its file has changed since, or another file
 * has its place. */
static bool is_stale(const struct kept_arena *kept, const struct arena *arena)
{
	return kept->identity.device == arena->identity.device &&
	       kept->identity.inode == arena->identity.inode &&
	       (kept->identity.snapshot <= arena->identity.snapshot ||
		kept->identity.ctime_ns < arena->identity.ctime_ns);
}

/* Returns the most blocks that a kept arena can have. Its budget is no bound: a process that takes
 * the arena up later may raise it. */
static uint64_t most_of(const struct kept_arena *kept)
{
	return round_up(kept->identity.size, ARENA_CHUNK) / ARENA_BLOCK;
}

/* Chooses the oldest arenas to go until the others fit into `room`, and at least `surplus` of them.
 * Of the last one a part may be enough. */
static void judge_idle(struct idle *idle, unsigned count, uint64_t room, unsigned surplus,
		       struct verdict *verdict)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < count; i++)
		total += idle[i].blocks;
	while (count && (total > room || surplus)) {
		unsigned oldest = 0;

		for (unsigned i = 1; i < count; i++)
			if (idle[i].stamp < idle[oldest].stamp)
				oldest = i;
		if (verdict->shrinks && !surplus && total - room < idle[oldest].blocks) {
			verdict->part = idle[oldest].number;
			verdict->by = total - room;
			return;
		}
		verdict->goes[idle[oldest].number] = verdict->any = true;
		total -= idle[oldest].blocks;
		idle[oldest] = idle[--count];
		surplus -= surplus > 0;
	}
}

static void judge(const struct arena *arena, const struct kept_arena *all, unsigned count,
		  uint64_t budget, uint64_t wants, struct verdict *verdict)
{
	struct idle idle[KEPT_MOST];
	unsigned n = 0, stale = 0;
	bool others[KEPT_MOST] = {false};
	uint64_t most = 0, room;

	for (unsigned i = 0; i < count; i++) {
		if (all[i].node != arena->node ||
		    !memcmp(all[i].nonce, arena->head->nonce, sizeof(all[i].nonce)))
			continue;
		others[i] = !is_stale(&all[i], arena);
		if (others[i]) {
			most += most_of(&all[i]);
			budget = all[i].budget > budget ? all[i].budget : budget;
		} else if (look_idle(i, &all[i], &idle[0])) {
			verdict->goes[i] = verdict->any = true;
			stale++;
		}
	}
	room = budget > wants ? budget - wants : 0;
	if (most <= room && count - stale < KEPT_MOST)
		return; /* all of them fit, in use or not */
	for (unsigned i = 0; i < count; i++)
		n += others[i] && look_idle(i, &all[i], &idle[n]);
	judge_idle(idle, n, room, count - stale >= KEPT_MOST, verdict);
}

/* --- the door --------------------------------------------------------------------------------- */

bool keeper_is_there(void)
{
	return atomic_load_explicit(&keeper.is_made, memory_order_relaxed);
}

int keeper_find(const struct arena *arena)
{
	struct arena_head head;
	struct stat st;
	unsigned count;
	int found = -1;

	if (!look_begin(&count))
		return -1;
	/* The newest first: an older arena of this key exists for a moment only. */
	while (count-- > 0 && found < 0) {
		if (memcmp(keeper.all[count].key, arena->key, sizeof(arena->key)))
			continue;
		found = fetch(count, &st);
		if (found >= 0 &&
		    (!arena_fits(arena, found, &head) || !atomic_load(&head.settled))) {
			close(found);
			found = -1;
		}
	}
	look_end();
	return found;
}

static bool is_young(const struct arena *arena)
{
	uint64_t changed = (uint64_t)arena->identity.ctime_ns;

	return changed && clock_of(CLOCK_REALTIME) < changed + young;
}

void keeper_put(const struct arena *arena)
{
	struct kept_arena mine = {.node = arena->node,
				  .budget = arena_node_budget(arena),
				  .identity = arena->identity};
	bool is_in = false;
	unsigned count;
	int place;

	if (!atomic_load_explicit(&keeper.is_inherited, memory_order_relaxed) || is_young(arena) ||
	    !look_begin(&count))
		return;
	memcpy(mine.key, arena->key, sizeof(mine.key));
	memcpy(mine.nonce, arena->head->nonce, sizeof(mine.nonce));
	for (unsigned i = 0; i < count; i++)
		is_in |= !memcmp(keeper.all[i].nonce, mine.nonce, sizeof(mine.nonce));
	if (!is_in && count < KEPT_MOST) {
		place = open_place(arena->file.fd, O_PATH);
		if (place >= 0) {
			send_kept(&mine, place);
			close(place);
		}
	}
	look_end();
}

/* Returns whether all has been done. Shrinking an arena takes time, so it follows when other
 * processes may look into the keeper again. */
static bool fit(const struct arena *arena, uint64_t budget, uint64_t wants, bool shrinks)
{
	struct verdict verdict = {.shrinks = shrinks};
	struct kept_arena shrunk;
	struct stat st;
	unsigned count;
	int part = -1;

	if (!look_begin(&count))
		return true;
	judge(arena, keeper.all, count, budget, wants, &verdict);
	if (verdict.by) {
		part = fetch(verdict.part, &st);
		shrunk = keeper.all[verdict.part];
	}
	if (verdict.any)
		drop(verdict.goes, count);
	look_end();
	if (!verdict.by)
		return true;
	return part >= 0 &&
	       arena_shrink(&shrunk.identity, shrunk.key, part, verdict.by, &keeper.shrinking);
}

void keeper_fit(const struct arena *arena, uint64_t budget, uint64_t wants)
{
	if (!fit(arena, budget, wants, true))
		(void)fit(arena, budget, wants, false);
}
