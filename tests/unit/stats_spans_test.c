/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that requests are counted by size, and waits over time, whatever the age of a process. */
#include "util/clock.h"
#include "util/stats.h"
#include "util/stats_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the headers above. */
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t second = 1000000000;

static void spans_are_as_short_as_hold_the_age(void **state)
{
	(void)state;
	assert_int_equal(stats_spans_scale(0), 0);
	assert_int_equal(stats_spans_scale(STATS_SPANS * second - 1), 0);
	assert_int_equal(stats_spans_scale(STATS_SPANS * second), 1);
	assert_int_equal(stats_spans_scale(4 * STATS_SPANS * second - 1), 1);
	assert_int_equal(stats_spans_scale(4 * STATS_SPANS * second), 2);
	assert_int_equal(stats_spans_scale(UINT64_MAX), STATS_SCALES - 1);
}

/* Of a process that opened its first environment at second 100. */
static struct stats_slot *slot_make(uint64_t opened)
{
	struct stats_slot *slot = NULL;

	assert_int_equal(posix_memalign((void **)&slot, STATS_PAGE, sizeof(*slot)), 0);
	memset(slot, 0, sizeof(*slot));
	slot->opened_ns = opened * second;
	return slot;
}

static struct stats_sum sum_at(const struct stats_slot *slot, uint64_t opened, uint64_t now)
{
	struct stats_sum sum = {.processes = 0};

	stats_spans_begin(&sum, opened * second, now * second);
	stats_spans_sum(slot, &sum);
	return sum;
}

static void waits_are_in_the_span_in_which_they_ended(void **state)
{
	struct stats_slot *slot = slot_make(100);
	struct stats_sum sum;

	(void)state;
	stats_spans_add(slot, 103 * second, 7);
	stats_spans_add(slot, 103 * second + 5, 8);
	sum = sum_at(slot, 100, 110);
	assert_int_equal(sum.scale, 0);
	assert_true(sum.spans[3] == 15 && !sum.spans[2] && !sum.spans[4]);
	stats_spans_add(slot, 300 * second, 9);
	sum = sum_at(slot, 100, 300);
	assert_int_equal(sum.scale, 1);
	assert_true(sum.spans[0] == 15 && sum.spans[50] == 9);
	/* A wait later than the coarsest scale's last span. */
	stats_spans_add(slot, UINT64_MAX, 10);
	sum = sum_at(slot, 100, UINT64_MAX / second);
	assert_true(sum.spans[0] == 24 && sum.spans[STATS_SPANS - 1] == 10);
	free(slot);
}

static void waits_of_processes_share_one_axis(void **state)
{
	struct stats_slot *first = slot_make(100), *second_slot = slot_make(120);
	struct stats_sum sum = {.processes = 0};

	(void)state;
	stats_spans_add(first, 121 * second, 3);
	stats_spans_add(second_slot, 121 * second, 4);
	stats_spans_begin(&sum, 100 * second, 130 * second);
	stats_spans_sum(first, &sum);
	stats_spans_sum(second_slot, &sum);
	assert_true(sum.spans[21] == 7);
	free(first);
	free(second_slot);
}

static void waits_of_a_process_without_an_environment_are_left_out(void **state)
{
	struct stats_slot *slot = slot_make(0);
	struct stats_sum sum;

	(void)state;
	stats_spans_add(slot, 5 * second, 3);
	sum = sum_at(slot, 100, 110);
	for (unsigned i = 0; i < STATS_SPANS; i++)
		assert_true(!sum.spans[i]);
	free(slot);
}

static void requests_are_counted_by_size(void **state)
{
	struct stats_report report;
	char text[STATS_REPORT];

	(void)state;
	stats_requests(1, 4096);
	stats_requests(2, 2 * 8191);
	stats_requests(3, 3 << 20);
	stats_requests(1, 0);
	stats_requests(1, UINT64_C(1) << 60);
	stats_report_self(&report);
	assert_true(report.sum.sizes[12] == 3 && report.sum.sizes[20] == 3);
	assert_true(report.sum.sizes[0] == 1 && report.sum.sizes[STATS_SIZES - 1] == 1);
	assert_true(report.sum.counters[STATS_STORAGE_REQUESTS] == 8);
	stats_format_json(&report, text, sizeof(text));
	assert_non_null(
		strstr(text, "\"request_sizes\": [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, "));
	assert_null(strstr(text, "wait_spans_ns"));
}

static void opened_process_tells_its_waits_over_time(void **state)
{
	struct stats_report report;
	char text[STATS_REPORT];
	uint64_t waited;

	(void)state;
	stats_opened();
	stats_waited(clock_now() - 5);
	stats_report_self(&report);
	assert_int_equal(report.sum.scale, 0);
	waited = report.sum.counters[STATS_WAIT_NS];
	/* Another second may have begun. */
	assert_true(waited >= 5 && report.sum.spans[0] + report.sum.spans[1] == waited);
	/* Counts from before the first open are kept. */
	assert_true(report.sum.sizes[20] == 3);
	stats_format_json(&report, text, sizeof(text));
	assert_non_null(strstr(text, "\"began\": "));
	assert_non_null(strstr(text, "\"wait_span_s\": 1, \"wait_spans_ns\": ["));
	stats_closed();
}

static void longest_report_fits(void **state)
{
	struct stats_report report = {.program = "program", .whole = true};
	char text[STATS_REPORT + 1];
	size_t length;

	(void)state;
	memset(&report.sum, 0xff, sizeof(report.sum));
	report.sum.scale = STATS_SCALES - 1;
	length = stats_format_json(&report, text, sizeof(text));
	assert_true(length < STATS_REPORT && !strcmp(text + length - 3, "]}\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spans_are_as_short_as_hold_the_age),
		cmocka_unit_test(waits_are_in_the_span_in_which_they_ended),
		cmocka_unit_test(waits_of_processes_share_one_axis),
		cmocka_unit_test(waits_of_a_process_without_an_environment_are_left_out),
		cmocka_unit_test(requests_are_counted_by_size),
		cmocka_unit_test(opened_process_tells_its_waits_over_time),
		cmocka_unit_test(longest_report_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
