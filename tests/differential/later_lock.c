/* SPDX-License-Identifier: OLDAP-2.8 */
/* Reads and writes the bytes of LMDB 1.0's lock file. */
#include "later_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SLOTS = 126, SIZE = 128 + SLOTS * 64 };

struct lock_bytes {
	uint32_t magic, format;
	_Atomic uint64_t newest;
	_Atomic uint32_t used;
	_Alignas(8) unsigned char slots_mutex[40];
	unsigned char writers_mutex[64];
	struct {
		_Atomic uint64_t txnid;
		_Atomic uint32_t process;
		unsigned char rest[52];
	} slot[SLOTS];
};

_Static_assert(sizeof(struct lock_bytes) == SIZE, "each part has its place");

struct later_lock {
	int fd;
	bool fresh;
	struct lock_bytes *bytes;
};

static const uint32_t magic = 0xbeefc0de, format = 0x2c2f6002;

static int byte_lock(int fd, int command, short type, off_t at)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};

	return fcntl(fd, command, &lock) ? errno : 0;
}

static int mutexes_make(struct lock_bytes *bytes)
{
	pthread_mutexattr_t how;
	int rc = pthread_mutexattr_init(&how);

	rc = rc ? rc : pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
	rc = rc ? rc : pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
	rc = rc ? rc : pthread_mutex_init((void *)bytes->slots_mutex, &how);
	rc = rc ? rc : pthread_mutex_init((void *)bytes->writers_mutex, &how);
	pthread_mutexattr_destroy(&how);
	return rc;
}

int later_lock_open(struct later_lock **ret, const char *path)
{
	struct later_lock *lock = calloc(1, sizeof *lock);
	struct stat st;
	int rc;

	if (!lock)
		return ENOMEM;
	*ret = lock;
	lock->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	if (lock->fd < 0)
		return errno;
	lock->fresh = !byte_lock(lock->fd, F_SETLK, F_WRLCK, 0);
	rc = lock->fresh ? 0 : byte_lock(lock->fd, F_SETLKW, F_RDLCK, 0);
	if (rc || fstat(lock->fd, &st))
		return rc ? rc : errno;
	if (st.st_size < SIZE && (!lock->fresh || ftruncate(lock->fd, SIZE)))
		return EINVAL;
	lock->bytes = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, lock->fd, 0);
	if (lock->bytes == MAP_FAILED)
		return errno;
	if (!lock->fresh)
		return lock->bytes->magic == magic && lock->bytes->format == format
			       ? 0
			       : MDB_VERSION_MISMATCH;
	lock->bytes->magic = magic;
	lock->bytes->format = format;
	lock->bytes->used = 0;
	return mutexes_make(lock->bytes);
}

int later_lock_share(struct later_lock *lock, uint64_t txnid)
{
	if (!lock->fresh)
		return 0;
	lock->bytes->newest = txnid;
	return byte_lock(lock->fd, F_SETLK, F_RDLCK, 0);
}

void later_lock_close(struct later_lock *lock)
{
	if (!lock)
		return;
	if (lock->bytes && lock->bytes != MAP_FAILED)
		munmap(lock->bytes, SIZE);
	if (lock->fd >= 0)
		close(lock->fd);
	free(lock);
}

int later_lock_begin(struct later_lock *lock)
{
	int rc = pthread_mutex_lock((void *)lock->bytes->writers_mutex);

	return rc == EOWNERDEAD ? pthread_mutex_consistent((void *)lock->bytes->writers_mutex) : rc;
}

void later_lock_end(struct later_lock *lock)
{
	pthread_mutex_unlock((void *)lock->bytes->writers_mutex);
}

void later_lock_tell(struct later_lock *lock, uint64_t txnid)
{
	lock->bytes->newest = txnid;
}

uint64_t later_lock_oldest(const struct later_lock *lock, uint64_t newest)
{
	uint64_t oldest = newest;

	for (unsigned i = 0; i < lock->bytes->used && i < SLOTS; i++)
		if (lock->bytes->slot[i].process) {
			uint64_t txnid = lock->bytes->slot[i].txnid; /* all ones: it rests */

			if (txnid < oldest)
				oldest = txnid;
		}
	return oldest;
}

unsigned later_lock_check(struct later_lock *lock)
{
	unsigned freed = 0;
	int rc = pthread_mutex_lock((void *)lock->bytes->slots_mutex);

	if (rc == EOWNERDEAD)
		rc = pthread_mutex_consistent((void *)lock->bytes->slots_mutex);
	for (unsigned i = 0; i < lock->bytes->used && i < SLOTS && !rc; i++) {
		uint32_t process = lock->bytes->slot[i].process;
		struct flock life = {.l_type = F_WRLCK,
				     .l_whence = SEEK_SET,
				     .l_start = process,
				     .l_len = 1};

		if (process && !fcntl(lock->fd, F_GETLK, &life) && life.l_type == F_UNLCK) {
			lock->bytes->slot[i].process = 0;
			freed++;
		}
	}
	if (!rc)
		pthread_mutex_unlock((void *)lock->bytes->slots_mutex);
	return freed;
}

unsigned later_lock_used(const struct later_lock *lock)
{
	unsigned used = 0;

	for (unsigned i = 0; i < SLOTS; i++)
		used += lock->bytes->slot[i].process != 0;
	return used;
}
