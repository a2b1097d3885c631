/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks the memory budget on simulated machines. */
#include "util/memory.h"

#include "machine_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h needs the headers above. */
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)

/* --- what is allowed ------------------------------------------------------------------------- */

static void allowed_without_any_file_is_the_machine(void **state)
{
	const struct machine *machine = *state;

	assert_true(memory_allowed(machine->root) ==
		    (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
}

static void allowed_without_groups_is_what_is_available(void **state)
{
	const struct machine *machine = *state;

	machine_put(machine, "/proc/meminfo", machine_meminfo);
	assert_true(memory_allowed(machine->root) == 8 * GIB);
}

static void allowed_without_memavailable_is_the_total(void **state)
{
	const struct machine *machine = *state;

	machine_put(machine, "/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\n");
	assert_true(memory_allowed(machine->root) == 16 * GIB);
}

static void allowed_v2_own_limit_counts(void **state)
{
	const struct machine *machine = machine_with(state, "0::/job\n", machine_mount_v2);

	machine_put(machine, "/sys/fs/cgroup/job/memory.max", "1073741824\n");
	machine_put(machine, "/sys/fs/cgroup/job/memory.high", "max\n");
	assert_true(memory_allowed(machine->root) == GIB);
}

static void allowed_v2_high_below_max_counts(void **state)
{
	const struct machine *machine = machine_with(state, "0::/job\n", machine_mount_v2);

	machine_put(machine, "/sys/fs/cgroup/job/memory.max", "1073741824\n");
	machine_put(machine, "/sys/fs/cgroup/job/memory.high", "536870912\n");
	assert_true(memory_allowed(machine->root) == 512 * MIB);
}

static void allowed_v2_max_everywhere_limits_nothing(void **state)
{
	const struct machine *machine = machine_with(state, "0::/a/b\n", machine_mount_v2);

	machine_put(machine, "/sys/fs/cgroup/a/b/memory.max", "max\n");
	machine_put(machine, "/sys/fs/cgroup/a/memory.max", "max\n");
	assert_true(memory_allowed(machine->root) == 8 * GIB);
}

static void allowed_v2_limit_of_an_ancestor_counts(void **state)
{
	const struct machine *machine =
		machine_with(state, "0::/slurm/job_7/step_0/task_3\n", machine_mount_v2);

	machine_put(machine, "/sys/fs/cgroup/slurm/job_7/step_0/task_3/memory.max", "max\n");
	machine_put(machine, "/sys/fs/cgroup/slurm/job_7/step_0/memory.max", "4294967296\n");
	machine_put(machine, "/sys/fs/cgroup/slurm/job_7/memory.max", "2147483648\n");
	machine_put(machine, "/sys/fs/cgroup/slurm/memory.max", "6442450944\n");
	assert_true(memory_allowed(machine->root) == 2 * GIB);
}

static void allowed_v2_limit_at_the_top_of_the_mount_counts(void **state)
{
	/* A container with a name space of its own sees its group as the root. */
	const struct machine *machine = machine_with(state, "0::/\n", machine_mount_v2);

	machine_put(machine, "/sys/fs/cgroup/memory.max", "3221225472\n");
	assert_true(memory_allowed(machine->root) == 3 * GIB);
}

static void allowed_v2_path_outside_of_the_mount_uses_its_top(void **state)
{
	const struct machine *machine = machine_with(state, "0::/../other\n", machine_mount_v2);

	machine_put(machine, "/sys/fs/cgroup/memory.max", "1073741824\n");
	machine_put(machine, "/sys/fs/other/memory.max", "4096\n");
	assert_true(memory_allowed(machine->root) == GIB);
}

static void allowed_v2_mount_of_a_part_is_read_from_there(void **state)
{
	const struct machine *machine =
		machine_with(state, "0::/docker/abc/inner\n",
			     "30 22 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n");

	machine_put(machine, "/sys/fs/cgroup/memory.max", "2147483648\n");
	machine_put(machine, "/sys/fs/cgroup/inner/memory.max", "1073741824\n");
	machine_put(machine, "/sys/fs/cgroup/docker/abc/inner/memory.max", "4096\n");
	assert_true(memory_allowed(machine->root) == GIB);
}

static void allowed_v2_mount_with_a_similar_name_is_not_mine(void **state)
{
	const struct machine *machine =
		machine_with(state, "0::/docker/abcdef\n",
			     "30 22 0:26 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n");

	machine_put(machine, "/sys/fs/cgroup/memory.max", "2147483648\n");
	machine_put(machine, "/sys/fs/cgroup/def/memory.max", "4096\n");
	assert_true(memory_allowed(machine->root) == 2 * GIB);
}

static void allowed_v2_blank_in_the_mount_point_is_understood(void **state)
{
	const struct machine *machine = machine_with(
		state, "0::/job\n", "30 22 0:26 / /my\\040groups rw - cgroup2 cgroup2 rw\n");

	machine_put(machine, "/my groups/job/memory.max", "1073741824\n");
	assert_true(memory_allowed(machine->root) == GIB);
}

static void allowed_v2_is_what_is_left_of_a_limit(void **state)
{
	const struct machine *machine = machine_with(state, "0::/job\n", machine_mount_v2);

	machine_put(machine, "/sys/fs/cgroup/job/memory.max", "1073741824\n");
	machine_put(machine, "/sys/fs/cgroup/job/memory.current", "805306368\n");
	assert_true(memory_allowed(machine->root) == 256 * MIB);
	/* The kernel counts shared memory as file pages, but cannot drop it. */
	machine_put(machine, "/sys/fs/cgroup/job/memory.stat",
		    "anon 1048576\nfile 734003200\nshmem 209715200\ninactive_file 314572800\n"
		    "active_file 209715200\nslab_reclaimable 10485760\n");
	assert_true(memory_allowed(machine->root) == (256 + 300 + 200 + 10) * MIB);
	machine_put(machine, "/sys/fs/cgroup/job/memory.current", "2147483648\n");
	assert_true(memory_allowed(machine->root) == 0);
}

static void allowed_v1_is_what_is_left_of_a_limit(void **state)
{
	const struct machine *machine = machine_with(state, "4:memory:/job\n", machine_mount_v1);

	machine_put(machine, "/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
	machine_put(machine, "/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "805306368\n");
	machine_put(machine, "/sys/fs/cgroup/memory/job/memory.stat",
		    "inactive_file 4096\ntotal_inactive_file 209715200\n"
		    "total_active_file 104857600\n");
	assert_true(memory_allowed(machine->root) == (256 + 200 + 100) * MIB);
}

static void allowed_v1_smallest_of_the_path_counts(void **state)
{
	const struct machine *machine = machine_with(
		state, "7:cpu,cpuacct:/c\n4:memory:/slurm/uid_0/job_1\n1:name=systemd:/\n",
		machine_mount_v1);

	machine_put(machine, "/sys/fs/cgroup/memory/slurm/uid_0/job_1/memory.limit_in_bytes",
		    "9223372036854771712\n");
	machine_put(machine, "/sys/fs/cgroup/memory/slurm/uid_0/memory.limit_in_bytes",
		    "1073741824\n");
	machine_put(machine, "/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "2147483648\n");
	machine_put(machine, "/sys/fs/cgroup/cpu,cpuacct/c/memory.limit_in_bytes", "4096\n");
	assert_true(memory_allowed(machine->root) == GIB);
}

static void allowed_v1_without_a_limit_is_the_machine(void **state)
{
	const struct machine *machine = machine_with(state, "4:memory:/\n", machine_mount_v1);

	machine_put(machine, "/sys/fs/cgroup/memory/memory.limit_in_bytes",
		    "9223372036854771712\n");
	assert_true(memory_allowed(machine->root) == 8 * GIB);
}

static void allowed_v1_beside_other_controllers_counts(void **state)
{
	const struct machine *machine =
		machine_with(state, "3:cpuset,memory:/box\n",
			     "35 31 0:32 / /cg rw - cgroup none rw,cpuset,memory\n");

	machine_put(machine, "/cg/box/memory.limit_in_bytes", "1073741824\n");
	assert_true(memory_allowed(machine->root) == GIB);
}

static void allowed_hybrid_takes_both(void **state)
{
	char mounts[1024];
	const struct machine *machine;

	snprintf(mounts, sizeof(mounts), "%s%s", machine_mount_v1,
		 "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n");
	machine = machine_with(state, "4:memory:/user\n1:name=systemd:/\n0::/user.slice\n", mounts);
	machine_put(machine, "/sys/fs/cgroup/memory/user/memory.limit_in_bytes", "2147483648\n");
	machine_put(machine, "/sys/fs/cgroup/unified/user.slice/cgroup.procs", "1\n");
	assert_true(memory_allowed(machine->root) == 2 * GIB);
	machine_put(machine, "/sys/fs/cgroup/unified/user.slice/memory.max", "1073741824\n");
	assert_true(memory_allowed(machine->root) == GIB);
}

static void allowed_with_nonsense_in_the_files_limits_nothing(void **state)
{
	const struct machine *machine =
		machine_with(state, "\n:\n0\n0::/job\nmemory\n",
			     "\n-\n1 2 3\n30 22 0:26 / /cg rw -\n30 22 0:26 / /cg rw - cgroup2\n"
			     "30 22 0:26 / /cg rw - cgroup\n30 22 0:26 / /cg rw\n");

	machine_put(machine, "/cg/job/memory.max", "twelve\n");
	machine_put(machine, "/cg/job/memory.high", "99999999999999999999999999\n");
	machine_put(machine, "/cg/memory.max", "");
	assert_true(memory_allowed(machine->root) == 8 * GIB);
}

/* --- the budget ------------------------------------------------------------------------------ */

struct budget_case {
	uint64_t allowed;
	struct settings_memory asked;
	uint64_t budget;
	bool cut;
};

static void budget_is_a_quarter_or_what_was_asked_within_bounds(void **state)
{
	static const struct budget_case cases[] = {
		{8 * GIB, {0, 0}, 2 * GIB, false},
		{40 * MIB, {0, 0}, 16 * MIB, false},        /* a quarter is too little */
		{16 * MIB, {0, 0}, 12 * MIB, false},        /* and 16 MiB too much */
		{0, {0, 0}, MIB, false},                    /* nothing is allowed */
		{8 * GIB, {64 * MIB, 0}, 64 * MIB, false},  /* asked for less */
		{8 * GIB, {MIB, 0}, MIB, false},            /* tiny */
		{8 * GIB, {6 * GIB, 0}, 6 * GIB, false},    /* just three quarters */
		{8 * GIB, {6 * GIB + 1, 0}, 6 * GIB, true}, /* a byte more */
		{8 * GIB, {UINT64_MAX, 0}, 6 * GIB, true},
		{100 * MIB, {0, 50}, 50 * MIB, false},
		{100 * MIB, {0, 1}, MIB, false},
		{10 * MIB, {0, 1}, MIB, false},
		{100 * MIB, {0, 100}, 75 * MIB, true},
		{UINT64_MAX, {0, 100}, UINT64_MAX / 4 * 3, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct settings settings = {.memory = cases[i].asked};
		bool cut = !cases[i].cut;
		uint64_t budget = memory_budget_of(cases[i].allowed, &settings, &cut);

		if (budget != cases[i].budget || cut != cases[i].cut)
			fail_msg("case %zu: %llu, cut %d", i, (unsigned long long)budget, cut);
	}
}

static void budget_asked_for_too_much_says_so_once(void **state)
{
	const struct settings settings = {.memory = {UINT64_MAX, 0}};
	char said[1024] = "";
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		dup2(ends[1], STDERR_FILENO);
		_exit(!(memory_budget(&settings) && memory_budget(&settings)));
	}
	close(ends[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	n = read(ends[0], said, sizeof(said) - 1);
	close(ends[0]);
	assert_true(n > 0);
	assert_ptr_equal(strstr(said, "lmdbio: LMDBIO_MEMORY: more than three quarters"), said);
	assert_ptr_equal(strchr(said, '\n'), said + n - 1);
}

static void budget_of_this_machine_is_within_what_is_allowed(void **state)
{
	const struct settings settings = {.memory = {0, 0}};
	uint64_t budget = memory_budget(&settings);

	(void)state;
	assert_true(budget >= MIB);
	assert_true(budget <= (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
}

/* --- sizes ----------------------------------------------------------------------------------- */

static void size_parse_of_sound_text_gives_bytes(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} cases[] = {
		{"0", 0},
		{"123", 123},
		{"1k", KIB},
		{"1K", KIB},
		{"64M", 64 * MIB},
		{"64m", 64 * MIB},
		{"3G", 3 * GIB},
		{"2T", 2048 * GIB},
		{"64MiB", 64 * MIB},
		{"5KiB", 5 * KIB},
		{"5kib", 5 * KIB},
		{"1KB", 1000},
		{"64MB", 64000000},
		{"3gb", 3000000000},
		{"2TB", 2000000000000},
		{"16777215T", UINT64_MAX - 1024 * GIB + 1},
		{"18446744073709551615", UINT64_MAX},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bytes = 7;

		if (!size_parse(cases[i].text, &bytes) || bytes != cases[i].bytes)
			fail_msg("%s: %llu", cases[i].text, (unsigned long long)bytes);
	}
}

static void size_parse_of_unsound_text_fails(void **state)
{
	static const char *const texts[] = {
		"",
		"k",
		"-1",
		"+1",
		" 1",
		"1 ",
		"1x",
		"1B",
		"1iB",
		"1BB",
		"1MBs",
		"1.5G",
		"0x10",
		"1k1",
		"1kk",
		"1Ki",
		"50%",
		"1MiBs",
		"16777216T",
		"18446744073709551616",
		"auto",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		uint64_t bytes = 7;

		if (size_parse(texts[i], &bytes) || bytes != 7)
			fail_msg("%s: %llu", texts[i], (unsigned long long)bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_A_MACHINE(allowed_without_any_file_is_the_machine),
		ON_A_MACHINE(allowed_without_groups_is_what_is_available),
		ON_A_MACHINE(allowed_without_memavailable_is_the_total),
		ON_A_MACHINE(allowed_v2_own_limit_counts),
		ON_A_MACHINE(allowed_v2_high_below_max_counts),
		ON_A_MACHINE(allowed_v2_max_everywhere_limits_nothing),
		ON_A_MACHINE(allowed_v2_limit_of_an_ancestor_counts),
		ON_A_MACHINE(allowed_v2_limit_at_the_top_of_the_mount_counts),
		ON_A_MACHINE(allowed_v2_path_outside_of_the_mount_uses_its_top),
		ON_A_MACHINE(allowed_v2_mount_of_a_part_is_read_from_there),
		ON_A_MACHINE(allowed_v2_mount_with_a_similar_name_is_not_mine),
		ON_A_MACHINE(allowed_v2_blank_in_the_mount_point_is_understood),
		ON_A_MACHINE(allowed_v2_is_what_is_left_of_a_limit),
		ON_A_MACHINE(allowed_v1_is_what_is_left_of_a_limit),
		ON_A_MACHINE(allowed_v1_smallest_of_the_path_counts),
		ON_A_MACHINE(allowed_v1_without_a_limit_is_the_machine),
		ON_A_MACHINE(allowed_v1_beside_other_controllers_counts),
		ON_A_MACHINE(allowed_hybrid_takes_both),
		ON_A_MACHINE(allowed_with_nonsense_in_the_files_limits_nothing),
		cmocka_unit_test(budget_is_a_quarter_or_what_was_asked_within_bounds),
		cmocka_unit_test(budget_asked_for_too_much_says_so_once),
		cmocka_unit_test(budget_of_this_machine_is_within_what_is_allowed),
		cmocka_unit_test(size_parse_of_sound_text_gives_bytes),
		cmocka_unit_test(size_parse_of_unsound_text_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
