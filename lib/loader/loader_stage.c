/* SPDX-License-Identifier: OLDAP-2.8 */
/* The stage: records kept in a file on a local disk.
 *
 * One sparse file per data set and directory, shared by the processes of the node:
 *
 *   0 a head (4096): what it was made of, how many records, the boot that wrote it, where the next record
 *     goes
 *   4096 a row for each record (24 bytes): where it stands (8; 0: not here, 1: a process writes it),
 *     value's size (4), key's size (4), XXH3-64 of both (8)
 *   then the records, value and key, in the order in which they came
 *
 * Its name is a hash of the data set's identity; the identity in its head is what counts. The directory, or
 * in one for everybody the user's own in it, is opened and judged once and used by its descriptor
 * (util/guarded.h). A file is judged before any lock on it is asked for: another user may have put it there
 * and hold one. The locks of this user's own processes are waited for LOCK_TRIES times.
 *
 * Head and rows are mapped. A record is written, then its row, its place last; a row that was
 * written before a crash of the machine is not believed, because the boot is another one. The file
 * goes with its last user: each has a shared lock on it, and the user that can turn its own to an exclusive
 * one is the last, when it closes the stage or when its program ends. What users that were killed
 * have left is of use to the next ones; but not to a
 * job, whose plan has other records there. Every record is checked when it is read. A disk that is
 * full takes no more, and what is there stays of use; one that fails is not asked any more, nor one
 * that again and again takes seconds for a record: what is planned to come from there has nothing
 * to be compared with.
 */
#include "loader/loader_tier.h"

#include "util/at_fork.h"
#include "util/checked.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/guarded.h"
#include "util/limits.h"
#include "util/log.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
	HEAD = 4096,
	SPARE = 20,
	BOOT = 40,
	CLAIMED = 1,
	SLOW_TIMES = 3,
	LOCK_TRIES = 1000, /* of lock_pause each: a holder needs its lock for microseconds */
	OPEN_TRIES = 1000, /* names that went as soon as they were opened */
	NAME = 32,
};

static const uint64_t lock_pause = 2000000; /* ns */

/* Nanoseconds: longer than this, and than this for each byte, is slow for any disk. */
static const uint64_t slow_ns = 2000000000, slow_byte_ns = 1000;

static const uint64_t magic = UINT64_C(0x3267617473626d6c); /* "lmbstag2" */

/* What a file's records are of. */
struct made_of {
	struct identity identity;
	uint64_t root, records;
};

struct head {
	uint64_t magic;
	struct made_of made_of;
	char boot[BOOT];
	_Atomic uint64_t next; /* offset */
};

struct row {
	_Atomic uint64_t place;
	uint32_t data, key;
	uint64_t check;
};

struct stage {
	int fd;
	struct guarded place;
	char name[NAME]; /* in it */
	struct head *head;
	struct row *rows;
	size_t mapped;
	uint64_t records, limit; /* limit: offset in the file */
	_Atomic uint64_t written;
	_Atomic int health; /* enum tier_state */
	_Atomic uint64_t slow_until; /* when the last slow read came */
	_Atomic unsigned slow;       /* slow reads, one after another */
	struct stage *next;          /* of those that are open */
};

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct stage *open_stages;

static void boot_id(char boot[BOOT])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	memset(boot, 0, BOOT);
	if (fd < 0)
		return;
	if (read(fd, boot, BOOT - 1) < 0)
		memset(boot, 0, BOOT);
	close(fd);
}

/* Once: what has happened, in one line. What has failed is not merely full, whatever finds that
 * out later. */
static void stage_drop(struct stage *stage, enum tier_state state, const char *what, int error)
{
	int before = atomic_load(&stage->health);

	while (before < (int)state &&
	       !atomic_compare_exchange_weak(&stage->health, &before, (int)state))
		;
	if (before < (int)state)
		log_line("%s/%s: %s: %s; %s", stage->place.path ? stage->place.path : "stage_dir",
			 stage->name, what, strerror(error),
			 state == TIER_FULL ? "no more records are kept there"
					    : "records are read from their data set");
}

/* Whether an open file can only be of this user's processes. */
static bool is_private(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & 077) &&
	       st->st_nlink <= 1;
}

/* Whether the file that is open is still the one of that name. */
static bool is_named(int fd, const struct guarded *place, const char *name)
{
	struct stat open_file, named;

	return !fstat(fd, &open_file) &&
	       !fstatat(place->fd, name, &named, AT_SYMLINK_NOFOLLOW) &&
	       open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

/* Removes a file that no process uses; an empty one is just being made. true: it is gone. */
static bool file_discard(int fd, const struct guarded *place, const char *name)
{
	struct stat st;

	return !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) && st.st_size &&
	       is_named(fd, place, name) && !unlinkat(place->fd, name, 0);
}

/* Locks the file as one of its users. 0, or an errno: EWOULDBLOCK if it stays locked. */
static int file_lock(int fd)
{
	int rc = EWOULDBLOCK;

	for (unsigned i = 0; i < LOCK_TRIES && rc == EWOULDBLOCK; i++) {
		if (i)
			clock_sleep(lock_pause);
		rc = flock(fd, LOCK_SH | LOCK_NB) ? errno : 0;
		if (rc == EINTR)
			rc = EWOULDBLOCK;
	}
	return rc;
}

/* What becomes of a file that was just opened: 0: it is locked; EAGAIN: its name is another file's or none by
 * now; another errno. */
static int file_take(int fd, const struct guarded *place, const char *name, bool fresh)
{
	struct stat st;
	int rc;

	if (fstat(fd, &st))
		return errno;
	if (!is_private(&st))
		return EPERM;
	if (fresh && file_discard(fd, place, name))
		return EAGAIN;
	rc = file_lock(fd);
	if (rc)
		return rc;
	/* Its last user, or a job that begins anew, may have removed it before. */
	return is_named(fd, place, name) ? 0 : EAGAIN;
}

/* Opens the file and locks it as one of its users. Returns 0 or an errno. */
static int file_open(struct stage *stage, bool fresh)
{
	int rc = EAGAIN;

	for (unsigned i = 0; i < OPEN_TRIES && rc == EAGAIN; i++) {
		stage->fd = openat(stage->place.fd, stage->name,
				   O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
				   0600);
		if (stage->fd < 0)
			return errno;
		rc = file_take(stage->fd, &stage->place, stage->name, fresh);
		if (rc) {
			close(stage->fd);
			stage->fd = -1;
		}
	}
	return rc;
}

/* Where the file ends at most. What is in it already is no part of what is free. */
static uint64_t limit_of(const struct stage *stage, const struct tier_setup *setup)
{
	uint64_t free_bytes = UINT64_MAX / 4, next = atomic_load(&stage->head->next), limit;
	struct statvfs fs;

	if (!fstatvfs(stage->fd, &fs)) {
		free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize + setup->lent;
		free_bytes -= free_bytes / SPARE;
	}
	limit = next + free_bytes;
	if (setup->limit && setup->limit < limit - stage->mapped)
		limit = stage->mapped + setup->limit;
	return limits_file() < limit ? limits_file() : limit;
}

/* One process at a time, by a byte lock on the head. */
static int head_lock(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
	int rc = EAGAIN;

	for (unsigned i = 0; i < LOCK_TRIES && (rc == EAGAIN || rc == EACCES || rc == EINTR); i++) {
		if (i)
			clock_sleep(lock_pause);
		rc = fcntl(fd, F_OFD_SETLK, &lock) ? errno : 0;
	}
	return rc;
}

/* The head is right, or made so. */
static int head_check(struct stage *stage, const struct tier_setup *setup)
{
	struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
	struct made_of made_of = {setup->identity, setup->root, setup->records};
	struct head *head = stage->head;
	char boot[BOOT];
	int rc;

	boot_id(boot);
	rc = head_lock(stage->fd);
	if (rc)
		return rc;
	if (head->magic != magic || memcmp(head->boot, boot, BOOT) ||
	    memcmp(&head->made_of, &made_of, sizeof(made_of))) {
		memset(stage->rows, 0, setup->records * sizeof(struct row));
		memcpy(head->boot, boot, BOOT);
		head->made_of = made_of;
		atomic_store(&head->next, stage->mapped);
		head->magic = magic;
	}
	return fcntl(stage->fd, F_OFD_SETLK, &lock) ? errno : 0;
}

static int stage_map(struct stage *stage, const struct tier_setup *setup)
{
	struct stat st;
	void *map;
	int rc;

	stage->mapped = round_up(HEAD + setup->records * sizeof(struct row), HEAD);
	if (fstat(stage->fd, &st))
		return errno;
	if (!limits_allow_file(stage->mapped))
		return EFBIG;
	/* Rows that could not be written would be a signal: they get their room now. */
	if (st.st_size < (off_t)stage->mapped) {
		rc = posix_fallocate(stage->fd, 0, (off_t)stage->mapped);
		if (rc)
			return rc;
	}
	map = mmap(NULL, stage->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, stage->fd, 0);
	if (map == MAP_FAILED)
		return errno;
	stage->head = map;
	stage->rows = (struct row *)((uint8_t *)map + HEAD);
	return head_check(stage, setup);
}

static void stages_forget(void)
{
	pthread_mutex_init(&open_lock, NULL); /* another thread of the parent may have held it */
	open_stages = NULL;
}

__attribute__((constructor)) static void stages_begin(void)
{
	static const struct fork_steps steps = {.child = stages_forget};

	at_fork(FORK_STAGES, &steps);
}

static void stage_enlist(struct stage *stage)
{
	pthread_mutex_lock(&open_lock);
	stage->next = open_stages;
	open_stages = stage;
	pthread_mutex_unlock(&open_lock);
}

/* In a forked child a parent's is in no list. */
static void stage_delist(const struct stage *stage)
{
	struct stage **link = &open_stages;

	pthread_mutex_lock(&open_lock);
	while (*link && *link != stage)
		link = &(*link)->next;
	if (*link)
		*link = stage->next;
	pthread_mutex_unlock(&open_lock);
}

/* The last one takes the file along. */
static void stage_leave(const struct stage *stage)
{
	if (!flock(stage->fd, LOCK_EX | LOCK_NB) &&
	    is_named(stage->fd, &stage->place, stage->name))
		unlinkat(stage->place.fd, stage->name, 0);
}

/* For programs that end without closing their loaders. Threads may still be at work with the file
 * that has lost its name. */
__attribute__((destructor)) static void stages_leave(void)
{
	if (fork_was_missed() || pthread_mutex_trylock(&open_lock))
		return;
	for (const struct stage *stage = open_stages; stage; stage = stage->next)
		stage_leave(stage);
	pthread_mutex_unlock(&open_lock);
}

static void stage_close(void *state)
{
	struct stage *stage = state;

	stage_delist(stage);
	if (stage->head)
		munmap(stage->head, stage->mapped);
	if (stage->fd >= 0) {
		stage_leave(stage);
		close(stage->fd);
	}
	guarded_close(&stage->place);
	free(stage);
}

static int place_open(struct stage *stage, const struct tier_setup *setup)
{
	uint64_t hash = identity_hash(&setup->identity, setup->root);
	int rc = guarded_open(&stage->place, setup->directory, true);

	snprintf(stage->name, sizeof(stage->name), "lmdbio-stage-%016llx", (unsigned long long)hash);
	if (rc)
		stage->place.path = strdup(setup->directory); /* to tell of */
	else
		stage->place.fd = descriptor_lift(stage->place.fd);
	return rc;
}

/* A directory that cannot be used drops the tier, not the loader. */
static int stage_open(void **state, const struct tier_setup *setup)
{
	struct stage *stage;
	int rc;

	if (!setup->directory)
		return 0;
	stage = calloc(1, sizeof(*stage));
	if (!stage)
		return ENOMEM;
	stage->fd = -1;
	stage->records = setup->records;
	rc = place_open(stage, setup);
	if (!rc)
		rc = file_open(stage, setup->fresh);
	if (!rc)
		rc = stage_map(stage, setup);
	if (!rc) {
		stage->limit = limit_of(stage, setup);
		stage_enlist(stage);
		*state = stage;
		return 0;
	}
	stage_drop(stage, TIER_FAILED, "not usable", rc);
	if (rc == ENOMEM) {
		stage_close(stage);
		return rc;
	}
	/* It stays, to tell so. */
	*state = stage;
	return 0;
}

static bool stage_has(void *state, uint64_t record)
{
	struct stage *stage = state;

	return atomic_load_explicit(&stage->health, memory_order_relaxed) != TIER_FAILED &&
	       atomic_load_explicit(&stage->rows[record].place, memory_order_acquire) > CLAIMED;
}

/* Whether the disk has shown by now that it is too slow. What has waited at the same time as a slow
 * read tells nothing more: the process, or the machine, may have stood still. */
static bool is_too_slow(struct stage *stage, uint64_t began, size_t size)
{
	uint64_t now = clock_now(), until = atomic_load(&stage->slow_until);

	if (now - began <= slow_ns + size * slow_byte_ns) {
		atomic_store_explicit(&stage->slow, 0, memory_order_relaxed);
		return false;
	}
	return began >= until && atomic_compare_exchange_strong(&stage->slow_until, &until, now) &&
	       atomic_fetch_add(&stage->slow, 1) + 1 >= SLOW_TIMES;
}

static int stage_fetch(void *state, uint64_t record, struct tier_record *to)
{
	struct stage *stage = state;
	struct row *row = &stage->rows[record];
	uint64_t place = atomic_load_explicit(&row->place, memory_order_acquire);
	size_t size = (size_t)row->data + row->key;
	uint8_t *memory = malloc(size + 1);
	uint64_t began = clock_now();
	int rc;

	if (!memory)
		return ENOMEM;
	rc = whole_read(stage->fd, memory, size, place, EIO);
	if (!rc && XXH3_64bits(memory, size) != row->check)
		rc = EBADMSG;
	if (rc) {
		free(memory);
		stage_drop(stage, TIER_FAILED, "cannot be read", rc);
		return rc;
	}
	if (is_too_slow(stage, began, size))
		stage_drop(stage, TIER_FAILED, "is too slow", ETIMEDOUT);
	*to = (struct tier_record){.memory = memory,
				   .data = {row->data, memory},
				   .key = {row->key, memory + row->data}};
	return 0;
}

static int write_whole(int fd, const MDB_val *data, const MDB_val *key, uint64_t offset)
{
	struct iovec part[2] = {{data->mv_data, data->mv_size}, {key->mv_data, key->mv_size}};
	struct iovec *next = part;
	int left = 2;

	while (left) {
		ssize_t n = pwritev(fd, next, left, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno;
		offset += (uint64_t)n;
		while (left && (size_t)n >= next->iov_len) {
			n -= (ssize_t)next->iov_len;
			next++;
			left--;
		}
		if (left) {
			next->iov_base = (uint8_t *)next->iov_base + n;
			next->iov_len -= (size_t)n;
		}
	}
	return 0;
}

/* Gives a record its place in the file. 0: it has none. */
static uint64_t put(struct stage *stage, const MDB_val *key, const MDB_val *data)
{
	uint64_t size = data->mv_size + key->mv_size;
	uint64_t place = atomic_fetch_add(&stage->head->next, size);
	int rc;

	if (place + size > stage->limit || !limits_allow_file(place + size)) {
		stage_drop(stage, TIER_FULL, "full", ENOSPC);
		return 0;
	}
	rc = write_whole(stage->fd, data, key, place);
	if (!rc)
		return place;
	stage_drop(stage, rc == ENOSPC || rc == EDQUOT ? TIER_FULL : TIER_FAILED,
		   "cannot be written", rc);
	return 0;
}

/* A process that is killed with a row claimed keeps its record from the file: it stays where it
 * was. */
static uint64_t stage_offer(void *state, uint64_t record, const MDB_val *key, const MDB_val *data)
{
	struct stage *stage = state;
	struct row *row;
	uint64_t size = data->mv_size + key->mv_size, place = 0;
	XXH3_state_t hash;

	if (atomic_load_explicit(&stage->health, memory_order_relaxed) != TIER_GOOD)
		return 0;
	row = &stage->rows[record];
	if (atomic_load_explicit(&row->place, memory_order_relaxed) ||
	    !atomic_compare_exchange_strong(&row->place, &place, CLAIMED))
		return 0;
	place = put(stage, key, data);
	if (!place) {
		atomic_store(&row->place, 0);
		return 0;
	}
	XXH3_64bits_reset(&hash);
	XXH3_64bits_update(&hash, data->mv_data, data->mv_size);
	XXH3_64bits_update(&hash, key->mv_data, key->mv_size);
	row->check = XXH3_64bits_digest(&hash);
	row->data = (uint32_t)data->mv_size;
	row->key = (uint32_t)key->mv_size;
	atomic_store_explicit(&row->place, place, memory_order_release);
	atomic_fetch_add(&stage->written, size);
	return size;
}

static enum tier_state stage_health(void *state)
{
	return (enum tier_state)atomic_load(&((struct stage *)state)->health);
}

static struct tier_space stage_space(void *state)
{
	struct stage *stage = state;
	struct tier_space space = {.written = atomic_load(&stage->written)};
	uint64_t next;

	if (atomic_load(&stage->health) != TIER_GOOD)
		return space;
	next = atomic_load(&stage->head->next);
	space.room = next < stage->limit ? stage->limit - next : 0;
	return space;
}

const struct tier_ops tier_stage = {
	.name = "stage",
	.open = stage_open,
	.has = stage_has,
	.fetch = stage_fetch,
	.offer = stage_offer,
	.health = stage_health,
	.space = stage_space,
	.close = stage_close,
};
