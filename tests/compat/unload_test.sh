#!/bin/sh
# SPDX-License-Identifier: OLDAP-2.8
# Checks that a program which loads the drop-in at run time and unloads it again keeps nothing of it.
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
cat > both.c <<'END'
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void descriptors(const char *when)
{
	DIR *directory = opendir("/proc/self/fd");
	int count = 0;

	while (directory && readdir(directory))
		count++;
	closedir(directory);
	printf("%s %d\n", when, count);
}

int main(int argc, char **argv)
{
	void *stays, *goes;
	pid_t pid;

	descriptors("before");
	stays = dlopen(argv[argc - 2], RTLD_NOW | RTLD_LOCAL);
	goes = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
	if (!stays || !goes)
		return 1;
	pid = fork();
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	descriptors("both");
	dlclose(goes);
	descriptors("one");
	dlclose(stays);
	descriptors("none");
	return 0;
}
END
$cc -o loads loads.c -ldl
$cc -o both both.c -ldl
./loads "$dropin" > out || skip "this drop-in cannot be unloaded here"
judge "drop_in_when_loaded_three_times_then_a_fork_works" \
	test "$(grep -c '^loaded' out)" -eq 3
judge "drop_in_when_unloaded_then_its_descriptors_are_closed" \
	test "$(grep '^unloaded' out | sort -u | wc -l)" -eq 1
judge "drop_in_when_loaded_again_then_has_as_many_as_the_first_time" \
	test "$(grep '^loaded' out | sort -u | wc -l)" -eq 1
# The core's keeper serves both libraries: it ends with the last one.
later=${dropin%0}1
count() {
	sed -n "s/^$1 //p" out
}
for pair in "$dropin $later" "$later $dropin"; do
	stays=${pair%% *}
	stays=of_two_libraries_when_${stays##*.}_stays_then
	# shellcheck disable=SC2086
	status "${stays}_both_are_unloaded" 0 ./both $pair
	judge "${stays}_there_is_a_keeper" test "$(count both)" -gt "$(count before)"
	judge "${stays}_the_keeper_stays" test "$(count one)" -eq "$(count both)"
	judge "${stays}_nothing_stays_open_after_it" test "$(count none)" -eq "$(count before)"
done
finish
