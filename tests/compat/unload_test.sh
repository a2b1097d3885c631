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
cat > opened.c <<'END'
#include <dirent.h>
#include <dlfcn.h>
#include <lmdb.h>
#include <stdio.h>
#include <string.h>

#define CALL(name, ...) \
	do { \
		__typeof__(&name) call_ = (__typeof__(&name))dlsym(library, #name); \
		rc = rc ? rc : call_(__VA_ARGS__); \
	} while (0)
#define END(name, handle) ((__typeof__(&name))dlsym(library, #name))(handle)

static void *library;
static MDB_env *env;
static MDB_txn *txn;
static MDB_cursor *cursor;

static int threads(void)
{
	DIR *directory = opendir("/proc/self/task");
	int count = -2;

	while (readdir(directory))
		count++;
	closedir(directory);
	return count;
}

static int core_is_there(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[4096];
	int found = 0;

	while (fgets(line, sizeof(line), maps))
		found |= strstr(line, "liblmdbio-core") != NULL;
	fclose(maps);
	return found;
}

static int begin(unsigned flags)
{
	MDB_dbi dbi;
	int rc = 0;

	CALL(mdb_env_create, &env);
	CALL(mdb_env_set_mapsize, env, 64 << 20);
	CALL(mdb_env_open, env, ".", flags, 0644);
	CALL(mdb_txn_begin, env, NULL, flags, &txn);
	CALL(mdb_dbi_open, txn, NULL, 0, &dbi);
	CALL(mdb_cursor_open, txn, dbi, &cursor);
	return rc;
}

static int make(void)
{
	static char bytes[100000];
	int rc = begin(0);

	for (int i = 0; i < 300; i++) {
		MDB_val key = {sizeof(i), &i}, value = {sizeof(bytes), bytes};

		CALL(mdb_cursor_put, cursor, &key, &value, 0);
	}
	CALL(mdb_txn_commit, txn);
	END(mdb_env_close, env);
	return rc;
}

/* Reads so much that lmdbio looks ahead. */
static int look_ahead(void)
{
	int rc = begin(MDB_RDONLY);

	for (int i = 0; i < 200; i++) {
		MDB_val key, value;

		CALL(mdb_cursor_get, cursor, &key, &value, MDB_NEXT);
	}
	return rc;
}

int main(int argc, char **argv)
{
	int rc;

	for (int closes = 1; closes >= 0; closes--) {
		library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
		if (!library)
			return 1;
		rc = closes ? make() : 0;
		rc = rc ? rc : look_ahead();
		if (rc)
			return 2;
		printf("%d reads with more threads: %d\n", closes, threads() > 1);
		if (closes) {
			END(mdb_cursor_close, cursor);
			END(mdb_txn_abort, txn);
			END(mdb_env_close, env);
		}
		dlclose(library);
		printf("%d core is there: %d\n", closes, core_is_there());
	}
	return 0;
}
END
$cc -o opened opened.c -ldl
$cc -o loads loads.c -ldl
$cc -o both both.c -ldl
./loads "$dropin" > out || skip "this drop-in cannot be unloaded here"
judge "drop_in_when_loaded_three_times_then_a_fork_works" \
	test "$(grep -c '^loaded' out)" -eq 3
judge "drop_in_when_unloaded_then_its_descriptors_are_closed" \
	test "$(grep '^unloaded' out | sort -u | wc -l)" -eq 1
judge "drop_in_when_loaded_again_then_has_as_many_as_the_first_time" \
	test "$(grep '^loaded' out | sort -u | wc -l)" -eq 1
# An environment that stays open has threads, which run the core's code.
status drop_in_when_unloaded_with_an_open_environment_then_the_program_goes_on 0 \
	env LMDBIO_STORE=arena ./opened "$dropin"
judge "drop_in_when_its_environment_is_closed_then_is_unloaded" grep -q '^1 core is there: 0$' out
judge "drop_in_when_its_environment_is_open_then_its_threads_keep_the_core" \
	test "$(grep -c '^0 .*: 1$' out)" -eq 2
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
