/* SPDX-License-Identifier: OLDAP-2.8 */
/* Keeps the reader table of LMDB 1.0's lock file (version 2) as LMDB itself does.
 *
 *    0 magic (4)  4 format (4)  8 newest transaction (8)  16 slots that were ever used (4)
 *   24 mutex of the slots    64 mutex of the writers, at the next multiple of 64
 *  128 slots, at the next one: 64 bytes each: transaction (8), process (4), thread (8)
 *
 * The format's number says how large these parts are in the process that made the file. Each
 * process that has the file open locks byte 0; the process that makes it locks it for writing. A
 * process with a slot locks the byte of its process number. The kernel drops that lock when the
 * process dies.
 *
 * A process has one descriptor and one map of a lock file for all its environments: closing a
 * second descriptor would drop the lock on the byte of its number. The lock on byte 0 is the open
 * file description's, so that an LMDB in the same process sees that the file is in use.
 */
#include "env/readers.h"

#include "format/layout.h"
#include "util/at_fork.h"
#include "util/descriptor.h"
#include "util/list.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE = 64, LOCK_VERSION = 2, LOCK_VERSION_BITS = 12 };

struct reader_slot {
	_Alignas(LINE) _Atomic uint64_t txnid;
	_Atomic pid_t pid; /* 0: the slot is free */
	_Atomic pthread_t thread;
};

struct lock_file {
	uint32_t magic, format;
	_Atomic uint64_t txnid;
	_Atomic uint32_t count;
	pthread_mutex_t slots_lock;
	_Alignas(LINE) pthread_mutex_t writers_lock;
	struct reader_slot slots[];
};

/* One lock file, for all environments of this process on it. */
struct table {
	struct table *next;
	unsigned users, generation; /* the latter names the process: at_fork.h */
	uint64_t device, inode;
	_Atomic int fd; /* changed under tables_lock */
	bool fresh; /* this process has made it and not shared it yet */
	bool alive; /* the byte of this process is locked */
	unsigned most;
	size_t size;
	struct lock_file *file;
	/* For each slot: the environment here that claimed it last, or NULL. */
	_Atomic(const struct readers *) *owners;
};

struct readers {
	struct table *table;
	bool threads;
	pthread_key_t key; /* a thread's slot */
	unsigned generation;
};

static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;
static struct table *tables;

/* LMDB 1.0's own number for the sizes of the table's parts, by its formula. */
static uint32_t lock_format(void)
{
	const size_t head = offsetof(struct lock_file, slots_lock) + sizeof(pthread_mutex_t);
	const unsigned mutex_align = 3; /* the logarithm of 8 */
	const unsigned type = 10 + mutex_align + sizeof(pthread_mutex_t) / 4 % 22 * 5;
	const uint32_t parts = 6 * (sizeof(pid_t) / 4 % 3) + 18 * (sizeof(pthread_t) / 4 % 5) +
			       90 * (head / LINE % 3) + 270 * (type % 120) + (1u << 15) +
			       (1u << 17);

	_Static_assert(_Alignof(pthread_mutex_t) == 8 && sizeof(struct reader_slot) == LINE,
		       "the formula above has them");
	return LOCK_VERSION + (parts << LOCK_VERSION_BITS);
}

static int lock_byte(int fd, int command, short type, off_t byte)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};

	while (fcntl(fd, command, &lock))
		if (errno != EINTR)
			return errno;
	return 0;
}

/* Whether the table's descriptor still leads to the lock file. If not, sets errno as
 * descriptor_is(). */
static bool is_kept(const struct table *table)
{
	return descriptor_is(table->fd, table->device, table->inode);
}

/* The slots that may be in use: those behind them are free. Other processes write the count. */
static unsigned slots_used(const struct table *table)
{
	unsigned count = table->file->count;

	return count < table->most ? count : table->most;
}

/* Whether a process that has slots may be alive. */
static bool is_alive(const struct table *table, pid_t pid)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = pid, .l_len = 1};

	while (fcntl(table->fd, F_GETLK, &lock))
		if (errno != EINTR)
			return true;
	return lock.l_type != F_UNLCK;
}

static int mutexes_init(struct lock_file *file)
{
	pthread_mutexattr_t attributes;
	int rc = pthread_mutexattr_init(&attributes);

	if (rc)
		return rc;
	rc = pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	if (!rc)
		rc = pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	memset(&file->slots_lock, 0, sizeof(file->slots_lock));
	memset(&file->writers_lock, 0, sizeof(file->writers_lock));
	if (!rc)
		rc = pthread_mutex_init(&file->slots_lock, &attributes);
	if (!rc)
		rc = pthread_mutex_init(&file->writers_lock, &attributes);
	pthread_mutexattr_destroy(&attributes);
	return rc;
}

static int table_map(struct table *table, unsigned most)
{
	size_t size = sizeof(struct lock_file) + most * sizeof(struct reader_slot);
	struct descriptor_file own;
	int rc;

	if (!descriptor_look(table->fd, 0, &own))
		return errno;
	table->device = own.device;
	table->inode = own.inode;
	if (!table->fresh || own.size > size)
		size = own.size;
	else if (own.size < size && ftruncate(table->fd, (off_t)size))
		return errno;
	if (size < sizeof(struct lock_file) + sizeof(struct reader_slot))
		return MDB_INVALID;
	table->most = (unsigned)((size - sizeof(struct lock_file)) / sizeof(struct reader_slot));
	table->file = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, table->fd, 0);
	if (table->file == MAP_FAILED) {
		table->file = NULL;
		return errno;
	}
	table->size = size;
	/* malloc() is served from the thread's cache, calloc() is not; this runs at every open. */
	table->owners = malloc(table->most * sizeof(*table->owners));
	if (!table->owners)
		return ENOMEM;
	memset(table->owners, 0, table->most * sizeof(*table->owners));
	if (!table->fresh)
		return table->file->magic != FORMAT_MAGIC     ? MDB_INVALID
		       : table->file->format != lock_format() ? MDB_VERSION_MISMATCH
							      : 0;
	rc = mutexes_init(table->file);
	table->file->magic = FORMAT_MAGIC;
	table->file->format = lock_format();
	table->file->txnid = 0;
	table->file->count = 0;
	return rc;
}

static void table_free(struct table *table)
{
	if (table->file)
		munmap(table->file, table->size);
	descriptor_close(table->fd, table->device, table->inode);
	free(table->owners);
	free(table);
}

/* Finds a lock file's table. Under tables_lock. */
static struct table *table_find(uint64_t device, uint64_t inode)
{
	struct table *table = tables;

	while (table && (table->device != device || table->inode != inode ||
			 table->generation != fork_generation))
		table = table->next;
	return table;
}

/* Opens a table's lock file once more if the program has closed the descriptor, and all locks with
 * it. Under tables_lock. */
static int table_hold(struct table *table, const char *path)
{
	int fd, rc = 0;

	if (is_kept(table))
		return 0;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return errno;
	if (!descriptor_is(fd, table->device, table->inode))
		rc = errno;
	if (!rc)
		rc = lock_byte(fd, F_OFD_SETLKW, F_RDLCK, 0);
	if (!rc)
		rc = lock_byte(fd, F_SETLK, F_WRLCK, fork_process);
	if (rc)
		close(fd);
	else
		table->fd = fd;
	return rc;
}

/* Makes a table of an open lock file, which it takes over. Under tables_lock. */
static int table_make(struct table **ret, int fd, bool inherited, unsigned most)
{
	struct table *table = malloc(sizeof(*table));
	int rc = EAGAIN;

	if (!table) {
		close(fd);
		return ENOMEM;
	}
	*table = (struct table){.fd = fd};
	/* An inherited descriptor has the parent's lock, which is not in this process's way. */
	if (!inherited)
		rc = lock_byte(fd, F_OFD_SETLK, F_WRLCK, 0);
	table->fresh = !rc;
	if (rc == EAGAIN || rc == EACCES) /* other processes have the file open */
		rc = lock_byte(fd, F_OFD_SETLKW, F_RDLCK, 0);
	if (!rc)
		rc = table_map(table, most);
	if (rc) {
		close(fd);
		table->fd = -1;
		table_free(table);
		return rc;
	}
	table->generation = fork_generation;
	table->users = 1;
	table->next = tables;
	tables = table;
	*ret = table;
	return 0;
}

/* Opens a lock file's table. Under tables_lock. Returns as readers_open(). */
static int table_open(struct table **ret, const char *path, unsigned mode, unsigned most)
{
	struct table *table;
	struct stat st;
	int fd, rc;

	/* Closing a second descriptor would drop this process's lock on its byte. */
	if (tables && !stat(path, &st) && (table = table_find(st.st_dev, st.st_ino))) {
		rc = table_hold(table, path);
		table->users += !rc;
		*ret = table;
		return rc;
	}
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, mode);
	return fd < 0 ? errno : table_make(ret, fd, false, most);
}

/* Opens the table of an inherited one's lock file. Under tables_lock. */
static int table_inherit(struct table **ret, const struct table *parents, const char *path)
{
	struct stat st;
	int fd, rc = ENOENT;

	/* No writer sees slots in a lock file that has taken the old one's name. */
	if (!stat(path, &st) && st.st_dev == parents->device && st.st_ino == parents->inode)
		rc = table_open(ret, path, 0600, parents->most);
	if (rc <= 0)
		return rc;
	*ret = table_find(parents->device, parents->inode);
	if (*ret) {
		(*ret)->users++;
		return 0;
	}
	if (!is_kept(parents))
		return errno;
	fd = fcntl(parents->fd, F_DUPFD_CLOEXEC, 0);
	return fd < 0 ? errno : table_make(ret, fd, true, parents->most);
}

static void table_close(struct table *table)
{
	pthread_mutex_lock(&tables_lock);
	if (!--table->users) {
		list_remove(tables, table, next);
		table_free(table);
	}
	pthread_mutex_unlock(&tables_lock);
}

/* Frees the slot of a thread that ends, without slots_lock. A child that a bare system call has
 * made leaves its parent's slots alone, as in readers_close(). */
static void thread_gives(void *slot)
{
	struct reader_slot *own = slot;

	if (own->pid == getpid())
		own->pid = 0;
}

/* As readers_open(). `parents`: open its lock file. */
static int open_either(struct readers **ret, const char *path, const struct readers *parents,
		       unsigned mode, unsigned most, bool threads)
{
	struct readers *readers = malloc(sizeof(*readers));
	int rc;

	*ret = NULL;
	if (!readers)
		return ENOMEM;
	*readers = (struct readers){.generation = fork_generation};
	pthread_mutex_lock(&tables_lock);
	rc = parents ? table_inherit(&readers->table, parents->table, path)
		     : table_open(&readers->table, path, mode, most);
	pthread_mutex_unlock(&tables_lock);
	if (rc) {
		free(readers);
		return rc == EROFS ? 0 : rc;
	}
	if (threads && (rc = pthread_key_create(&readers->key, thread_gives))) {
		table_close(readers->table);
		free(readers);
		return rc;
	}
	readers->threads = threads;
	*ret = readers;
	return 0;
}

int readers_open(struct readers **ret, const char *path, unsigned mode, unsigned most, bool threads)
{
	return open_either(ret, path, NULL, mode, most, threads);
}

int readers_inherit(struct readers **ret, const struct readers *parents, const char *path)
{
	return open_either(ret, path, parents, 0, 0, parents->threads);
}

int readers_share(struct readers *readers, uint64_t newest)
{
	struct table *table = readers->table;
	int rc = 0;

	pthread_mutex_lock(&tables_lock);
	if (table->fresh) {
		table->file->txnid = newest;
		rc = lock_byte(table->fd, F_OFD_SETLK, F_RDLCK, 0);
		table->fresh = false;
	}
	pthread_mutex_unlock(&tables_lock);
	return rc;
}

void readers_close(struct readers *readers)
{
	struct table *table;

	if (!readers)
		return;
	table = readers->table;
	if (readers->threads)
		pthread_key_delete(readers->key);
	/* An inherited table is the parent's, and so is its descriptor. */
	if (readers->generation == fork_generation) {
		for (unsigned i = 0; i < slots_used(table); i++)
			if (table->owners[i] == readers && table->file->slots[i].pid == getpid())
				table->file->slots[i].pid = 0;
		table_close(table);
	}
	free(readers);
}

/* Takes slots_lock, also if its holder has died with it. Returns 0, ENOTRECOVERABLE or another
 * errno. */
static int slots_lock_dead(struct table *table)
{
	int rc = pthread_mutex_lock(&table->file->slots_lock);

	return rc == EOWNERDEAD ? pthread_mutex_consistent(&table->file->slots_lock) : rc;
}

/* Clears the slots of dead processes. The caller holds slots_lock, or `lock` says to take it for
 * each process. Returns the number of cleared slots. */
static int clear_dead(struct table *table, bool lock)
{
	struct lock_file *file = table->file;
	unsigned count = slots_used(table);
	int cleared = 0;

	/* The locks of another file would make all readers look dead. */
	if (!is_kept(table))
		return 0;
	for (unsigned i = 0; i < count; i++) {
		pid_t pid = file->slots[i].pid;

		if (!pid || pid == fork_process || is_alive(table, pid))
			continue;
		if (lock && slots_lock_dead(table))
			continue;
		/* A new process may have the dead one's number. */
		if (!lock || !is_alive(table, pid))
			for (unsigned j = i; j < count; j++)
				if (file->slots[j].pid == pid) {
					file->slots[j].pid = 0;
					cleared++;
				}
		if (lock)
			pthread_mutex_unlock(&file->slots_lock);
	}
	return cleared;
}

static int slots_lock(struct table *table)
{
	int rc = pthread_mutex_lock(&table->file->slots_lock);

	if (rc != EOWNERDEAD)
		return rc;
	clear_dead(table, false);
	return pthread_mutex_consistent(&table->file->slots_lock);
}

/* Locks the byte that tells other processes that this one is alive. Under slots_lock. */
static int show_life(struct table *table)
{
	int rc = 0;

	if (!table->alive)
		rc = is_kept(table) ? lock_byte(table->fd, F_SETLK, F_WRLCK, fork_process) : errno;
	table->alive = !rc;
	return rc;
}

static int slot_claim(struct readers *readers, struct reader_slot **slot)
{
	struct table *table = readers->table;
	struct lock_file *file = table->file;
	unsigned i = 0;
	int rc = slots_lock(table);

	if (rc)
		return rc;
	rc = show_life(table);
	while (!rc && i < slots_used(table) && file->slots[i].pid)
		i++;
	if (!rc && i >= table->most)
		rc = MDB_READERS_FULL;
	if (!rc) {
		/* In this order: an environment that is closed reads the slots without
		 * slots_lock. */
		file->slots[i].pid = 0;
		file->slots[i].txnid = READERS_IDLE;
		file->slots[i].thread = pthread_self();
		if (i == file->count)
			file->count = i + 1;
		file->slots[i].pid = fork_process;
		table->owners[i] = readers;
		*slot = &file->slots[i];
	}
	pthread_mutex_unlock(&file->slots_lock);
	return rc;
}

int readers_take(struct readers *readers, struct reader_slot **slot)
{
	struct reader_slot *own = readers->threads ? pthread_getspecific(readers->key) : *slot;
	int rc;

	if (own) {
		/* Another transaction uses the slot; or the parent owns it, in a child that a bare
		 * system call has made. */
		if (own->pid != getpid() || own->txnid != READERS_IDLE)
			return MDB_BAD_RSLOT;
		*slot = own;
		return 0;
	}
	rc = slot_claim(readers, &own);
	if (!rc && readers->threads && (rc = pthread_setspecific(readers->key, own)))
		own->pid = 0;
	if (!rc)
		*slot = own;
	return rc;
}

uint64_t readers_pin(struct readers *readers, struct reader_slot *slot)
{
	uint64_t id;

	/* A writer that does not see the slot's id yet has published a newer id before. */
	do {
		id = readers->table->file->txnid;
		slot->txnid = id;
	} while (id != readers->table->file->txnid);
	return id;
}

void readers_pin_to(struct reader_slot *slot, uint64_t id)
{
	slot->txnid = id;
}

void readers_rest(struct reader_slot *slot)
{
	slot->txnid = READERS_IDLE;
}

void readers_give(struct readers *readers, struct reader_slot *slot)
{
	slot->txnid = READERS_IDLE;
	if (readers->threads)
		return;
	slot->pid = 0;
}

void readers_forked(void)
{
	/* Another thread of the parent may have held tables_lock. The tables in the list are the
	 * parent's. */
	pthread_mutex_init(&tables_lock, NULL);
	tables = NULL;
}

unsigned readers_used(const struct readers *readers)
{
	return readers->table->file->count;
}

unsigned readers_most(const struct readers *readers)
{
	return readers->table->most;
}

int readers_list(const struct readers *readers, MDB_msg_func *func, void *context)
{
	const struct lock_file *file = readers->table->file;
	bool any = false;
	char line[96];
	int rc = 0;

	for (unsigned i = 0; i < slots_used(readers->table); i++) {
		const struct reader_slot *slot = &file->slots[i];
		uint64_t id = slot->txnid;
		int used;

		if (!slot->pid)
			continue;
		if (!any && (rc = func("    pid     thread     txnid\n", context)) < 0)
			return rc;
		any = true;
		used = snprintf(line, sizeof(line), "%10d %zx ", (int)slot->pid,
				(size_t)slot->thread);
		if (id == READERS_IDLE)
			snprintf(line + used, sizeof(line) - (size_t)used, "-\n");
		else
			snprintf(line + used, sizeof(line) - (size_t)used, "%" PRIu64 "\n", id);
		if ((rc = func(line, context)) < 0)
			return rc;
	}
	return any ? rc : func("(no active readers)\n", context);
}

int readers_check(struct readers *readers, int *dead)
{
	int cleared = clear_dead(readers->table, true);

	if (dead)
		*dead = cleared;
	return 0;
}
