/* SPDX-License-Identifier: OLDAP-2.8 */
/* Encodes a place in an order in 64 bytes.
 *
 *   0 "LBO1"   4 policy   5 tail   6 epoch (6)   12 batch in the epoch (6)   18 zero (2)
 *  20 seed (8)  28 records (8)  36 resident (8)  44 batch size (4)  48 block (4)  52 buffer (4)
 *  56 shares (4)  60 check (4): the low half of the XXH3-64 of the 60 bytes before it
 *
 * Little-endian.
 */
#include "loader/loader_order.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
	STATE_POLICY = 4,
	STATE_TAIL = 5,
	STATE_EPOCH = 6,
	STATE_BATCH = 12,
	STATE_ZERO = 18,
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
	put(state + STATE_CHECK, XXH3_64bits(state, STATE_CHECK), 4);
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
	    get(state + STATE_CHECK, 4) != (uint32_t)XXH3_64bits(state, STATE_CHECK))
		return EINVAL;
	rc = order_init(order, &spec);
	if (rc)
		return rc;
	*epoch = get(state + STATE_EPOCH, 6);
	*batch = get(state + STATE_BATCH, 6);
	return *batch <= order_batches(order) ? 0 : EINVAL;
}
