#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that a program which loads the drop-in at run time and unloads it again
# has nothing of it left.
# shellcheck source-path=SCRIPTDIR source=../tools/harness.sh
. "$(dirname "$0")/../tools/harness.sh"
cc=${CC:-gcc}
need "${cc%% *}"
cd "$scratch"
cat > loads.c <<'END'
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	while (directory && readdir(directory))
		count++;
	closedir(directory);
	return count;
}

int main(int argc, char **argv)
{
	for (int times = argc; times < 5; times++) {
		void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		pid_t pid;

		if (!library)
			return 1;
		pid = fork();
		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
		printf("loaded %d\n", descriptors());
		dlclose(library);
		if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD))
			return 2;
		printf("unloaded %d\n", descriptors());
	}
	return 0;
}
END
$cc -o loads loads.c -ldl
./loads "$dropin" > out || skip "this drop-in cannot be unloaded here"
judge "drop_in_when_loaded_three_times_then_a_fork_works" \
	test "$(grep -c '^loaded' out)" -eq 3
judge "drop_in_when_unloaded_then_its_descriptors_are_closed" \
	test "$(grep '^unloaded' out | sort -u | wc -l)" -eq 1
judge "drop_in_when_loaded_again_then_has_as_many_as_the_first_time" \
	test "$(grep '^loaded' out | sort -u | wc -l)" -eq 1
finish
