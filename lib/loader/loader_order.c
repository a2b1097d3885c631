/* SPDX-License-Identifier: OLDAP-2.8 */
/* Computes the orders, forward and back.
 *
 * Every order that is not sequential is one scheme. Records are counted from `shift` on and cut
 * into chunks; `chosen` lists the chunks, residents first. The remainder, less than a chunk, is
 * resident, so that no chunk is short and no sum depends on the draw. Round r takes streamed chunks
 * r * buffer ... and the residents that belong to it by proportion. In a shuffle all records are
 * residents. */
#include "loader/loader_order.h"

#include "util/hash.h"

#include <endian.h>
#include <errno.h>
#include <string.h>

enum use { USE_WHOLE = 1, USE_CHOSEN, USE_STREAM, USE_ROUND, USE_LAST, USE_SHIFT };

static uint64_t scale(uint64_t value, uint64_t part, uint64_t whole)
{
	return (uint64_t)((unsigned __int128)value * part / whole);
}

static bool spec_makes_sense(const struct order_spec *spec)
{
	if (!spec->batch || spec->shares > spec->batch || spec->records == ORDER_NONE)
		return false;
	if ((unsigned)spec->policy > ORDER_OPPORTUNISTIC || (unsigned)spec->tail > ORDER_WRAP)
		return false;
	return spec->policy < ORDER_BLOCK || (spec->block && spec->buffer);
}

int order_init(struct order *order, const struct order_spec *spec)
{
	uint64_t kept;

	if (!spec_makes_sense(spec))
		return EINVAL;
	*order = (struct order){.spec = *spec, .residents = spec->records, .rounds = 1};
	if (!order->spec.shares)
		order->spec.shares = 1;
	if (spec->policy < ORDER_BLOCK)
		return 0;
	order->chunks = spec->records / spec->block;
	kept = spec->policy == ORDER_OPPORTUNISTIC ? spec->resident / spec->block : 0;
	if (kept >= order->chunks)
		kept = order->chunks;
	order->streamed = order->chunks - kept;
	order->residents = spec->records - order->streamed * spec->block;
	if (order->streamed)
		order->rounds = (order->streamed - 1) / spec->buffer + 1;
	return 0;
}

uint64_t order_batches(const struct order *order)
{
	uint64_t whole = order->spec.records / order->spec.batch;

	return whole + (order->spec.tail != ORDER_DROP && order->spec.records % order->spec.batch);
}

/* Returns how many streamed chunks come before a round. */
static uint64_t chunks_before(const struct order *order, uint64_t round)
{
	return round < order->rounds ? round * order->spec.buffer : order->streamed;
}

static uint64_t residents_before(const struct order *order, uint64_t round)
{
	return round < order->rounds && order->streamed
		       ? scale(order->residents, chunks_before(order, round), order->streamed)
	       : round ? order->residents
		       : 0;
}

static uint64_t round_start(const struct order *order, uint64_t round)
{
	return chunks_before(order, round) * order->spec.block + residents_before(order, round);
}

void order_begin(struct order_epoch *at, const struct order *order, uint64_t epoch)
{
	const struct order_spec *spec = &order->spec;
	uint64_t records = spec->records, last = order->rounds - 1;

	*at = (struct order_epoch){.order = *order, .epoch = epoch};
	if (spec->policy == ORDER_SEQUENTIAL || !records)
		return;
	permute_init(&at->whole, order->residents, spec->seed, epoch, USE_WHOLE);
	if (spec->policy == ORDER_SHUFFLE)
		return;
	/* Residents must be the same in every epoch. A block order has no residents, and had better
	 * begin elsewhere in each epoch. */
	at->shift = permute_draw(records, spec->seed, spec->policy == ORDER_BLOCK ? epoch : 0,
				 USE_SHIFT);
	permute_init(&at->chosen, order->chunks, spec->seed, 0, USE_CHOSEN);
	permute_init(&at->stream, order->streamed, spec->seed, epoch, USE_STREAM);
	for (unsigned more = 0; more < 2; more++)
		permute_init(&at->rounds[more], round_start(order, 1) + more, spec->seed, epoch,
			     USE_ROUND);
	permute_init(&at->last, records - round_start(order, last), spec->seed, epoch, USE_LAST);
}

uint64_t order_round_start(const struct order_epoch *at, uint64_t round)
{
	return round_start(&at->order, round);
}

uint64_t order_round(const struct order_epoch *at, uint64_t position)
{
	const struct order *order = &at->order;
	uint64_t round;

	if (order->rounds == 1)
		return 0;
	/* A round begins at its part of the records, rounded down: the guess is never too late. */
	round = scale(position, order->streamed, order->spec.records) / order->spec.buffer;
	while (round + 1 < order->rounds && round_start(order, round + 1) <= position)
		round++;
	return round;
}

/* Returns the permutation within a round, whose residents are a proportion rounded down or up. */
static const struct permute *round_permute(const struct order_epoch *at, uint64_t round)
{
	const struct order *order = &at->order;
	uint64_t size = round_start(order, round + 1) - round_start(order, round);

	return round + 1 < order->rounds ? &at->rounds[size != at->rounds[0].size] : &at->last;
}

static uint32_t round_tweak(uint64_t round)
{
	return (uint32_t)(round ^ round >> 32);
}

static uint64_t chunk_record(const struct order_epoch *at, uint64_t place, uint64_t inside)
{
	return permute_apply(&at->chosen, 0, place) * at->order.spec.block + inside;
}

/* Returns the record of the n-th resident, counted from the shift on. */
static uint64_t resident_record(const struct order_epoch *at, uint64_t n)
{
	const struct order *order = &at->order;
	uint64_t kept = order->chunks - order->streamed, block = order->spec.block;

	n = permute_apply(&at->whole, 0, n);
	return n < kept * block ? chunk_record(at, n / block, n % block)
				: order->chunks * block + n - kept * block;
}

static uint64_t mixed_record(const struct order_epoch *at, uint64_t position)
{
	const struct order *order = &at->order;
	uint64_t kept = order->chunks - order->streamed, block = order->spec.block;
	uint64_t records = order->spec.records, round = order_round(at, position);
	uint64_t chunks = chunks_before(order, round), streamed, n, record;

	if (!order->streamed) {
		record = resident_record(at, position);
	} else {
		n = permute_apply(round_permute(at, round), round_tweak(round),
				  position - round_start(order, round));
		streamed = (chunks_before(order, round + 1) - chunks) * block;
		if (n < streamed)
			record = chunk_record(
				at, kept + permute_apply(&at->stream, 0, chunks + n / block),
				n % block);
		else
			record = resident_record(at, residents_before(order, round) + n - streamed);
	}
	return record < records - at->shift ? record + at->shift : record - (records - at->shift);
}

/* Returns the round of the n-th resident of the epoch. */
static uint64_t resident_round(const struct order *order, uint64_t n)
{
	uint64_t round = scale(n, order->streamed, order->residents) / order->spec.buffer;

	while (round + 1 < order->rounds && residents_before(order, round + 1) <= n)
		round++;
	return round;
}

static uint64_t mixed_position(const struct order_epoch *at, uint64_t record)
{
	const struct order *order = &at->order;
	uint64_t kept = order->chunks - order->streamed, block = order->spec.block;
	uint64_t round, n, place;

	record = record >= at->shift ? record - at->shift
				     : record + (order->spec.records - at->shift);
	place = record < order->chunks * block ? permute_invert(&at->chosen, 0, record / block)
					       : order->chunks;
	if (place < kept || place == order->chunks) {
		n = place < kept ? place * block + record % block
				 : kept * block + record - order->chunks * block;
		n = permute_invert(&at->whole, 0, n);
		if (!order->streamed)
			return n;
		round = resident_round(order, n);
		n = n - residents_before(order, round) +
		    (chunks_before(order, round + 1) - chunks_before(order, round)) * block;
	} else {
		place = permute_invert(&at->stream, 0, place - kept);
		round = place / order->spec.buffer;
		n = (place - chunks_before(order, round)) * block + record % block;
	}
	return round_start(order, round) +
	       permute_invert(round_permute(at, round), round_tweak(round), n);
}

/* Returns how many slots of a batch come before a share. */
static uint64_t slots_before(const struct order_spec *spec, uint64_t share)
{
	return scale(spec->batch, share, spec->shares);
}

/* Returns the part that a slot belongs to, when `slots` are cut into `parts` as slots_before()
 * does. */
static uint64_t part_of(uint64_t slot, uint64_t slots, uint64_t parts)
{
	return (uint64_t)(((unsigned __int128)(slot + 1) * parts - 1) / slots);
}

/* Whole batches take from every share. A record behind them stands at its own place. */
static uint64_t shared_record(const struct order_spec *spec, uint64_t position)
{
	uint64_t batches = spec->records / spec->batch, slot = position % spec->batch;
	uint64_t share, before;

	if (position >= batches * spec->batch || spec->shares == 1)
		return position;
	share = part_of(slot, spec->batch, spec->shares);
	before = slots_before(spec, share);
	return before * batches +
	       position / spec->batch * (slots_before(spec, share + 1) - before) + slot - before;
}

static uint64_t shared_position(const struct order_spec *spec, uint64_t record)
{
	uint64_t batches = spec->records / spec->batch, share, before, wide, n;

	if (record >= batches * spec->batch || spec->shares == 1)
		return record;
	share = part_of(record / batches, spec->batch, spec->shares);
	before = slots_before(spec, share);
	wide = slots_before(spec, share + 1) - before;
	n = record - before * batches;
	return n / wide * spec->batch + before + n % wide;
}

uint64_t order_record(const struct order_epoch *at, uint64_t position)
{
	const struct order_spec *spec = &at->order.spec;

	if (position >= spec->records) {
		if (spec->tail != ORDER_WRAP || !spec->records)
			return ORDER_NONE;
		position %= spec->records;
	}
	switch (spec->policy) {
	case ORDER_SEQUENTIAL:
		return shared_record(spec, position);
	case ORDER_SHUFFLE:
		return permute_apply(&at->whole, 0, position);
	default:
		return mixed_record(at, position);
	}
}

uint64_t order_position(const struct order_epoch *at, uint64_t record)
{
	const struct order_spec *spec = &at->order.spec;

	switch (spec->policy) {
	case ORDER_SEQUENTIAL:
		return shared_position(spec, record);
	case ORDER_SHUFFLE:
		return permute_invert(&at->whole, 0, record);
	default:
		return mixed_position(at, record);
	}
}

bool order_is_resident(const struct order_epoch *at, uint64_t record)
{
	const struct order *order = &at->order;
	uint64_t chunk;

	if (order->spec.policy != ORDER_OPPORTUNISTIC)
		return false;
	record = record >= at->shift ? record - at->shift
				     : record + (order->spec.records - at->shift);
	chunk = record / order->spec.block;
	return chunk >= order->chunks ||
	       permute_invert(&at->chosen, 0, chunk) < order->chunks - order->streamed;
}

static bool is_strided(const struct order *order)
{
	return order->spec.policy == ORDER_SEQUENTIAL && order->spec.shares == 1;
}

uint32_t order_share(const struct order *order, uint32_t ranks, uint32_t rank)
{
	uint64_t batch = order->spec.batch;

	if (is_strided(order))
		return (uint32_t)(batch / ranks + (rank < batch % ranks));
	return (uint32_t)(batch * (rank + UINT64_C(1)) / ranks - batch * rank / ranks);
}

uint64_t order_slot(const struct order *order, uint32_t ranks, uint32_t rank, uint64_t batch,
		    uint32_t i)
{
	uint64_t start = batch * order->spec.batch;

	if (is_strided(order))
		return start + rank + (uint64_t)i * ranks;
	return start + (uint64_t)order->spec.batch * rank / ranks + i;
}

uint32_t order_owner(const struct order *order, uint32_t ranks, uint64_t position)
{
	uint64_t slot = position % order->spec.batch;

	return (uint32_t)(is_strided(order) ? slot % ranks
					    : part_of(slot, order->spec.batch, ranks));
}

/* --- a place in an order, as a user keeps it -------------------------------------------------- */

/*   0 "LBO1"   4 policy   5 tail   6 epoch (6)   12 batch in the epoch (6)   18 zero (2)
 *  20 seed (8)  28 records (8)  36 resident (8)  44 batch size (4)  48 block (4)  52 buffer (4)
 *  56 shares (4)  60 check (4): the low half of the XXH3-64 of the 60 bytes before it
 *
 * Little-endian. */

enum {
	STATE_POLICY = 4,
	STATE_TAIL = 5,
	STATE_EPOCH = 6,
	STATE_BATCH = 12,
	STATE_SEED = 20,
	STATE_RECORDS = 28,
	STATE_RESIDENT = 36,
	STATE_SIZE = 44,
	STATE_BLOCK = 48,
	STATE_BUFFER = 52,
	STATE_SHARES = 56,
	STATE_CHECK = 60,
};

static const uint8_t magic[4] = {'L', 'B', 'O', '1'};

static void put(uint8_t *at, uint64_t value, size_t size)
{
	value = htole64(value);
	memcpy(at, &value, size);
}

static uint64_t get(const uint8_t *at, size_t size)
{
	uint64_t value = 0;

	memcpy(&value, at, size);
	return le64toh(value);
}

void order_save(const struct order *order, uint64_t epoch, uint64_t batch,
		uint8_t state[ORDER_STATE])
{
	const struct order_spec *spec = &order->spec;

	memset(state, 0, ORDER_STATE);
	memcpy(state, magic, sizeof(magic));
	state[STATE_POLICY] = (uint8_t)spec->policy;
	state[STATE_TAIL] = (uint8_t)spec->tail;
	put(state + STATE_EPOCH, epoch, 6);
	put(state + STATE_BATCH, batch, 6);
	put(state + STATE_SEED, spec->seed, 8);
	put(state + STATE_RECORDS, spec->records, 8);
	put(state + STATE_RESIDENT, spec->resident, 8);
	put(state + STATE_SIZE, spec->batch, 4);
	put(state + STATE_BLOCK, spec->block, 4);
	put(state + STATE_BUFFER, spec->buffer, 4);
	put(state + STATE_SHARES, spec->shares, 4);
	put(state + STATE_CHECK, hash_bytes(state, STATE_CHECK), 4);
}

int order_restore(struct order *order, uint64_t *epoch, uint64_t *batch,
		  const uint8_t state[ORDER_STATE])
{
	struct order_spec spec = {
		.seed = get(state + STATE_SEED, 8),
		.records = get(state + STATE_RECORDS, 8),
		.resident = get(state + STATE_RESIDENT, 8),
		.batch = (uint32_t)get(state + STATE_SIZE, 4),
		.block = (uint32_t)get(state + STATE_BLOCK, 4),
		.buffer = (uint32_t)get(state + STATE_BUFFER, 4),
		.shares = (uint32_t)get(state + STATE_SHARES, 4),
		.policy = state[STATE_POLICY],
		.tail = state[STATE_TAIL],
	};
	int rc;

	if (memcmp(state, magic, sizeof(magic)) ||
	    get(state + STATE_CHECK, 4) != (uint32_t)hash_bytes(state, STATE_CHECK))
		return EINVAL;
	rc = order_init(order, &spec);
	if (rc)
		return rc;
	*epoch = get(state + STATE_EPOCH, 6);
	*batch = get(state + STATE_BATCH, 6);
	return *batch <= order_batches(order) ? 0 : EINVAL;
}
