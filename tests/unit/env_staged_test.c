/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks which staged copies an environment accepts, and what the program sees of them. */
#include "env_fixture.h"

#include "env/staged.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* LMDBIO_STAGED is read once in a process, so all cases share one directory. */
static char staged[200];

struct fixture {
	struct place place;
	struct staged_original original;
	char below[300], copy[400];
};

/* For how many of the next seals another job is faster, and replaces the copy that is being sealed
 * by its own. */
static unsigned replacing;
static const struct fixture *replaced;

int __real_renameat(int from, const char *old, int to, const char *name);
int __wrap_renameat(int from, const char *old, int to, const char *name);

int __wrap_renameat(int from, const char *old, int to, const char *name)
{
	char command[1700];

	if (replacing) {
		replacing--;
		snprintf(command, sizeof(command), "cp -p '%s' '%s.other' && mv '%s.other' '%s'",
			 replaced->copy, replaced->copy, replaced->copy, replaced->copy);
		assert_int_equal(system(command), 0);
	}
	return __real_renameat(from, old, to, name);
}

static void seal(const struct fixture *f, const struct identity *original)
{
	struct guarded place;

	assert_int_equal(guarded_open(&place, f->below, false), 0);
	assert_int_equal(staged_seal(&place, staged_file(&f->original), original), 0);
	guarded_close(&place);
}

/* Puts a copy of the place where staging would put it. One byte of a value differs, so that the
 * tests can tell the two apart. */
static void stage(struct fixture *f)
{
	char name[STAGED_NAME], command[1000];
	int fd = open(f->place.data, O_RDONLY);

	assert_int_equal(staged_identify(fd, &f->original), 0);
	close(fd);
	staged_name(&f->original.identity, name);
	snprintf(f->below, sizeof(f->below), "%s/%s", staged, name);
	snprintf(f->copy, sizeof(f->copy), "%s/%s", f->below, staged_file(&f->original));
	assert_int_equal(mkdir(f->below, 0700), 0);
	snprintf(command, sizeof(command), "sed s/original/a-copy-:/ '%s' > '%s'", f->place.data,
		 f->copy);
	assert_int_equal(system(command), 0);
	assert_int_equal(chmod(f->copy, 0644), 0);
	seal(f, &f->original.identity);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	MDB_env *orig;

	*state = f;
	if (!f)
		return -1;
	place_make(&f->place);
	orig = origin_open(&f->place);
	origin_put_text(orig, NULL, 0, "key", "original");
	lmdbio_orig_mdb_env_close(orig);
	stage(f);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[400];

	snprintf(command, sizeof(command), "rm -rf '%s'", f->below);
	place_remove(&f->place);
	free(f);
	return system(command);
}

static bool env_has(MDB_env *env, const char *text)
{
	MDB_txn *txn;
	bool has;

	assert_int_equal(txn_begin(env, NULL, MDB_RDONLY, &txn), 0);
	has = txn_has(txn, DBI_MAIN, "key", text);
	txn_abort(txn);
	return has;
}

static void copy_is_there_is_read(void **state)
{
	struct fixture *f = *state;
	MDB_env *env = own_open(&f->place, 0, 0);
	const char *path;
	unsigned flags;

	assert_true(env_has(env, "a-copy-:"));
	assert_int_equal(env_get_path(env, &path), 0);
	assert_string_equal(path, f->place.directory);
	assert_int_equal(env_get_flags(env, &flags), 0);
	assert_int_equal(flags & (MDB_NOLOCK | MDB_NOSUBDIR), 0);
	env_close(env);
}

static void data_file_itself_is_opened_reads_the_copy(void **state)
{
	struct fixture *f = *state;
	const char *path;
	MDB_env *env;

	assert_int_equal(env_create(&env), 0);
	assert_int_equal(env_open(env, f->place.data, MDB_RDONLY | MDB_NOSUBDIR, 0), 0);
	assert_true(env_has(env, "a-copy-:"));
	assert_int_equal(env_get_path(env, &path), 0);
	assert_string_equal(path, f->place.data);
	env_close(env);
}

static void environment_is_written_to_is_the_original(void **state)
{
	struct fixture *f = *state;
	MDB_env *env;

	assert_int_equal(env_create(&env), 0);
	assert_int_equal(env_open(env, f->place.directory, 0, 0644), 0);
	assert_int_equal(env->mode, ENV_FORWARDED);
	env_close(env);
}

/* A process does not see its own locks, so a child looks. */
static bool is_locked(const char *path)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	pid_t pid = fork();
	int status;

	if (!pid) {
		int fd = open(path, O_RDWR | O_CLOEXEC);

		_exit(fd < 0 || fcntl(fd, F_GETLK, &lock) ? 2 : lock.l_type != F_UNLCK);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return WEXITSTATUS(status);
}

static void program_has_locks_on_the_data_file_keeps_them(void **state)
{
	struct fixture *f = *state;
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int fd = open(f->place.data, O_RDWR | O_CLOEXEC), next = dup(fd);
	MDB_env *env;

	close(next);
	assert_int_equal(fcntl(fd, F_SETLK, &lock), 0);
	env = own_open(&f->place, 0, 0);
	assert_true(env_has(env, "a-copy-:"));
	assert_true(is_locked(f->place.data));
	env_close(env);
	assert_int_equal(dup(fd), next); /* the library has left none open */
	close(next);
	close(fd);
}

static void commit_makes_the_copy_another_state(void **state)
{
	struct fixture *f = *state;
	MDB_env *orig = origin_open(&f->place), *env;

	origin_put_text(orig, NULL, 0, "other", "value");
	lmdbio_orig_mdb_env_close(orig);
	env = own_open(&f->place, 0, 0);
	assert_true(env_has(env, "original"));
	env_close(env);
}

static void copy_is_cut_off_is_not_believed(void **state)
{
	struct fixture *f = *state;
	MDB_env *env;

	assert_int_equal(truncate(f->copy, 8192), 0);
	env = own_open(&f->place, 0, 0);
	assert_true(env_has(env, "original"));
	env_close(env);
}

static void copy_is_a_link_is_not_believed(void **state)
{
	struct fixture *f = *state;
	char elsewhere[420];
	MDB_env *env;

	snprintf(elsewhere, sizeof(elsewhere), "%s.elsewhere", f->copy);
	assert_int_equal(rename(f->copy, elsewhere), 0);
	assert_int_equal(symlink(elsewhere, f->copy), 0);
	env = own_open(&f->place, 0, 0);
	assert_true(env_has(env, "original"));
	env_close(env);
}

static void original_is_read(struct fixture *f)
{
	MDB_env *env = own_open(&f->place, 0, 0);

	assert_true(env_has(env, "original"));
	env_close(env);
}

/* The copy is as a process leaves it that is killed before it seals the copy. */
static void copy_has_no_seal_is_not_believed(void **state)
{
	struct fixture *f = *state;
	char name[440];

	snprintf(name, sizeof(name), "%s.seal", f->copy);
	assert_int_equal(unlink(name), 0);
	original_is_read(f);
}

/* The other job's copy has the right name, length, transaction and meta pages. */
static void copy_of_another_job_takes_its_place_as_it_is_sealed_is_read(void **state)
{
	struct fixture *f = *state;
	MDB_env *env;

	replaced = f;
	replacing = 2;
	seal(f, &f->original.identity);
	assert_int_equal(replacing, 0);
	env = own_open(&f->place, 0, 0);
	assert_true(env_has(env, "a-copy-:"));
	env_close(env);
}

static void seals_that_never_hold_are_told(void **state)
{
	struct fixture *f = *state;
	struct guarded place;

	replaced = f;
	replacing = 1000;
	assert_int_equal(guarded_open(&place, f->below, false), 0);
	assert_int_equal(staged_seal(&place, staged_file(&f->original), &f->original.identity),
			 EBUSY);
	guarded_close(&place);
	replacing = 0;
}

static void copy_is_sealed_as_another_data_sets_is_not_believed(void **state)
{
	struct fixture *f = *state;

	for (unsigned field = 1; field < sizeof(struct identity) / 8; field++) {
		struct identity other = f->original.identity;
		uint64_t words[sizeof(other) / 8];

		memcpy(words, &other, sizeof(other));
		words[field]++;
		memcpy(&other, words, sizeof(other));
		seal(f, &other);
		original_is_read(f);
	}
}

static void copy_was_changed_after_its_seal_is_not_believed(void **state)
{
	struct fixture *f = *state;
	struct timespec times[2];
	struct stat st;
	int fd = open(f->copy, O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	/* The kernel's file times move in ticks. */
	do {
		assert_int_equal(pwrite(fd, "X", 1, st.st_size - 1), 1);
		times[0] = st.st_atim;
		times[1] = st.st_mtim;
		assert_int_equal(futimens(fd, times), 0);
		assert_int_equal(fstat(fd, &st), 0);
	} while (st.st_ctim.tv_sec == times[1].tv_sec && st.st_ctim.tv_nsec == times[1].tv_nsec);
	close(fd);
	original_is_read(f);
}

static void others_may_write_to_its_directory_is_not_believed(void **state)
{
	struct fixture *f = *state;
	char aside[320];

	assert_int_equal(chmod(f->below, 0777), 0);
	original_is_read(f);
	assert_int_equal(chmod(f->below, 0700), 0);
	assert_int_equal(chmod(staged, 0770), 0);
	original_is_read(f);
	assert_int_equal(chmod(staged, 0700), 0);
	snprintf(aside, sizeof(aside), "%s.aside", f->below);
	assert_int_equal(rename(f->below, aside), 0);
	assert_int_equal(symlink(aside, f->below), 0);
	if (!geteuid()) { /* the user's own links are followed only above it */
		assert_int_equal(lchown(f->below, 65534, 65534), 0);
		original_is_read(f);
	}
	assert_int_equal(unlink(f->below), 0);
	assert_int_equal(rename(aside, f->below), 0);
}

/* In a directory that is open to all users, the library looks into the user's own subdirectory. */
static void directory_is_for_everybody_copy_of_the_users_own_is_read(void **state)
{
	struct fixture *f = *state;
	char own[300], moved[400];
	MDB_env *env;

	snprintf(own, sizeof(own), "%s/lmdbio-%u", staged, (unsigned)geteuid());
	snprintf(moved, sizeof(moved), "%s%s", own, strrchr(f->below, '/'));
	assert_int_equal(chmod(staged, 01777), 0);
	original_is_read(f); /* the copy may be another user's */
	assert_int_equal(mkdir(own, 0700), 0);
	assert_int_equal(rename(f->below, moved), 0);
	env = own_open(&f->place, 0, 0);
	assert_true(env_has(env, "a-copy-:"));
	env_close(env);
	assert_int_equal(chmod(own, 0770), 0);
	original_is_read(f);
	assert_int_equal(rename(moved, f->below), 0);
	assert_int_equal(rmdir(own), 0);
	assert_int_equal(chmod(staged, 0700), 0);
}

/* A user with write access to the directory could make a program wait for ever. */
static void copy_is_a_fifo_is_not_waited_for(void **state)
{
	struct fixture *f = *state;
	MDB_env *env;

	assert_int_equal(unlink(f->copy), 0);
	assert_int_equal(mkfifo(f->copy, 0600), 0);
	env = own_open(&f->place, 0, 0);
	assert_true(env_has(env, "original"));
	env_close(env);
}

/* The original copies with the flags of mdb_env_open(). */
static void copy_of_the_environment_is_a_directory(void **state)
{
	struct fixture *f = *state;
	MDB_env *env = own_open(&f->place, 0, 0);
	char to[310], data[330];

	snprintf(to, sizeof(to), "%s/to", f->below);
	snprintf(data, sizeof(data), "%s/data.mdb", to);
	assert_int_equal(mkdir(to, 0700), 0);
	assert_int_equal(env_copy(env, to, 0, NULL), 0);
	assert_int_equal(access(data, R_OK), 0);
	env_close(env);
}

static int read_in_child(void *env)
{
	return env_has(env, "a-copy-:") ? 40 : 41;
}

static void forked_child_goes_on_reading_the_copy(void **state)
{
	struct fixture *f = *state;
	MDB_env *env = own_open(&f->place, 0, 0);

	assert_int_equal(in_process(read_in_child, env), 40);
	env_close(env);
}

static void subdirectory_of_two_that_undo_goes_with_the_second(void **state)
{
	struct guarded one, two;
	char above[300];

	(void)state;
	snprintf(above, sizeof(above), "%s/everybody", staged);
	assert_int_equal(mkdir(above, 0700), 0);
	assert_int_equal(chmod(above, 01777), 0);
	assert_int_equal(guarded_open(&one, above, true), 0);
	assert_int_equal(guarded_open(&two, above, true), 0);
	assert_string_equal(one.path, two.path);
	assert_int_equal(mkdirat(two.fd, "work", 0700), 0);
	guarded_undo(&one);
	assert_int_equal(access(two.path, F_OK), 0);
	assert_int_equal(unlinkat(two.fd, "work", AT_REMOVEDIR), 0);
	guarded_undo(&two);
	assert_int_equal(access(two.path, F_OK), -1);
	guarded_close(&one);
	guarded_close(&two);
	assert_int_equal(rmdir(above), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(copy_is_there_is_read, setup, teardown),
		cmocka_unit_test_setup_teardown(subdirectory_of_two_that_undo_goes_with_the_second,
						setup, teardown),
		cmocka_unit_test_setup_teardown(data_file_itself_is_opened_reads_the_copy, setup,
						teardown),
		cmocka_unit_test_setup_teardown(program_has_locks_on_the_data_file_keeps_them,
						setup, teardown),
		cmocka_unit_test_setup_teardown(environment_is_written_to_is_the_original, setup,
						teardown),
		cmocka_unit_test_setup_teardown(commit_makes_the_copy_another_state, setup,
						teardown),
		cmocka_unit_test_setup_teardown(copy_is_cut_off_is_not_believed, setup, teardown),
		cmocka_unit_test_setup_teardown(copy_is_a_link_is_not_believed, setup, teardown),
		cmocka_unit_test_setup_teardown(copy_is_a_fifo_is_not_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(copy_has_no_seal_is_not_believed, setup, teardown),
		cmocka_unit_test_setup_teardown(
			copy_of_another_job_takes_its_place_as_it_is_sealed_is_read, setup,
			teardown),
		cmocka_unit_test_setup_teardown(seals_that_never_hold_are_told, setup, teardown),
		cmocka_unit_test_setup_teardown(copy_is_sealed_as_another_data_sets_is_not_believed,
						setup, teardown),
		cmocka_unit_test_setup_teardown(copy_was_changed_after_its_seal_is_not_believed,
						setup, teardown),
		cmocka_unit_test_setup_teardown(others_may_write_to_its_directory_is_not_believed,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			directory_is_for_everybody_copy_of_the_users_own_is_read, setup, teardown),
		cmocka_unit_test_setup_teardown(copy_of_the_environment_is_a_directory, setup,
						teardown),
		cmocka_unit_test_setup_teardown(forked_child_goes_on_reading_the_copy, setup,
						teardown),
	};
	const char *top = getenv("TMPDIR");
	int failed;

	snprintf(staged, sizeof(staged), "%s/lmdbio-staged.XXXXXX", top ? top : "/tmp");
	if (!mkdtemp(staged) || setenv("LMDBIO_STAGED", staged, 1))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	return rmdir(staged) || failed;
}
