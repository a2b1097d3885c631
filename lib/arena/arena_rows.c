/* SPDX-License-Identifier: OLDAP-2.8 */
/* Records which processes live, what each has claimed and pinned, and cleans up after dead ones.
 *
 * A claim is the owner's row number in the chunk's word; a pin is a bit of the owner's row. Both
 * count while the kernel holds the owner's lock on the byte of that number. A process that meets a
 * dead row buries it: it takes the row's lock, undoes the dead process's claims and pins, and gives
 * the lock back. So one process at a time buries a row, and another can go on if that process dies.
 *
 * The kernel releases the row's lock with the last thread of the owner, so no thread still fills a
 * chunk whose claim is taken away. A read that the kernel still has in flight (arena_place())
 * writes the same bytes that every other process would.
 */
#include "arena/arena_private.h"

#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static const uint64_t look_every = 1000000000, wait_slice = 50000000; /* ns */

/* --- locks ---------------------------------------------------------------------------------- */

/* Returns 0 or an errno; EBADF: the program has closed the descriptor. */
static int lock_row(const struct arena *arena, unsigned row, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = row, .l_len = 1};

	if (!descriptor_is_kept(&arena->life))
		return EBADF;
	return fcntl(arena->life.fd, F_OFD_SETLK, &lock) ? errno : 0;
}

static bool is_alive(const struct arena *arena, unsigned row)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = row, .l_len = 1};

	if (row == arena->row)
		return true;
	if (arena->alone)
		return false;
	/* In doubt the row is alive: waits are bounded, and a pin too many does no harm. */
	return !descriptor_is_kept(&arena->life) || fcntl(arena->life.fd, F_OFD_GETLK, &lock) ||
	       lock.l_type != F_UNLCK;
}

/* --- rows ----------------------------------------------------------------------------------- */

/* Undoes what a claim of a dead or leaving row may have left half done. An evicting process that
 * has not yet found the chunk unpinned has freed nothing. */
static void claim_undo(struct arena *arena, struct arena_group *group, uint64_t chunk, unsigned row,
		       uint32_t word)
{
	if (word & WORD_EMPTYING)
		(void)arena_empty(arena, group, chunk);
	else if (!(word & WORD_EVICTING))
		arena_free_unpublished(arena, chunk);
	arena_claim_end(arena, group, chunk, row);
}

static void claims_clear(struct arena *arena, unsigned row)
{
	for (uint64_t chunk = 0; chunk < arena->chunks; chunk++) {
		struct arena_group *group = arena_group_of(arena, chunk);
		uint32_t word;

		if (!group) {
			chunk |= ARENA_GROUP - 1;
			continue;
		}
		word = atomic_load(&group->words[chunk % ARENA_GROUP]);
		if ((word & WORD_OWNER) == row)
			claim_undo(arena, group, chunk, row, word);
	}
}

static void pins_clear(struct arena *arena, unsigned row)
{
	for (uint64_t group = 0; group < arena_groups(arena); group++)
		if (arena_row_has_pins(arena, group, row))
			for (unsigned i = 0; i < ARENA_GROUP / 64; i++)
				atomic_store(&arena->groups[group].pins[row][i], 0);
}

/* Clears a row as if no process had ever had it, except row->used. Clearing `used` ends a burial:
 * until then another process may repeat the burial. */
static void row_clear(struct arena *arena, unsigned row)
{
	struct arena_row *entry = &arena->rows[row];
	int64_t reserved;

	atomic_store(&entry->ended, atomic_load(&entry->began));
	if (atomic_load(&entry->claims))
		claims_clear(arena, row);
	arena_step("bury-claims");
	pins_clear(arena, row);
	arena_step("bury-pins");
	atomic_store(&entry->claims, 0);
	atomic_store(&entry->scans, 0);
	atomic_store(&entry->steppers, 0);
	atomic_store(&entry->front, 0);
	atomic_store(&entry->wishes, 0);
	arena_serve_end(arena, row);
	arena_account_begin(arena);
	reserved = atomic_exchange(&entry->reserved, 0);
	if (reserved > 0)
		arena_lower(arena, (uint64_t)reserved);
	arena_account_end(arena);
}

/* Buries a row. A killed process leaves no clean account. `doubt` is set before the row is free: if
 * this process ends in between, another one repeats the burial, which none does for a free row. */
static void row_bury(struct arena *arena, unsigned row)
{
	row_clear(arena, row);
	atomic_store(&arena->head->doubt, 1);
	atomic_store(&arena->rows[row].used, 0);
}

static void row_raise_high(struct arena *arena)
{
	uint32_t high = atomic_load(&arena->head->high);

	while (high < arena->row)
		if (atomic_compare_exchange_weak(&arena->head->high, &high, arena->row))
			break;
}

int arena_row_take(struct arena *arena)
{
	unsigned row = 1;
	int rc = 0;

	if (!arena->alone)
		for (; row < ARENA_ROWS; row++) {
			rc = lock_row(arena, row, F_WRLCK);
			if (rc != EAGAIN && rc != EACCES)
				break;
		}
	if (rc)
		return rc == EACCES ? EAGAIN : rc;
	arena->row = row;
	if (atomic_load(&arena->rows[row].used))
		row_bury(arena, row);
	row_raise_high(arena);
	arena->rows[row].pid = (uint32_t)getpid();
	atomic_store(&arena->rows[row].used, 1);
	arena_step("attached");
	return 0;
}

/* The row's lock goes with its descriptor and map, which the caller closes next. */
void arena_row_leave(struct arena *arena)
{
	row_clear(arena, arena->row);
	atomic_store(&arena_own_row(arena)->used, 0);
	arena->row = 0;
}

/* arena->lock keeps this process's threads apart: they share the open file, so the kernel does
 * not. */
static bool bury(struct arena *arena, unsigned row)
{
	bool buried = false;

	pthread_mutex_lock(&arena->lock);
	if (!arena->alone && row != arena->row && !lock_row(arena, row, F_WRLCK)) {
		if (atomic_load(&arena->rows[row].used)) {
			row_bury(arena, row);
			buried = true;
		} else {
			/* Only a stray store makes a row the server that no process has. */
			arena_serve_end(arena, row);
		}
		(void)lock_row(arena, row, F_UNLCK);
	}
	pthread_mutex_unlock(&arena->lock);
	return buried;
}

bool arena_row_lives(struct arena *arena, unsigned row)
{
	if (is_alive(arena, row))
		return true;
	(void)bury(arena, row);
	return false;
}

static unsigned living(struct arena *arena, unsigned *buried)
{
	unsigned members = 0;

	for (unsigned row = 1; row <= arena_rows_high(arena); row++) {
		if (!atomic_load(&arena->rows[row].used))
			continue;
		if (is_alive(arena, row))
			members++;
		else if (bury(arena, row))
			++*buried;
	}
	return members;
}

unsigned arena_bury_dead(struct arena *arena)
{
	unsigned buried = 0;

	atomic_store(&arena->members, living(arena, &buried));
	return buried;
}

/* Works once a second, in the first thread of this process that calls it in that second. */
void arena_look_around(struct arena *arena)
{
	uint64_t at = atomic_load_explicit(&arena->look_at, memory_order_relaxed);
	uint64_t now = clock_coarse();

	if (now < at || !atomic_compare_exchange_strong(&arena->look_at, &at, now + look_every))
		return;
	atomic_store(&arena->ring_lacks_memory, false); /* there may be memory now */
	arena_drain(arena);
	(void)arena_bury_dead(arena);
	(void)arena_recount(arena);
}

unsigned arena_members(struct arena *arena)
{
	unsigned members;

	arena_look_around(arena);
	members = atomic_load(&arena->members);
	return members ? members : 1;
}

/* --- claims --------------------------------------------------------------------------------- */

bool arena_claim_as(struct arena *arena, struct arena_group *group, uint64_t chunk, uint32_t word)
{
	_Atomic uint32_t *at = &group->words[chunk % ARENA_GROUP];
	uint32_t now = atomic_load(at); /* 0, or flags without an owner, which only a stray store leaves */

	if (now & WORD_OWNER)
		return false;
	/* Counted before the claim succeeds, so that a burial never overlooks a claim. */
	atomic_fetch_add(&arena_own_row(arena)->claims, 1);
	if (atomic_compare_exchange_strong(at, &now, word))
		return true;
	atomic_fetch_sub(&arena_own_row(arena)->claims, 1);
	return false;
}

void arena_claim_end(struct arena *arena, struct arena_group *group, uint64_t chunk, unsigned row)
{
	_Atomic uint32_t *word = &group->words[chunk % ARENA_GROUP];

	if (atomic_exchange(word, 0) & WORD_WAITERS)
		clock_futex_wake(word);
	atomic_fetch_sub(&arena->rows[row].claims, 1);
}

/* A chunk that is read ahead counts as used until chunks for half the memory have been claimed
 * after it. Otherwise the chunk that a scan needs next would be the least recently used one. */
static uint32_t until_used(const struct arena *arena)
{
	uint64_t half = arena_limit(arena) / ARENA_BLOCKS / 2;

	return half < INT32_MAX / 2 ? (uint32_t)half : INT32_MAX / 2;
}

bool arena_claim(struct arena *arena, uint64_t chunk)
{
	struct arena_group *group = arena_group_need(arena, chunk, arena->row);
	_Atomic uint32_t *word;

	if (!group)
		return false;
	arena_look_around(arena);
	word = &group->words[chunk % ARENA_GROUP];
	while (!arena_claim_as(arena, group, chunk, arena->row)) {
		unsigned owner = atomic_load(word) & WORD_OWNER;

		/* Another process may have buried the owner first; then the word has changed. */
		if (owner && (is_alive(arena, owner) || !bury(arena, owner)) &&
		    (atomic_load(word) & WORD_OWNER) == owner)
			return false;
	}
	if (atomic_load_explicit(&arena->head->server, memory_order_relaxed))
		atomic_fetch_and(&group->refused[chunk % ARENA_GROUP / 64],
				 ~(UINT64_C(1) << chunk % 64));
	atomic_store_explicit(
		&group->stamps[chunk % ARENA_GROUP],
		atomic_fetch_add_explicit(&arena->head->clock, 1, memory_order_relaxed) +
			until_used(arena),
		memory_order_relaxed);
	arena_step("claimed");
	return true;
}

/* Returns the group of a chunk that this process has claimed for loading, or NULL. */
static struct arena_group *group_of_claim(const struct arena *arena, uint64_t chunk)
{
	struct arena_group *group = chunk < arena->chunks ? arena_group_of(arena, chunk) : NULL;

	if (!group || (atomic_load(&group->words[chunk % ARENA_GROUP]) &
		       (WORD_OWNER | WORD_EVICTING)) != arena->row)
		return NULL;
	return group;
}

void arena_release(struct arena *arena, uint64_t chunk)
{
	struct arena_group *group = group_of_claim(arena, chunk);

	if (!group)
		return;
	arena_step("releasing");
	arena_claim_end(arena, group, chunk, arena->row);
}

void arena_abandon(struct arena *arena, uint64_t chunk, uint64_t blocks)
{
	arena_unreserve(arena, blocks);
	if (group_of_claim(arena, chunk))
		arena_free_unpublished(arena, chunk);
	arena_release(arena, chunk);
}

bool arena_wait(struct arena *arena, uint64_t chunk, unsigned milliseconds)
{
	struct arena_group *group = arena_group_need(arena, chunk, arena->row);
	uint64_t now = clock_now(), end = now + milliseconds * UINT64_C(1000000);
	_Atomic uint32_t *word;

	if (!group)
		return false; /* claims fail for want of memory, not because a process has them */
	word = &group->words[chunk % ARENA_GROUP];
	for (;; now = clock_now()) {
		uint32_t value = atomic_load(word);
		unsigned owner = value & WORD_OWNER;

		if (!owner)
			return true;
		if (!is_alive(arena, owner) && bury(arena, owner))
			continue;
		if (now >= end)
			return false;
		if (!(value & WORD_WAITERS) &&
		    !atomic_compare_exchange_strong(word, &value, value | WORD_WAITERS))
			continue;
		clock_futex_wait(word, value | WORD_WAITERS,
				 end - now < wait_slice ? end - now : wait_slice);
	}
}

/* A progress number: the owner's row, and below this bit what the owner has done. */
enum { PROGRESS_ROW_BIT = 48 };

static uint64_t progress_of(const struct arena *arena, unsigned row)
{
	uint64_t done = atomic_load_explicit(&arena->rows[row].ended, memory_order_relaxed);

	return (uint64_t)row << PROGRESS_ROW_BIT | (done & ((UINT64_C(1) << PROGRESS_ROW_BIT) - 1));
}

uint64_t arena_progress(const struct arena *arena, uint64_t chunk)
{
	struct arena_group *group = chunk < arena->chunks ? arena_group_of(arena, chunk) : NULL;
	unsigned owner;

	if (!group)
		return 0;
	owner = atomic_load(&group->words[chunk % ARENA_GROUP]) & WORD_OWNER;
	if (!owner)
		owner = atomic_load(&arena->head->server) & WORD_OWNER;
	/* This process asks, so it is not stopped. */
	if (owner == arena->row)
		return clock_now();
	return progress_of(arena, owner);
}

bool arena_progressed(const struct arena *arena, uint64_t progress)
{
	uint64_t row = progress >> PROGRESS_ROW_BIT;

	return row >= ARENA_ROWS || progress_of(arena, (unsigned)row) != progress;
}

/* --- pins ----------------------------------------------------------------------------------- */

/* The evicting process sets WORD_EVICTING and then looks for pins; this process sets its pin and
 * then looks at the word. All four steps are sequentially consistent, so at least one process sees
 * the other. arena->lock is for this process's threads: none may rely on a pin that another takes
 * back. */
static bool try_pin(struct arena *arena, struct arena_group *group, uint64_t chunk, uint32_t *word)
{
	_Atomic uint64_t *pins = &group->pins[arena->row][chunk % ARENA_GROUP / 64];
	uint64_t bit = UINT64_C(1) << chunk % 64;
	bool pinned = true;

	pthread_mutex_lock(&arena->lock);
	if (!(atomic_fetch_or(pins, bit) & bit)) {
		arena_step("pinning");
		*word = atomic_load(&group->words[chunk % ARENA_GROUP]);
		pinned = !(*word & WORD_EVICTING);
		if (!pinned)
			atomic_fetch_and(pins, ~bit);
	}
	pthread_mutex_unlock(&arena->lock);
	return pinned;
}

bool arena_pin(struct arena *arena, uint64_t chunk)
{
	struct arena_group *group = arena_group_need(arena, chunk, arena->row);
	uint32_t word = 0;

	if (!group)
		return false;
	while (!try_pin(arena, group, chunk, &word)) {
		unsigned evictor = word & WORD_OWNER;

		if (is_alive(arena, evictor) || !bury(arena, evictor))
			return false;
	}
	arena_step("pinned");
	return true;
}

void arena_unpin(struct arena *arena, uint64_t chunk)
{
	uint64_t group = chunk / ARENA_GROUP;

	if (chunk >= arena->chunks || !arena_row_has_pins(arena, group, arena->row))
		return;
	pthread_mutex_lock(&arena->lock);
	atomic_fetch_and(&arena->groups[group].pins[arena->row][chunk % ARENA_GROUP / 64],
			 ~(UINT64_C(1) << chunk % 64));
	pthread_mutex_unlock(&arena->lock);
}
