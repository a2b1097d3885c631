/* SPDX-License-Identifier: OLDAP-2.8 */
/* Records which pages of a snapshot were verified, and verifies the others.
 *
 * Transactions pass the newest snapshot's bits on by an atomic exchange. While one thread holds
 * them, another makes bits of its own, and verifies the pages once more. There is no lock that a
 * forked child could find taken.
 */
#include "window/sums.h"

#include "arena/arena.h"
#include "util/checked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct sums {
	MDB_sum_func *func;
	unsigned size;
	unsigned page_shift;
	_Atomic(struct sums_seen *) newest; /* this pointer is one of its users */
};

struct sums_seen {
	const struct sums *sums;
	uint64_t snapshot;
	uint64_t state;
	uint64_t pages;
	_Atomic unsigned users;
	bool apart; /* pages are smaller than blocks: the view's bits stay 0 */
	_Atomic uint64_t *verified; /* a bit per page if `apart`, else `sure` */
	_Atomic uint64_t sure[];    /* a bit per block, for each page's first */
};

int sums_open(struct sums **ret, MDB_sum_func *func, unsigned size, uint32_t page_size)
{
	struct sums *sums = calloc(1, sizeof(*sums));

	if (!sums)
		return ENOMEM;
	sums->func = func;
	sums->size = size;
	sums->page_shift = (unsigned)__builtin_ctz(page_size);
	*ret = sums;
	return 0;
}

void sums_give(struct sums_seen *seen)
{
	if (!seen || atomic_fetch_sub(&seen->users, 1) > 1)
		return;
	free(seen->verified);
	free(seen);
}

void sums_close(struct sums *sums)
{
	if (sums)
		sums_give(atomic_load(&sums->newest));
	free(sums);
}

unsigned sums_size(const struct sums *sums)
{
	return sums ? sums->size : 0;
}

static size_t words_of(uint64_t bits)
{
	return bits / 64 + 1;
}

static struct sums_seen *seen_make(const struct sums *sums, uint64_t pages)
{
	uint64_t blocks = ((pages << sums->page_shift) + ARENA_BLOCK - 1) / ARENA_BLOCK;
	struct sums_seen *seen =
		calloc(1, sizeof(*seen) + words_of(blocks) * sizeof(seen->sure[0]));

	if (!seen)
		return NULL;
	seen->sums = sums;
	seen->apart = UINT64_C(1) << sums->page_shift < ARENA_BLOCK;
	if (seen->apart) {
		seen->verified = calloc(words_of(pages), sizeof(seen->verified[0]));
		if (!seen->verified) {
			free(seen);
			return NULL;
		}
	}
	return seen;
}

struct sums_seen *sums_take(struct sums *sums, uint64_t snapshot, uint64_t state, uint64_t pages)
{
	struct sums_seen *seen = atomic_exchange(&sums->newest, NULL);

	if (!seen || seen->snapshot != snapshot || seen->state != state || seen->pages != pages) {
		sums_give(seen);
		seen = seen_make(sums, pages);
		if (!seen)
			return NULL;
		seen->snapshot = snapshot;
		seen->state = state;
		seen->pages = pages;
		atomic_init(&seen->users, 1); /* the environment's */
	}
	atomic_fetch_add(&seen->users, 1);
	sums_give(atomic_exchange(&sums->newest, seen));
	return seen;
}

const _Atomic uint64_t *sums_sure(const struct sums_seen *seen)
{
	return seen->sure;
}

/* Where a page's bit is. */
static uint64_t bit_of(const struct sums_seen *seen, uint64_t number)
{
	return seen->apart ? number : (number << seen->sums->page_shift) / ARENA_BLOCK;
}

bool sums_hold(const struct sums_seen *seen, uint64_t number, uint64_t count)
{
	const _Atomic uint64_t *bits = seen->apart ? seen->verified : seen->sure;

	for (uint64_t end = number + count; number < end; number++) {
		uint64_t bit = bit_of(seen, number);

		if (!(atomic_load_explicit(&bits[bit / 64], memory_order_relaxed) >> bit % 64 & 1))
			return false;
	}
	return true;
}

static void sum_make(const struct sums *sums, const uint8_t *bytes, size_t length, uint8_t *sum)
{
	const MDB_val src = {length, (void *)(uintptr_t)bytes};
	MDB_val dst = {sums->size, sum};

	sums->func(&src, &dst, NULL);
}

void sums_put(const struct sums *sums, uint8_t *bytes, size_t size)
{
	size_t length = size - sums->size;

	sum_make(sums, bytes, length, bytes + length);
}

int sums_verify(struct sums_seen *seen, const uint8_t *bytes, uint64_t number, uint64_t count)
{
	_Atomic uint64_t *bits = seen->apart ? seen->verified : seen->sure;
	size_t length = (size_t)(count << seen->sums->page_shift) - seen->sums->size;
	uint8_t sum[CHECKSUM_MOST];

	sum_make(seen->sums, bytes, length, sum);
	if (memcmp(sum, bytes + length, seen->sums->size) != 0)
		return MDB_BAD_CHECKSUM;
	for (uint64_t i = 0; i < count; i++) {
		uint64_t bit = bit_of(seen, number + i);

		atomic_fetch_or_explicit(&bits[bit / 64], UINT64_C(1) << bit % 64,
					 memory_order_relaxed);
	}
	return 0;
}
