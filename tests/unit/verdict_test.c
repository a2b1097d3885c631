/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what the verdict reports of the time that a program waited. */
#include "util/clock.h"
#include "util/phrases.h"
#include "util/stats.h"

#include "child_said.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the headers above. */
#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void assert_verdict(uint64_t waited_ms, uint64_t of_ms, const char *wanted)
{
	char line[VERDICT_LINE];

	assert_int_equal(verdict_format(line, sizeof(line), waited_ms * 1000000, of_ms * 1000000),
			 strlen(wanted));
	assert_string_equal(line, wanted);
}

static void verdict_is_of_the_time_that_could_be_waited(void **state)
{
	(void)state;
	assert_verdict(3210, 8000, "I/O is your bottleneck: waited 3.210 of 8.000 s (40 %)");
	assert_verdict(0, 12345, "I/O is not your bottleneck: waited 0.000 of 12.345 s (0 %)");
	assert_verdict(0, 0, "I/O is not your bottleneck: waited 0.000 of 0.000 s (0 %)");
	assert_verdict(94, 1000, "I/O is not your bottleneck: waited 0.094 of 1.000 s (9 %)");
	assert_verdict(95, 1000, "I/O is your bottleneck: waited 0.095 of 1.000 s (10 %)");
	/* Threads that have ended waited for longer than the time that is accounted for. */
	assert_verdict(3000, 1000, "I/O is your bottleneck: waited 3.000 of 3.000 s (100 %)");
}

static void *wait_for_ever(void *barrier)
{
	pthread_barrier_wait(barrier);
	stats_waited(clock_now() - UINT64_C(1000000000));
	pthread_barrier_wait(barrier);
	return NULL;
}

static void *serve(void *unused)
{
	stats_thread_serves();
	stats_waited(clock_now() - UINT64_C(1000000000));
	return unused;
}

/* Four threads of the program, which each wait for a second at the same time, and one of lmdbio's
 * threads. */
static void wait_at_once(void)
{
	enum { WAITERS = 4 };
	pthread_t threads[WAITERS + 1];
	pthread_barrier_t barrier;
	struct stats_report report;

	stats_opened();
	pthread_barrier_init(&barrier, NULL, WAITERS);
	for (int i = 0; i < WAITERS; i++)
		pthread_create(&threads[i], NULL, wait_for_ever, &barrier);
	pthread_create(&threads[WAITERS], NULL, serve, NULL);
	for (int i = 0; i <= WAITERS; i++)
		pthread_join(threads[i], NULL);
	stats_own.opened_ns -= UINT64_C(100000000000);
	stats_report_self(&report);
	if (stats_get(STATS_WAITS) != WAITERS || stats_own.waiters ||
	    report.sum.of_ns / WAITERS < UINT64_C(100000000000) ||
	    report.sum.of_ns / WAITERS > UINT64_C(200000000000))
		_exit(1);
}

static void threads_that_wait_at_once_have_the_time_of_each(void **state)
{
	char said[STATS_REPORT];

	(void)state;
	setenv("LMDBIO_STATS", "1", 1);
	child_run(wait_at_once, said, sizeof(said));
	unsetenv("LMDBIO_STATS");
	assert_ptr_equal(strstr(said, "lmdbio: I/O is not your bottleneck: waited 4."), said);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdict_is_of_the_time_that_could_be_waited),
		cmocka_unit_test(threads_that_wait_at_once_have_the_time_of_each),
	};

	return cmocka_run_group_tests(tests, child_environment_clear, NULL);
}
