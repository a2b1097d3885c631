/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks whether the shares of all ranks together cover the file, each byte once. */
#include "mpi/rank_shares.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { PAGE = 4096, MEGABYTE = 1 << 20 };

static const uint64_t sizes[] = {
	1,        PAGE - 1,       PAGE,          PAGE + 1,           12 * PAGE + 7,
	MEGABYTE, 9 * MEGABYTE + 1, 31 * MEGABYTE, UINT64_C(5) << 30, (UINT64_C(1) << 40) + 5};
static const uint64_t buffers[] = {64 << 10, 16 << 20, 1 << 30};
static const int ranks[] = {1, 2, 3, 4, 7, 64, 9216};

/* One combination of file size, number of ranks and buffer. */
struct setting {
	uint64_t size, buffer;
	int ranks;
};

static void for_all(void (*check)(const struct stage_shares *shares, const struct setting *setting))
{
	struct stage_shares shares;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		for (size_t j = 0; j < sizeof(buffers) / sizeof(*buffers); j++)
			for (size_t k = 0; k < sizeof(ranks) / sizeof(*ranks); k++) {
				struct setting setting = {sizes[i], buffers[j], ranks[k]};

				/* With small pieces a terabyte takes too many steps to check
				 * each. */
				if (sizes[i] / buffers[j] / (uint64_t)ranks[k] > 100000)
					continue;
				stage_shares_cut(&shares, sizes[i], ranks[k], buffers[j], 1);
				check(&shares, &setting);
			}
}

static void check_cover(const struct stage_shares *shares, const struct setting *setting)
{
	uint64_t next = 0;

	for (int rank = 0; rank < setting->ranks; rank++)
		for (uint64_t step = 0; step < shares->steps; step++) {
			struct stage_part part = stage_shares_part(shares, rank, step);

			if (!part.length)
				break;
			assert_int_equal(part.offset, next);
			assert_int_equal(part.offset % PAGE, 0);
			assert_true(part.length <= setting->buffer);
			next += part.length;
		}
	assert_int_equal(next, setting->size);
}

static void shares_of_all_ranks_are_the_file(void **state)
{
	(void)state;
	for_all(check_cover);
}

/* ROMIO spans the range from the least offset to the greatest, so empty parts need an offset inside
 * the file. */
static void check_empty(const struct stage_shares *shares, const struct setting *setting)
{
	for (int rank = 0; rank < setting->ranks; rank++) {
		struct stage_part part = stage_shares_part(shares, rank, shares->steps - 1);

		assert_true(part.offset < setting->size);
		part = stage_shares_part(shares, rank, shares->steps);
		assert_int_equal(part.length, 0);
		assert_true(part.offset < setting->size);
	}
}

static void part_that_is_empty_stays_inside_of_the_file(void **state)
{
	(void)state;
	for_all(check_empty);
}

static void check_done(const struct stage_shares *shares, const struct setting *setting)
{
	assert_int_equal(stage_shares_done(shares, setting->ranks, 0), 0);
	assert_int_equal(stage_shares_done(shares, setting->ranks, shares->steps), setting->size);
	assert_true(stage_shares_done(shares, setting->ranks, 1) <= setting->size);
}

static void all_steps_done_is_the_file(void **state)
{
	(void)state;
	for_all(check_done);
}

static void large_shares_begin_on_a_megabyte(void **state)
{
	struct stage_shares shares;

	(void)state;
	stage_shares_cut(&shares, UINT64_C(100) * MEGABYTE + 12345, 3, 16 << 20, 1);
	assert_int_equal(stage_shares_part(&shares, 1, 0).offset % MEGABYTE, 0);
	assert_int_equal(stage_shares_part(&shares, 2, 0).offset % MEGABYTE, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_of_all_ranks_are_the_file),
		cmocka_unit_test(part_that_is_empty_stays_inside_of_the_file),
		cmocka_unit_test(all_steps_done_is_the_file),
		cmocka_unit_test(large_shares_begin_on_a_megabyte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
