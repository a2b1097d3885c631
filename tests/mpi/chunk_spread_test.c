/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks whether all nodes together have the data, each byte once, and evenly.
 */
#include "mpi/chunk_spread.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CHUNK = 1 << 20, FEW = 1 << 12 };

static const uint64_t sizes[] = {1, 4096, CHUNK, CHUNK + 1, 31 * CHUNK + 5, 256 * CHUNK};
static const uint64_t pieces[] = {1, 65536, 4 * CHUNK};
static const int nodes[] = {1, 2, 3, 4, 7, 64};

static void for_all(void (*check)(const struct chunk_spread *spread))
{
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (size_t j = 0; j < sizeof(pieces) / sizeof(*pieces); j++)
			for (size_t k = 0; k < sizeof(nodes) / sizeof(*nodes); k++)
				check(&(struct chunk_spread){
					.place = chunk_spread_place(i, (int64_t)j),
					.size = sizes[i],
					.unit = chunk_spread_unit(pieces[j]),
					.nodes = nodes[k],
				});
}

static void check_cover(const struct chunk_spread *spread)
{
	uint64_t chunks = (spread->size + CHUNK - 1) / CHUNK, sum = 0;
	unsigned char *seen = calloc(chunks, 1);

	assert_non_null(seen);
	for (int node = 0; node < spread->nodes; node++) {
		uint64_t bytes = chunk_spread_bytes(spread, node), before = 0;

		for (uint64_t at = 0; at < bytes; at += CHUNK) {
			uint64_t offset = chunk_spread_offset(spread, node, at);

			assert_true(offset < spread->size);
			assert_true(!at || offset > before);
			assert_int_equal(chunk_spread_owner(spread, offset), node);
			assert_int_equal(seen[offset / CHUNK]++, 0);
			before = offset;
		}
		sum += bytes;
	}
	for (uint64_t chunk = 0; chunk < chunks; chunk++)
		assert_int_equal(seen[chunk], 1);
	assert_int_equal(sum, spread->size);
	free(seen);
}

static void nodes_together_have_each_byte_once(void **state)
{
	(void)state;
	for_all(check_cover);
}

static void check_turns(const struct chunk_spread *spread)
{
	unsigned stand_ins[64] = {0}, least = ~0u, most = 0;

	for (uint64_t offset = 0; offset < spread->size; offset += spread->unit) {
		struct chunk_order order = chunk_spread_order(spread, offset);
		uint64_t seen = 0;

		for (unsigned turn = 0; turn < (unsigned)spread->nodes; turn++)
			seen |= UINT64_C(1) << chunk_spread_turn(spread, order, turn);
		assert_int_equal(__builtin_popcountll(seen), spread->nodes);
		assert_int_equal(chunk_spread_turn(spread, order, 0), chunk_spread_owner(spread, offset));
		if (spread->nodes > 1 && chunk_spread_owner(spread, offset) == 0)
			stand_ins[chunk_spread_turn(spread, order, 1)]++;
	}
	for (int node = 1; node < spread->nodes; node++) {
		least = stand_ins[node] < least ? stand_ins[node] : least;
		most = stand_ins[node] > most ? stand_ins[node] : most;
	}
	assert_true(spread->nodes == 1 || most - least <= 2);
}

static void all_nodes_stand_in_for_an_owner_and_share_its_bytes(void **state)
{
	(void)state;
	for_all(check_turns);
}

static void check_balance(const struct chunk_spread *spread)
{
	uint64_t least = UINT64_MAX, most = 0;

	for (int node = 0; node < spread->nodes; node++) {
		uint64_t bytes = chunk_spread_bytes(spread, node);

		least = bytes < least ? bytes : least;
		most = bytes > most ? bytes : most;
	}
	assert_true(most - least <= spread->unit);
}

static void no_node_has_a_unit_more_than_another(void **state)
{
	(void)state;
	for_all(check_balance);
}

/* Each node owns chunks at every place within the runs: the order differs from run to run. */
static void node_has_no_place_of_its_own_in_a_run(void **state)
{
	struct chunk_spread spread = {.place = chunk_spread_place(7, 9),
				      .size = (uint64_t)FEW * 4 * CHUNK,
				      .unit = CHUNK,
				      .nodes = 4};
	unsigned times[4] = {0};

	(void)state;
	for (uint64_t run = 0; run < FEW; run++)
		times[chunk_spread_owner(&spread, run * 4 * CHUNK)]++;
	for (int node = 0; node < 4; node++)
		assert_in_range(times[node], FEW / 4 - FEW / 16, FEW / 4 + FEW / 16);
}

static void another_file_is_spread_in_another_order(void **state)
{
	(void)state;
	assert_true(chunk_spread_place(1, 5) != chunk_spread_place(2, 5));
	assert_true(chunk_spread_place(1, 5) != chunk_spread_place(1, 6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nodes_together_have_each_byte_once),
		cmocka_unit_test(all_nodes_stand_in_for_an_owner_and_share_its_bytes),
		cmocka_unit_test(no_node_has_a_unit_more_than_another),
		cmocka_unit_test(node_has_no_place_of_its_own_in_a_run),
		cmocka_unit_test(another_file_is_spread_in_another_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
