/* SPDX-License-Identifier: OLDAP-2.8 */
/* What every tier promises, asked of each row in turn; and what becomes of a local disk that lies, fills
 * up or fails. */
#include "tier_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static void tier_when_offered_records_then_has_them_right_or_not(void **state)
{
	static const struct tier_ops *const tiers[] = {&tier_null, &tier_kept, &tier_disk};
	static const unsigned keeps[] = {0, TIER_RECORDS, TIER_RECORDS};
	struct tier_setup setup = tier_setup_of(place.directory);

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		const struct tier_ops *ops = tiers[i];
		void *tier = NULL;

		assert_true(ops->name && *ops->name);
		assert_int_equal(ops->open(&tier, &setup), 0);
		assert_int_equal(have(ops, tier), 0);
		assert_true((offer_all(ops, tier) > 0) == (keeps[i] > 0));
		assert_int_equal(have(ops, tier), keeps[i]);
		/* Nothing is kept twice. */
		assert_int_equal(offer_all(ops, tier), 0);
		if (ops->health)
			assert_int_equal(ops->health(tier), TIER_GOOD);
		ops->close(tier);
	}
}

static void tier_when_memory_is_short_then_keeps_what_fits(void **state)
{
	struct tier_setup setup = tier_setup_of(NULL);
	void *tier = NULL;
	unsigned n;

	(void)state;
	setup.keep = 10000;
	assert_int_equal(tier_kept.open(&tier, &setup), 0);
	assert_true(offer_all(&tier_kept, tier) <= 10000);
	n = have(&tier_kept, tier);
	assert_true(n > 20 && n < 200);
	tier_kept.close(tier);
}

static void tier_when_not_set_up_then_there_is_none(void **state)
{
	struct tier_setup setup = tier_setup_of(NULL);
	void *tier = NULL;

	(void)state;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_null(tier);
	setup.keep = 0;
	assert_int_equal(tier_kept.open(&tier, &setup), 0);
	assert_null(tier);
}

/* --- the local disk --------------------------------------------------------------------------- */

static void disk_when_two_use_it_then_shared_and_gone_with_the_last(void **state)
{
	struct tier_setup setup = tier_setup_of(place.directory);
	void *first = NULL, *second = NULL;
	char path[260];
	struct stat st;

	(void)state;
	assert_int_equal(tier_disk.open(&first, &setup), 0);
	assert_int_equal(tier_disk.open(&second, &setup), 0);
	assert_true(offer_all(&tier_disk, first) > 0);
	assert_int_equal(have(&tier_disk, second), TIER_RECORDS);
	assert_int_equal(offer_all(&tier_disk, second), 0);
	tier_disk.close(first);
	assert_true(disk_file(path, sizeof(path)));
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(have(&tier_disk, second), TIER_RECORDS);
	tier_disk.close(second);
	assert_false(disk_file(path, sizeof(path)));
}

static void disk_when_of_another_data_set_then_not_believed(void **state)
{
	struct tier_setup setup = tier_setup_of(place.directory);
	char path[260], other[260];
	void *tier = NULL;

	(void)state;
	/* As a process that was killed leaves it, under another one's name. */
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_true(offer_all(&tier_disk, tier) > 0);
	assert_true(disk_file(path, sizeof(path)));
	snprintf(other, sizeof(other), "%s/kept", place.directory);
	assert_int_equal(link(path, other), 0);
	tier_disk.close(tier);
	assert_int_equal(rename(other, path), 0);
	/* The same identity: it is of use again. */
	tier = NULL;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_int_equal(have(&tier_disk, tier), TIER_RECORDS);
	assert_int_equal(link(path, other), 0);
	tier_disk.close(tier);
	setup.identity.snapshot++;
	tier = NULL;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_true(disk_file(path, sizeof(path)));
	tier_disk.close(tier);
	assert_int_equal(rename(other, path), 0);
	tier = NULL;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_int_equal(have(&tier_disk, tier), 0);
	tier_disk.close(tier);
}

/* Keeps the stage open until the program's end, as one that forgets to close its loader does. */
static void end_without_closing(const struct tier_setup *setup)
{
	static void *tier;

	if (tier_disk.open(&tier, setup) || !offer_all(&tier_disk, tier))
		_exit(1);
	exit(0);
}

static void disk_when_its_process_ends_then_gone_if_it_was_the_last(void **state)
{
	struct tier_setup setup = tier_setup_of(place.directory);
	void *tier = NULL;
	char path[260];
	int status;
	pid_t child;

	(void)state;
	for (int others = 0; others < 2; others++) {
		if (others)
			assert_int_equal(tier_disk.open(&tier, &setup), 0);
		child = fork();
		assert_true(child >= 0);
		if (!child)
			end_without_closing(&setup);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
		assert_int_equal(disk_file(path, sizeof(path)), others);
	}
	assert_int_equal(have(&tier_disk, tier), TIER_RECORDS);
	tier_disk.close(tier);
	assert_false(disk_file(path, sizeof(path)));
}

/* As a process that was killed leaves it, beside one that is alive. */
static void disk_when_to_be_fresh_then_only_what_the_living_have_is_there(void **state)
{
	struct tier_setup setup = tier_setup_of(place.directory);
	void *first = NULL, *second = NULL;
	char path[260], other[260];

	(void)state;
	assert_int_equal(tier_disk.open(&first, &setup), 0);
	assert_true(offer_all(&tier_disk, first) > 0);
	assert_true(disk_file(path, sizeof(path)));
	snprintf(other, sizeof(other), "%s/kept", place.directory);
	assert_int_equal(link(path, other), 0);
	tier_disk.close(first);
	assert_int_equal(rename(other, path), 0);
	setup.fresh = true;
	assert_int_equal(tier_disk.open(&first, &setup), 0);
	assert_int_equal(have(&tier_disk, first), 0);
	assert_true(offer_all(&tier_disk, first) > 0);
	assert_int_equal(tier_disk.open(&second, &setup), 0);
	assert_int_equal(have(&tier_disk, second), TIER_RECORDS);
	tier_disk.close(first);
	tier_disk.close(second);
	assert_false(disk_file(path, sizeof(path)));
}

static void *open_fresh(void *state)
{
	struct tier_setup setup = tier_setup_of(place.directory);

	setup.fresh = true;
	assert_int_equal(tier_disk.open(state, &setup), 0);
	return NULL;
}

/* Two of a node that begin after one that was killed: the other one removes what is left, and makes
 * its own, when this one has opened what is left. */
static void disk_when_replaced_while_it_is_opened_then_the_new_one_is_used(void **state)
{
	struct tier_setup setup = tier_setup_of(place.directory);
	void *tier = NULL, *other = NULL;
	char path[260];
	pthread_t opener;
	int left;

	(void)state;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_true(disk_file(path, sizeof(path)));
	tier_disk.close(tier);
	left = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(left >= 0);
	assert_int_equal(write(left, "left", 4), 4);
	assert_int_equal(flock(left, LOCK_EX), 0);
	atomic_store(&locks_refused, 0);
	assert_int_equal(pthread_create(&opener, NULL, open_fresh, &other), 0);
	while (!atomic_load(&locks_refused))
		sched_yield();
	assert_int_equal(unlink(path), 0);
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	close(left);
	pthread_join(opener, NULL);
	assert_int_equal(tier_disk.health(other), TIER_GOOD);
	assert_true(offer_all(&tier_disk, other) > 0);
	assert_int_equal(have(&tier_disk, tier), TIER_RECORDS);
	tier_disk.close(tier);
	tier_disk.close(other);
	assert_false(disk_file(path, sizeof(path)));
}

static void disk_when_bytes_have_changed_then_dropped(void **state)
{
	struct tier_setup setup = tier_setup_of(place.directory);
	struct tier_record found;
	char path[260];
	void *tier = NULL;
	struct stat st;
	int fd;

	(void)state;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_true(offer_all(&tier_disk, tier) > 0);
	assert_true(disk_file(path, sizeof(path)));
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(pwrite(fd, "x", 1, st.st_size - 1), 1);  /* of the last record */
	assert_int_equal(pwrite(fd, "\xff\xff\xff\xf0", 4, 4096 + 8), 4); /* the first one's size */
	close(fd);
	assert_int_equal(tier_disk.fetch(tier, TIER_RECORDS - 1, &found), EBADMSG);
	assert_int_equal(tier_disk.fetch(tier, 0, &found), EBADMSG); /* before memory is asked for */
	assert_int_equal(tier_disk.health(tier), TIER_FAILED);
	assert_int_equal(have(&tier_disk, tier), 0);
	tier_disk.close(tier);
}

/* Nanoseconds that each look at the clock takes. */
static uint64_t clock_step;

/* Takes the place of the library's, so that a disk is slow without anybody waiting for it. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	static _Atomic uint64_t passed;
	uint64_t ns = atomic_fetch_add(&passed, clock_step) + clock_step;
	long rc = syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += (time_t)(ns / 1000000000);
	return (int)rc;
}

static void fetch_at(void *tier, uint64_t record, uint64_t seconds)
{
	struct tier_record found;

	clock_step = seconds * 1000000000;
	assert_int_equal(tier_disk.fetch(tier, record, &found), 0);
	clock_step = 0;
	assert_true(is_record(record, &found));
	free(found.memory);
}

static void disk_when_it_takes_seconds_again_and_again_then_dropped(void **state)
{
	struct tier_setup setup = tier_setup_of(place.directory);
	void *tier = NULL;

	(void)state;
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	assert_true(offer_all(&tier_disk, tier) > 0);
	/* Now and then is nothing. */
	for (unsigned i = 0; i < 20; i++)
		fetch_at(tier, i, i % 3 ? 3 : 0);
	for (unsigned i = 0; i < 20; i++)
		fetch_at(tier, i, 1);
	fetch_at(tier, 1, 3);
	fetch_at(tier, 2, 3);
	assert_int_equal(tier_disk.health(tier), TIER_GOOD);
	fetch_at(tier, 3, 3);
	assert_int_equal(tier_disk.health(tier), TIER_FAILED);
	assert_int_equal(have(&tier_disk, tier), 0);
	tier_disk.close(tier);
}

static void disk_when_it_may_not_grow_then_full_and_of_use(void **state)
{
	struct tier_setup setup = tier_setup_of(place.directory);
	struct rlimit before, small = {.rlim_cur = 40000, .rlim_max = RLIM_INFINITY};
	uint64_t room, kept;
	void *tier = NULL;
	unsigned n;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_equal(tier_disk.open(&tier, &setup), 0);
	room = tier_disk.space(tier).room;
	kept = offer_all(&tier_disk, tier);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	/* Nobody counts on more than that. */
	assert_true(room < small.rlim_cur && kept <= room && kept > room - 300);
	assert_int_equal(tier_disk.health(tier), TIER_FULL);
	n = have(&tier_disk, tier);
	assert_true(n > 50 && n < TIER_RECORDS);
	assert_int_equal(offer_all(&tier_disk, tier), 0);
	tier_disk.close(tier);
}

/* How much it takes is what it says, whoever puts it there. */
static void disk_when_asked_for_its_room_then_says_what_it_takes(void **state)
{
	struct tier_setup setup = tier_setup_of(place.directory);
	void *first = NULL, *second = NULL;
	uint64_t all, half = 0;
	uint8_t bytes[300];
	MDB_val key, data;

	(void)state;
	setup.limit = 1 << 20;
	assert_int_equal(tier_disk.open(&first, &setup), 0);
	assert_int_equal(tier_disk.space(first).room, setup.limit);
	assert_int_equal(tier_disk.space(first).written, 0);
	all = offer_all(&tier_disk, first);
	assert_int_equal(tier_disk.space(first).written, all);
	assert_int_equal(tier_disk.space(first).room, setup.limit - all);
	/* Who comes later has no more room for that. */
	assert_int_equal(tier_disk.open(&second, &setup), 0);
	assert_int_equal(tier_disk.space(second).room, setup.limit - all);
	assert_int_equal(tier_disk.space(second).written, 0);
	tier_disk.close(second);
	tier_disk.close(first);
	setup.limit = all / 2;
	assert_int_equal(tier_disk.open(&first, &setup), 0);
	for (uint64_t i = 0; i < TIER_RECORDS; i++) {
		record_make(i, &key, &data, bytes);
		if (key.mv_size + data.mv_size > tier_disk.space(first).room)
			break;
		half += tier_disk.offer(first, i, &key, &data);
	}
	assert_int_equal(tier_disk.space(first).written, half);
	assert_int_equal(tier_disk.health(first), TIER_GOOD);
	(void)offer_all(&tier_disk, first);
	assert_int_equal(tier_disk.health(first), TIER_FULL);
	assert_int_equal(tier_disk.space(first).room, 0);
	tier_disk.close(first);
	setup.directory = "/no/such/directory";
	assert_int_equal(tier_disk.open(&first, &setup), 0);
	assert_int_equal(tier_disk.space(first).room, 0);
	tier_disk.close(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tier_when_offered_records_then_has_them_right_or_not),
		cmocka_unit_test(tier_when_memory_is_short_then_keeps_what_fits),
		cmocka_unit_test(tier_when_not_set_up_then_there_is_none),
		cmocka_unit_test(disk_when_two_use_it_then_shared_and_gone_with_the_last),
		cmocka_unit_test(disk_when_of_another_data_set_then_not_believed),
		cmocka_unit_test(disk_when_its_process_ends_then_gone_if_it_was_the_last),
		cmocka_unit_test(disk_when_to_be_fresh_then_only_what_the_living_have_is_there),
		cmocka_unit_test(disk_when_replaced_while_it_is_opened_then_the_new_one_is_used),
		cmocka_unit_test(disk_when_bytes_have_changed_then_dropped),
		cmocka_unit_test(disk_when_it_takes_seconds_again_and_again_then_dropped),
		cmocka_unit_test(disk_when_it_may_not_grow_then_full_and_of_use),
		cmocka_unit_test(disk_when_asked_for_its_room_then_says_what_it_takes),
	};

	return cmocka_run_group_tests(tests, tier_group_setup, tier_group_teardown);
}
