/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks what the simulator's results must be: the published order of the
 * policies, and the few numbers that can be worked out by hand. */
#include "sim_private.h"

#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static struct sim_result run(const char *policy, const struct sim_cluster *cluster,
			     const struct sim_job *job)
{
	struct sim_result result;

	assert_null(sim_complaint(cluster, job));
	assert_int_equal(sim_run(policy_find(policy), cluster, job, &result), 0);
	return result;
}

static void assert_near(double found, double expected, double part)
{
	if (!(fabs(found - expected) <= part * fabs(expected)))
		fail_msg("%.9g is not %.9g", found, expected);
}

/* --- the published order ---------------------------------------------------------------------- */

enum { POLICIES = 7, SCENARIOS = 4 };

static const char *const published_policies[POLICIES] = {
	"none", "naive", "double", "deepio-ordered", "deepio", "staging", "nopfs",
};

/* R. Boehringer's thesis, ETH Zurich 2020: seconds, scenario by scenario. */
static const double published[SCENARIOS][POLICIES] = {
	{7.30, 27.78, 10.24, 8.41, 8.40, 10.11, 7.78},
	{3825.66, 15130.54, 4982.27, 4433.27, 4432.90, 4972.65, 3836.12},
	{7655.25, 30272.96, 9945.29, 23948.24, 8487.42, 9313.58, 7661.26},
	{15204.78, 60526.36, 19888.26, 54122.52, 16034.89, 16861.82, 16795.17},
};

/* A tenth of the data on nodes with a tenth of the room: the ratios stay, the test is short. */
static struct sim_preset tenth(unsigned scenario)
{
	static const char *const names[SCENARIOS] = {
		"scenario1",
		"scenario2",
		"scenario3",
		"scenario4",
	};
	struct sim_preset preset = *sim_preset_find(names[scenario]);

	preset.job.records /= 10;
	preset.cluster.room[SIM_MEMORY] /= 10;
	preset.cluster.room[SIM_SSD] /= 10;
	return preset;
}

static void assert_published_order(unsigned scenario)
{
	struct sim_preset preset = tenth(scenario);
	double seconds[POLICIES];

	for (unsigned i = 0; i < POLICIES; i++)
		seconds[i] = run(published_policies[i], &preset.cluster, &preset.job).seconds;
	for (unsigned i = 0; i < POLICIES; i++)
		for (unsigned j = 0; j < POLICIES; j++) {
			const double *said = published[scenario];

			if (said[i] >= said[j])
				continue;
			/* What differs by a thousandth or so there is a draw. */
			if (seconds[i] >= seconds[j] * (said[i] * 1.0015 > said[j] ? 1.005 : 1))
				fail_msg("scenario %u: %s takes %.2f s, %s %.2f s", scenario + 1,
					 published_policies[i], seconds[i], published_policies[j],
					 seconds[j]);
		}
}

static void scenario_1_when_simulated_then_the_published_order(void **state)
{
	(void)state;
	assert_published_order(0);
}

static void scenario_2_when_simulated_then_the_published_order(void **state)
{
	(void)state;
	assert_published_order(1);
}

static void scenario_3_when_simulated_then_the_published_order(void **state)
{
	(void)state;
	assert_published_order(2);
}

static void scenario_4_when_simulated_then_the_published_order(void **state)
{
	(void)state;
	assert_published_order(3);
}

static void lmdbio_when_any_scenario_then_first_and_storage_is_read_once(void **state)
{
	size_t policies;
	const struct policy *table = policy_table(&policies);

	(void)state;
	for (unsigned i = 0; i < SCENARIOS; i++) {
		struct sim_preset preset = tenth(i);
		struct sim_result ours = run("lmdbio", &preset.cluster, &preset.job);
		struct sim_result nopfs = run("nopfs", &preset.cluster, &preset.job);
		double data = (double)preset.job.records * (double)preset.job.record_bytes;

		/* Scenario 4 fits nowhere: what has no home is read in each epoch. */
		if (i < 3) {
			assert_true(ours.kept > 0.995);
			assert_near(ours.storage_bytes, data, 0.01);
		} else {
			assert_true(ours.kept > 0.498 && ours.kept < 0.502);
			assert_near(ours.storage_bytes, 3 * data, 0.01);
		}
		assert_true(ours.storage_bytes < nopfs.storage_bytes);
		assert_true(ours.kept >= nopfs.kept);
		for (size_t j = 1; j < policies; j++)
			assert_true(ours.seconds <=
				    run(table[j].name, &preset.cluster, &preset.job).seconds);
	}
}

static void nopfs_when_all_together_just_fit_then_a_sixth_has_no_copy(void **state)
{
	struct sim_preset preset = tenth(2);
	struct sim_result result = run("nopfs", &preset.cluster, &preset.job);

	(void)state;
	assert_true(result.kept > 0.80 && result.kept < 0.85);
	assert_true(result.storage_bytes >
		    2 * (double)preset.job.records * (double)preset.job.record_bytes);
}

/* --- by hand ---------------------------------------------------------------------------------- */

/* 2 nodes, batches of 4 records of 1 MB, nothing else in the way. */
static const struct sim_cluster plain = {
	.nodes = 2,
	.room = {100000000, 30000000, 30000000},
	.streams = {1, 1, 1},
	.compute = 1e8,
	.preprocess = 1e12,
	.staging_rate = 1e12,
	.memory_rate = 1e10,
	.ssd_read = 1e9,
	.ssd_write = 1e9,
	.network = 1e10,
	.storage = {1, {1}, {1e8}}, /* 50 MB/s a node */
};
static const struct sim_job small = {
	.records = 40, .record_bytes = 1000000, .batch = 4, .epochs = 3, .seed = 5};

static void bound_when_sizes_are_equal_then_the_computing(void **state)
{
	struct sim_result result = run("none", &plain, &small);

	(void)state;
	/* 3 epochs of 10 batches of 2 MB at 100 MB/s. */
	assert_near(result.seconds, 30 * 0.02, 1e-9);
	assert_true(result.stall == 0 && result.storage_bytes == 0);
}

static void naive_when_sizes_are_equal_then_reading_and_computing(void **state)
{
	struct sim_result result = run("naive", &plain, &small);

	(void)state;
	assert_near(result.seconds, 30 * (0.04 + 0.02), 1e-4);
	assert_near(result.stall_median, 0.04, 1e-4);
	assert_near(result.storage_bytes, 120e6, 1e-9);
	assert_true(result.bytes[SIM_STORAGE] == 120e6);
}

static void double_when_storage_is_slower_then_reading_and_one_batch(void **state)
{
	struct sim_cluster cluster = plain;

	(void)state;
	/* The last batch is computed after the last read. */
	assert_near(run("double", &plain, &small).seconds, 30 * 0.04 + 0.02, 1e-4);
	/* Storage twice as fast as the computing: the first batch is waited for. */
	cluster.storage.value[0] = 4e8;
	assert_near(run("double", &cluster, &small).seconds, 0.01 + 30 * 0.02, 1e-4);
}

static void partition_when_it_fits_then_storage_once_and_no_peers(void **state)
{
	struct sim_result result = run("partition", &plain, &small);

	(void)state;
	assert_near(result.storage_bytes, 40e6, 1e-9);
	assert_near(result.bytes[SIM_OWN_MEMORY], 80e6, 1e-9);
	assert_true(result.bytes[SIM_PEER_MEMORY] == 0);
	assert_near(result.last, 10 * 0.02, 0.01);
	assert_true(result.kept == 1);
}

static void staging_when_it_fits_then_nothing_from_storage_in_training(void **state)
{
	struct sim_result result = run("staging", &plain, &small);

	(void)state;
	assert_near(result.before, 20e6 / 50e6, 1e-9);
	assert_near(result.bytes[SIM_OWN_SSD], 120e6, 1e-9);
	assert_near(result.storage_bytes, 40e6, 1e-9);
}

static void opportunistic_when_half_fits_then_half_is_used(void **state)
{
	struct sim_cluster cluster = plain;
	struct sim_result result;

	(void)state;
	cluster.room[SIM_MEMORY] = 10000000;
	result = run("deepio", &cluster, &small);
	assert_true(result.used == 0.5);
	assert_near(result.storage_bytes, 20e6, 1e-9);
	assert_near(result.bytes[SIM_OWN_MEMORY] + result.bytes[SIM_PEER_MEMORY], 120e6, 1e-9);
	result = run("deepio-ordered", &cluster, &small);
	assert_true(result.used == 1 && result.kept == 0.5);
	assert_near(result.bytes[SIM_STORAGE], 60e6, 1e-9);
}

static void overlap_when_it_fits_then_the_first_epoch_is_not_longer(void **state)
{
	struct sim_result staged = run("overlap", &plain, &small);
	struct sim_result direct = run("double", &plain, &small);

	(void)state;
	assert_true(staged.first <= direct.first * 1.001);
	assert_true(staged.last < direct.last);
	assert_true(staged.kept == 1);
}

/* What a node has had from its peer it reads from storage all the same, to keep it. */
static void nopfs_when_there_is_time_and_room_then_each_copy_is_from_storage(void **state)
{
	struct sim_cluster cluster = plain;
	struct sim_job job = small;
	struct sim_result result;

	(void)state;
	cluster.room[SIM_MEMORY] = 1000000000;
	job.records = 400;
	job.epochs = 12;
	result = run("nopfs", &cluster, &job);
	/* In twelve epochs both nodes read, and keep, each record. */
	assert_true(result.bytes[SIM_PEER_MEMORY] > 40e6);
	assert_near(result.storage_bytes, 2 * 400e6, 0.03);
}

static void storage_when_bounded_then_no_faster(void **state)
{
	struct sim_cluster cluster = plain;
	struct sim_curve curve = {3, {1, 2, 4}, {10, 20, 30}};

	(void)state;
	assert_near(sim_curve_at(&curve, 0.5), 10, 1e-9);
	assert_near(sim_curve_at(&curve, 1), 10, 1e-9);
	assert_near(sim_curve_at(&curve, 3), 25, 1e-9);
	assert_near(sim_curve_at(&curve, 100), 30, 1e-9);
	assert_near(sim_storage_rate(&cluster, 4), 5e7, 1e-9);
	cluster.storage_gain = 1;
	assert_near(sim_storage_rate(&cluster, 4), 2e8, 1e-9);
	cluster.storage_node = 1.5e8;
	assert_near(sim_storage_rate(&cluster, 4), 1.5e8, 1e-9);
	cluster.storage_total = 1e8;
	assert_near(sim_storage_rate(&cluster, 4), 5e7, 1e-9);
	cluster.storage_latency = 0.01;
	/* Its own waiting, with the rate of who is alone; or what all get. */
	assert_near(sim_fetch(&cluster, SIM_STORAGE, 2, 6, 1e6), 0.06 + 1e6 / 1e8, 1e-9);
	assert_near(sim_fetch(&cluster, SIM_STORAGE, 2, 3, 1e6), 2e6 / 5e7, 1e-9);
}

static void result_when_run_again_then_the_same(void **state)
{
	struct sim_preset preset = tenth(2);
	struct sim_result first = run("nopfs", &preset.cluster, &preset.job);
	struct sim_result again = run("nopfs", &preset.cluster, &preset.job);

	(void)state;
	assert_memory_equal(&first, &again, sizeof(first));
}

static void cluster_when_of_thousands_of_nodes_then_covered(void **state)
{
	struct sim_cluster cluster = plain;
	struct sim_job job = {.records = 40000, .record_bytes = 100000, .batch = 8000, .epochs = 3};
	struct sim_result ours, nopfs;

	(void)state;
	cluster.nodes = 4000;
	cluster.room[SIM_MEMORY] = 1000000;
	cluster.room[SIM_SSD] = 0;
	cluster.storage_total = 1e9;
	ours = run("lmdbio", &cluster, &job);
	nopfs = run("nopfs", &cluster, &job);
	assert_true(ours.kept == 1);
	assert_true(nopfs.kept < 0.75);
	assert_near(ours.storage_bytes, 4e9, 1e-9);
	assert_true(ours.seconds < nopfs.seconds);
}

/* --- what cannot be --------------------------------------------------------------------------- */

static void job_when_it_makes_no_sense_then_a_complaint(void **state)
{
	struct sim_cluster cluster = plain;
	struct sim_job job = small;
	struct sim_result result;

	(void)state;
	job.batch = 1;
	assert_non_null(sim_complaint(&cluster, &job));
	assert_int_equal(sim_run(policy_find("naive"), &cluster, &job, &result), EINVAL);
	job = small, job.records = 3;
	assert_non_null(sim_complaint(&cluster, &job));
	job = small, job.epochs = 0;
	assert_non_null(sim_complaint(&cluster, &job));
	job = small, job.spread = 1;
	assert_non_null(sim_complaint(&cluster, &job));
	job = small;
	cluster.nodes = 0;
	assert_non_null(sim_complaint(&cluster, &job));
	cluster = plain, cluster.streams[SIM_SSD] = 0;
	assert_non_null(sim_complaint(&cluster, &job));
	cluster = plain, cluster.compute = 0;
	assert_non_null(sim_complaint(&cluster, &job));
	cluster = plain, cluster.storage = (struct sim_curve){2, {4, 4}, {1, 1}};
	assert_non_null(sim_complaint(&cluster, &job));
	assert_null(policy_find("nosuch"));
	assert_null(sim_preset_find("nosuch"));
}

static void rows_when_listed_then_named_apart(void **state)
{
	size_t n;
	const struct policy *policies = policy_table(&n);

	(void)state;
	assert_string_equal(policies[0].name, "none");
	assert_string_equal(policies[n - 1].name, "lmdbio");
	for (size_t i = 0; i < n; i++) {
		assert_ptr_equal(policy_find(policies[i].name), &policies[i]);
		assert_non_null(policies[i].summary);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(scenario_1_when_simulated_then_the_published_order),
		cmocka_unit_test(scenario_2_when_simulated_then_the_published_order),
		cmocka_unit_test(scenario_3_when_simulated_then_the_published_order),
		cmocka_unit_test(scenario_4_when_simulated_then_the_published_order),
		cmocka_unit_test(lmdbio_when_any_scenario_then_first_and_storage_is_read_once),
		cmocka_unit_test(nopfs_when_all_together_just_fit_then_a_sixth_has_no_copy),
		cmocka_unit_test(bound_when_sizes_are_equal_then_the_computing),
		cmocka_unit_test(naive_when_sizes_are_equal_then_reading_and_computing),
		cmocka_unit_test(double_when_storage_is_slower_then_reading_and_one_batch),
		cmocka_unit_test(partition_when_it_fits_then_storage_once_and_no_peers),
		cmocka_unit_test(staging_when_it_fits_then_nothing_from_storage_in_training),
		cmocka_unit_test(opportunistic_when_half_fits_then_half_is_used),
		cmocka_unit_test(overlap_when_it_fits_then_the_first_epoch_is_not_longer),
		cmocka_unit_test(nopfs_when_there_is_time_and_room_then_each_copy_is_from_storage),
		cmocka_unit_test(storage_when_bounded_then_no_faster),
		cmocka_unit_test(result_when_run_again_then_the_same),
		cmocka_unit_test(cluster_when_of_thousands_of_nodes_then_covered),
		cmocka_unit_test(job_when_it_makes_no_sense_then_a_complaint),
		cmocka_unit_test(rows_when_listed_then_named_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
