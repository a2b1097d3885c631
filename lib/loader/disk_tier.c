/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps records in a file on a local disk: the disk tier.
 *
 * One sparse file per data set and directory, shared by the processes of the node:
 *
 *      0  a head (4096): what the file was made of, how many records, the boot that wrote it, and
 *         where the next record goes
 *   4096  a row for each record (24): where it stands (8; 0: not here, 1: a process writes it),
 *         its value's size (4), its key's size (4), XXH3-64 of both (8)
 *         then the records, value and key, in the order in which they came
 *
 * The file's name is a hash of the data set's identity. The identity in its head is what counts.
 * The directory, or the user's own in a directory for all users, is opened and judged once and used
 * by its descriptor (util/guarded.h). A process judges a file before it asks for any lock on it:
 * another user may have put it there and hold a lock. A process waits LOCK_TRIES times for the
 * locks of this user's own processes.
 *
 * Head and rows are mapped. A record is written, then its row, its place last. A row from before a
 * crash of the machine is not believed, because the boot is another one. Each user of the file has
 * a shared lock on it. A user that closes the disk tier, or whose program ends, tries to make its
 * lock exclusive. If that succeeds it is the last user, and removes the file. Records that killed
 * users have left are of use to the next users, but not to a job, whose plan has other records
 * there.
 *
 * Every record is checked when it is read. A full disk takes no more records, and the records that
 * are there stay of use. A disk that fails is not asked any more, nor a disk that again and again
 * takes seconds for a record: planned records come from it without a comparison with another
 * tier. */
#include "loader/loader_tier.h"

#include "util/at_fork.h"
#include "util/checked.h"
#include "util/clock.h"
#include "util/descriptor.h"
#include "util/guarded.h"
#include "util/hash.h"
#include "util/kernel_file.h"
#include "util/list.h"
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
	LOCK_TRIES = 1000, /* waits of lock_pause: a holder needs its lock for microseconds */
	OPEN_TRIES = 1000, /* files that lost their names as soon as they were opened */
	NAME = 32,
};

static const uint64_t lock_pause = 2000000; /* ns */

/* Nanoseconds: any disk that takes longer than this, and this for each byte, is slow. */
static const uint64_t slow_ns = 2000000000, slow_byte_ns = 1000;

static const uint64_t magic = UINT64_C(0x3267617473626d6c); /* "lmbstag2" */

/* The data set that a file's records are of. */
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

struct disk_row {
	_Atomic uint64_t place;
	uint32_t data, key;
	uint64_t check;
};

struct disk_tier {
	int fd;
	struct guarded place;
	char name[NAME]; /* in `place` */
	struct head *head;
	struct disk_row *rows;
	size_t mapped;
	uint64_t records, limit; /* limit: offset in the file */
	_Atomic uint64_t written;
	_Atomic int health;          /* enum tier_state */
	_Atomic uint64_t slow_until; /* when the last slow read came */
	_Atomic unsigned slow;       /* slow reads in a row */
	struct disk_tier *next;      /* in the list of open disk tiers */
};

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct disk_tier *open_disk_tiers;

static void boot_id(char boot[BOOT])
{
	memset(boot, 0, BOOT);
	(void)kernel_file_read("/proc/sys/kernel/random/boot_id", boot, BOOT);
}

/* Tells once what has happened, in one line. A failed disk stays failed, even if a process later
 * finds it full. */
static void disk_tier_drop(struct disk_tier *disk, enum tier_state state, const char *what,
			   int error)
{
	int before = atomic_load(&disk->health);

	while (before < (int)state &&
	       !atomic_compare_exchange_weak(&disk->health, &before, (int)state))
		;
	if (before < (int)state)
		log_line("%s/%s: %s: %s; %s", disk->place.path ? disk->place.path : "stage_dir",
			 disk->name, what, strerror(error),
			 state == TIER_FULL ? "no more records are kept there"
					    : "records are read from their data set");
}

/* Whether an open file can only be of this user's processes. */
static bool is_private(const struct stat *st)
{
	return S_ISREG(st->st_mode) && st->st_uid == geteuid() && !(st->st_mode & 077) &&
	       st->st_nlink <= 1;
}

/* Whether the open file is still the file of that name. */
static bool is_named(int fd, const struct guarded *place, const char *name)
{
	struct stat open_file, named;

	return !fstat(fd, &open_file) && !fstatat(place->fd, name, &named, AT_SYMLINK_NOFOLLOW) &&
	       open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

/* Removes a file that no process uses, unless it is empty: an empty file is just being made.
 * Returns whether the file is gone. */
static bool file_discard(int fd, const struct guarded *place, const char *name)
{
	struct stat st;

	return !flock(fd, LOCK_EX | LOCK_NB) && !fstat(fd, &st) && st.st_size &&
	       is_named(fd, place, name) && !unlinkat(place->fd, name, 0);
}

/* Locks the file as one of its users. Returns 0 or an errno: EWOULDBLOCK if it stays locked. */
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

/* Judges and locks a file that was just opened. Returns 0 if it is locked; EAGAIN if its name is
 * now another file's or no file's; another errno. */
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
	/* Its last user, or a job that begins anew, may have removed the file before. */
	return is_named(fd, place, name) ? 0 : EAGAIN;
}

/* Opens the file and locks it as one of its users. Returns 0 or an errno. */
static int disk_tier_file(struct disk_tier *disk, bool fresh)
{
	int rc = EAGAIN;

	for (unsigned i = 0; i < OPEN_TRIES && rc == EAGAIN; i++) {
		disk->fd = openat(disk->place.fd, disk->name,
				  O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
				  0600);
		if (disk->fd < 0)
			return errno;
		rc = file_take(disk->fd, &disk->place, disk->name, fresh);
		if (rc) {
			close(disk->fd);
			disk->fd = -1;
		}
	}
	return rc;
}

/* Returns where the file ends at most. What is in the file already is not part of the free
 * bytes. */
static uint64_t disk_tier_limit(const struct disk_tier *disk, const struct tier_setup *setup)
{
	uint64_t free_bytes = UINT64_MAX / 4, next = atomic_load(&disk->head->next), limit;
	struct statvfs fs;

	if (!fstatvfs(disk->fd, &fs)) {
		free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize + setup->lent;
		free_bytes -= free_bytes / SPARE;
	}
	limit = next + free_bytes;
	if (setup->limit && setup->limit < limit - disk->mapped)
		limit = disk->mapped + setup->limit;
	return limits_file() < limit ? limits_file() : limit;
}

/* Lets one process at a time go on, by a byte lock on the head. */
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

/* Checks the head, and makes it anew if it is not right. */
static int head_check(struct disk_tier *disk, const struct tier_setup *setup)
{
	struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
	struct made_of made_of = {setup->identity, setup->root, setup->records};
	struct head *head = disk->head;
	char boot[BOOT];
	int rc;

	boot_id(boot);
	rc = head_lock(disk->fd);
	if (rc)
		return rc;
	if (head->magic != magic || memcmp(head->boot, boot, BOOT) ||
	    memcmp(&head->made_of, &made_of, sizeof(made_of))) {
		memset(disk->rows, 0, setup->records * sizeof(struct disk_row));
		memcpy(head->boot, boot, BOOT);
		head->made_of = made_of;
		atomic_store(&head->next, disk->mapped);
		head->magic = magic;
	}
	return fcntl(disk->fd, F_OFD_SETLK, &lock) ? errno : 0;
}

static int disk_tier_map(struct disk_tier *disk, const struct tier_setup *setup)
{
	struct stat st;
	void *map;
	int rc;

	disk->mapped = round_up(HEAD + setup->records * sizeof(struct disk_row), HEAD);
	if (fstat(disk->fd, &st))
		return errno;
	if (!limits_allow_file(disk->mapped))
		return EFBIG;
	/* A write to a mapped row without room on the disk would raise a signal. So the rows get
	 * their room now. */
	if (st.st_size < (off_t)disk->mapped) {
		rc = posix_fallocate(disk->fd, 0, (off_t)disk->mapped);
		if (rc)
			return rc;
	}
	map = mmap(NULL, disk->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, disk->fd, 0);
	if (map == MAP_FAILED)
		return errno;
	disk->head = map;
	disk->rows = (struct disk_row *)((uint8_t *)map + HEAD);
	return head_check(disk, setup);
}

static void disk_tiers_forget(void)
{
	pthread_mutex_init(&open_lock, NULL); /* another thread of the parent may have held it */
	open_disk_tiers = NULL;
}

__attribute__((constructor)) static void disk_tiers_begin(void)
{
	static const struct fork_steps steps = {.child = disk_tiers_forget};

	at_fork(FORK_DISK_TIERS, &steps);
}

static void disk_tier_enlist(struct disk_tier *disk)
{
	pthread_mutex_lock(&open_lock);
	disk->next = open_disk_tiers;
	open_disk_tiers = disk;
	pthread_mutex_unlock(&open_lock);
}

/* In a forked child the parent's disk tiers are in no list. */
static void disk_tier_delist(struct disk_tier *disk)
{
	pthread_mutex_lock(&open_lock);
	list_remove(open_disk_tiers, disk, next);
	pthread_mutex_unlock(&open_lock);
}

/* The last user removes the file. */
static void disk_tier_leave(const struct disk_tier *disk)
{
	if (!flock(disk->fd, LOCK_EX | LOCK_NB) && is_named(disk->fd, &disk->place, disk->name))
		unlinkat(disk->place.fd, disk->name, 0);
}

/* For programs that end without closing their loaders. Their threads may still use the file that
 * has lost its name. */
__attribute__((destructor)) static void disk_tiers_leave(void)
{
	if (fork_was_missed() || pthread_mutex_trylock(&open_lock))
		return;
	for (const struct disk_tier *disk = open_disk_tiers; disk; disk = disk->next)
		disk_tier_leave(disk);
	pthread_mutex_unlock(&open_lock);
}

static void disk_tier_close(void *state)
{
	struct disk_tier *disk = state;

	disk_tier_delist(disk);
	if (disk->head)
		munmap(disk->head, disk->mapped);
	if (disk->fd >= 0) {
		disk_tier_leave(disk);
		close(disk->fd);
	}
	guarded_close(&disk->place);
	free(disk);
}

static int disk_tier_place(struct disk_tier *disk, const struct tier_setup *setup)
{
	uint64_t hash = identity_hash(&setup->identity, setup->root);
	int rc = guarded_open(&disk->place, setup->directory, true);

	snprintf(disk->name, sizeof(disk->name), "lmdbio-stage-%016llx", (unsigned long long)hash);
	if (rc)
		disk->place.path = strdup(setup->directory); /* for messages */
	else
		disk->place.fd = descriptor_lift(disk->place.fd);
	return rc;
}

/* Without a usable directory the loader goes on without the tier. */
static int disk_tier_open(void **state, const struct tier_setup *setup)
{
	struct disk_tier *disk;
	int rc;

	if (!setup->directory)
		return 0;
	disk = calloc(1, sizeof(*disk));
	if (!disk)
		return ENOMEM;
	disk->fd = -1;
	disk->records = setup->records;
	rc = disk_tier_place(disk, setup);
	if (!rc)
		rc = disk_tier_file(disk, setup->fresh);
	if (!rc)
		rc = disk_tier_map(disk, setup);
	if (!rc) {
		disk->limit = disk_tier_limit(disk, setup);
		disk_tier_enlist(disk);
		*state = disk;
		return 0;
	}
	disk_tier_drop(disk, TIER_FAILED, "not usable", rc);
	if (rc == ENOMEM) {
		disk_tier_close(disk);
		return rc;
	}
	/* The tier stays, so that it can tell its state. */
	*state = disk;
	return 0;
}

static bool disk_tier_has(void *state, uint64_t record)
{
	struct disk_tier *disk = state;

	return atomic_load_explicit(&disk->health, memory_order_relaxed) != TIER_FAILED &&
	       atomic_load_explicit(&disk->rows[record].place, memory_order_acquire) > CLAIMED;
}

/* Whether the disk has proved too slow. Reads that waited at the same time as a slow read do not
 * count: the process, or the machine, may have stood still. */
static bool is_too_slow(struct disk_tier *disk, uint64_t began, size_t size)
{
	uint64_t now = clock_now(), until = atomic_load(&disk->slow_until);

	if (now - began <= slow_ns + size * slow_byte_ns) {
		atomic_store_explicit(&disk->slow, 0, memory_order_relaxed);
		return false;
	}
	return began >= until && atomic_compare_exchange_strong(&disk->slow_until, &until, now) &&
	       atomic_fetch_add(&disk->slow, 1) + 1 >= SLOW_TIMES;
}

/* Checks that a record lies inside the file before memory is taken, because a row may be wrong. */
static int record_room(const struct disk_tier *disk, uint64_t place, uint64_t size, uint8_t **memory)
{
	struct stat st;

	if (fstat(disk->fd, &st))
		return errno;
	if (size > (uint64_t)st.st_size || place > (uint64_t)st.st_size - size)
		return EBADMSG;
	*memory = malloc(size + 1);
	return *memory ? 0 : ENOMEM;
}

static int disk_tier_fetch(void *state, uint64_t record, struct tier_record *to)
{
	struct disk_tier *disk = state;
	struct disk_row *row = &disk->rows[record];
	uint64_t place = atomic_load_explicit(&row->place, memory_order_acquire);
	uint32_t data = row->data, key = row->key;
	size_t size = (size_t)data + key;
	uint64_t began = clock_now();
	uint8_t *memory = NULL;
	int rc = record_room(disk, place, size, &memory);

	if (rc == ENOMEM)
		return rc;
	if (!rc)
		rc = whole_read(disk->fd, memory, size, place, EIO);
	if (!rc && hash_bytes(memory, size) != row->check)
		rc = EBADMSG;
	if (rc) {
		free(memory);
		disk_tier_drop(disk, TIER_FAILED, "cannot be read", rc);
		return rc;
	}
	if (is_too_slow(disk, began, size))
		disk_tier_drop(disk, TIER_FAILED, "is too slow", ETIMEDOUT);
	*to = (struct tier_record){.memory = memory,
				   .data = {data, memory},
				   .key = {key, memory + data}};
	return 0;
}

/* Gives a record its place in the file. Returns 0 if it has none. */
static uint64_t disk_tier_put(struct disk_tier *disk, const MDB_val *key, const MDB_val *data)
{
	uint64_t size = data->mv_size + key->mv_size;
	uint64_t place = atomic_fetch_add(&disk->head->next, size);
	struct iovec parts[] = {{data->mv_data, data->mv_size}, {key->mv_data, key->mv_size}};
	int rc;

	if (place + size > disk->limit || !limits_allow_file(place + size)) {
		disk_tier_drop(disk, TIER_FULL, "full", ENOSPC);
		return 0;
	}
	rc = whole_write_parts(disk->fd, parts, 2, (off_t)place);
	if (!rc)
		return place;
	disk_tier_drop(disk, rc == ENOSPC || rc == EDQUOT ? TIER_FULL : TIER_FAILED,
		       "cannot be written", rc);
	return 0;
}

/* A process that is killed with a row claimed keeps that record out of the file: it is then read
 * from where it was. */
static uint64_t disk_tier_offer(void *state, uint64_t record, const MDB_val *key,
				const MDB_val *data)
{
	struct disk_tier *disk = state;
	struct disk_row *row;
	uint64_t size = data->mv_size + key->mv_size, place = 0;
	XXH3_state_t hash;

	if (atomic_load_explicit(&disk->health, memory_order_relaxed) != TIER_GOOD)
		return 0;
	row = &disk->rows[record];
	if (atomic_load_explicit(&row->place, memory_order_relaxed) ||
	    !atomic_compare_exchange_strong(&row->place, &place, CLAIMED))
		return 0;
	place = disk_tier_put(disk, key, data);
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
	atomic_fetch_add(&disk->written, size);
	return size;
}

static enum tier_state disk_tier_health(void *state)
{
	return (enum tier_state)atomic_load(&((struct disk_tier *)state)->health);
}

static struct tier_space disk_tier_space(void *state)
{
	struct disk_tier *disk = state;
	struct tier_space space = {.written = atomic_load(&disk->written)};
	uint64_t next;

	if (atomic_load(&disk->health) != TIER_GOOD)
		return space;
	next = atomic_load(&disk->head->next);
	space.room = next < disk->limit ? disk->limit - next : 0;
	return space;
}

const struct tier_ops tier_disk = {
	.name = "stage",
	.open = disk_tier_open,
	.has = disk_tier_has,
	.fetch = disk_tier_fetch,
	.offer = disk_tier_offer,
	.health = disk_tier_health,
	.space = disk_tier_space,
	.close = disk_tier_close,
};
