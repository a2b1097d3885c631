/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks the rules for values that are placed between borders, for values of any size. */
#include "env/compact_private.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BORDER = 16, PAGE = 4096, MOST = 100, LEAVES = 400 };

struct fixture {
	struct places places;
	uint64_t next;
	uint8_t used[1 << 20]; /* pages that are in use */
};

static int fixture_make(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	*state = f;
	f->next = 2;
	return places_open(&f->places, BORDER, PAGE);
}

static int fixture_free(void **state)
{
	struct fixture *f = *state;

	places_close(&f->places);
	free(f);
	return 0;
}

static void use(struct fixture *f, uint64_t first, uint64_t pages)
{
	for (uint64_t i = first; i < first + pages; i++) {
		assert_true(i < sizeof(f->used));
		assert_int_equal(f->used[i], 0);
		f->used[i] = 1;
	}
}

/* Places one leaf with values of these sizes, and checks the rules. Returns the leaf's number. */
static uint64_t leaf(struct fixture *f, const uint32_t *sizes, unsigned n, bool leaf_may)
{
	struct places *places = &f->places;
	uint64_t number, last = f->next - 1;

	for (unsigned i = 0; i < n; i++)
		places->runs[i] = (struct compact_run){.pages = sizes[i]};
	places->n = n;
	assert_int_equal(places_leaf(places, &f->next, leaf_may, &number), 0);
	assert_true(!number || leaf_may);
	for (unsigned i = 0; i < n; i++) {
		const struct compact_run *run = &places->runs[places->order[i]];

		assert_true(run->placed);
		use(f, run->number, run->pages);
		if (run->pages <= BORDER)
			assert_true(run->number % BORDER + run->pages <= BORDER);
		assert_true(run->number > last);
		last = run->number;
	}
	if (!number)
		number = f->next++;
	else if (places->before_leaf < n)
		assert_true(number < places->runs[places->order[places->before_leaf]].number);
	use(f, number, 1);
	return number;
}

/* All unused pages are free, and each is listed once, the highest first. */
static void assert_free_pages(struct fixture *f)
{
	struct places_walk walk;
	uint64_t count = 0, before = f->next;

	for (uint64_t i = 2; i < f->next; i++)
		count += !f->used[i];
	assert_int_equal(f->places.free, count);
	places_walk_begin(&f->places, &walk);
	while (count--) {
		uint64_t page = places_walk_next(&f->places, &walk);

		assert_true(page < before && page >= 2);
		assert_int_equal(f->used[page], 0);
		before = page;
	}
}

static void values_of_any_size_when_placed_then_none_crosses(void **state)
{
	struct fixture *f = *state;
	uint32_t sizes[MOST];
	uint64_t seed = 1;

	for (unsigned i = 0; i < LEAVES; i++) {
		unsigned n = (unsigned)(i * 7 % MOST);

		for (unsigned k = 0; k < n; k++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			sizes[k] = 1 + (uint32_t)(seed >> 40) % (i % 3 ? BORDER : 2 * BORDER + 3);
		}
		leaf(f, sizes, n, i % 5);
	}
	assert_true(f->places.used && f->places.free > 0);
	assert_free_pages(f);
}

static void gap_when_a_later_value_fits_then_it_stands_there(void **state)
{
	const uint32_t sizes[] = {10, 9, 4, 3};
	struct fixture *f = *state;

	assert_int_equal(leaf(f, sizes, 4, true), 28);
	assert_int_equal(f->places.runs[0].number, 2);
	assert_int_equal(f->places.runs[2].number, 12); /* all free pages that were left */
	assert_int_equal(f->places.runs[1].number, 16);
	assert_int_equal(f->places.runs[3].number, 25);
	assert_int_equal(f->places.free, 0);
	assert_true(f->places.used);
}

static void gap_when_the_leaf_may_stand_there_then_it_does(void **state)
{
	const uint32_t sizes[] = {10, 9};
	struct fixture *f = *state;

	assert_int_equal(leaf(f, sizes, 2, true), 12);
	assert_int_equal(f->places.free, 3);
	assert_free_pages(f);
}

static void gap_when_what_fits_is_far_behind_then_it_stays_free(void **state)
{
	const uint32_t sizes[] = {10, 9, 9, 4};
	struct fixture *f = *state;

	leaf(f, sizes, 4, false);
	assert_int_equal(f->places.runs[3].number,
			 25); /* in the next gap, not in that of 12 to 15 */
	assert_int_equal(f->places.free, 4 + 3);
	assert_free_pages(f);
}

static void values_when_nothing_crosses_then_they_follow_each_other(void **state)
{
	const uint32_t sizes[] = {14, 16, 16, 40};
	struct fixture *f = *state;

	assert_int_equal(leaf(f, sizes, 4, true), 88);
	assert_false(f->places.used);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_make, fixture_free)
	const struct CMUnitTest tests[] = {
		TEST(values_of_any_size_when_placed_then_none_crosses),
		TEST(gap_when_a_later_value_fits_then_it_stands_there),
		TEST(gap_when_the_leaf_may_stand_there_then_it_does),
		TEST(gap_when_what_fits_is_far_behind_then_it_stays_free),
		TEST(values_when_nothing_crosses_then_they_follow_each_other),
	};
#undef TEST

	return cmocka_run_group_tests(tests, NULL, NULL);
}
