/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what makes an order one that can be proved: every record once, evenly,
 * the same for any number of ranks, and the same after a resume. */
#include "loader/loader_order.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEEDS = 1000, SIZES = 4096 };

static struct order_epoch begin(const struct order_spec *spec, uint64_t epoch)
{
	struct order order;
	struct order_epoch at;

	assert_int_equal(order_init(&order, spec), 0);
	order_begin(&at, &order, epoch);
	return at;
}

static struct order_spec specs(enum order_policy policy, uint64_t records)
{
	return (struct order_spec){
		.seed = 42 + records,
		.records = records,
		.batch = 8,
		.block = 5,
		.buffer = 3,
		.resident = records / 2,
		.policy = policy,
	};
}

/* Each position's record leads back to it, so that no record can come twice. */
static void assert_bijection(const struct order_epoch *at)
{
	uint64_t records = at->order.spec.records;

	for (uint64_t position = 0; position < records; position++) {
		uint64_t record = order_record(at, position);

		if (record >= records || order_position(at, record) != position)
			fail_msg("%llu records: position %llu, record %llu, position %llu",
				 (unsigned long long)records, (unsigned long long)position,
				 (unsigned long long)record,
				 (unsigned long long)order_position(at, record));
	}
}

static void shuffle_when_any_size_up_to_4096_then_a_bijection(void **state)
{
	(void)state;
	for (uint64_t records = 1; records <= SIZES; records++) {
		struct order_spec spec = specs(ORDER_SHUFFLE, records);
		struct order_epoch at = begin(&spec, records % 3);

		assert_bijection(&at);
	}
}

static void other_policies_when_small_then_a_bijection(void **state)
{
	(void)state;
	for (unsigned policy = ORDER_SEQUENTIAL; policy <= ORDER_OPPORTUNISTIC; policy++)
		for (uint64_t records = 1; records <= 300; records++) {
			struct order_spec spec = specs(policy, records);
			struct order_epoch at;

			spec.block = 1 + (uint32_t)records % 17;
			spec.buffer = 1 + (uint32_t)records % 4;
			spec.resident = records * (records % 11) / 8;
			spec.shares = 1 + (uint32_t)records % spec.batch;
			at = begin(&spec, records % 5);
			assert_bijection(&at);
		}
}

/* Sizes that no loop can go through: positions at both ends, and all over. */
static void policies_when_large_then_the_inverse_agrees(void **state)
{
	(void)state;
	for (unsigned policy = ORDER_SEQUENTIAL; policy <= ORDER_OPPORTUNISTIC; policy++)
		for (unsigned i = 0; i < 60; i++) {
			uint64_t records =
				permute_draw(UINT64_C(1) << (20 + i % 21), i, policy, 99) + 1;
			struct order_spec spec = specs(policy, records);
			struct order_epoch at;

			spec.batch = 1000 + i;
			spec.shares = 1 + i * 7;
			spec.block = 1 + 37 * i * i;
			spec.buffer = 1 + i;
			spec.resident = records / (1 + i % 4);
			at = begin(&spec, i);
			for (unsigned j = 0; j < 300; j++) {
				uint64_t position = j < 50    ? j
						    : j < 100 ? records - 1 - (j - 50)
							      : permute_draw(records, j, i, policy);
				uint64_t record;

				if (position >= records)
					continue;
				record = order_record(&at, position);
				assert_true(record < records);
				assert_true(order_position(&at, record) == position);
			}
		}
}

static void shuffle_when_of_64_bits_then_the_inverse_agrees(void **state)
{
	struct permute permute;
	uint64_t sizes[] = {UINT64_MAX, UINT64_C(1) << 63, (UINT64_C(1) << 63) + 1, 1, 2, 3};

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		permute_init(&permute, sizes[i], 1, 2, 3);
		for (unsigned j = 0; j < 100; j++) {
			uint64_t number = permute_draw(sizes[i], j, 0, 0);
			uint64_t place = permute_apply(&permute, j, number);

			assert_true(place < sizes[i]);
			assert_true(permute_invert(&permute, j, place) == number);
		}
	}
}

/* The order must be the same for ever, on every machine: a saved state counts on it. */
static void shuffle_when_of_a_known_key_then_as_ever(void **state)
{
	static const uint64_t known[] = {/* epoch 3 of seed 2026 over a million records */
					 857704, 904024, 208327, 54756, 653705};
	struct order_spec spec = {
		.seed = 2026, .records = 1000000, .batch = 1, .policy = ORDER_SHUFFLE};
	struct order_epoch at = begin(&spec, 3);

	(void)state;
	for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		assert_int_equal(order_record(&at, i), known[i]);
}

/* A sum of squares of `cells` cells that should hold `each`: far from its mean is no chance. */
static void assert_even(const unsigned *counts, unsigned cells, double each)
{
	double sum = 0, free = cells - 1;

	for (unsigned i = 0; i < cells; i++)
		sum += (counts[i] - each) * (counts[i] - each) / each;
	if (fabs(sum - free) > 4.5 * sqrt(2 * free))
		fail_msg("chi-squared %.1f of %.0f degrees of freedom", sum, free);
}

/* Of 1,000 seeds: which record stands at each of some positions, and how pairs follow. */
static void positions_are_even(enum order_policy policy, unsigned records)
{
	static const unsigned watched = 8;
	unsigned *counts = calloc((size_t)watched * records, sizeof(*counts));
	unsigned rises = 0;

	assert_non_null(counts);
	for (unsigned seed = 0; seed < SEEDS; seed++) {
		struct order_spec spec = specs(policy, records);
		struct order_epoch at;

		spec.seed = seed;
		at = begin(&spec, seed % 2);
		for (unsigned i = 0; i < watched; i++)
			counts[i * records +
			       order_record(&at, i * (records - 1) / (watched - 1))]++;
		rises += order_record(&at, 0) < order_record(&at, records - 1);
	}
	for (unsigned i = 0; i < watched; i++)
		assert_even(counts + i * records, records, (double)SEEDS / records);
	assert_true(fabs(rises - SEEDS / 2.0) < 4.5 * sqrt(SEEDS) / 2);
	free(counts);
}

static void positions_when_over_1000_seeds_then_chi_squared_is_in_range(void **state)
{
	(void)state;
	for (unsigned records = 10; records <= 100; records += 18) {
		positions_are_even(ORDER_SHUFFLE, records);
		positions_are_even(ORDER_BLOCK, records);
		positions_are_even(ORDER_OPPORTUNISTIC, records);
	}
}

/* All orders of four records come equally often, not only all places of each. */
static void shuffle_when_of_four_then_every_permutation_comes(void **state)
{
	unsigned counts[256] = {0}, found[24], n = 0;

	(void)state;
	for (unsigned seed = 0; seed < 6000; seed++) {
		struct order_spec spec = {
			.seed = seed, .records = 4, .batch = 1, .policy = ORDER_SHUFFLE};
		struct order_epoch at = begin(&spec, 0);
		unsigned code = 0;

		for (unsigned i = 0; i < 4; i++)
			code = code * 4 + (unsigned)order_record(&at, i);
		counts[code]++;
	}
	for (unsigned i = 0; i < 256; i++)
		if (counts[i] && n < 24)
			found[n++] = counts[i];
	assert_int_equal(n, 24);
	assert_even(found, n, 6000.0 / 24);
}

static void epochs_when_of_one_seed_then_differ(void **state)
{
	(void)state;
	for (unsigned policy = ORDER_SHUFFLE; policy <= ORDER_OPPORTUNISTIC; policy++) {
		struct order_spec spec = specs(policy, 1000);
		struct order_epoch first = begin(&spec, 0), second = begin(&spec, 1);
		unsigned same = 0;

		for (unsigned i = 0; i < 1000; i++)
			same += order_record(&first, i) == order_record(&second, i);
		assert_true(same < 20);
	}
}

/* --- rounds ----------------------------------------------------------------------------------- */

static void block_when_a_round_is_read_then_it_holds_its_chunks_alone(void **state)
{
	struct order_spec spec = specs(ORDER_BLOCK, 10007);
	struct order_epoch at;

	(void)state;
	spec.block = 64;
	spec.buffer = 4;
	at = begin(&spec, 7);
	for (uint64_t round = 0; round < at.order.rounds; round++) {
		uint64_t seen[64], chunks = 0;

		for (uint64_t i = order_round_start(&at, round);
		     i < order_round_start(&at, round + 1); i++) {
			uint64_t chunk = (order_record(&at, i) + spec.records - at.shift) %
					 spec.records / 64;
			uint64_t j = 0;

			assert_int_equal(order_round(&at, i), round);
			while (j < chunks && seen[j] != chunk)
				j++;
			if (j == chunks)
				seen[chunks++] = chunk;
			assert_true(chunks < 64);
		}
		/* Its own, and the remainder, which is shorter than one. */
		assert_true(chunks <= spec.buffer + 1);
	}
}

static void opportunistic_when_of_several_epochs_then_the_residents_stay(void **state)
{
	struct order_spec spec = specs(ORDER_OPPORTUNISTIC, 10007);
	struct order_epoch first, second;
	uint64_t residents = 0, in_first_tenth = 0;

	(void)state;
	spec.block = 16;
	first = begin(&spec, 0);
	second = begin(&spec, 1);
	for (uint64_t i = 0; i < spec.records; i++) {
		bool resident = order_is_resident(&first, i);

		assert_true(resident == order_is_resident(&second, i));
		residents += resident;
		in_first_tenth += resident && order_position(&second, i) < spec.records / 10;
	}
	assert_true(residents > spec.resident - 16 && residents < spec.resident + 16);
	assert_int_equal(residents, first.order.residents);
	/* They are dealt evenly over the epoch. */
	assert_true(fabs((double)in_first_tenth - (double)residents / 10) < 30);
}

/* Each round has its positions, whatever is rounded: of few residents, of chunks of one record, of large sums. */
static void rounds_when_any_proportions_then_each_position_is_in_its_own(void **state)
{
	(void)state;
	for (uint64_t records = 1; records < 400; records += 37)
		for (uint32_t block = 1; block < 20; block += 3)
			for (uint32_t buffer = 1; buffer < 6; buffer++) {
				struct order_spec spec = specs(ORDER_OPPORTUNISTIC, records);
				struct order_epoch at;

				spec.block = block;
				spec.buffer = buffer;
				spec.resident = records / 3;
				at = begin(&spec, 1);
				for (uint64_t i = 0; i < records; i++) {
					uint64_t round = order_round(&at, i);

					assert_true(round < at.order.rounds);
					assert_true(order_round_start(&at, round) <= i);
					assert_true(i < order_round_start(&at, round + 1));
					assert_int_equal(order_position(&at, order_record(&at, i)), i);
				}
			}
}

static void no_record_is_resident_where_the_policy_keeps_none(void **state)
{
	(void)state;
	for (enum order_policy policy = ORDER_SEQUENTIAL; policy < ORDER_OPPORTUNISTIC; policy++) {
		struct order_spec spec = specs(policy, 100);
		struct order_epoch at = begin(&spec, 0);

		for (uint64_t i = 0; i < spec.records; i++)
			assert_false(order_is_resident(&at, i));
	}
}

static void opportunistic_when_all_is_in_memory_then_one_round(void **state)
{
	struct order_spec spec = specs(ORDER_OPPORTUNISTIC, 1003);
	struct order_epoch at;

	(void)state;
	spec.resident = 5000;
	at = begin(&spec, 0);
	assert_int_equal(at.order.rounds, 1);
	assert_int_equal(at.order.residents, 1003);
	assert_bijection(&at);
}

static void sequential_when_plain_then_as_they_stand(void **state)
{
	struct order_spec spec = specs(ORDER_SEQUENTIAL, 100);
	struct order_epoch at = begin(&spec, 3);

	(void)state;
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(order_record(&at, i), i);
	/* Every rank's n-th record. */
	for (uint64_t i = 0; i < 25; i++)
		assert_int_equal(
			order_record(&at, order_slot(&at.order, 4, 3, i / 2, (uint32_t)i % 2)),
			4 * i + 3);
}

static void sequential_when_in_shares_then_each_is_one_run(void **state)
{
	struct order_spec spec = specs(ORDER_SEQUENTIAL, 803);
	struct order_epoch at;

	(void)state;
	spec.shares = 4;
	at = begin(&spec, 0);
	for (uint32_t rank = 0; rank < 4; rank++) {
		uint64_t expected = rank * 200;

		for (uint64_t batch = 0; batch < 100; batch++)
			for (uint32_t i = 0; i < 2; i++)
				assert_int_equal(
					order_record(&at, order_slot(&at.order, 4, rank, batch, i)),
					expected++);
	}
	for (uint64_t i = 800; i < 803; i++)
		assert_int_equal(order_record(&at, i), i);
}

/* --- batches ---------------------------------------------------------------------------------- */

/* Every position of every batch is exactly one rank's, and ranks' shares differ by one at most. */
static void assert_dealt(const struct order *order, uint32_t ranks)
{
	uint32_t batch = order->spec.batch, sum = 0;
	uint8_t taken[64] = {0};

	for (uint32_t rank = 0; rank < ranks; rank++) {
		uint32_t share = order_share(order, ranks, rank);

		assert_true(share == batch / ranks ||
			    share == batch / ranks + (batch % ranks != 0));
		for (uint32_t i = 0; i < share; i++) {
			uint64_t position = order_slot(order, ranks, rank, 5, i);

			assert_true(position >= 5 * batch && position < 6 * batch);
			assert_int_equal(taken[position - 5 * batch]++, 0);
			assert_int_equal(order_owner(order, ranks, position), rank);
		}
		sum += share;
	}
	assert_int_equal(sum, batch);
}

static void batches_when_dealt_to_any_ranks_then_the_same_global_batches(void **state)
{
	static const uint32_t ranks[] = {1, 2, 3, 4, 7};

	(void)state;
	for (unsigned policy = ORDER_SEQUENTIAL; policy <= ORDER_OPPORTUNISTIC; policy++)
		for (uint32_t batch = 1; batch <= 33; batch += 4)
			for (unsigned i = 0; i < 5; i++) {
				struct order_spec spec = specs(policy, 1000);
				struct order order;

				spec.batch = batch;
				spec.shares = batch > 3 ? 1 + batch % 3 : 1;
				assert_int_equal(order_init(&order, &spec), 0);
				assert_dealt(&order, ranks[i]);
			}
}

static void batches_when_the_last_is_short_then_as_the_tail_says(void **state)
{
	struct order_spec spec = specs(ORDER_SHUFFLE, 20);
	struct order_epoch at;

	(void)state;
	spec.tail = ORDER_DROP;
	at = begin(&spec, 0);
	assert_int_equal(order_batches(&at.order), 2);
	spec.tail = ORDER_PAD;
	at = begin(&spec, 0);
	assert_int_equal(order_batches(&at.order), 3);
	assert_true(order_record(&at, 19) < 20);
	assert_true(order_record(&at, 20) == ORDER_NONE);
	spec.tail = ORDER_WRAP;
	at = begin(&spec, 0);
	assert_int_equal(order_batches(&at.order), 3);
	for (uint64_t i = 20; i < 24; i++)
		assert_int_equal(order_record(&at, i), order_record(&at, i - 20));
	spec.records = 3;
	at = begin(&spec, 0);
	assert_int_equal(order_record(&at, 7), order_record(&at, 1));
	spec.records = 0;
	at = begin(&spec, 0);
	assert_int_equal(order_batches(&at.order), 0);
}

/* --- resume ----------------------------------------------------------------------------------- */

/* One epoch's records from a batch on, put together from what each rank gets. */
static size_t epoch_from(const struct order *order, uint64_t epoch, uint64_t batch, uint32_t ranks,
			 uint64_t *records)
{
	struct order_epoch at;
	size_t n = 0;

	order_begin(&at, order, epoch);
	for (; batch < order_batches(order); batch++) {
		uint64_t start = batch * order->spec.batch;

		for (uint32_t rank = 0; rank < ranks; rank++)
			for (uint32_t i = 0; i < order_share(order, ranks, rank); i++) {
				uint64_t position = order_slot(order, ranks, rank, batch, i);

				records[n + (position - start)] = order_record(&at, position);
			}
		n += order->spec.batch;
	}
	return n;
}

static void resume_when_at_every_batch_on_other_ranks_then_the_same_sequence(void **state)
{
	static const uint32_t ranks[] = {1, 2, 3, 4, 7};
	uint64_t all[256], rest[256];

	(void)state;
	for (unsigned policy = ORDER_SEQUENTIAL; policy <= ORDER_OPPORTUNISTIC; policy++)
		for (unsigned tail = ORDER_PAD; tail <= ORDER_WRAP; tail++) {
			struct order_spec spec = specs(policy, 203);
			struct order order;
			size_t n;

			spec.tail = tail;
			assert_int_equal(order_init(&order, &spec), 0);
			n = epoch_from(&order, 11, 0, 1, all);
			for (uint64_t batch = 0; batch <= order_batches(&order); batch++)
				for (unsigned i = 0; i < 5; i++) {
					uint8_t saved[ORDER_STATE];
					uint64_t epoch = 0, next = 0;
					struct order other;
					size_t left;

					order_save(&order, 11, batch, saved);
					assert_int_equal(
						order_restore(&other, &epoch, &next, saved), 0);
					assert_int_equal(epoch, 11);
					assert_int_equal(next, batch);
					left = epoch_from(&other, epoch, next, ranks[i], rest);
					assert_int_equal(left, n - batch * spec.batch);
					assert_memory_equal(rest, all + batch * spec.batch,
							    left * sizeof(*rest));
				}
		}
}

static void restore_when_any_byte_is_damaged_then_refused(void **state)
{
	struct order_spec spec = specs(ORDER_BLOCK, 203);
	uint8_t saved[ORDER_STATE];
	uint64_t epoch, batch;
	struct order order, other;

	(void)state;
	assert_int_equal(order_init(&order, &spec), 0);
	order_save(&order, 11, 3, saved);
	for (unsigned i = 0; i < ORDER_STATE; i++) {
		saved[i] ^= 0x40;
		assert_int_equal(order_restore(&other, &epoch, &batch, saved), EINVAL);
		saved[i] ^= 0x40;
	}
	order_save(&order, 11, order_batches(&order) + 1, saved);
	assert_int_equal(order_restore(&other, &epoch, &batch, saved), EINVAL);
	order.spec.policy = ORDER_OPPORTUNISTIC + 1; /* of a later lmdbio, say: sealed well */
	order_save(&order, 11, 3, saved);
	assert_int_equal(order_restore(&other, &epoch, &batch, saved), EINVAL);
}

static void init_when_the_spec_makes_no_sense_then_refused(void **state)
{
	struct order_spec good = specs(ORDER_BLOCK, 100), spec;
	struct order order;

	(void)state;
	assert_int_equal(order_init(&order, &good), 0);
	spec = good, spec.batch = 0;
	assert_int_equal(order_init(&order, &spec), EINVAL);
	spec = good, spec.block = 0;
	assert_int_equal(order_init(&order, &spec), EINVAL);
	spec = good, spec.buffer = 0;
	assert_int_equal(order_init(&order, &spec), EINVAL);
	spec = good, spec.shares = 9;
	assert_int_equal(order_init(&order, &spec), EINVAL);
	spec = good, spec.policy = 4;
	assert_int_equal(order_init(&order, &spec), EINVAL);
	spec = good, spec.tail = 3;
	assert_int_equal(order_init(&order, &spec), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shuffle_when_any_size_up_to_4096_then_a_bijection),
		cmocka_unit_test(other_policies_when_small_then_a_bijection),
		cmocka_unit_test(policies_when_large_then_the_inverse_agrees),
		cmocka_unit_test(shuffle_when_of_64_bits_then_the_inverse_agrees),
		cmocka_unit_test(shuffle_when_of_a_known_key_then_as_ever),
		cmocka_unit_test(positions_when_over_1000_seeds_then_chi_squared_is_in_range),
		cmocka_unit_test(shuffle_when_of_four_then_every_permutation_comes),
		cmocka_unit_test(epochs_when_of_one_seed_then_differ),
		cmocka_unit_test(block_when_a_round_is_read_then_it_holds_its_chunks_alone),
		cmocka_unit_test(opportunistic_when_of_several_epochs_then_the_residents_stay),
		cmocka_unit_test(opportunistic_when_all_is_in_memory_then_one_round),
		cmocka_unit_test(rounds_when_any_proportions_then_each_position_is_in_its_own),
		cmocka_unit_test(no_record_is_resident_where_the_policy_keeps_none),
		cmocka_unit_test(sequential_when_plain_then_as_they_stand),
		cmocka_unit_test(sequential_when_in_shares_then_each_is_one_run),
		cmocka_unit_test(batches_when_dealt_to_any_ranks_then_the_same_global_batches),
		cmocka_unit_test(batches_when_the_last_is_short_then_as_the_tail_says),
		cmocka_unit_test(resume_when_at_every_batch_on_other_ranks_then_the_same_sequence),
		cmocka_unit_test(restore_when_any_byte_is_damaged_then_refused),
		cmocka_unit_test(init_when_the_spec_makes_no_sense_then_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
