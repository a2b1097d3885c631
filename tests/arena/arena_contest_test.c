/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which arena stays if two processes make one at the same time.
 *
 * The clock stands still while the second arena is made, so both can have the same stamp.
 */
#include "arena_children.h"
#include "arena_support.h"

#include "arena/arena_private.h"
#include "util/clock.h"
#include "util/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { CHUNKS = 4 };

static struct dataset dataset;
static struct arena *first;

/* --- the clock ---------------------------------------------------------------------------------- */

static struct {
	uint64_t at;    /* ns; 0: the clock runs */
	uint64_t
		step; /* ns that pass between two looks at the clock, once the second arena has its stamp */
	unsigned looks; /* the look at which the first arena becomes settled */
	unsigned asked; /* looks since the second arena got its stamp */
	bool is_stamped;
} stopped;

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

/* The maker of the second arena asks for the time again after it has found the first one, which
 * must then be worth waiting for. At look number `looks` the first arena becomes settled. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!stopped.at || clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, time);
	if (stopped.is_stamped) {
		stopped.at += stopped.step;
		if (++stopped.asked == stopped.looks)
			atomic_store(&first->head->settled, 1);
	}
	*time = clock_spec(stopped.at);
	return 0;
}

/* --- contests ----------------------------------------------------------------------------------- */

static void see_steps(const char *step)
{
	if (!strcmp(step, "stamped"))
		stopped.is_stamped = true;
	else if (!strcmp(step, "settled"))
		stopped.is_stamped = false;
}

struct contest {
	int64_t later; /* ns by which the first arena's stamp is later than the second one's */
	int nonce;     /* the value of each byte of the first arena's nonce */
	bool stays;    /* whether the first arena stays */
	uint64_t step; /* see `stopped` */
	unsigned asked, looks;
};

static void contest(const struct contest *contest)
{
	struct arena *second;

	first = child_open(&dataset, CHUNKS);
	stopped.step = contest->step;
	stopped.looks = contest->looks;
	stopped.at = clock_now();
	atomic_store(&first->head->stamp, stopped.at + (uint64_t)contest->later);
	atomic_store(&first->head->settled, 0);
	memset(first->head->nonce, contest->nonce, sizeof(first->head->nonce));
	step_taken = see_steps;
	second = child_open(&dataset, CHUNKS);
	step_taken = NULL;
	stopped.at = 0;
	stopped.is_stamped = false;
	assert_int_equal(arena_inode(first) == arena_inode(second), contest->stays);
	assert_int_equal(stopped.asked, contest->asked);
	assert_true(atomic_load(&second->head->settled));
	stopped.asked = 0;
	arena_close(second);
	arena_close(first);
}

static void stamps_when_they_differ_then_the_earlier_stays(void **state)
{
	(void)state;
	contest(&(struct contest){
		.later = -1, .nonce = 0xff, .stays = true, .asked = 1, .looks = 1});
	contest(&(struct contest){.later = 1, .nonce = 0, .stays = false});
}

static void stamps_when_they_are_equal_then_the_smaller_nonce_stays(void **state)
{
	(void)state;
	contest(&(struct contest){.later = 0, .nonce = 0, .stays = true, .asked = 1, .looks = 1});
	contest(&(struct contest){.later = 0, .nonce = 0xff, .stays = false});
}

static void a_maker_that_is_slow_is_waited_for_as_long_as_LMDBIO_PATIENCE_says(void **state)
{
	struct settings *settings = (struct settings *)(uintptr_t)settings_get();
	struct contest slow = {.later = -1, .step = 900000000, .asked = 2, .looks = 3};

	(void)state;
	contest(&slow);
	settings->patience = 20;
	slow.stays = true;
	slow.asked = 3;
	contest(&slow);
	settings->patience = 1;
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(stamps_when_they_differ_then_the_earlier_stays),
		cmocka_unit_test(stamps_when_they_are_equal_then_the_smaller_nonce_stays),
		cmocka_unit_test(
			a_maker_that_is_slow_is_waited_for_as_long_as_LMDBIO_PATIENCE_says),
	};
	int failed;

	dataset = dataset_make(CHUNKS);
	alarm(300); /* a hang counts as a failure */
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	dataset_close(&dataset);
	return failed;
}
