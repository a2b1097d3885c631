/* SPDX-License-Identifier: OLDAP-2.8 */
/* Checks that a local disk leaves other users' files, links and locks in its directory alone, and does not wait for them. */
#include "tier_fixture.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* A name that leads elsewhere is no file of ours. */
static void disk_when_a_link_stands_there_then_not_followed(void **state)
{
	struct tier_setup setup = tier_setup_of(place.directory);
	char path[260], victim[260];
	void *tier = NULL;
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_true(disk_file(path, sizeof(path)));
	tier_disk.close(tier);
	snprintf(victim, sizeof(victim), "%s/victim", place.directory);
	fd = open(victim, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(symlink(victim, path), 0);
	tier = NULL;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_int_equal(tier_disk.health(tier), TIER_FAILED);
	assert_int_equal(offer_all(&tier_disk, tier), 0);
	tier_disk.close(tier);
	assert_int_equal(stat(victim, &st), 0);
	assert_int_equal(st.st_size, 0);
	unlink(path);
	unlink(victim);
}

/* Where the stage file of this setup stands, though there is none. */
static void stage_place(char *path, size_t size)
{
	struct tier_setup setup = tier_setup_of(place.directory);
	void *tier = NULL;

	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_true(disk_file(path, size));
	tier_disk.close(tier);
}

static void is_refused(const struct tier_setup *setup)
{
	void *tier = NULL;

	assert_int_equal(tier_disk.open(&tier, setup), 0);
	assert_int_equal(tier_disk.health(tier), TIER_FAILED);
	assert_int_equal(offer_all(&tier_disk, tier), 0);
	tier_disk.close(tier);
}

/* Whatever stands there and is not this user's alone is left as it is, and no lock on it is asked for. */
static void disk_when_another_user_has_put_it_there_then_its_lock_is_not_waited_for(void **state)
{
	struct tier_setup setup = tier_setup_of(place.directory);
	char path[260], second[280];
	struct stat st;
	int fd;

	(void)state;
	stage_place(path, sizeof(path));
	snprintf(second, sizeof(second), "%s.second", path);
	for (unsigned how = 0; how < 4; how++) {
		if (how == 0 && geteuid())
			continue; /* only root can have another user's file made */
		if (how == 3) {
			assert_int_equal(mkfifo(path, 0600), 0);
			is_refused(&setup);
			assert_int_equal(unlink(path), 0);
			continue;
		}
		fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, "theirs", 6), 6);
		if (how == 0)
			assert_int_equal(fchown(fd, 65534, 65534), 0);
		if (how == 1)
			assert_int_equal(fchmod(fd, 0666), 0);
		if (how == 2)
			assert_int_equal(link(path, second), 0);
		assert_int_equal(flock(fd, LOCK_EX), 0);
		for (unsigned fresh = 0; fresh < 2; fresh++) {
			setup.fresh = fresh;
			atomic_store(&locks_asked, 0);
			is_refused(&setup);
			assert_int_equal(atomic_load(&locks_asked), 0);
		}
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, 6);
		close(fd);
		assert_int_equal(unlink(path), 0);
		if (how == 2)
			assert_int_equal(unlink(second), 0);
	}
}

/* As a process of this user that is stopped between two system calls. */
static void disk_when_a_lock_is_never_given_back_then_not_waited_for_without_end(void **state)
{
	struct flock head = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
	struct tier_setup setup = tier_setup_of(place.directory);
	char path[260];
	int fd;

	(void)state;
	stage_place(path, sizeof(path));
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(flock(fd, LOCK_EX), 0);
	is_refused(&setup);
	assert_int_equal(flock(fd, LOCK_SH), 0);
	assert_int_equal(fcntl(fd, F_OFD_SETLK, &head), 0);
	is_refused(&setup);
	close(fd);
	assert_int_equal(unlink(path), 0);
}

static void disk_when_others_may_write_to_its_directory_then_not_used(void **state)
{
	struct tier_setup setup = tier_setup_of(place.directory);
	char elsewhere[260], own[260], path[260];
	void *tier = NULL;
	struct stat st;

	(void)state;
	assert_int_equal(chmod(place.directory, 0770), 0);
	is_refused(&setup);
	assert_int_equal(chmod(place.directory, 0777), 0);
	is_refused(&setup);
	assert_false(disk_file(path, sizeof(path)));

	/* In one for everybody it is the user's own in it. */
	assert_int_equal(chmod(place.directory, 01777), 0);
	snprintf(own, sizeof(own), "%s/lmdbio-%u", place.directory, (unsigned)geteuid());
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_int_equal(tier_disk.health(tier), TIER_GOOD);
	assert_false(disk_file(path, sizeof(path)));
	assert_int_equal(lstat(own, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_true(offer_all(&tier_disk, tier) > 0);
	tier_disk.close(tier);

	/* Whatever another user has put there in its place is not. */
	assert_int_equal(chmod(own, 0777), 0);
	is_refused(&setup);
	assert_int_equal(rmdir(own), 0);
	snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", place.directory);
	assert_int_equal(mkdir(elsewhere, 0700), 0);
	assert_int_equal(symlink(elsewhere, own), 0);
	is_refused(&setup);
	assert_int_equal(unlink(own), 0);
	assert_int_equal(rmdir(elsewhere), 0); /* it is empty */
	if (!geteuid()) {
		assert_int_equal(mkdir(own, 0755), 0);
		assert_int_equal(chown(own, 65534, 65534), 0);
		is_refused(&setup);
		assert_int_equal(rmdir(own), 0);
	}
	assert_int_equal(chmod(place.directory, 0700), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(disk_when_a_link_stands_there_then_not_followed),
		cmocka_unit_test(
			disk_when_another_user_has_put_it_there_then_its_lock_is_not_waited_for),
		cmocka_unit_test(
			disk_when_a_lock_is_never_given_back_then_not_waited_for_without_end),
		cmocka_unit_test(disk_when_others_may_write_to_its_directory_then_not_used),
	};

	return cmocka_run_group_tests(tests, tier_group_setup, tier_group_teardown);
}
