/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how lmdbio's own threads start and end, what waits with a bound return, and the order of
 * steps at a fork. */
#include "util/at_fork.h"
#include "util/clock.h"
#include "util/thread.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* --- a loop ----------------------------------------------------------------------------------- */

static void count_call(void *argument, unsigned i)
{
	atomic_fetch_add((_Atomic unsigned *)argument + i, 1);
}

static void share_when_many_calls_then_each_once(void **state)
{
	enum { CALLS = 300 };
	_Atomic unsigned calls[CALLS + 1] = {0};

	(void)state;
	for (unsigned n = 0; n <= CALLS; n += CALLS / 3) {
		memset((void *)calls, 0, sizeof(calls));
		thread_share(n, "test", count_call, (void *)calls);
		for (unsigned i = 0; i < CALLS; i++)
			assert_int_equal(calls[i], i < n);
		assert_int_equal(calls[CALLS], 0);
	}
}

/* --- a crew ----------------------------------------------------------------------------------- */

struct shop {
	struct crew crew;
	pthread_mutex_t lock;
	pthread_cond_t done;
	unsigned orders, served;
	uint64_t again; /* what a step without an order returns */
	char name[16];
	bool masked;
};

static uint64_t serve(void *owner)
{
	struct shop *shop = owner;
	sigset_t blocked;

	if (!shop->orders) {
		shop->served++;
		pthread_cond_signal(&shop->done);
		return shop->again;
	}
	shop->orders--;
	pthread_mutex_unlock(&shop->lock);
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	pthread_mutex_lock(&shop->lock);
	shop->masked = sigismember(&blocked, SIGUSR1) == 1 && sigismember(&blocked, SIGTERM) == 1;
	prctl(PR_GET_NAME, shop->name);
	return 0;
}

static const struct crew_work serving = {.name = "test-crew", .step = serve, .stack = 1 << 18};

static void shop_open(struct shop *shop)
{
	*shop = (struct shop){.lock = PTHREAD_MUTEX_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};
	crew_init(&shop->crew, &serving, shop, &shop->lock);
}

/* Returns when the crew has found no order `times` times. */
static void shop_wait(struct shop *shop, unsigned times)
{
	pthread_mutex_lock(&shop->lock);
	while (shop->served < times)
		pthread_cond_wait(&shop->done, &shop->lock);
	pthread_mutex_unlock(&shop->lock);
}

static void crew_when_woken_then_works_under_its_name_without_signals(void **state)
{
	struct shop shop;

	(void)state;
	shop_open(&shop);
	shop.again = CLOCK_NEVER;
	assert_int_equal(crew_start(&shop.crew, 1), 0);
	assert_int_equal(crew_start(&shop.crew, 1), 0);
	assert_int_equal(shop.crew.count, 1);
	shop_wait(&shop, 1);
	pthread_mutex_lock(&shop.lock);
	shop.orders = 3;
	crew_wake(&shop.crew);
	pthread_mutex_unlock(&shop.lock);
	shop_wait(&shop, 2);
	crew_stop(&shop.crew);
	assert_int_equal(shop.orders, 0);
	assert_int_equal(shop.served, 2);
	assert_string_equal(shop.name, "test-crew");
	assert_true(shop.masked);
}

static void crew_when_a_time_has_come_then_looks_again(void **state)
{
	struct shop shop;

	(void)state;
	shop_open(&shop);
	shop.again = 1; /* long ago */
	assert_int_equal(crew_start(&shop.crew, 2), 0);
	shop_wait(&shop, 5);
	crew_stop(&shop.crew);
	assert_true(shop.served >= 5);
}

static void crew_when_never_started_then_stops_and_may_be_woken(void **state)
{
	struct shop shop;

	(void)state;
	shop_open(&shop);
	shop.orders = 1;
	crew_stop(&shop.crew);
	crew_stop(&shop.crew);
	crew_wake_all(&shop.crew);
	assert_int_equal(shop.orders, 1);
}

/* --- waits ------------------------------------------------------------------------------------ */

static void wait_when_its_time_is_past_then_false(void **state)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct pollfd none = {.fd = -1};
	_Atomic uint32_t word = 1;
	pthread_cond_t condition;

	(void)state;
	clock_condition(&condition);
	pthread_mutex_lock(&lock);
	assert_false(clock_wait(&condition, &lock, clock_now()));
	pthread_mutex_unlock(&lock);
	pthread_cond_destroy(&condition);
	assert_int_equal(clock_poll(&none, 1, 0), 0);
	assert_false(clock_futex_wait(&word, 1, 1));
	assert_false(clock_futex_wait(&word, 2, CLOCK_SECOND)); /* it is another value */
}

/* --- a fork ----------------------------------------------------------------------------------- */

static char steps_run[8];

static void step(char name)
{
	size_t n = strlen(steps_run);

	if (n + 1 < sizeof(steps_run))
		steps_run[n] = name;
}

static void upper_prepare(void)
{
	step('u');
}

static void upper_after(void)
{
	step('U');
}

static void lower_prepare(void)
{
	step('l');
}

static void lower_after(void)
{
	step('L');
}

static void fork_when_steps_are_registered_then_down_before_and_up_after(void **state)
{
	static const struct fork_steps upper = {upper_prepare, upper_after, upper_after};
	static const struct fork_steps lower = {lower_prepare, lower_after, lower_after};
	unsigned before = fork_generation;
	int status;
	pid_t pid;

	(void)state;
	/* Registered out of their order, in places that nothing else in this test uses. */
	at_fork(FORK_KEEPER, &lower);
	at_fork(FORK_ENV, &upper);
	pid = fork();
	if (!pid)
		_exit(strcmp(steps_run, "ulLU") || fork_generation != before + 1);
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_string_equal(steps_run, "ulLU");
	assert_int_equal(fork_generation, before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(share_when_many_calls_then_each_once),
		cmocka_unit_test(crew_when_woken_then_works_under_its_name_without_signals),
		cmocka_unit_test(crew_when_a_time_has_come_then_looks_again),
		cmocka_unit_test(crew_when_never_started_then_stops_and_may_be_woken),
		cmocka_unit_test(wait_when_its_time_is_past_then_false),
		cmocka_unit_test(fork_when_steps_are_registered_then_down_before_and_up_after),
	};

	return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
