/* SPDX-License-Identifier: OLDAP-2.8 */
/* Feeds tables of shared memory that another process may have written, torn or on purpose, and
 * checks that every call of the arena returns, without a signal. The table changes before this
 * process attaches and between its calls.
 *
 * A step is 8 bytes: an edit or a call (1), a chunk or bits (1), an offset in a part of the table
 * (2), a value (4). Steps before the arena's first call are made before attaching. */
#include "fuzz_driver.h"

#include "arena/arena_private.h"
#include "util/checked.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>

enum { STEP = 8, STEPS_MOST = 64, CHUNKS = 3, ROWS_HIT = 4 };
enum { EDIT_HEAD, EDIT_ROW, EDIT_READY, EDIT_GROUP, EDIT_PINS, EDIT_WISHES, EDITS, CALLS = 16 };

const struct fuzz_weight fuzz_weight = {.stride = STEP, .front = 4, .mutations = 1000, .most = STEPS_MOST * STEP};

/* Returns a part of the table; *size: its bytes. */
static uint8_t *part(const struct arena *arena, unsigned kind, uint8_t row, size_t *size)
{
	switch (kind) {
	case EDIT_HEAD:
		*size = sizeof(struct arena_head);
		return (uint8_t *)arena->head;
	case EDIT_ROW:
		*size = sizeof(struct arena_row);
		return (uint8_t *)&arena->rows[row % ROWS_HIT];
	case EDIT_READY:
		*size = sizeof(uint32_t);
		return (uint8_t *)arena->ready;
	case EDIT_GROUP:
		*size = offsetof(struct arena_group, pins);
		return (uint8_t *)arena->groups;
	case EDIT_PINS:
		*size = ROWS_HIT * sizeof(arena->groups->pins[0]);
		return (uint8_t *)arena->groups->pins;
	default:
		*size = sizeof(struct arena_wishes);
		return (uint8_t *)&arena->wishes[row % ROWS_HIT];
	}
}

static void edit(const struct arena *arena, const uint8_t *step)
{
	size_t size, at = load16(step + 2);
	uint8_t *to = part(arena, step[0] % (EDITS + CALLS), step[1], &size);
	/* Words that chunks have come first, and the others by the high byte. */
	uint32_t value = load32(step + 4);

	memcpy(to + at * 4 % size, &value, sizeof(value));
}

static void call(struct arena *arena, unsigned which, const uint8_t *step)
{
	static const uint8_t bytes[ARENA_BLOCK];
	uint64_t chunk = step[1] % (CHUNKS + 1), run, first = chunk * ARENA_BLOCKS;
	unsigned blocks = load16(step + 2) % 600u, steppers;
	bool flag = step[4] & 1, wanted;

	atomic_store(&arena->look_at, 0);
	switch (which) {
	case 0:
		if (arena_claim(arena, chunk) && !arena_fill(arena, chunk * ARENA_CHUNK, bytes, ARENA_BLOCK))
			arena_publish(arena, first, blocks);
		break;
	case 1:
		if (flag)
			arena_abandon(arena, chunk, blocks);
		else
			arena_release(arena, chunk);
		break;
	case 2:
		(void)arena_pin(arena, chunk);
		break;
	case 3:
		arena_unpin(arena, chunk);
		break;
	case 4:
		(void)arena_reserve(arena, blocks);
		break;
	case 5:
		arena_unreserve(arena, blocks);
		break;
	case 6:
		(void)arena_wait(arena, chunk, 1);
		(void)arena_progressed(arena, arena_progress(arena, chunk));
		break;
	case 7:
		(void)arena_present(arena, first, blocks);
		(void)arena_missing(arena, first, first + blocks, &run);
		break;
	case 8:
		(void)arena_members(arena);
		(void)arena_scanners(arena, &steppers);
		(void)arena_front(arena, 1, steppers % 2);
		(void)arena_scans_meet(arena, flag);
		(void)arena_share(arena);
		break;
	case 9:
		(void)arena_serve(arena, blocks, flag);
		(void)arena_serve_sleeps(arena, flag);
		break;
	case 10:
		for (unsigned i = 0; i < 2 * ARENA_WISHES && arena_wish_next(arena, &run, &wanted); i++)
			arena_answer(arena, run, flag);
		break;
	case 11:
		arena_keep(arena, chunk);
		arena_answer(arena, chunk, flag);
		break;
	case 12:
		arena_touch(arena, chunk);
		(void)arena_is_huge(arena, chunk);
		(void)arena_is_served(arena, chunk, &wanted);
		break;
	case 13:
		arena_prepare(arena, chunk, 2);
		if (flag && arena_claim(arena, chunk)) {
			arena_prepare_claimed(arena, chunk);
			arena_release(arena, chunk);
		}
		break;
	case 14:
		(void)arena_bury_dead(arena);
		(void)arena_recount(arena);
		break;
	default:
		arena_evict(arena, blocks);
	}
}

static struct arena *attach(void)
{
	const struct identity identity = {.inode = 7, .size = CHUNKS * ARENA_CHUNK - 9, .snapshot = 3};
	const struct arena_options options = {.budget = 2 * ARENA_CHUNK};
	struct arena *arena;
	const char *why;

	if (arena_attach(&arena, &identity, &options, false, &why))
		abort();
	return arena;
}

/* Joins the other arena's memory, as a process does that finds it. */
static bool join(struct arena *arena, const struct arena *other)
{
	struct arena_head head;
	int fd = fcntl(other->file.fd, F_DUPFD_CLOEXEC, 0);

	arena_drop(arena);
	if (!arena_fits(arena, fd, &head)) {
		(void)close(fd);
		return false;
	}
	if (arena_adopt(arena, fd))
		return false;
	atomic_store(&arena->limit, arena->budget);
	atomic_store(&arena->refresh_at, UINT64_MAX); /* look for no other arenas of the machine */
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *other = attach(), *arena = attach();
	bool joined = false, refused = false;

	other->head->shared = 1;
	for (unsigned i = 0; !refused && size >= STEP && i < STEPS_MOST; i++, data += STEP, size -= STEP) {
		unsigned what = data[0] % (EDITS + CALLS);

		if (what < EDITS) {
			edit(other, data);
			continue;
		}
		if (!joined)
			refused = !(joined = join(arena, other));
		if (joined)
			call(arena, what - EDITS, data);
	}
	arena_detach(arena);
	arena_detach(other);
	return 0;
}

/* Makes each kind of edit before and after the calls that every reader makes. */
uint8_t *fuzz_example(unsigned number, size_t *size)
{
	static const uint8_t calls[] = {8, 4, 0, 7, 2, 6, 1, 3, 12, 9, 10, 11, 13, 14, 15, 5};
	static const uint32_t values[] = {1, 0x102, 0xffffffff, 0x80000000};
	uint8_t *bytes;

	if (number >= 4 * EDITS)
		return NULL;
	*size = 2 * sizeof(calls) * STEP;
	bytes = calloc(1, *size);
	if (!bytes)
		abort();
	for (size_t i = 0; i < 2 * sizeof(calls); i++) {
		uint8_t *step = bytes + i * STEP;
		bool edits = i % 2 ? i < 2 * sizeof(calls) : i > 2;

		step[0] = edits && i % 4 == 3 ? (uint8_t)(number % EDITS)
					      : (uint8_t)(EDITS + calls[i / 2]);
		step[1] = (uint8_t)(i / 6);
		store16(step + 2, (uint16_t)(i * 3 + number));
		memcpy(step + 4, &values[number / EDITS], 4);
	}
	return bytes;
}
