/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks the model of LMDBIO's papers: published points, what must grow with what, and bytes. */
#include "sim_requests.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct papers_plot *plot_of(const char *name)
{
	size_t n;
	const struct papers_plot *plots = papers_plots(&n);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(plots[i].name, name))
			return &plots[i];
	fail_msg("there is no plot %s", name);
	return NULL;
}

static struct papers_time time_of(const struct papers_plot *plot, enum papers_way way,
				  uint32_t processes)
{
	struct papers_time time;

	assert_int_equal(papers_model(plot, way, processes, &time), 0);
	assert_true(time.seconds > 0 && time.computing > 0 && time.reading > 0);
	assert_true(fabs(time.computing + time.reading - time.seconds) < 1e-6 * time.seconds);
	return time;
}

static double seconds_of(const struct papers_plot *plot, enum papers_way way, uint32_t processes)
{
	return time_of(plot, way, processes).seconds;
}

/* --- the published points ------------------------------------------------------------------------
 */

/* Off in its seconds, or in how many times faster than LMDB it is where the paper draws that. */
static bool is_off(const struct papers_plot *plot, enum papers_way way, unsigned i, double found,
		   double base)
{
	double said = plot->published[way][i];
	double factor = plot->published[PAPERS_LMDB][i] / said;

	return fabs(found / said - 1) > PAPERS_BOUND ||
	       (plot->draws_factors && fabs(base / found / factor - 1) > PAPERS_BOUND);
}

static void point_is_near_or_listed(const struct papers_plot *plot, enum papers_way way, unsigned i,
				    double base)
{
	const char *reason = papers_miss_of(plot, way, plot->processes[i]);
	double found = way ? seconds_of(plot, way, plot->processes[i]) : base;

	if (is_off(plot, way, i, found, base) != (reason != NULL))
		fail_msg("%s, %s, %u processes: %s", plot->name, papers_way_name(way),
			 plot->processes[i],
			 reason ? "on the list, and near" : "off, and not listed");
}

static void points_are_near_or_listed(void **state)
{
	size_t n;
	const struct papers_plot *plots = papers_plots(&n);

	(void)state;
	for (size_t p = 0; p < n; p++)
		for (unsigned i = 0; i < plots[p].n; i++) {
			double base = seconds_of(&plots[p], PAPERS_LMDB, plots[p].processes[i]);

			for (unsigned way = 0; way < PAPERS_WAYS; way++)
				if (plots[p].published[way][i] > 0)
					point_is_near_or_listed(&plots[p], way, i, base);
		}
}

static void ours_keeps_the_papers_factors(void **state)
{
	const struct papers_plot *plot = plot_of("bebop");
	double original = INFINITY, ours = INFINITY;

	(void)state;
	for (unsigned i = 0; i < plot->n; i++) {
		original = fmin(original, plot->published[PAPERS_LMDB][i]);
		ours = fmin(ours, seconds_of(plot, PAPERS_OURS, plot->processes[i]));
	}
	assert_true(seconds_of(plot, PAPERS_LMDB, 9216) / seconds_of(plot, PAPERS_OURS, 9216) >=
		    65);
	assert_true(seconds_of(plot, PAPERS_LMDB, 30000) / seconds_of(plot, PAPERS_OURS, 30000) >=
		    65);
	assert_true(original / ours >= 14.8);
}

/* --- what must grow with what ----------------------------------------------------------------- */

static struct papers_plot changed(const struct papers_plot *plot, struct papers_cluster *cluster)
{
	struct papers_plot copy = *plot;

	copy.cluster = cluster;
	return copy;
}

static void slower_devices_take_longer(void **state)
{
	const struct papers_plot *plot = plot_of("bebop");
	struct papers_cluster cluster = *plot->cluster;
	struct papers_plot copy = changed(plot, &cluster);

	(void)state;
	cluster.storage /= 2;
	for (unsigned way = PAPERS_LMDB; way <= PAPERS_DM; way++)
		assert_true(seconds_of(&copy, way, 9216) > seconds_of(plot, way, 9216));
	cluster = *plot->cluster;
	cluster.wakeup *= 2;
	assert_true(seconds_of(&copy, PAPERS_LMDB, 36) > 1.5 * seconds_of(plot, PAPERS_LMDB, 36));
	assert_true(fabs(seconds_of(&copy, PAPERS_LMM, 36) - seconds_of(plot, PAPERS_LMM, 36)) <
		    1e-9);
	cluster = *plot->cluster;
	cluster.seek *= 2;
	for (unsigned way = PAPERS_DIO; way <= PAPERS_COAL; way++)
		assert_true(seconds_of(&copy, way, 9216) > seconds_of(plot, way, 9216));
	cluster = *plot->cluster;
	cluster.server /= 10;
	cluster.turn *= 2;
	assert_true(seconds_of(&copy, PAPERS_OURS, 9216) > seconds_of(plot, PAPERS_OURS, 9216));
	assert_true(seconds_of(&copy, PAPERS_DM, 9216) > seconds_of(plot, PAPERS_DM, 9216));
}

static void more_work_done_first_takes_longer(void **state)
{
	const struct papers_plot *plot = plot_of("bebop");

	(void)state;
	for (unsigned i = 0; i < plot->n; i++) {
		uint32_t processes = plot->processes[i];

		assert_true(seconds_of(plot, PAPERS_DIO, processes) >
			    seconds_of(plot, PAPERS_PROV, processes));
		assert_true(seconds_of(plot, PAPERS_STAG, processes) <=
			    seconds_of(plot, PAPERS_COAL, processes));
		assert_true(seconds_of(plot, PAPERS_OURS, processes) <
			    seconds_of(plot, PAPERS_LMDB, processes));
	}
	for (uint32_t processes = 9216; processes < 20000; processes *= 2)
		assert_true(seconds_of(plot, PAPERS_LMDB, 2 * processes) >
			    seconds_of(plot, PAPERS_LMDB, processes));
}

static void jobs_that_cannot_be_are_refused(void **state)
{
	const struct papers_plot *plot = plot_of("bebop");
	struct papers_time time;

	(void)state;
	assert_int_equal(papers_model(plot, PAPERS_LMDB, 0, &time), EINVAL);
	assert_int_equal(papers_model(plot, PAPERS_ALL, 1, &time), EINVAL);
	assert_int_equal(papers_model(plot, PAPERS_LMDB, UINT32_MAX, &time), EINVAL);
}

/* --- bytes ------------------------------------------------------------------------------------ */

static void storage_sends_what_each_way_needs(void **state)
{
	const struct papers_plot *plot = plot_of("bebop");
	double job = (double)plot->records * PAGES_SIZE;

	(void)state;
	for (unsigned i = 0; i < plot->n; i++) {
		uint32_t processes = plot->processes[i];
		double nodes = ceil(processes / 36.0);

		for (unsigned way = PAPERS_PROV; way <= PAPERS_OURS; way++) {
			double bytes = time_of(plot, way, processes).bytes;

			assert_true(bytes >= job && bytes < 1.01 * job);
		}
		for (unsigned way = PAPERS_LMDB; way <= PAPERS_DM; way++) {
			double bytes = time_of(plot, way, processes).bytes;

			assert_true(bytes >= job && bytes < 1.02 * nodes * job);
		}
	}
}

static struct pages_kernel linux_of(uint32_t window)
{
	return (struct pages_kernel){
		.window = window, .around = 16, .fault = 1e-6, .latency = 5e-4, .rate = 1e9};
}

/* The readers of one node, which read values of one page. */
static struct stride stride_of(uint64_t batch, uint64_t run, uint32_t batches, uint32_t readers)
{
	return (struct stride){.batch = batch,
			       .run = run,
			       .batches = batches,
			       .value_pages = 1,
			       .leaf_records = 153,
			       .readers = readers,
			       .here = readers};
}

static void nodes_use_each_record_once_between_them(void **state)
{
	struct pages_kernel kernel = linux_of(32);
	uint64_t records = 0, pages;

	(void)state;
	for (uint32_t node = 0; node < 3; node++) {
		struct stride stride = {.batch = 601,
					.run = 7,
					.batches = 5,
					.value_pages = 2,
					.leaf_records = 50,
					.readers = 12,
					.here = 4,
					.first = 4 * node};
		struct stride_result result;

		assert_int_equal(stride_run(&stride, &kernel, &result), 0);
		pages = stride_pages(&stride, 5 * 601);
		assert_true(result.bytes <= (double)pages * PAGES_SIZE);
		assert_true(result.waits <= result.faults);
		records += result.records;
	}
	assert_int_equal(records, 5 * 601);
}

/* 32 pages a request, as the kernel reads ahead of one reader in order. */
static void one_reader_takes_whole_windows(void **state)
{
	struct pages_kernel kernel = linux_of(32);
	struct stride stride = stride_of(10000, 10000, 1, 1);
	struct stride_result result;
	double pages = (double)stride_pages(&stride, 10000);

	(void)state;
	assert_int_equal(stride_run(&stride, &kernel, &result), 0);
	assert_true(fabs(result.bytes - pages * PAGES_SIZE) <= 32.0 * PAGES_SIZE);
	assert_true(fabs((double)result.requests - pages / 32) <= 3);
}

/* Readers that share a page cache disturb each other's read-ahead more if they go out of step. The
 * same job gives the same count each time. */
static void readers_out_of_step_send_more_requests(void **state)
{
	struct pages_kernel in_step = linux_of(32), out = in_step;
	struct stride stride = stride_of(128, 64, 90, 2);
	struct stride_result step, first, again;

	(void)state;
	out.spread = 0.5;
	out.late = 1e-4;
	assert_int_equal(stride_run(&stride, &in_step, &step), 0);
	assert_int_equal(stride_run(&stride, &out, &first), 0);
	assert_int_equal(stride_run(&stride, &out, &again), 0);
	assert_true(first.requests > step.requests + step.requests / 10);
	assert_int_equal(first.requests, again.requests);
	assert_true(first.bytes == step.bytes);
}

static void strides_that_cannot_be_are_refused(void **state)
{
	struct pages_kernel kernel = linux_of(32);
	struct stride stride = stride_of(10, 6, 1, 2);
	struct stride_result result;

	(void)state;
	assert_int_equal(stride_run(&stride, &kernel, &result), EINVAL);
	stride.run = 5;
	assert_int_equal(stride_run(&stride, &kernel, &result), 0);
	stride.first = 1;
	assert_int_equal(stride_run(&stride, &kernel, &result), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(points_are_near_or_listed),
		cmocka_unit_test(ours_keeps_the_papers_factors),
		cmocka_unit_test(slower_devices_take_longer),
		cmocka_unit_test(more_work_done_first_takes_longer),
		cmocka_unit_test(jobs_that_cannot_be_are_refused),
		cmocka_unit_test(storage_sends_what_each_way_needs),
		cmocka_unit_test(nodes_use_each_record_once_between_them),
		cmocka_unit_test(one_reader_takes_whole_windows),
		cmocka_unit_test(readers_out_of_step_send_more_requests),
		cmocka_unit_test(strides_that_cannot_be_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
