/* SPDX-License-Identifier: OLDAP-2.8 */
/* Makes, maps and takes down a process's attachment to an arena. */
#include "arena/arena_private.h"

#include "util/at_fork.h"
#include "util/checked.h"
#include "util/clock.h"
#include "util/huge.h"
#include "util/whole.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U
#endif

static const uint64_t arena_magic = UINT64_C(0x316e657261626d6c); /* "lmbaren1" */
static const uint64_t arena_largest = UINT64_C(1) << 46;
enum { ARENA_VERSION = 9, ARENA_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* --- sharing ----------------------------------------------------------------------------- */

/* Hashes the node's name. In the key it keeps the arenas of simulated nodes apart, as ARENA_VERSION
 * does for those of other versions. */
static uint64_t node_hash(const char *node)
{
	uint64_t hash = 0;

	for (; node && *node; node++)
		hash = mix64(hash ^ (unsigned char)*node);
	return hash;
}

static void key_make(struct arena *arena, const char *node)
{
	arena->node = node_hash(node);
	identity_hash128(&arena->identity, mix64(arena->node ^ ARENA_VERSION), arena->key);
}

/* --- the memfd ------------------------------------------------------------------------------ */

static uint64_t head_length(const struct arena *arena)
{
	return round_up(sizeof(struct arena_head), 4096) + ARENA_ROWS * sizeof(struct arena_row) +
	       round_up(arena_groups(arena) * sizeof(uint32_t), 4096);
}

static void lay_out(struct arena *arena)
{
	arena->data_length = round_up(arena->identity.size, ARENA_CHUNK);
	arena->chunks = arena->data_length / ARENA_CHUNK;
	arena->length = arena->data_length + head_length(arena) +
			round_up(arena_groups(arena) * sizeof(struct arena_group), 4096) +
			ARENA_ROWS * sizeof(struct arena_wishes);
}

static int make_memfd(bool shared)
{
	const char *name = shared ? "lmdbio" : "lmdbio-private";
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return fd;
}

bool arena_fits_pages(void)
{
	return sysconf(_SC_PAGESIZE) == ARENA_BLOCK;
}

bool arena_may_be(uint64_t bytes)
{
	int fd;

	if (!arena_fits_pages())
		return false;
	/* The tables need some more. */
	if (!limits_allow_file(bytes + bytes / 32 + ARENA_CHUNK))
		return false;
	fd = make_memfd(false);
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static int map(struct arena *arena)
{
	uint8_t *base = huge_map(arena->length, PROT_NONE, MAP_NORESERVE), *table;

	if (!base)
		return errno;
	arena->base = base;
	/* If the program has locked its future memory (mlockall(2), MCL_FUTURE), the kernel would
	 * make all pages of a readable map here, and count them all. */
	if (mmap(base, arena->length, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
		 arena->file.fd, 0) == MAP_FAILED)
		return errno;
	(void)munlock(base, arena->length);
	if (mprotect(base, arena->length, PROT_READ | PROT_WRITE))
		return errno;
	/* Keeps the map out of core files, and out of forked children, which have no row yet. A
	 * sandbox may refuse both; arena_cut() unmaps what a child inherits. */
	(void)madvise(base, arena->length, MADV_DONTDUMP);
	arena->inherited = madvise(base, arena->length, MADV_DONTFORK) != 0;
	table = arena->base + arena->data_length;
	arena->head = (struct arena_head *)table;
	table += round_up(sizeof(struct arena_head), 4096);
	arena->rows = (struct arena_row *)table;
	table += ARENA_ROWS * sizeof(struct arena_row);
	arena->ready = (_Atomic uint32_t *)table;
	table += round_up(arena_groups(arena) * sizeof(uint32_t), 4096);
	arena->groups = (struct arena_group *)table;
	table += round_up(arena_groups(arena) * sizeof(struct arena_group), 4096);
	arena->wishes = (struct arena_wishes *)table;
	return 0;
}

static void life_unmap(struct arena *arena)
{
	if (arena->life_map)
		munmap(arena->life_map, ARENA_BLOCK);
	arena->life_map = NULL;
}

/* Opens the memfd a second time. The lock of the row belongs to this open file: the kernel releases
 * it when the descriptor and life_map are both gone, and a forked child has neither. life_map keeps
 * the lock if the program closes descriptors that it did not open. */
static int open_life(struct arena *arena)
{
	char path[64];
	int fd, rc;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", arena->file.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	rc = fd < 0 ? errno : descriptor_keep(&arena->life, fd);
	if (rc)
		return rc;
	arena->life_map = mmap(NULL, ARENA_BLOCK, PROT_NONE, MAP_SHARED, arena->life.fd, 0);
	if (arena->life_map == MAP_FAILED)
		arena->life_map = NULL;
	else if (madvise(arena->life_map, ARENA_BLOCK,
			 MADV_DONTFORK)) /* a child would keep the lock */
		life_unmap(arena);
	return 0;
}

static void nonce_make(uint64_t nonce[2])
{
	if (getrandom(nonce, 2 * sizeof(nonce[0]), GRND_NONBLOCK) == 2 * sizeof(nonce[0]))
		return;
	nonce[0] = mix64(clock_now());
	nonce[1] = mix64(nonce[0] ^ (uint64_t)getpid() ^ (uintptr_t)nonce);
}

static void head_make(struct arena *arena, bool shared)
{
	struct arena_head *head = arena->head;

	head->version = ARENA_VERSION;
	head->shared = shared;
	head->identity = arena->identity;
	memcpy(head->key, arena->key, sizeof(head->key));
	nonce_make(head->nonce);
	head->budget = arena->wanted;
	head->magic = arena_magic;
}

/* Only the memfd's owner may open it, also through an O_PATH descriptor: the kernel checks the mode
 * when a process opens a descriptor by way of /proc. The head gets its memory now or the call
 * fails; the data's memory comes with the bytes. */
static int size_memfd(const struct arena *arena)
{
	int fd = arena->file.fd, rc;

	if (fchmod(fd, 0600) || ftruncate(fd, (off_t)arena->length))
		return errno;
	do {
		rc = fallocate(fd, FALLOC_FL_KEEP_SIZE, (off_t)arena->data_length,
			       (off_t)head_length(arena));
	} while (rc && errno == EINTR);
	return rc || fcntl(fd, F_ADD_SEALS, ARENA_SEALS) ? errno : 0;
}

int arena_make(struct arena *arena, bool shared)
{
	int fd, rc;

	if (!limits_allow_file(arena->length))
		return EFBIG;
	fd = make_memfd(shared);
	rc = fd < 0 ? errno : descriptor_keep(&arena->file, fd);
	if (rc)
		return rc;
	rc = size_memfd(arena);
	if (!rc)
		rc = map(arena);
	if (!rc && shared)
		rc = open_life(arena);
	if (rc)
		goto fail;
	head_make(arena, shared);
	arena->alone = !shared;
	arena->budget = arena->wanted;
	rc = arena_row_take(arena);
	if (!rc)
		return 0;
fail:
	arena_drop(arena);
	return rc;
}

bool arena_fits(const struct arena *arena, int fd, struct arena_head *head)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & ARENA_SEALS) != ARENA_SEALS || fstat(fd, &st))
		return false;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (uint64_t)st.st_size != arena->length)
		return false;
	if (pread(fd, head, sizeof(*head), (off_t)arena->data_length) != (ssize_t)sizeof(*head))
		return false;
	return head->magic == arena_magic && head->version == ARENA_VERSION && head->shared == 1 &&
	       identity_equal(&head->identity, &arena->identity) &&
	       !memcmp(head->key, arena->key, sizeof(head->key));
}

int arena_adopt(struct arena *arena, int fd)
{
	int rc = descriptor_keep(&arena->file, fd);

	if (!rc)
		rc = map(arena);
	if (!rc)
		rc = open_life(arena);
	if (!rc) {
		arena->alone = false;
		arena->budget = arena->head->budget;
		rc = arena_row_take(arena);
	}
	if (rc)
		arena_drop(arena);
	return rc;
}

/* A forked child that kept descriptors of an arena would keep its memory and its row's lock. So each
 * arena of this process is in this list, whatever layer has it. The lock is also held while
 * descriptors are closed: the kernel copies them for a child before it copies what the memory says
 * of them. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct arena *list;

void arena_drop(struct arena *arena)
{
	pthread_mutex_lock(&list_lock);
	if (arena->row)
		arena_row_leave(arena);
	life_unmap(arena);
	descriptor_kept_close(&arena->life);
	if (arena->base)
		munmap(arena->base, arena->length);
	arena->base = NULL;
	descriptor_kept_close(&arena->file);
	pthread_mutex_unlock(&list_lock);
}

/* --- all of this process --------------------------------------------------------------------- */

static void fork_prepare(void)
{
	pthread_mutex_lock(&list_lock);
}

static void fork_in_parent(void)
{
	pthread_mutex_unlock(&list_lock);
}

static void fork_in_child(void)
{
	for (struct arena *arena = list; arena; arena = arena->next)
		arena_forked(arena);
	pthread_mutex_unlock(&list_lock);
}

__attribute__((constructor)) static void fork_begin(void)
{
	static const struct fork_steps steps = {fork_prepare, fork_in_parent, fork_in_child};

	at_fork(FORK_ARENAS, &steps);
}

static struct arena *arena_new(const struct identity *identity)
{
	struct arena *arena = calloc(1, sizeof(*arena));

	if (!arena)
		return NULL;
	arena->identity = *identity;
	arena->line = -1;
	arena->file.fd = arena->life.fd = arena->listener.fd = -1;
	lay_out(arena);
	arena->needs = arena->chunks * ARENA_BLOCKS;
	pthread_mutex_init(&arena->lock, NULL);
	pthread_mutex_lock(&list_lock);
	arena->next = list;
	arena->link = &list;
	if (list)
		list->link = &arena->next;
	list = arena;
	pthread_mutex_unlock(&list_lock);
	return arena;
}

static void arena_free(struct arena *arena)
{
	if (!arena)
		return;
	pthread_mutex_lock(&list_lock);
	*arena->link = arena->next;
	if (arena->next)
		arena->next->link = arena->link;
	pthread_mutex_unlock(&list_lock);
	pthread_mutex_destroy(&arena->lock);
	free(arena);
}

/* --- the door ------------------------------------------------------------------------------- */

static int attach(struct arena *arena, const char **why)
{
	int rc;

	*why = NULL;
	rc = arena->share ? arena_meet(arena, why) : arena_make(arena, false);
	if (rc && arena->share) {
		descriptor_kept_close(&arena->listener);
		if (!*why)
			*why = "the memory that the node's processes share could not be made";
		rc = arena_make(arena, false);
	}
	return rc;
}

int arena_attach(struct arena **opened, const struct identity *identity,
		 const struct arena_options *options, bool keeps, const char **why)
{
	struct arena *arena;
	int rc;

	*opened = NULL;
	*why = NULL;
	if (!identity->size)
		return EINVAL;
	if (identity->size > arena_largest)
		return EFBIG;
	arena = arena_new(identity);
	if (!arena)
		return ENOMEM;
	arena->wanted = options->budget / ARENA_BLOCK;
	arena->node_budget =
		options->node_budget ? options->node_budget / ARENA_BLOCK : arena->wanted;
	if (options->data && options->data < arena->data_length)
		arena->needs = round_up(options->data, ARENA_CHUNK) / ARENA_BLOCK;
	arena->share = options->share;
	arena->keeps = keeps;
	key_make(arena, options->node);
	rc = attach(arena, why);
	if (rc) {
		arena_free(arena);
		return rc;
	}
	*opened = arena;
	return 0;
}

int arena_open(struct arena **arena, const struct identity *identity,
	       const struct arena_options *options, const char **why)
{
	int rc = arena_attach(arena, identity, options, true, why);

	if (!rc)
		purse_join(*arena);
	return rc;
}

uint64_t arena_found(const struct identity *identity, const struct arena_options *options)
{
	bool sane = identity->size && identity->size <= arena_largest;
	struct arena *arena = options->share && sane ? arena_new(identity) : NULL;
	struct arena_head head;
	uint64_t budget = 0;
	int fd;

	if (!arena)
		return 0;
	key_make(arena, options->node);
	fd = arena_look(arena);
	if (fd >= 0 && arena_fits(arena, fd, &head))
		budget = head.budget;
	if (fd >= 0)
		close(fd);
	arena_detach(arena);
	return budget < UINT64_MAX / ARENA_BLOCK ? budget * ARENA_BLOCK : UINT64_MAX;
}

static void leave(struct arena *arena)
{
	pthread_mutex_lock(&list_lock);
	descriptor_kept_close(
		&arena->listener); /* first, so that no process attaches while this one leaves */
	pthread_mutex_unlock(&list_lock);
	arena_drop(arena);
}

void arena_detach(struct arena *arena)
{
	leave(arena);
	arena_free(arena);
}

void arena_close(struct arena *arena)
{
	if (!arena)
		return;
	leave(arena); /* before its share is free: the process that gets the share must find the
			 kept arena without a member */
	purse_leave(arena);
	arena_detach(arena);
}

bool arena_shrink(const struct identity *identity, const uint64_t key[2], int fd, uint64_t by,
		  _Atomic(struct arena *) *attached)
{
	bool sane = identity->size && identity->size <= arena_largest;
	struct arena *arena = sane ? arena_new(identity) : NULL, *none = NULL;
	struct arena_head head;
	bool done;

	if (!arena || !atomic_compare_exchange_strong(attached, &none, arena)) {
		arena_free(arena);
		close(fd);
		return false;
	}
	memcpy(arena->key, key, sizeof(arena->key));
	done = arena_fits(arena, fd, &head);
	if (done)
		done = !arena_adopt(arena, fd);
	else
		close(fd);
	if (done) {
		(void)arena_bury_dead(arena);
		(void)arena_recount(arena);
		arena_evict(arena, by);
	}
	arena_drop(arena); /* a child that is forked from here on has nothing to cut */
	atomic_store(attached, NULL);
	arena_detach(arena);
	return done;
}

/* In a forked child. The kernel did not copy the maps (MADV_DONTFORK), or the map of the bytes is
 * removed here. The shared table is not touched. */
void arena_cut(struct arena *arena)
{
	if (arena->base && arena->inherited)
		munmap(arena->base, arena->length);
	arena->life_map = NULL;
	descriptor_kept_close(&arena->listener);
	descriptor_kept_close(&arena->life);
	descriptor_kept_close(&arena->file);
	arena->base = NULL;
	arena->row = 0;
}

void arena_forked(struct arena *arena)
{
	purse_forked(arena);
	arena_cut(arena);
}

int arena_fd(const struct arena *arena)
{
	return descriptor_is_kept(&arena->file) ? arena->file.fd : -1;
}

uint8_t *arena_bytes(const struct arena *arena)
{
	return arena->base;
}

uint64_t arena_chunks(const struct arena *arena)
{
	return arena->chunks;
}
