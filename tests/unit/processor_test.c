/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks how many processors a process may use, on simulated machines. */
#include "util/group.h"

#include "machine_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the headers above. */
#include <cmocka.h>

enum { MANY = 1 << 20 };

static void no_quota_is_known_without_any_file(void **state)
{
	const struct machine *machine = *state;

	assert_true(processor_quota(machine->root) >= MANY);
}

static void quota_v2_is_in_whole_processors(void **state)
{
	const struct machine *machine = machine_with(state, "0::/pod\n", machine_mount_v2);

	machine_put(machine, "/sys/fs/cgroup/pod/cpu.max", "200000 100000\n");
	assert_int_equal(processor_quota(machine->root), 2);
	machine_put(machine, "/sys/fs/cgroup/pod/cpu.max", "399999 100000\n");
	assert_int_equal(processor_quota(machine->root), 3);
	machine_put(machine, "/sys/fs/cgroup/pod/cpu.max", "50000 100000\n");
	assert_int_equal(processor_quota(machine->root), 0);
	machine_put(machine, "/sys/fs/cgroup/pod/cpu.max", "max 100000\n");
	assert_true(processor_quota(machine->root) >= MANY);
}

static void quota_v2_of_an_ancestor_counts(void **state)
{
	const struct machine *machine = machine_with(state, "0::/pod/job\n", machine_mount_v2);

	machine_put(machine, "/sys/fs/cgroup/pod/job/cpu.max", "800000 100000\n");
	machine_put(machine, "/sys/fs/cgroup/pod/cpu.max", "300000 100000\n");
	assert_int_equal(processor_quota(machine->root), 3);
}

static void quota_v1_is_in_whole_processors(void **state)
{
	const struct machine *machine =
		machine_with(state, "7:cpu,cpuacct:/pod\n4:memory:/pod\n", machine_mount_v1);

	machine_put(machine, "/sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_period_us", "50000\n");
	machine_put(machine, "/sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us", "250000\n");
	assert_int_equal(processor_quota(machine->root), 5);
	machine_put(machine, "/sys/fs/cgroup/cpu,cpuacct/pod/cpu.cfs_quota_us", "-1\n");
	assert_true(processor_quota(machine->root) >= MANY);
}

static void quota_with_nonsense_in_the_files_limits_nothing(void **state)
{
	static const char *const texts[] = {
		"", "\n", "few\n", "100000\n", "100000 0\n", "-5 100000\n", "100000 -1\n",
	};
	const struct machine *machine = machine_with(state, "0::/pod\n", machine_mount_v2);

	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		machine_put(machine, "/sys/fs/cgroup/pod/cpu.max", texts[i]);
		if (processor_quota(machine->root) < MANY)
			fail_msg("%s is taken for a quota", texts[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_A_MACHINE(no_quota_is_known_without_any_file),
		ON_A_MACHINE(quota_v2_is_in_whole_processors),
		ON_A_MACHINE(quota_v2_of_an_ancestor_counts),
		ON_A_MACHINE(quota_v1_is_in_whole_processors),
		ON_A_MACHINE(quota_with_nonsense_in_the_files_limits_nothing),
	};

	return cmocka_run_group_tests_name("processor", tests, NULL, NULL);
}
